//! What became of the occurrences of an hour, each with what repairs it.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::zone::{hour_of, shown};
use crate::console::words::{Glyph, Mark, clock};
use crate::{Client, Fate, Why};

/// What became of the occurrences of an hour.
#[derive(Default)]
pub(super) struct Whys {
    /// Those that people may wonder at.
    pub(super) odd: Vec<WhyRow>,
    /// Those that ran on time.
    pub(super) plain: Vec<WhyRow>,
    /// Those that are not due yet, and have nothing in their way.
    pub(super) planned: Vec<WhyRow>,
    pub(super) has_more: bool,
}

impl Whys {
    pub(super) fn is_empty(&self) -> bool {
        self.odd.is_empty() && self.plain.is_empty() && self.planned.is_empty()
    }
}

/// What became of one occurrence.
pub(super) struct WhyRow {
    pub(super) glyph: Glyph,
    pub(super) sentence: String,
    /// Its last execution.
    pub(super) to: Option<String>,
    pub(super) button: Option<Button>,
}

/// What became of each occurrence of an hour.
pub(super) fn whys(
    client: &Client,
    asked: &Asked,
    (name, at): (&str, DateTime<Utc>),
    frame: &Frame,
    mended: &BTreeSet<(&str, DateTime<Utc>)>,
) -> Result<Whys, Trouble> {
    at.checked_add_signed(TimeDelta::hours(1)).ok_or_else(Trouble::beyond)?;
    let mut list = client.why_between(name, at..hour_of(at).1)?;
    let mut whys = Whys { has_more: list.next.is_some(), ..Whys::default() };
    for why in &mut list.answers {
        asked.masks.why(why);
        let mark = mark(why);
        let rows = match (why.fate, mark) {
            (Fate::Planned, _) => &mut whys.planned,
            (_, Mark::Ran) => &mut whys.plain,
            _ => &mut whys.odd,
        };
        rows.push(WhyRow {
            glyph: Glyph(mark),
            sentence: why.sentence.clone(),
            to: why.executions.last().map(|id| query::execution(*id)),
            button: why
                .at
                .filter(|at| !mended.contains(&(name, *at)))
                .and_then(|at| remedy(name, at, why, frame)),
        });
    }
    Ok(whys)
}

fn mark(why: &Why) -> Mark {
    match why.fate {
        Fate::Succeeded if why.late.is_some() => Mark::Late,
        Fate::Succeeded => Mark::Ran,
        Fate::Running => Mark::Running,
        Fate::Failed | Fate::Abandoned | Fate::TimedOut => Mark::Failed,
        Fate::Cancelled | Fate::Skipped | Fate::Withdrawn | Fate::WillBeSkipped => Mark::Skipped,
        Fate::Unknown => Mark::Late,
        _ => Mark::Waits,
    }
}

/// What repairs it.
fn remedy(name: &str, at: DateTime<Utc>, why: &Why, frame: &Frame) -> Option<Button> {
    match why.fate {
        Fate::Failed
        | Fate::Abandoned
        | Fate::TimedOut
        | Fate::Cancelled
        | Fate::Skipped
        | Fate::Withdrawn => {
            let label = format!("Run it for {}", clock(at));
            Button::new(frame, label, &Order::Rerun(name.to_owned(), at))
        }
        _ => None,
    }
}

/// `Sun 29 Nov 10:00 to 11:00 UTC`
pub(super) fn of_hour(begin: DateTime<Utc>) -> String {
    let [from, to] = [begin, hour_of(begin).1].map(|at| at.with_timezone(&shown()));
    format!("{} to {}", from.format("%a %-d %b %H:%M"), to.format("%H:%M %Z"))
}
