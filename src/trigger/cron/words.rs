//! A cron expression in words, from the values that it matches: two that read alike fire alike.

use super::days::{Days, MonthDays, WeekDays};
use super::spec::{CronSpec, FIRST_YEAR, LAST_YEAR};
use super::{Cron, Fold, Gap};

/// So many times of a day are named one by one.
const NAMED: usize = 6;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From Monday on, each with its bit in a set of weekdays.
const WEEKDAYS: [(&str, u32); 7] = [
    ("Monday", 1),
    ("Tuesday", 2),
    ("Wednesday", 3),
    ("Thursday", 4),
    ("Friday", 5),
    ("Saturday", 6),
    ("Sunday", 0),
];
const WEEKS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

impl Cron {
    /// The expression in words, by the clock of its zone, without the zone's name: `every day at 02:30`.
    ///
    /// It is told from the values that the fields match, and not from how they are written. Two expressions
    /// of a zone with the same words have the same fire times. What has no short words is told field by
    /// field, such as `at seconds 1 and 7 of minutes 3 to 9, from 02:00 to 04:59`.
    ///
    /// ```
    /// use firetime::trigger::Cron;
    /// let words = |expression| Cron::parse(expression, "UTC").map(|cron| cron.in_words());
    /// assert_eq!(words("0 30 2 * * ?")?, "every day at 02:30");
    /// let office_hours = words("0 0/15 9-17 ? * MON-FRI")?;
    /// assert_eq!(office_hours, "every 15 minutes, from 09:00 to 17:59, Monday to Friday");
    /// assert_eq!(words("0 0 12 ? * FRI#3")?, "on the third Friday of each month at 12:00");
    /// # Ok::<(), firetime::trigger::TriggerError>(())
    /// ```
    #[must_use]
    pub fn in_words(&self) -> String {
        let spec = &self.spec;
        let day = days(&spec.days, &months(spec.months));
        let times = times(spec);
        // What is told as a rhythm follows real time; times of a day are those of the clock.
        let is_rhythm = matches!(times, Times::Rate(_)) && step(spec.hours, 24).is_some();
        let words = match (times, day) {
            (Times::At(times), None) => format!("every day {times}"),
            (Times::At(times), Some(day)) => format!("{day} {times}"),
            (Times::Rate(rate), None) => rate,
            (Times::Rate(rate), Some(day)) => format!("{rate}, {day}"),
        };
        words + &years(spec) + &self.clocks(is_rhythm)
    }

    /// What it does when the clocks change, if that is not what its words let expect.
    fn clocks(&self, is_rhythm: bool) -> String {
        if self.zone() == "UTC" {
            return String::new();
        }
        match (self.spec.follows_real_time, is_rhythm) {
            (true, true) => String::new(),
            (true, false) => ", whenever the clock shows it".to_owned(),
            (false, _) => {
                let once = if is_rhythm { ", once for each time of the clock" } else { "" };
                let gap = if self.gap == Gap::Skip { ", not at times that the clocks skip" } else { "" };
                let fold = if self.fold == Fold::Both { ", again at times that come twice" } else { "" };
                format!("{once}{gap}{fold}")
            }
        }
    }
}

/// When on a day.
enum Times {
    /// At these times: `at 02:30`.
    At(String),
    /// Again and again: `every 15 minutes`.
    Rate(String),
}

fn times(spec: &CronSpec) -> Times {
    let (seconds, minutes, hours) = (members(spec.seconds), members(spec.minutes), members(spec.hours));
    let [second] = seconds[..] else { return Times::Rate(often(spec)) };
    if minutes.len() * hours.len() <= NAMED {
        let times = hours.iter().flat_map(|hour| minutes.iter().map(move |minute| (*hour, *minute)));
        let times: Vec<String> = times.map(|(hour, minute)| clock(hour, minute, second)).collect();
        return Times::At(format!("at {}", listed(&times)));
    }
    let [minute] = minutes[..] else { return Times::Rate(often(spec)) };
    let at = match (minute, second) {
        (0, 0) => String::new(),
        (minute, 0) => format!(" at :{minute:02}"),
        (minute, second) => format!(" at :{minute:02}:{second:02}"),
    };
    match (step(spec.hours, 24), &runs(&hours)[..]) {
        (Some(1), _) => Times::Rate(format!("every hour{at}")),
        (Some(step), _) => Times::Rate(format!("every {step} hours{at}")),
        (None, [(first, last)]) => {
            let (first, last) = (clock(*first, minute, second), clock(*last, minute, second));
            Times::Rate(format!("every hour from {first} to {last}"))
        }
        _ => {
            let times: Vec<String> = hours.iter().map(|hour| clock(*hour, minute, second)).collect();
            Times::At(format!("at {}", listed(&times)))
        }
    }
}

/// What fires several times in an hour, or at several seconds of a minute.
fn often(spec: &CronSpec) -> String {
    let hours = match step(spec.hours, 24) {
        Some(1) => String::new(),
        _ => {
            let runs = runs(&members(spec.hours)).into_iter();
            let runs: Vec<String> =
                runs.map(|(first, last)| format!("from {first:02}:00 to {last:02}:59")).collect();
            format!(", {}", listed(&runs))
        }
    };
    let minute = step(spec.minutes, 60);
    let rate = match (step(spec.seconds, 60), spec.seconds, minute) {
        (_, 1, Some(1)) => "every minute".to_owned(),
        (_, 1, Some(step)) => format!("every {step} minutes"),
        (_, 1, None) => format!("at {}", field("minute", spec.minutes)),
        (Some(1), _, Some(1)) => "every second".to_owned(),
        (Some(step), _, Some(1)) => format!("every {step} seconds"),
        (None, seconds, Some(1)) => format!("every minute at {}", field("second", seconds)),
        (Some(1), ..) => format!("every second of {}", field("minute", spec.minutes)),
        (_, seconds, _) => format!("at {} of {}", field("second", seconds), field("minute", spec.minutes)),
    };
    rate + &hours
}

/// The days on which it fires; none if these are all days of all months.
fn days(days: &Days, months: &Option<String>) -> Option<String> {
    let in_months = || months.as_ref().map(|months| format!("every day in {months}"));
    let of_months = || months.clone().unwrap_or_else(|| "each month".to_owned());
    let (plain, of_month) = match days {
        Days::Every => return in_months(),
        Days::OfMonth(days) => (None, of_month(days)),
        Days::OfWeek(days) => of_week(days),
    };
    let of_month = (!of_month.is_empty()).then(|| format!("on {} of {}", listed(&of_month), of_months()));
    match (plain, of_month) {
        (Some(weekdays), None) if weekdays == "every day" => in_months(),
        (Some(weekdays), None) => {
            let months = months.as_ref().map_or_else(String::new, |months| format!(" in {months}"));
            Some(weekdays + &months)
        }
        (Some(weekdays), Some(others)) => {
            let months = months.as_ref().map_or_else(String::new, |months| format!(" in {months}"));
            Some(format!("{weekdays}{months}, and {others}"))
        }
        (None, others) => others,
    }
}

fn of_month(days: &MonthDays) -> Vec<String> {
    let set = |set: u32| members(u64::from(set));
    let numbers = runs(&set(days.days)).into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![format!("the {}", nth(first))],
        1 => vec![format!("the {}", nth(first)), format!("the {}", nth(last))],
        _ => vec![format!("the {} to the {}", nth(first), nth(last))],
    });
    let before_last = |before: u32| match before {
        0 => "the last day".to_owned(),
        1 => "the day before the last".to_owned(),
        before => format!("day {before} before the last"),
    };
    let last = set(days.before_last).into_iter().map(before_last);
    let nearest =
        set(days.nearest).into_iter().map(|day| format!("the Monday to Friday nearest to the {}", nth(day)));
    let nearest_last = set(days.nearest_before_last)
        .into_iter()
        .map(|before| format!("the Monday to Friday nearest to {}", before_last(before)));
    numbers.chain(last).chain(nearest).chain(nearest_last).collect()
}

/// The weekdays of every week, and those of some weeks of a month.
fn of_week(days: &WeekDays) -> (Option<String>, Vec<String>) {
    let every = days.by_week.iter().fold(0x7f, |all, week| all & week);
    let names: Vec<&str> =
        WEEKDAYS.iter().filter(|(_, bit)| every & (1 << bit) != 0).map(|(name, _)| *name).collect();
    let places: Vec<u32> =
        (0..).zip(WEEKDAYS).filter(|(_, (_, bit))| every & (1 << bit) != 0).map(|it| it.0).collect();
    let name = |place: u32| usize::try_from(place).ok().and_then(|it| WEEKDAYS.get(it)).map_or("", |it| it.0);
    let plain = match names.len() {
        0 => None,
        7 => Some("every day".to_owned()),
        _ => Some(ranges(&places, |place| name(place).to_owned())),
    };
    let mut some = Vec::new();
    for (week, weekdays) in WEEKS.iter().zip(days.by_week) {
        let of_week = WEEKDAYS.iter().filter(|(_, bit)| weekdays & !every & (1 << bit) != 0);
        some.extend(of_week.map(|(name, _)| format!("the {week} {name}")));
    }
    let last = WEEKDAYS.iter().filter(|(_, bit)| days.last & !every & (1 << bit) != 0);
    some.extend(last.map(|(name, _)| format!("the last {name}")));
    (plain, some)
}

/// None for all.
fn months(set: u64) -> Option<String> {
    let months = members(set);
    let name = |number: u32| {
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        place.and_then(|place| MONTHS.get(place)).map_or("", |name| *name).to_owned()
    };
    (months.len() < 12).then(|| ranges(&months, name))
}

fn years(spec: &CronSpec) -> String {
    let years: Vec<u32> = (FIRST_YEAR..=LAST_YEAR)
        .filter(|year| spec.years.contains(*year))
        .filter_map(|year| u32::try_from(year).ok())
        .collect();
    match years.len() == usize::try_from(LAST_YEAR - FIRST_YEAR + 1).unwrap_or_default() {
        true => String::new(),
        false => format!(", in {}", ranges(&years, |year| year.to_string())),
    }
}

/// `minute 5`, `minutes 3, 7 and 10 to 20`.
fn field(name: &str, set: u64) -> String {
    let members = members(set);
    let plural = if members.len() == 1 { "" } else { "s" };
    format!("{name}{plural} {}", ranges(&members, |number| number.to_string()))
}

/// The values of a set, ascending.
fn members(set: u64) -> Vec<u32> {
    (0..64).filter(|value| set & (1 << value) != 0).collect()
}

/// Values that follow each other as one: the first and the last.
fn runs(values: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *value => *last = *value,
            _ => runs.push((*value, *value)),
        }
    }
    runs
}

/// Three values or more that follow each other are told by their ends.
fn ranges(values: &[u32], name: impl Fn(u32) -> String) -> String {
    let words = runs(values).into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![name(first)],
        1 => vec![name(first), name(last)],
        _ => vec![format!("{} to {}", name(first), name(last))],
    });
    listed(&words.collect::<Vec<_>>())
}

/// The step of a set that has every so many values from 0 on, in equal steps all around.
fn step(set: u64, size: u32) -> Option<u32> {
    let steps = (1..size).filter(|step| size.is_multiple_of(*step));
    steps.into_iter().find(|step| set == (0..size).step_by(*step as usize).fold(0, |set, it| set | 1 << it))
}

/// `a`, `a and b`, `a, b and c`
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// `02:30`, `02:30:15`
fn clock(hour: u32, minute: u32, second: u32) -> String {
    let seconds = if second == 0 { String::new() } else { format!(":{second:02}") };
    format!("{hour:02}:{minute:02}{seconds}")
}

/// `1st`, `22nd`
fn nth(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}
