//! Triggers in words.

use chrono::DateTime;

use super::Trigger;

/// The units in which spans are told, milliseconds each.
const UNITS: [(i64, &str); 4] =
    [(86_400_000, "day"), (3_600_000, "hour"), (60 * 1_000, "minute"), (1_000, "second")];

impl Trigger {
    /// The trigger in words: `every day at 02:30 (Europe/Berlin)`, `every 15 minutes`, `once, at 2030-01-01
    /// 00:00:00 UTC`. Of a cron expression as [`Cron::in_words`](super::Cron::in_words) says, with its zone.
    ///
    /// ```
    /// use firetime::trigger::Trigger;
    /// use std::time::Duration;
    /// let trigger = Trigger::every(Duration::from_secs(900))?.times(3)?;
    /// assert_eq!(trigger.in_words(), "every 15 minutes, 3 times");
    /// # Ok::<(), firetime::trigger::TriggerError>(())
    /// ```
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Trigger::Cron(cron) => format!("{} ({})", cron.in_words(), cron.zone()),
            Trigger::Simple(simple) if simple.repeat_count() == Some(0) => {
                let at = simple.start_ms().and_then(DateTime::from_timestamp_millis);
                at.map_or_else(
                    || "once".to_owned(),
                    |at| format!("once, at {}", at.format("%Y-%m-%d %H:%M:%S%.f UTC")),
                )
            }
            Trigger::Simple(simple) => {
                let times = simple
                    .repeat_count()
                    .map_or_else(String::new, |repeats| format!(", {} times", repeats.saturating_add(1)));
                let (count, unit) = span(simple.interval_ms());
                match count {
                    1 => format!("every {unit}{times}"),
                    count => format!("every {count} {unit}s{times}"),
                }
            }
            Trigger::Delay(delay) => {
                let (count, unit) = span(delay.delay_ms());
                let plural = if count == 1 { "" } else { "s" };
                format!("{count} {unit}{plural} after each run")
            }
        }
    }
}

/// A span in the largest unit that it is a multiple of.
fn span(millis: i64) -> (i64, &'static str) {
    let unit = UNITS.iter().find(|(size, _)| millis > 0 && millis % size == 0);
    unit.map_or((millis, "millisecond"), |(size, unit)| (millis / size, *unit))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_kind_of_trigger_has_words() {
        let every = |millis| Trigger::every(Duration::from_millis(millis)).unwrap();
        assert_eq!(every(60_000).in_words(), "every minute");
        assert_eq!(every(90_000).times(7).unwrap().in_words(), "every 90 seconds, 7 times");
        assert_eq!(every(172_800_000).in_words(), "every 2 days");
        assert_eq!(every(1_500).in_words(), "every 1500 milliseconds");
        let after = Trigger::fixed_delay(Duration::from_secs(1)).unwrap();
        assert_eq!(after.in_words(), "1 second after each run");
        let once = Trigger::once("2030-01-01T00:00:00.250Z".parse().unwrap()).unwrap();
        assert_eq!(once.in_words(), "once, at 2030-01-01 00:00:00.250 UTC");
        let cron = Trigger::cron("0 30 2 * * ?", "Europe/Berlin").unwrap();
        assert_eq!(cron.in_words(), "every day at 02:30 (Europe/Berlin)");
    }
}
