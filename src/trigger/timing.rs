use chrono::{DateTime, Utc};

use super::spans::utc;
use super::{Trigger, TriggerError};

/// A trigger kept to its schedule's window: what a schedule row needs to move its cursor.
///
/// Start and end are epoch milliseconds, both inclusive, both optional. An occurrence before the
/// start is not planned; one after the end exhausts the schedule. What a start in the past means for a
/// schedule made now, [`Client::ensure`](crate::Client::ensure) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    trigger: Trigger,
    start_ms: Option<i64>,
    end_ms: Option<i64>,
}

impl Timing {
    /// A trigger and its window. A simple trigger or a fixed delay whose start is open takes the window's.
    ///
    /// # Errors
    /// [`TriggerError::EndBeforeStart`]; [`TriggerError::NotAnchored`] if neither trigger nor window says
    /// when a simple trigger or a fixed delay starts; [`TriggerError::Simple`] if the window gives it a
    /// negative start.
    pub(crate) fn new(
        trigger: Trigger,
        start_ms: Option<i64>,
        end_ms: Option<i64>,
    ) -> Result<Timing, TriggerError> {
        if let (Some(start_ms), Some(end_ms)) = (start_ms, end_ms)
            && end_ms < start_ms
        {
            let (start, end) = (near(start_ms), near(end_ms));
            return Err(TriggerError::EndBeforeStart { start, end });
        }
        Ok(Timing { trigger: anchor(trigger, start_ms)?, start_ms, end_ms })
    }

    /// The trigger, anchored.
    pub(crate) fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// The window's start, epoch milliseconds.
    pub(crate) fn start_ms(&self) -> Option<i64> {
        self.start_ms
    }

    /// The window's end, epoch milliseconds.
    pub(crate) fn end_ms(&self) -> Option<i64> {
        self.end_ms
    }

    /// The occurrence that follows `prev_ms`, strictly later; `None` once the schedule is
    /// exhausted. Of a fixed delay: if a run ends at `prev_ms`.
    pub(crate) fn after(&self, prev_ms: i64) -> Option<i64> {
        let before_start = self.start_ms.unwrap_or(i64::MIN).saturating_sub(1);
        let next = self.trigger.next_after(prev_ms.max(before_start))?;
        self.end_ms.is_none_or(|end| next <= end).then_some(next)
    }

    /// All fire times from `from_ms` to `to_ms`, both included, ascending, in another way than
    /// [`Timing::after`] finds them. None of a fixed delay: its fire times follow the ends of runs.
    pub(crate) fn fire_times(&self, from_ms: i64, to_ms: i64) -> Box<dyn Iterator<Item = i64> + '_> {
        let from = from_ms.max(self.start_ms.unwrap_or(i64::MIN));
        let to = to_ms.min(self.end_ms.unwrap_or(i64::MAX));
        match &self.trigger {
            Trigger::Cron(cron) => Box::new(cron.fire_times(from, to)),
            Trigger::Simple(simple) => Box::new(simple.fire_times(from, to)),
            Trigger::Delay(_) => Box::new(std::iter::empty()),
        }
    }

    /// How long after the end of a run the next occurrence is, if that is what the trigger says;
    /// milliseconds.
    pub(crate) fn delay_ms(&self) -> Option<i64> {
        if let Trigger::Delay(delay) = &self.trigger { Some(delay.delay_ms()) } else { None }
    }

    /// From the occurrence `at_ms` of a fixed interval to the last but one up to `until_ms`, without a walk:
    /// how many occurrences that passes, and where it leads.
    pub(crate) fn leap_ms(&self, at_ms: i64, until_ms: i64) -> Option<(u64, i64)> {
        let interval = self.trigger.interval_ms()?;
        let until = self.end_ms.map_or(until_ms, |end| end.min(until_ms));
        let last = match &self.trigger {
            Trigger::Simple(simple) => simple.last_through(until)?,
            _ => until,
        };
        let steps = last.checked_sub(at_ms)?.checked_div(interval)?.checked_sub(1)?;
        let passed = u64::try_from(steps).ok()?;
        Some((passed, at_ms + steps * interval))
    }
}

/// The instant for people: the calendar's end if it is beyond that, as in a row that somebody wrote by hand.
fn near(millis: i64) -> DateTime<Utc> {
    utc(millis).unwrap_or(if millis < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC })
}

fn anchor(trigger: Trigger, start_ms: Option<i64>) -> Result<Trigger, TriggerError> {
    match (&trigger, start_ms) {
        (Trigger::Simple(_) | Trigger::Delay(_), None) if trigger.start_ms().is_none() => {
            Err(TriggerError::NotAnchored)
        }
        (_, None) => Ok(trigger),
        (_, Some(start)) => trigger.anchored_ms(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cron(expression: &str) -> Trigger {
        Trigger::cron(expression, "UTC").unwrap()
    }

    fn all(timing: &Timing, from: i64) -> Vec<i64> {
        std::iter::successors(timing.after(from - 1), |at| timing.after(*at)).collect()
    }

    #[test]
    fn end_time_inside_the_window_keeps_earlier_occurrences() {
        let every_second = Timing::new(cron("* * * * * ?"), None, Some(4_500)).unwrap();
        assert_eq!(all(&every_second, 1_000), [1_000, 2_000, 3_000, 4_000]);
        let ends_on_one = Timing::new(cron("* * * * * ?"), None, Some(4_000)).unwrap();
        assert_eq!(all(&ends_on_one, 1_000), [1_000, 2_000, 3_000, 4_000]);
        let simple = Trigger::every(Duration::from_millis(700)).unwrap();
        let simple = Timing::new(simple, Some(1_000), Some(2_500)).unwrap();
        assert_eq!(all(&simple, 0), [1_000, 1_700, 2_400]);
    }

    #[test]
    fn the_start_is_inclusive() {
        let timing = Timing::new(cron("0/5 * * * * ?"), Some(10_000), None).unwrap();
        assert_eq!(timing.after(0), Some(10_000));
        assert_eq!(timing.after(10_000), Some(15_000));
    }

    #[test]
    fn a_window_that_starts_after_the_trigger_skips_its_early_occurrences() {
        let simple = Trigger::every(Duration::from_millis(10)).unwrap().times(5).unwrap();
        let timing = Timing::new(simple.anchored_ms(100).unwrap(), Some(115), None).unwrap();
        assert_eq!(all(&timing, 0), [120, 130, 140]);
    }

    #[test]
    fn a_trigger_without_a_start_is_refused_not_exhausted() {
        let open = Trigger::every(Duration::from_secs(1)).unwrap();
        assert_eq!(Timing::new(open, None, None), Err(TriggerError::NotAnchored));
    }

    #[test]
    fn an_end_before_the_start_is_refused() {
        let error = Timing::new(cron("@daily"), Some(5), Some(4)).unwrap_err();
        assert_eq!(error, TriggerError::EndBeforeStart { start: near(5), end: near(4) });
        let said = "end time 1970-01-01T00:00:00.004Z is before start time 1970-01-01T00:00:00.005Z";
        assert_eq!(error.to_string(), said);
        assert!(Timing::new(cron("@daily"), Some(5), Some(5)).is_ok());
    }

    #[test]
    fn the_ends_of_i64_do_not_overflow() {
        let timing = Timing::new(cron("@daily"), Some(i64::MIN), Some(i64::MAX)).unwrap();
        assert_eq!(timing.after(i64::MIN), Some(0));
        assert_eq!(timing.after(i64::MAX), None);
    }
}
