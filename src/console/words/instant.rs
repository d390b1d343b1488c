//! Instants as people write them.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Utc};

use super::zone::shown;
use crate::console::web::trouble::Trouble;

/// An instant as people write it, by the clock of the page's zone; or `15m`, `2h`, `3d` ago.
pub(crate) fn instant(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Trouble> {
    let text = text.trim();
    let ago = || {
        let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let count: i64 = count.parse().ok().filter(|count| (0..1_000_000).contains(count))?;
        Some(
            now - match unit {
                "s" => TimeDelta::seconds(count),
                "m" => TimeDelta::minutes(count),
                "h" => TimeDelta::hours(count),
                "d" => TimeDelta::days(count),
                _ => return None,
            },
        )
    };
    let forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    let wall = || forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let day = || Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN));
    let exact = || text.parse::<DateTime<Utc>>().ok();
    let read = exact().or_else(|| wall().or_else(day).and_then(by_clock)).or_else(ago);
    read.ok_or_else(|| {
        Trouble::wrong(format!(
            "{text:?} is no instant: write 2026-11-29 10:05 ({}), 2026-11-29, or 15m, 2h, 3d ago.",
            shown().name()
        ))
    })
}

/// When a clock of the page's zone shows this: the first time, if it does twice; and where the clocks go
/// forward over it, as if they had not yet.
fn by_clock(wall: NaiveDateTime) -> Option<DateTime<Utc>> {
    let zone = shown();
    let read = |wall: NaiveDateTime| zone.from_local_datetime(&wall).earliest().map(|at| at.to_utc());
    let skipped = || {
        let before = wall.checked_sub_signed(TimeDelta::days(1))?;
        Some(read(before)? + TimeDelta::days(1))
    };
    read(wall).or_else(skipped)
}

#[cfg(test)]
mod tests {
    use super::super::zone::{ZonePick, within};
    use super::*;
    use crate::console::web::query::Query;

    #[test]
    fn instants_are_read_as_people_write_them() {
        let now: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().unwrap();
        let read = |text: &str| instant(text, now).ok().map(|at| at.to_rfc3339());
        let at = |text: &str| Some(format!("{text}+00:00"));
        assert_eq!(read("2026-11-29 10:05"), at("2026-11-29T10:05:00"));
        assert_eq!(read(" 2026-11-29T10:05 "), at("2026-11-29T10:05:00"));
        assert_eq!(read("2026-11-29"), at("2026-11-29T00:00:00"));
        assert_eq!(read("2026-11-29T12:05:00+02:00"), at("2026-11-29T10:05:00"));
        assert_eq!((read("90m"), read("1d")), (at("2026-11-29T08:30:00"), at("2026-11-28T10:00:00")));
        for wrong in ["", "m", "-1m", "now", "99999999999d", "é", "2026-13-01"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn walls_are_those_of_the_pages_zone() {
        let now: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().unwrap();
        let query = Query::read("zone=Europe/Berlin");
        let berlin = ZonePick::of(&query, &axum::http::HeaderMap::new());
        let read = |text: &str| within(&berlin, || instant(text, now).unwrap().to_rfc3339());
        assert_eq!(read("2026-11-29 10:05"), "2026-11-29T09:05:00+00:00");
        assert_eq!(read("2026-10-25 02:30"), "2026-10-25T00:30:00+00:00", "the first of both");
        assert_eq!(read("2026-03-29 02:30"), "2026-03-29T01:30:00+00:00", "no clock shows it");
        assert_eq!(read("2026-11-29T10:05:00Z"), "2026-11-29T10:05:00+00:00");
        let wrong = within(&berlin, || instant("soon", now).unwrap_err().said);
        assert!(wrong.contains("(Europe/Berlin)"), "{wrong}");
    }
}
