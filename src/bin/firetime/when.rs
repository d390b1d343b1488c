//! Instants as people write and read them.

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};

/// The present.
#[expect(clippy::disallowed_methods, reason = "the program's own clock: the library's is not public")]
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now()
}

/// An instant as a person names it: by itself, or by how far it is from now, below zero if it is past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(DateTime<Utc>),
    FromNow(TimeDelta),
}

impl When {
    /// The instant, seen from `now`. One beyond the calendar is its beginning or its end.
    pub(crate) fn from(self, now: DateTime<Utc>) -> DateTime<Utc> {
        let beyond =
            |span| if span < TimeDelta::zero() { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        match self {
            Self::At(at) => at,
            Self::FromNow(span) => now.checked_add_signed(span).unwrap_or_else(|| beyond(span)),
        }
    }
}

/// Reads `2025-01-31T09:00:00Z` (RFC 3339, any offset) or an age: `90s`, `15m`, `2h`, `1d`.
pub(crate) fn parse(text: &str) -> Result<When, String> {
    span(text).map(|age| When::FromNow(-age)).or_else(|| instant(text)).ok_or_else(|| {
        "write an instant such as 2025-01-31T09:00:00Z or 2025-01-31T10:00:00+01:00 (RFC 3339; a local time \
         without its offset may come twice), or an age such as 90s, 15m, 2h or 1d"
            .to_owned()
    })
}

/// As [`parse`]; a bare number is epoch milliseconds.
pub(crate) fn parse_or_millis(text: &str) -> Result<When, String> {
    match text.parse::<i64>() {
        Ok(millis) => DateTime::from_timestamp_millis(millis)
            .map(When::At)
            .ok_or_else(|| format!("{millis} milliseconds are beyond the calendar")),
        Err(_) => parse(text).map_err(|help| format!("{help}, or epoch milliseconds")),
    }
}

/// Reads `2025-01-31T09:00:00Z` (RFC 3339, any offset) or a time from now: `90s`, `15m`, `2h`, `1d`.
pub(crate) fn parse_ahead(text: &str) -> Result<When, String> {
    span(text).map(When::FromNow).or_else(|| instant(text)).ok_or_else(|| {
        "write an instant such as 2025-01-31T09:00:00Z or 2025-01-31T10:00:00+01:00 (RFC 3339), or how long from \
         now: 90s, 15m, 2h or 1d"
            .to_owned()
    })
}

/// Reads a fire time in one of the forms in which the program shows it: `2025-01-31 09:00:00.000`, with or
/// without ` UTC` behind it, or RFC 3339 with any offset.
pub(crate) fn parse_fire_time(text: &str) -> Result<DateTime<Utc>, String> {
    let shown = || NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok().map(|at| at.and_utc());
    let written = text.parse::<DateTime<Utc>>().ok();
    written.or_else(shown).ok_or_else(|| {
        "write it as listings show it, in quotes, such as '2025-01-31 09:00:00.000' (UTC), or as \
         2025-01-31T09:00:00Z (RFC 3339, any offset)"
            .to_owned()
    })
}

/// A fire time, or all of a day by the wall clock of its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    At(DateTime<Utc>),
    Day(NaiveDate),
}

/// As [`parse_fire_time`], or a day: `2025-01-31`.
pub(crate) fn parse_moment(text: &str) -> Result<Moment, String> {
    if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Ok(Moment::Day(day));
    }
    parse_fire_time(text).map(Moment::At).map_err(|help| format!("{help}, or a day as 2025-01-31"))
}

/// Reads the id of an execution.
pub(crate) fn parse_id(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "an execution's id is a number, as `firetime executions` shows it".to_owned())
}

/// Reads `90s`, `15m`, `2h` or `1d`.
pub(crate) fn parse_span(text: &str) -> Result<std::time::Duration, String> {
    let span = span(text).and_then(|span| span.to_std().ok());
    span.ok_or_else(|| "write a whole number with its unit, such as 90s, 15m, 2h or 1d".to_owned())
}

/// As [`parse_span`], for how far apart fire times are.
pub(crate) fn parse_interval(text: &str) -> Result<std::time::Duration, String> {
    /// A hundred years: cron expressions, too, end with the year 2199.
    const MOST_DAYS: u64 = 36_500;
    let interval = parse_span(text)?;
    if interval.as_secs() > MOST_DAYS * 86_400 {
        return Err(format!("write {MOST_DAYS}d (a hundred years) or less"));
    }
    Ok(interval)
}

fn instant(text: &str) -> Option<When> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| When::At(at.to_utc()))
}

fn span(text: &str) -> Option<TimeDelta> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    TimeDelta::try_seconds(i64::from(count).checked_mul(seconds)?)
}

/// `2025-01-31 09:00:00.000`: for tables, whose headings say UTC.
pub(crate) fn utc(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| at.format("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

/// `09:00:00.000`, UTC.
pub(crate) fn time_of_day(millis: i64) -> String {
    DateTime::from_timestamp_millis(millis)
        .map_or_else(|| millis.to_string(), |at| at.format("%H:%M:%S%.3f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_fire_time_is_read_as_it_is_shown() {
        let shown = at("2025-01-31T09:00:00.250Z");
        let listed = utc(Some(shown));
        let answered = format!("{listed} UTC");
        let audited = shown.to_string();
        for text in [&*listed, &*answered, &*audited, "2025-01-31T10:00:00.250+01:00"] {
            assert_eq!(parse_fire_time(text), Ok(shown), "{text}");
        }
        assert_eq!(parse_fire_time("2025-01-31 09:00:00"), Ok(at("2025-01-31T09:00:00Z")));
        for text in ["tomorrow", "2025-01-31", "09:00"] {
            assert!(parse_fire_time(text).unwrap_err().contains("RFC 3339"), "{text}");
        }
        let day = NaiveDate::from_ymd_opt(2025, 1, 31).unwrap();
        assert_eq!(parse_moment("2025-01-31"), Ok(Moment::Day(day)));
        assert_eq!(parse_moment(&listed), Ok(Moment::At(shown)));
        for text in ["tuesday", "2025-02-30", "2025-01"] {
            assert!(parse_moment(text).unwrap_err().contains("a day as"), "{text}");
        }
        assert!(parse_id("abc").unwrap_err().contains("is a number"));
    }

    #[test]
    fn an_instant_or_an_age_is_understood() {
        let now = at("2025-01-02T00:00:00Z");
        let cases = [
            ("15m", "2025-01-01T23:45:00Z"),
            ("90s", "2025-01-01T23:58:30Z"),
            ("2h", "2025-01-01T22:00:00Z"),
            ("1d", "2025-01-01T00:00:00Z"),
            ("2024-12-31T23:00:00+01:00", "2024-12-31T22:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap().from(now), at(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_examples() {
        for text in ["", "m", "-5m", "15", "1w", "99999999999d", "yesterday", "2025-01-31", "5µ"] {
            assert!(parse(text).unwrap_err().contains("15m"), "{text}");
        }
        // Berlin's clocks showed it twice; whoever means one of the two says which.
        for local in ["2025-10-26T02:30:00", "2025-10-26 02:30:00", "2025-10-26T02:30:00 Europe/Berlin"] {
            assert!(parse(local).unwrap_err().contains("offset"), "{local}");
            assert!(parse_or_millis(local).unwrap_err().contains("offset"), "{local}");
        }
        let passes = ["2025-10-26T02:30:00+02:00", "2025-10-26T02:30:00+01:00"];
        let [first, second] = passes.map(|text| parse(text).unwrap().from(DateTime::UNIX_EPOCH));
        assert_eq!(second - first, TimeDelta::hours(1));
        assert!(parse_or_millis("99999999999999999").unwrap_err().contains("calendar"));
        assert_eq!(parse_or_millis("-1").unwrap(), When::At(at("1969-12-31T23:59:59.999Z")));
    }

    #[test]
    fn what_is_to_come_is_an_instant_or_a_time_from_now() {
        let now = at("2025-01-02T00:00:00Z");
        assert_eq!(parse_ahead("1d").unwrap().from(now), at("2025-01-03T00:00:00Z"));
        let instant = "2025-01-03T01:00:00+01:00";
        assert_eq!(parse_ahead(instant).unwrap().from(now), at("2025-01-03T00:00:00Z"));
        assert_eq!(parse_ahead("4294967295d").unwrap().from(now), DateTime::<Utc>::MAX_UTC);
        assert!(parse_ahead("tomorrow").unwrap_err().contains("2h"));
        assert_eq!(parse_span("2h").unwrap().as_secs(), 7_200);
        assert!(parse_span("2025-01-03T00:00:00Z").unwrap_err().contains("15m"));
    }

    #[test]
    fn an_age_beyond_the_calendar_is_its_beginning() {
        let long_ago = parse("4294967295d").unwrap().from(at("2025-01-02T00:00:00Z"));
        assert_eq!(long_ago, DateTime::<Utc>::MIN_UTC);
    }
}
