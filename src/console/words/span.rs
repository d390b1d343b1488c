//! Spans as people write them.

use std::time::Duration;

/// `90s`, `15m`, `2h`, `1d`: in the largest unit that it is a multiple of.
pub(crate) fn span_text(span: Duration) -> String {
    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60 * 1_000, "m"), (1_000, "s")];
    let millis = span.as_millis();
    let unit = UNITS.iter().find(|(size, _)| millis > 0 && millis.is_multiple_of(*size));
    unit.map_or_else(|| format!("{millis}ms"), |(size, unit)| format!("{}{unit}", millis / size))
}

/// Reads [`span_text`]; at least 1 ms, at most a hundred years.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    const LONGEST: u64 = 36_500 * 86_400_000;
    let text = text.trim();
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let size = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60 * 1_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let count: Option<u64> = digits.trim().parse().ok();
    let millis = size.zip(count).and_then(|(size, count)| count.checked_mul(size));
    let millis = millis.filter(|millis| (1..=LONGEST).contains(millis));
    let help = "Write a whole number with its unit, such as 90s, 15m, 2h or 1d, up to 36500d.";
    millis.map(Duration::from_millis).ok_or_else(|| help.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_back_as_they_are_written() {
        for (millis, text) in [
            (1, "1ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (900_000, "15m"),
            (7_200_000, "2h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(span_text(Duration::from_millis(millis)), text);
            assert_eq!(span(text).map(|it| it.as_millis()), Ok(u128::from(millis)), "{text}");
        }
        assert_eq!(span(" 15 m ").map(|it| it.as_secs()), Ok(900));
        for wrong in ["", "m", "15", "-5m", "0s", "1w", "36501d", "99999999999999999999d", "1.5h", "µ"] {
            assert!(span(wrong).unwrap_err().contains("15m"), "{wrong}");
        }
    }
}
