//! The time zone that a page shows times in: whoever looks picks it, in the address or in a cookie.
//!
//! A page is made, from its first question to its last character, on one thread: that thread knows the zone,
//! and whatever shows an instant asks it.

use std::cell::Cell;

use axum::http::HeaderMap;
use chrono::{DateTime, NaiveDate, NaiveTime, Offset, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;

use crate::console::web::cookie::{cookie, set_cookie};
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::{ScheduleDetails, Trigger};

/// The cookie's name.
const COOKIE_NAME: &str = "firetime_zone";
/// The word for the zone of the schedule that a page is about; of other pages it is UTC.
pub(crate) const OF_SCHEDULE: &str = "schedule";

/// Zones to pick from; any other name may be written.
pub(crate) const COMMON: [&str; 24] = [
    "UTC",
    "Africa/Cairo",
    "Africa/Johannesburg",
    "Africa/Lagos",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Toronto",
    "Asia/Dubai",
    "Asia/Hong_Kong",
    "Asia/Jakarta",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Madrid",
    "Europe/Paris",
    "Pacific/Auckland",
];

thread_local! {
    static SHOWN: Cell<Tz> = const { Cell::new(Tz::UTC) };
}

/// The zone that the page is shown in which this thread makes.
pub(crate) fn shown() -> Tz {
    SHOWN.get()
}

/// Makes something in a zone.
pub(crate) fn within<T>(zone: &ZonePick, make: impl FnOnce() -> T) -> T {
    /// Sets the zone back, also if the page cannot be made.
    struct Before(Tz);
    impl Drop for Before {
        fn drop(&mut self) {
            SHOWN.set(self.0);
        }
    }
    let _before = Before(SHOWN.get());
    SHOWN.set(zone.zone());
    make()
}

/// How far a zone's clocks are ahead of UTC, in seconds.
pub(crate) fn offset(zone: Tz, at: DateTime<Utc>) -> i64 {
    i64::from(zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc())
}

/// The instant between these two at which a zone's clocks change, if they differ at them.
pub(crate) fn change_between(zone: Tz, from: DateTime<Utc>, to: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if offset(zone, from) == offset(zone, to) {
        return None;
    }
    let (mut before, mut after) = (from.timestamp(), to.timestamp());
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        let is_before =
            DateTime::from_timestamp(middle, 0).is_some_and(|at| offset(zone, at) == offset(zone, from));
        if is_before { before = middle } else { after = middle }
    }
    DateTime::from_timestamp(after, 0)
}

/// The hour of the clock that an instant lies in: when it begins, and when it ends. Where the clocks change
/// within an hour, each pass is one of its own.
pub(crate) fn hour_of(at: DateTime<Utc>) -> (DateTime<Utc>, DateTime<Utc>) {
    let zone = shown();
    let wall = at.with_timezone(&zone);
    let past = TimeDelta::seconds(i64::from(wall.minute() * 60 + wall.second()))
        + TimeDelta::nanoseconds(i64::from(wall.nanosecond()));
    let begin = at.checked_sub_signed(past).unwrap_or(at);
    let end = begin.checked_add_signed(TimeDelta::hours(1)).unwrap_or(at);
    (change_between(zone, begin, at).unwrap_or(begin), change_between(zone, at, end).unwrap_or(end))
}

/// When a day begins by the clock: at midnight, or as soon as the clocks show any of its times.
pub(crate) fn beginning(day: NaiveDate) -> DateTime<Utc> {
    let midnight = day.and_time(NaiveTime::MIN);
    let mut times = (0..24 * 60).map(|minute| midnight + TimeDelta::minutes(minute));
    let shown = times.find_map(|wall| shown().from_local_datetime(&wall).earliest());
    shown.map_or_else(|| midnight.and_utc(), |at| at.to_utc())
}

/// What somebody has picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ZonePick {
    #[default]
    Utc,
    Zone(Tz),
    /// That of the schedule which the page is about.
    OfSchedule,
}

impl ZonePick {
    fn read(name: &str) -> Option<Self> {
        match name.trim() {
            OF_SCHEDULE => Some(Self::OfSchedule),
            "UTC" => Some(Self::Utc),
            name => name.parse().ok().map(Self::Zone),
        }
    }

    /// That of the address, or else of the browser; UTC if neither names one.
    pub(crate) fn of(query: &Query, headers: &HeaderMap) -> Self {
        let named = query.typed("zone").and_then(Self::read);
        named.or_else(|| Self::read(cookie(headers, COOKIE_NAME)?)).unwrap_or_default()
    }

    /// What is wrong with the zone of an address.
    pub(crate) fn check(query: &Query) -> Result<(), Trouble> {
        match query.typed("zone").filter(|name| Self::read(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(Trouble::wrong(format!(
                "{name:?} is no time zone: write an IANA name in its own spelling, such as Europe/Berlin or UTC."
            ))),
        }
    }

    /// Its word in an address.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OfSchedule => OF_SCHEDULE,
            pick => pick.zone().name(),
        }
    }

    fn zone(self) -> Tz {
        match self {
            Self::Zone(zone) => zone,
            Self::Utc | Self::OfSchedule => Tz::UTC,
        }
    }

    /// Lets the rest of the page be in the zone of this schedule, if that is picked.
    pub(crate) fn follow(self, details: &ScheduleDetails) {
        if let (Self::OfSchedule, Some(Trigger::Cron(cron))) = (self, &details.rule) {
            SHOWN.set(cron.zone().parse().unwrap_or(Tz::UTC));
        }
    }

    /// The header by which a browser keeps it for a year.
    pub(crate) fn set(self, is_https: bool) -> String {
        set_cookie(COOKIE_NAME, self.name(), "Lax", is_https) + "; Max-Age=31536000"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_comes_before_the_cookie_and_utc_behind_both() {
        let of = |query: &str, line: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("cookie", line.parse().unwrap());
            ZonePick::of(&Query::read(query), &headers).name()
        };
        let berlin = "firetime_zone=Europe/Berlin";
        assert_eq!(of("zone=Asia/Tokyo", berlin), "Asia/Tokyo");
        assert_eq!(
            (of("", berlin), of("zone=Mars", berlin), of("", "a=b")),
            ("Europe/Berlin", "Europe/Berlin", "UTC")
        );
        assert_eq!((of("zone=schedule", berlin), of("", "firetime_zone=x")), ("schedule", "UTC"));
        let set = ZonePick::read("Asia/Tokyo").unwrap().set(false);
        assert!(set.starts_with("firetime_zone=Asia/Tokyo; "), "{set}");
        assert!(ZonePick::check(&Query::read("zone=Mars")).unwrap_err().said.contains("\"Mars\""));
        assert!(ZonePick::check(&Query::read("zone=Europe/Berlin")).is_ok());
    }

    #[test]
    fn hours_and_days_are_those_of_the_clock() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let hour = |zone: &str, text: &str| {
            let (begin, end) = within(&ZonePick::read(zone).unwrap(), || hour_of(at(text)));
            [begin, end].map(|at| at.format("%H:%M").to_string()).join(" to ")
        };
        assert_eq!(hour("UTC", "2026-11-29T10:59:59.999999Z"), "10:00 to 11:00");
        assert_eq!(hour("UTC", "2026-11-29T10:00:00Z"), "10:00 to 11:00");
        assert_eq!(hour("Asia/Kathmandu", "2026-11-29T10:00:00Z"), "09:15 to 10:15");
        // Berlin's clocks show 02:00 to 02:59 twice that day.
        assert_eq!(hour("Europe/Berlin", "2026-10-25T00:30:00Z"), "00:00 to 01:00");
        assert_eq!(hour("Europe/Berlin", "2026-10-25T01:30:00Z"), "01:00 to 02:00");
        // Lord Howe's go back by half an hour, at 02:00 to 01:30.
        assert_eq!(hour("Australia/Lord_Howe", "2026-04-04T14:59:00Z"), "14:00 to 15:00");
        assert_eq!(hour("Australia/Lord_Howe", "2026-04-04T15:10:00Z"), "15:00 to 15:30");
        let day = |zone: &str, date: &str| {
            let day: NaiveDate = date.parse().unwrap();
            within(&ZonePick::read(zone).unwrap(), || beginning(day)).to_rfc3339()
        };
        assert_eq!(day("Europe/Berlin", "2026-10-25"), "2026-10-24T22:00:00+00:00");
        // Cairo's clocks go from midnight to one o'clock.
        assert_eq!(day("Africa/Cairo", "2026-04-24"), "2026-04-23T22:00:00+00:00");
    }

    #[test]
    fn a_page_that_cannot_be_made_leaves_no_zone_behind() {
        let tokyo = ZonePick::read("Asia/Tokyo").unwrap();
        assert_eq!(within(&tokyo, shown), Tz::Asia__Tokyo);
        let panicked = std::panic::catch_unwind(|| within(&tokyo, || panic!("no page")));
        assert!(panicked.is_err() && shown() == Tz::UTC);
    }
}
