//! From text to [`CronSpec`]. Strict: what Quartz would read in some surprising way is refused.

use super::super::TriggerError;
use super::days::{Days, MonthDays, WeekDays};
use super::spec::{CronSpec, FIRST_YEAR, LAST_YEAR, Years};

/// The values that one field may hold.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values from `min` on.
    names: &'static [&'static str],
    /// How to write it right.
    help: &'static str,
}

const SECOND: Field = Field::plain("second", 0, 59, "write 0 to 59");
const MINUTE: Field = Field::plain("minute", 0, 59, "write 0 to 59");
const HOUR: Field = Field::plain("hour", 0, 23, "write 0 to 23");
const DAY_OF_MONTH: Field =
    Field::plain("day-of-month", 1, 31, "write 1 to 31, `L`, `L-3`, `15W`, `LW` or `?`");
const MONTH: Field = Field {
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    ..Field::plain("month", 1, 12, "write 1 to 12 or JAN to DEC")
};
const DAY_OF_WEEK: Field = Field {
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    ..Field::plain("day-of-week", 1, 7, "write 1 (SUN) to 7 (SAT), SUN to SAT, `FRIL`, `FRI#3` or `?`")
};
const YEAR: Field = Field::plain("year", FIRST_YEAR as u32, LAST_YEAR as u32, "write 1970 to 2199");

impl Field {
    const fn plain(name: &'static str, min: u32, max: u32, help: &'static str) -> Field {
        Field { name, min, max, names: &[], help }
    }
}

/// One field of one expression, for reading and for complaining about.
#[derive(Clone, Copy)]
struct Text<'a> {
    expression: &'a str,
    field: &'static Field,
    text: &'a str,
}

pub(super) fn parse(expression: &str) -> Result<CronSpec, TriggerError> {
    let fields: Vec<&str> = expand_nickname(expression)?.split_whitespace().collect();
    let (six, year) = match *fields {
        [s, m, h, dom, month, dow] => ([s, m, h, dom, month, dow], "*"),
        [s, m, h, dom, month, dow, year] => ([s, m, h, dom, month, dow], year),
        _ => return Err(wrong_number_of_fields(expression, &fields)),
    };
    let [seconds, minutes, hours, dom, months, dow] = six;
    let text = |field, text| Text { expression, field, text };
    Ok(CronSpec {
        seconds: text(&SECOND, seconds).set()?,
        minutes: text(&MINUTE, minutes).set()?,
        hours: text(&HOUR, hours).set()?,
        days: days(text(&DAY_OF_MONTH, dom), text(&DAY_OF_WEEK, dow))?,
        months: text(&MONTH, months).set()?,
        years: years(text(&YEAR, year))?,
        follows_real_time: hours.starts_with(['*', '/']),
    })
}

fn expand_nickname(expression: &str) -> Result<&str, TriggerError> {
    let text = expression.trim();
    if !text.starts_with('@') {
        return Ok(text);
    }
    match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Ok("0 0 0 1 1 ?"),
        "@monthly" => Ok("0 0 0 1 * ?"),
        "@weekly" => Ok("0 0 0 ? * SUN"),
        "@daily" | "@midnight" => Ok("0 0 0 * * ?"),
        "@hourly" => Ok("0 0 * * * ?"),
        _ => Err(TriggerError::Shape {
            expression: expression.to_owned(),
            problem: "unknown nickname: write @yearly, @annually, @monthly, @weekly, @daily, \
                      @midnight or @hourly"
                .to_owned(),
        }),
    }
}

fn wrong_number_of_fields(expression: &str, fields: &[&str]) -> TriggerError {
    let problem = match *fields {
        [minute, hour, dom, month, dow] => unix_advice([minute, hour, dom, month, dow]),
        _ => format!(
            "it has {} fields: write second, minute, hour, day-of-month, month, day-of-week and, \
             if you like, year",
            fields.len()
        ),
    };
    TriggerError::Shape { expression: expression.to_owned(), problem }
}

fn unix_advice([minute, hour, dom, month, dow]: [&str; 5]) -> String {
    let dow: Vec<String> = dow.split(',').map(unix_days).collect();
    let dow = if dow.iter().any(|item| item == "*") { "*".to_owned() } else { dow.join(",") };
    let write = match (dom, &*dow) {
        (dom, "*") => format!("write `0 {minute} {hour} {dom} {month} ?`"),
        ("*", dow) => format!("write `0 {minute} {hour} ? {month} {dow}`"),
        // Unix cron fires on the days of either field.
        (dom, dow) => format!(
            "make two schedules, `0 {minute} {hour} {dom} {month} ?` and `0 {minute} {hour} ? {month} {dow}`"
        ),
    };
    format!("it has five fields, as in Unix cron; here seconds come first: {write}")
}

/// An item of Unix cron's day-of-week, which counts from 0 (SUN) to 7 (SUN again), with the days' names.
fn unix_days(item: &str) -> String {
    let (days, step) = item.split_once('/').map_or((item, None), |(days, step)| (days, Some(step)));
    let name = |day: &str| match day.parse() {
        Ok(number @ 0..=7) => DAY_OF_WEEK.names[number % 7].to_owned(),
        _ => day.to_owned(),
    };
    let days = match days {
        "0-7" => "*".to_owned(),
        days => days.split('-').map(name).collect::<Vec<_>>().join("-"),
    };
    step.map_or(days.clone(), |step| format!("{days}/{step}"))
}

fn years(text: Text) -> Result<Years, TriggerError> {
    let mut years = Years::default();
    for item in text.items() {
        item.values()?.for_each(|year| years.insert(year as i32));
    }
    Ok(years)
}

/// Both day fields: one of them must leave the day to the other.
fn days(dom: Text, dow: Text) -> Result<Days, TriggerError> {
    match (dom.text, dow.text) {
        ("?", "?") => Err(dow.fail("only one of the two day fields can be `?`: write `*` here")),
        ("?" | "*", "?" | "*") => Ok(Days::Every),
        ("?" | "*", _) => week_days(dow).map(Days::OfWeek),
        (_, "?" | "*") => month_days(dom).map(Days::OfMonth),
        _ => Err(dow.fail(
            "day-of-month is restricted too, and one date cannot serve two rules: \
             write `?` in one of them, or make two schedules",
        )),
    }
}

fn month_days(text: Text) -> Result<MonthDays, TriggerError> {
    let mut days = MonthDays::default();
    for item in text.items() {
        match item.text.strip_suffix(['W', 'w']) {
            None => match item.before_last()? {
                Some(before) => days.before_last |= 1 << before,
                None => days.days |= item.set_of_item()? as u32,
            },
            Some(day) => match item.with(day).before_last()? {
                Some(before) => days.nearest_before_last |= 1 << before,
                None => days.nearest |= 1 << item.with(day).value()?,
            },
        }
    }
    Ok(days)
}

fn week_days(text: Text) -> Result<WeekDays, TriggerError> {
    let mut days = WeekDays::default();
    for item in text.items() {
        if let Some((day, week)) = item.text.split_once('#') {
            let Some(week @ 1..=5) = number(week) else {
                return Err(item.fail("after `#` write 1 to 5, as in `FRI#3`, the third Friday"));
            };
            days.by_week[week as usize - 1] |= 1 << (item.with(day).value()? - 1);
        } else if let Some(day) = item.text.strip_suffix(['L', 'l']).filter(|day| !day.is_empty()) {
            days.last |= 1 << (item.with(day).value()? - 1);
        } else {
            let weekdays = weekdays(item)?;
            days.by_week.iter_mut().for_each(|week| *week |= weekdays);
        }
    }
    Ok(days)
}

/// Days of the week in every week; `L` is the week's last day, Saturday.
fn weekdays(item: Text) -> Result<u8, TriggerError> {
    let item = if item.text.eq_ignore_ascii_case("L") { item.with("SAT") } else { item };
    Ok((item.set_of_item()? >> 1) as u8)
}

impl<'a> Text<'a> {
    fn with(self, text: &'a str) -> Text<'a> {
        Text { text, ..self }
    }

    fn items(self) -> impl Iterator<Item = Text<'a>> {
        self.text.split(',').map(move |item| self.with(item))
    }

    fn fail(self, problem: &str) -> TriggerError {
        TriggerError::Field {
            expression: self.expression.to_owned(),
            field: self.field.name,
            text: self.text.to_owned(),
            problem: problem.to_owned(),
        }
    }

    /// A whole field of values up to 63.
    fn set(self) -> Result<u64, TriggerError> {
        self.items().try_fold(0, |set, item| Ok(set | item.set_of_item()?))
    }

    fn set_of_item(self) -> Result<u64, TriggerError> {
        Ok(self.values()?.fold(0, |set, value| set | 1 << value))
    }

    /// The values of one item of a list: `*`, `5`, `5-9`, each perhaps with a step.
    fn values(self) -> Result<impl Iterator<Item = u32>, TriggerError> {
        let Field { min, max, .. } = *self.field;
        let (span, step) = match self.text.split_once('/') {
            Some((span, step)) => (span, Some(self.step(step)?)),
            None => (self.text, None),
        };
        let (first, last) = match (span, span.split_once('-'), step) {
            ("*", ..) | ("", _, Some(_)) => (min, max),
            (_, Some((first, last)), _) => self.range(first, last)?,
            (_, None, Some(_)) => (self.with(span).value()?, max),
            (_, None, None) => self.with(span).value().map(|value| (value, value))?,
        };
        // A range that wraps runs past `max`, by less than one turn.
        let turn = move |value| min + (value - min) % (max - min + 1);
        Ok((first..=last).step_by(step.unwrap_or(1)).map(turn))
    }

    /// The ends of a range; the last lies beyond the field's maximum if the range wraps.
    fn range(self, first: &'a str, last: &'a str) -> Result<(u32, u32), TriggerError> {
        let Field { min, max, .. } = *self.field;
        let (first, last) = (self.with(first).value()?, self.with(last).value()?);
        if first <= last {
            return Ok((first, last));
        }
        if self.field.name == YEAR.name {
            return Err(self.fail("years do not wrap: write the earlier one first"));
        }
        Ok((first, last + max - min + 1))
    }

    fn step(self, step: &str) -> Result<usize, TriggerError> {
        match number(step) {
            Some(step) if (1..=self.field.max).contains(&step) => Ok(step as usize),
            _ => Err(self.fail("after `/` write a step of at least 1 and within the field")),
        }
    }

    /// A single number or name.
    fn value(self) -> Result<u32, TriggerError> {
        let Field { min, max, names, help, .. } = *self.field;
        let named = || (min..).zip(names).find(|(_, name)| name.eq_ignore_ascii_case(self.text));
        number(self.text)
            .or_else(|| named().map(|(value, _)| value))
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| self.fail(help))
    }

    /// `L` or `L-3`: days before the last day of the month; `None` for anything else.
    fn before_last(self) -> Result<Option<u32>, TriggerError> {
        let Some(rest) = self.text.strip_prefix(['L', 'l']) else {
            return Ok(None);
        };
        match rest.strip_prefix('-').map(number) {
            None if rest.is_empty() => Ok(Some(0)),
            Some(Some(before @ 0..=30)) => Ok(Some(before)),
            _ => Err(self.fail("after `L` write nothing, or `-` and 0 to 30 days")),
        }
    }
}

/// Digits only: no sign, no blanks.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}
