//! The instants at which a node glances at the database for others' changes, and the marks it has seen.
//!
//! It glances while the database does not tell of changes, and for a moment after each notification: changes
//! stored just behind one may not be told.

use crate::domain::{Boot, Millis};
use crate::store::news::{Glance, Marks, News};
use crate::time::Now;

/// The pause before the first glance after news. Each further pause is twice as long as the one before.
const FIRST_PAUSE: Millis = 50;
/// The longest pause. Where the database tells of changes no glance follows it.
const LONGEST_PAUSE: Millis = 1_000;
/// No glance follows one that failed for so long.
const FAILURE_PAUSE: Millis = 1_000;

pub(super) struct Glances {
    /// How often, while nobody tells and nothing happens.
    every: Millis,
    /// The database tells now.
    is_told: bool,
    /// The last answer; none at the beginning, and after a time in which nobody glanced.
    marks: Option<Marks>,
    /// When the next one is due.
    pub(super) at: Boot,
    /// The pause behind it, if it finds nothing.
    pause: Millis,
}

impl Glances {
    pub(super) fn new(every: Millis, now: Now) -> Self {
        Self { every, is_told: false, marks: None, at: now.boot, pause: LONGEST_PAUSE }
    }

    /// The marks behind which a glance that is due now looks.
    pub(super) fn due(&self, now: Now) -> Option<Marks> {
        (now.boot >= self.at).then(|| self.marks.unwrap_or(Marks::END))
    }

    /// The news in an answer. The first answer has nothing to be compared with, and counts as news.
    pub(super) fn answered(&mut self, now: Now, Glance { marks, news }: Glance) -> News {
        let is_first = self.marks.replace(marks).is_none();
        if !is_first && !news.is_none() {
            self.pause = FIRST_PAUSE;
        }
        self.rest(now);
        // Of requests that wait the first poll tells.
        let first = News { work: true, cancel: !self.is_told, members: !self.is_told, ..News::default() };
        if is_first { first } else { news }
    }

    /// Sets the next glance. Where the database tells of changes, none follows the longest pause.
    fn rest(&mut self, now: Now) {
        if self.is_told && self.pause >= LONGEST_PAUSE {
            return self.told(now, true);
        }
        let pause = if self.is_told { self.pause } else { self.pause.min(self.every) };
        self.at = now.boot.saturating_add(pause);
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }

    /// No answer came, and more may lie behind the marks than can be read in time: the next answer is news.
    pub(super) fn failed(&mut self, now: Now) {
        self.marks = None;
        self.at = now.boot.saturating_add(self.every.max(FAILURE_PAUSE));
    }

    /// The database has told of something: more of the kind may have been stored, and not be told.
    pub(super) fn heard(&mut self, now: Now) {
        let at = now.boot + FIRST_PAUSE;
        // While it goes on telling, polls follow each other anyway.
        self.at = if self.is_told { at } else { self.at.min(at) };
        self.pause = 2 * FIRST_PAUSE;
    }

    /// The database tells from now on, or does so no more.
    pub(super) fn told(&mut self, now: Now, is_told: bool) {
        (self.is_told, self.marks, self.pause) = (is_told, None, LONGEST_PAUSE);
        self.at = if is_told { Boot::MAX } else { now.boot };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    const NONE: News = News { work: false, cancel: false, members: false, request: false };
    const WORK: News = News { work: true, ..NONE };
    const FIRST: News = News { request: false, ..News::ANY };
    const SEEN: Glance =
        Glance { marks: Marks { run: 7, audit: 3, request: 2, told: Timestamp::at(5) }, news: NONE };

    fn at(boot: Millis) -> Now {
        Now { db: Timestamp::at(boot), boot: Boot::at(boot), apart: 0 }
    }

    fn glances() -> Glances {
        Glances::new(200, at(1_000))
    }

    #[test]
    fn the_first_answer_is_news_and_the_next_question_begins_behind_it() {
        let mut glances = glances();
        assert_eq!(glances.due(at(1_000)), Some(Marks::END));
        assert_eq!(glances.answered(at(1_002), SEEN), FIRST);
        assert_eq!(glances.at, Boot::at(1_202));
        assert_eq!(glances.due(at(1_201)), None);
        assert_eq!(glances.due(at(1_202)), Some(SEEN.marks));
        assert_eq!(glances.answered(at(1_203), SEEN), News::default());
    }

    /// The instants of the glances from `now` on, each of which finds this; none follows the last.
    fn follow(glances: &mut Glances, finds: impl Fn(Millis) -> News) -> Vec<Millis> {
        let mut instants = Vec::new();
        while glances.at < Boot::at(6_000) {
            let now = glances.at;
            glances.answered(at(now.millis()), Glance { news: finds(now.millis()), ..SEEN });
            instants.push(now.millis());
        }
        instants
    }

    #[test]
    fn after_news_they_follow_each_other_quickly_for_a_while() {
        let finds = |now| if now == 5_200 { WORK } else { News::default() };
        let mut slow = glances();
        slow.answered(at(4_800), SEEN);
        assert_eq!(follow(&mut slow, finds), [5_000, 5_200, 5_250, 5_350, 5_550, 5_750, 5_950]);
        let mut quick = Glances::new(25, at(1_000));
        quick.answered(at(5_150), SEEN);
        assert_eq!(follow(&mut quick, finds)[..4], [5_175, 5_200, 5_225, 5_250]);
    }

    #[test]
    fn who_is_told_glances_for_a_while_after_that_alone() {
        let mut glances = glances();
        glances.answered(at(1_000), SEEN);
        glances.told(at(1_100), true);
        assert_eq!((glances.at, glances.due(at(9_000))), (Boot::MAX, None));
        glances.heard(at(2_000));
        assert_eq!(glances.due(at(2_050)), Some(Marks::END), "what came meanwhile is unknown");
        assert_eq!(glances.answered(at(2_050), SEEN), WORK);
        assert_eq!(follow(&mut glances, |_| News::default()), [2_150, 2_350, 2_750, 3_550]);
        glances.heard(at(4_000));
        glances.answered(at(4_050), SEEN);
        glances.heard(at(4_100));
        assert_eq!(glances.at, Boot::at(4_150));
        assert_eq!(glances.answered(at(4_150), Glance { news: WORK, ..SEEN }), WORK);
        assert_eq!(follow(&mut glances, |_| News::default()), [4_200, 4_300, 4_500, 4_900, 5_700]);
        glances.told(at(9_000), false);
        assert_eq!(glances.due(at(9_000)), Some(Marks::END));
        assert_eq!(glances.answered(at(9_001), SEEN), FIRST);
    }

    #[test]
    fn after_a_failure_there_is_a_pause() {
        let mut glances = glances();
        glances.answered(at(900), SEEN);
        glances.failed(at(1_000));
        assert_eq!(glances.at, Boot::at(2_000));
        assert_eq!(glances.due(at(2_000)), Some(Marks::END), "what lies behind the marks may be too much");
        let mut rare = Glances::new(5_000, at(1_000));
        rare.failed(at(1_000));
        assert_eq!(rare.at, Boot::at(6_000));
    }
}
