//! Single facts about the dialect: expression, instant, what follows.

use crate::trigger::{Cron, Fold, Gap, TriggerError};
use chrono::{DateTime, NaiveDateTime, Utc};

fn ms(text: &str) -> i64 {
    let text = text.replace(' ', "T");
    let utc = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S").unwrap().and_utc();
    utc.timestamp_millis()
}

fn show(ms: Option<i64>) -> String {
    let date = |ms| DateTime::<Utc>::from_timestamp_millis(ms).unwrap();
    ms.map_or("never".to_owned(), |ms| date(ms).format("%Y-%m-%d %H:%M:%S").to_string())
}

/// The occurrences after `after`, in UTC.
fn follow(expression: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(expression, "UTC").unwrap();
    let mut at = ms(after);
    let mut found = Vec::new();
    for _ in 0..count {
        let next = cron.next_after_ms(at);
        found.push(show(next));
        let Some(next) = next else { break };
        at = next;
    }
    found
}

/// Each line: expression | after | the occurrences that follow, in order.
const FACTS: &str = "
    # the plain examples of Quartz's tutorial
    0 0 12 * * ?             | 2024-05-01 12:00:00 | 2024-05-02 12:00:00
    0 15 10 ? * *            | 2024-05-01 10:14:59 | 2024-05-01 10:15:00
    0 15 10 * * ?            | 2024-05-01 10:15:00 | 2024-05-02 10:15:00
    0 15 10 * * ? *          | 2024-05-01 10:15:00 | 2024-05-02 10:15:00
    0 15 10 * * ? 2005       | 2005-12-31 00:00:00 | 2005-12-31 10:15:00; never
    0 * 14 * * ?             | 2024-05-01 14:58:30 | 2024-05-01 14:59:00; 2024-05-02 14:00:00
    0 0/5 14 * * ?           | 2024-05-01 14:50:00 | 2024-05-01 14:55:00; 2024-05-02 14:00:00
    0 0/5 14,18 * * ?        | 2024-05-01 14:55:00 | 2024-05-01 18:00:00; 2024-05-01 18:05:00
    0 0-5 14 * * ?           | 2024-05-01 14:04:00 | 2024-05-01 14:05:00; 2024-05-02 14:00:00
    0 10,44 14 ? 3 WED       | 2024-03-27 14:10:00 | 2024-03-27 14:44:00; 2025-03-05 14:10:00
    0 15 10 ? * MON-FRI      | 2024-05-03 10:15:00 | 2024-05-06 10:15:00
    0 15 10 15 * ?           | 2024-05-15 10:15:00 | 2024-06-15 10:15:00
    0 15 10 L * ?            | 2024-01-31 10:15:00 | 2024-02-29 10:15:00; 2024-03-31 10:15:00; 2024-04-30 10:15:00
    0 15 10 L-2 * ?          | 2024-02-01 00:00:00 | 2024-02-27 10:15:00; 2024-03-29 10:15:00
    0 15 10 ? * 6L           | 2024-05-01 00:00:00 | 2024-05-31 10:15:00; 2024-06-28 10:15:00
    0 15 10 ? * 6L 2002-2005 | 2005-11-25 10:15:00 | 2005-12-30 10:15:00; never
    0 15 10 ? * 6#3          | 2024-05-01 00:00:00 | 2024-05-17 10:15:00; 2024-06-21 10:15:00
    0 0 12 1/5 * ?           | 2024-02-26 12:00:00 | 2024-03-01 12:00:00; 2024-03-06 12:00:00
    0 11 11 11 11 ?          | 2024-11-11 11:11:00 | 2025-11-11 11:11:00
    0 0/5 * * * ?            | 2024-12-31 23:55:00 | 2025-01-01 00:00:00
    10 0/5 * * * ?           | 2024-05-01 00:00:10 | 2024-05-01 00:05:10
    0 30 10-13 ? * WED,FRI   | 2024-05-01 13:30:00 | 2024-05-03 10:30:00; 2024-05-03 11:30:00
    0 0/30 8-9 5,20 * ?      | 2024-05-05 09:00:00 | 2024-05-05 09:30:00; 2024-05-20 08:00:00
    # seconds, lists, steps
    * * * * * ?              | 2024-12-31 23:59:59 | 2025-01-01 00:00:00; 2025-01-01 00:00:01
    0/15 * * * * *           | 2024-05-01 00:00:14 | 2024-05-01 00:00:15; 2024-05-01 00:00:30
    */20 * * * * ?           | 2024-05-01 00:00:40 | 2024-05-01 00:01:00
    /20 * * * * ?            | 2024-05-01 00:00:20 | 2024-05-01 00:00:40
    5/20 * * * * ?           | 2024-05-01 00:00:05 | 2024-05-01 00:00:25; 2024-05-01 00:00:45; 2024-05-01 00:01:05
    10-30/10,7 * * * * ?     | 2024-05-01 00:00:00 | 2024-05-01 00:00:07; 2024-05-01 00:00:10; 2024-05-01 00:00:20; 2024-05-01 00:00:30
    59 59 23 31 12 ?         | 2024-12-31 23:59:59 | 2025-12-31 23:59:59
    # ranges that wrap, by number and by name
    0 0 22-4 * * ?           | 2024-05-01 03:00:00 | 2024-05-01 04:00:00; 2024-05-01 22:00:00; 2024-05-01 23:00:00; 2024-05-02 00:00:00
    0 0 22-4/3 * * ?         | 2024-05-01 00:00:00 | 2024-05-01 01:00:00; 2024-05-01 04:00:00; 2024-05-01 22:00:00; 2024-05-02 01:00:00
    0 0 0 ? * FRI-MON        | 2024-05-02 00:00:00 | 2024-05-03 00:00:00; 2024-05-04 00:00:00; 2024-05-05 00:00:00; 2024-05-06 00:00:00; 2024-05-10 00:00:00
    0 0 0 ? * 7-2            | 2024-05-02 00:00:00 | 2024-05-04 00:00:00; 2024-05-05 00:00:00; 2024-05-06 00:00:00; 2024-05-11 00:00:00
    0 0 0 1 NOV-FEB ?        | 2024-02-01 00:00:00 | 2024-11-01 00:00:00; 2024-12-01 00:00:00; 2025-01-01 00:00:00; 2025-02-01 00:00:00; 2025-11-01 00:00:00
    0 0 0 30-2 * ?           | 2023-02-01 00:00:00 | 2023-02-02 00:00:00; 2023-03-01 00:00:00; 2023-03-02 00:00:00; 2023-03-30 00:00:00
    50-10/5 0 0 * * ?        | 2024-05-01 00:00:00 | 2024-05-01 00:00:05; 2024-05-01 00:00:10; 2024-05-01 00:00:50; 2024-05-01 00:00:55
    # a step behind names (Quartz ignores it behind months)
    0 0 0 ? * MON-FRI/2      | 2024-05-05 00:00:00 | 2024-05-06 00:00:00; 2024-05-08 00:00:00; 2024-05-10 00:00:00; 2024-05-13 00:00:00
    0 0 0 1 JAN-DEC/3 ?      | 2024-01-01 00:00:00 | 2024-04-01 00:00:00; 2024-07-01 00:00:00; 2024-10-01 00:00:00; 2025-01-01 00:00:00
    0 0 0 1 oct-Mar/2 ?      | 2024-01-01 00:00:00 | 2024-02-01 00:00:00; 2024-10-01 00:00:00; 2024-12-01 00:00:00
    0 0 0 ? * mon/3          | 2024-05-05 00:00:00 | 2024-05-06 00:00:00; 2024-05-09 00:00:00; 2024-05-13 00:00:00
    0 0 0 1 Feb,aUG ?        | 2024-01-01 00:00:00 | 2024-02-01 00:00:00; 2024-08-01 00:00:00
    # L, L-n, W
    0 0 0 31 * ?             | 2024-03-31 00:00:00 | 2024-05-31 00:00:00; 2024-07-31 00:00:00; 2024-08-31 00:00:00
    0 0 0 29 2 ?             | 2096-02-29 00:00:00 | 2104-02-29 00:00:00
    0 0 0 L 2 ?              | 2023-01-01 00:00:00 | 2023-02-28 00:00:00; 2024-02-29 00:00:00
    0 0 0 L-30 * ?           | 2024-02-01 00:00:00 | 2024-03-01 00:00:00; 2024-05-01 00:00:00
    0 0 0 15W * ?            | 2024-06-01 00:00:00 | 2024-06-14 00:00:00; 2024-07-15 00:00:00; 2024-08-15 00:00:00; 2024-09-16 00:00:00
    0 0 0 1W * ?             | 2024-05-31 00:00:00 | 2024-06-03 00:00:00; 2024-07-01 00:00:00; 2024-08-01 00:00:00; 2024-09-02 00:00:00
    0 0 0 31W * ?            | 2024-02-01 00:00:00 | 2024-03-29 00:00:00; 2024-05-31 00:00:00; 2024-07-31 00:00:00; 2024-08-30 00:00:00
    0 0 0 LW * ?             | 2024-05-31 00:00:00 | 2024-06-28 00:00:00; 2024-07-31 00:00:00; 2024-08-30 00:00:00
    0 0 0 L-1W * ?           | 2024-05-31 00:00:00 | 2024-06-28 00:00:00; 2024-07-30 00:00:00
    0 0 0 lw * ?             | 2024-05-31 00:00:00 | 2024-06-28 00:00:00
    0 0 0 1,15W,L * ?        | 2024-06-01 00:00:00 | 2024-06-14 00:00:00; 2024-06-30 00:00:00; 2024-07-01 00:00:00; 2024-07-15 00:00:00
    # W keeps every hour of its day (Quartz loses the earlier ones)
    0 0 6,18 15W * ?         | 2024-06-13 20:00:00 | 2024-06-14 06:00:00; 2024-06-14 18:00:00; 2024-07-15 06:00:00
    # days of the week
    0 0 0 ? * 1              | 2024-05-01 00:00:00 | 2024-05-05 00:00:00
    0 0 0 ? * 7              | 2024-05-01 00:00:00 | 2024-05-04 00:00:00
    0 0 0 ? * L              | 2024-05-01 00:00:00 | 2024-05-04 00:00:00; 2024-05-11 00:00:00
    0 0 0 ? * friL           | 2024-05-01 00:00:00 | 2024-05-31 00:00:00; 2024-06-28 00:00:00
    0 0 0 ? * THUL           | 2024-02-01 00:00:00 | 2024-02-29 00:00:00; 2024-03-28 00:00:00
    0 0 0 ? * FRI#5          | 2024-04-01 00:00:00 | 2024-05-31 00:00:00; 2024-08-30 00:00:00
    0 0 0 ? * 5#1,5#3        | 2024-05-01 00:00:00 | 2024-05-02 00:00:00; 2024-05-16 00:00:00; 2024-06-06 00:00:00
    0 0 0 ? * MON#1,FRIL     | 2024-05-01 00:00:00 | 2024-05-06 00:00:00; 2024-05-31 00:00:00; 2024-06-03 00:00:00
    # years
    0 0 0 1 1 ? 2030/10      | 2024-05-01 00:00:00 | 2030-01-01 00:00:00; 2040-01-01 00:00:00
    0 0 0 1 1 ? 2024,2028    | 2024-05-01 00:00:00 | 2028-01-01 00:00:00; never
    0 0 0 1 1 ? 2199         | 2024-05-01 00:00:00 | 2199-01-01 00:00:00; never
    59 59 23 31 12 ?         | 2199-12-31 23:59:58 | 2199-12-31 23:59:59; never
    # nicknames
    @yearly                  | 2024-05-01 00:00:00 | 2025-01-01 00:00:00
    @Annually                | 2024-05-01 00:00:00 | 2025-01-01 00:00:00
    @monthly                 | 2024-05-01 00:00:00 | 2024-06-01 00:00:00
    @weekly                  | 2024-05-01 00:00:00 | 2024-05-05 00:00:00
    @daily                   | 2024-05-01 00:00:00 | 2024-05-02 00:00:00
    @midnight                | 2024-05-01 00:00:00 | 2024-05-02 00:00:00
    @hourly                  | 2024-05-01 00:00:00 | 2024-05-01 01:00:00
";

#[test]
fn every_fact_holds() {
    let lines = FACTS.lines().map(str::trim).filter(|line| !line.is_empty());
    for fact in lines.filter(|line| !line.starts_with('#')) {
        let [expression, after, expected] = fact.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("not a fact: {fact}");
        };
        let expected: Vec<_> = expected.split("; ").collect();
        assert_eq!(follow(expression.trim(), after, expected.len()), expected, "{fact}");
    }
}

/// Each line: expression | a part of the message.
const REFUSED: &str = "
    60 * * * * ?       | second `60`: write 0 to 59
    * 61 * * * ?       | minute `61`: write 0 to 59
    * * 24 * * ?       | hour `24`: write 0 to 23
    * * * 0 * ?        | day-of-month `0`
    * * * 32 * ?       | day-of-month `32`
    * * * * 13 ?       | month `13`: write 1 to 12 or JAN to DEC
    * * * * 0 ?        | month `0`
    * * * * JANUARY ?  | month `JANUARY`
    * * * ? * 0        | day-of-week `0`: write 1 (SUN) to 7 (SAT)
    * * * ? * 8        | day-of-week `8`
    * * * ? * MONDAY   | day-of-week `MONDAY`
    * * * * * ? 1969   | year `1969`: write 1970 to 2199
    * * * * * ? 2200   | year `2200`
    * * * * * ? 2030-2025 | year `2030-2025`: years do not wrap
    * * * 15 * MON     | write `?` in one of them
    * * * 1-31 * 1-7   | write `?` in one of them
    * * * ? * ?        | only one of the two day fields
    ? * * * * *        | second `?`
    * * ? * * *        | hour `?`
    * * * ?,1 * *      | day-of-month `?`
    0/0 * * * * ?      | second `0/0`: after `/`
    0/60 * * * * ?     | second `0/60`: after `/`
    * * 0/24 * * ?     | hour `0/24`: after `/`
    5/ * * * * ?       | second `5/`
    5/x * * * * ?      | second `5/x`
    5/2/2 * * * * ?    | second `5/2/2`
    , * * * * ?        | second ``
    1,,2 * * * * ?     | second ``
    1- * * * * ?       | second ``
    -1 * * * * ?       | second ``
    +1 * * * * ?       | second `+1`
    1-2-3 * * * * ?    | second `2-3`
    99999999999 * * * * ? | second `99999999999`
    * * * W * ?        | day-of-month ``
    * * * 1-5W * ?     | day-of-month `1-5`
    * * * 15L * ?      | day-of-month `15L`
    * * * L-31 * ?     | day-of-month `L-31`: after `L`
    * * * L3 * ?       | day-of-month `L3`: after `L`
    * * * ? * FRI#0    | day-of-week `FRI#0`: after `#`
    * * * ? * FRI#6    | day-of-week `FRI#6`
    * * * ? * #3       | day-of-week ``
    * * * ? * MON-FRIL | day-of-week `MON-FRI`
    * * * ? * é        | day-of-week `é`
    0 0 12 * *         | `0 0 0 12 * ?`
    0 9 * * MON        | seconds come first: write `0 0 9 ? * MON`
    0 9 1 * 1          | `0 0 9 ? * MON`
    * * * *            | it has 4 fields
    * * * * * ? 2030 9 | it has 8 fields
    @reboot            | unknown nickname
    0 0 0 30 2 ?       | never fires
    0 0 0 30 FEB ?     | never fires: no month
    0 0 0 31 4,6,9,11 ? | never fires
    0 0 0 29 2 ? 2023  | never fires
    0 0 0 L-30 2 ?     | never fires
    0 0 0 L-29 2 ?     | never fires
    0 0 0 31W 4 ?      | never fires
    0 0 0 ? 2 MON#5 2023 | never fires
";

#[test]
fn every_wrong_expression_is_refused_with_its_place() {
    let lines = REFUSED.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines {
        let (expression, expected) = line.split_once(" | ").unwrap();
        let expression = expression.trim();
        let message = Cron::parse(expression, "UTC").unwrap_err().to_string();
        assert!(message.contains(expected), "{expression}: {message}");
        assert!(message.contains(&format!("`{expression}`")), "{message}");
    }
    assert!(Cron::parse("", "UTC").unwrap_err().to_string().contains("0 fields"));
}

#[test]
fn unix_cron_is_refused_with_what_means_the_same_here() {
    let both = Cron::parse("0 9 1 * 1", "UTC").unwrap_err().to_string();
    assert!(both.contains("make two schedules, `0 0 9 1 * ?` and `0 0 9 ? * MON`"), "{both}");
    for (unix, here) in [
        ("30 7 * * 1-5", "0 30 7 ? * MON-FRI"),
        ("0 0 1 * *", "0 0 0 1 * ?"),
        ("*/5 9-17 * * 0,6", "0 */5 9-17 ? * SUN,SAT"),
        ("0 4 * * 7", "0 0 4 ? * SUN"),
        ("0 4 * * 0-7", "0 0 4 * * ?"),
        ("0 4 * * tue-4/2", "0 0 4 ? * tue-THU/2"),
    ] {
        let message = Cron::parse(unix, "UTC").unwrap_err().to_string();
        assert!(message.contains(&format!("write `{here}`")), "{unix}: {message}");
        assert!(Cron::parse(here, "UTC").is_ok(), "{here}");
    }
}

#[test]
fn the_zone_is_checked_first_and_never_guessed() {
    let error = Cron::parse("nonsense", "Europe/Berlim").unwrap_err();
    assert_eq!(error, TriggerError::UnknownZone { name: "Europe/Berlim".to_owned() });
}

#[test]
fn what_only_names_a_skipped_day_never_fires() {
    // Samoa had no 30 December 2011.
    let error = Cron::parse("0 0 * 30 12 ? 2011", "Pacific/Apia").unwrap_err();
    assert!(error.to_string().contains("the clocks of Pacific/Apia skip"), "{error}");
    let once_after = Cron::parse("0 0 8 30 12 ? 2011", "Pacific/Apia").unwrap();
    assert_eq!(show(once_after.next_after_ms(0)), "2011-12-30 10:00:00");
}

#[test]
fn the_ends_of_i64_do_not_overflow() {
    for zone in ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"] {
        let cron = Cron::parse("* * * * * ?", zone).unwrap();
        assert_eq!(cron.next_after_ms(i64::MIN).unwrap().max(43_200_000), 43_200_000);
        assert_eq!(cron.next_after_ms(i64::MAX), None);
    }
}

#[test]
fn a_fraction_of_a_second_is_not_lost_or_repeated() {
    let cron = Cron::parse("* * * * * ?", "UTC").unwrap();
    assert_eq!(cron.next_after_ms(999), Some(1_000));
    assert_eq!(cron.next_after_ms(1_000), Some(2_000));
    assert_eq!(cron.next_after_ms(1_001), Some(2_000));
}

#[test]
fn what_was_asked_for_can_be_read_back() {
    let cron = Cron::parse("@Hourly", "America/New_York").unwrap();
    assert_eq!((cron.expression(), cron.zone()), ("@Hourly", "America/New_York"));
    assert_eq!((cron.gap(), cron.fold()), (Gap::FireAfter, Fold::First));
    let cron = cron.with_gap(Gap::Skip).with_fold(Fold::Both);
    assert_eq!((cron.gap(), cron.fold()), (Gap::Skip, Fold::Both));
}
