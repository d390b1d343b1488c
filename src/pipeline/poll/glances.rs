//! When a node glances at the database for others' changes, and what it has seen: only while the database
//! does not tell of them.

use crate::domain::Millis;
use crate::store::news::{Glance, Hearing, Marks, News};
use crate::time::Now;

/// After news the next glances follow each other so soon, if not sooner anyway,
const LIVELY: Millis = 50;
/// for so long.
const STAYS_LIVELY: Millis = 2_000;
/// No glance follows one that failed for so long.
const FAILURE_PAUSE: Millis = 1_000;

pub(super) struct Glances {
    hearing: Hearing,
    /// The database tells now: nobody need glance.
    is_told: bool,
    /// The last answer; none at the beginning, and after a time in which nobody glanced.
    marks: Option<Marks>,
    /// When the next one is due, boot clock.
    at: Millis,
    /// How long they follow each other quickly, boot clock.
    lively: Millis,
    is_running: bool,
}

impl Glances {
    pub(super) fn new(hearing: Hearing, now: Now) -> Self {
        let (is_told, marks, is_running) = (false, None, false);
        Self { hearing, is_told, marks, at: now.boot, lively: Millis::MIN, is_running }
    }

    /// No glance begins before this boot-clock instant.
    pub(super) fn next_at(&self) -> Millis {
        if self.is_told { Millis::MAX } else { self.at }
    }

    /// If one is due it is under way from here on, and asks for what lies behind these marks.
    pub(super) fn begin(&mut self, now: Now) -> Option<Marks> {
        self.is_running = now.boot >= self.next_at();
        self.is_running.then(|| self.marks.unwrap_or(Marks::END))
    }

    /// Whether the call under way was one.
    pub(super) fn has_ended(&mut self) -> bool {
        std::mem::take(&mut self.is_running)
    }

    /// What is new by an answer; of the first one nobody can say.
    pub(super) fn answered(&mut self, now: Now, Glance { marks, news }: Glance) -> News {
        let is_first = self.marks.replace(marks).is_none();
        let news = if is_first { News::ANY } else { news };
        if !is_first && !news.is_none() {
            self.lively = now.boot + STAYS_LIVELY;
        }
        let every = self.hearing.glance;
        let pause = if now.boot < self.lively { every.min(LIVELY) } else { every };
        self.at = now.boot.saturating_add(pause);
        news
    }

    pub(super) fn failed(&mut self, now: Now) {
        self.at = now.boot.saturating_add(self.hearing.glance.max(FAILURE_PAUSE));
    }

    /// The database tells from now on, or does so no more.
    pub(super) fn told(&mut self, now: Now, is_told: bool) {
        (self.is_told, self.marks, self.at) = (is_told, None, now.boot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Glance =
        Glance { marks: Marks { run: 7, audit: 3 }, news: News { work: false, cancel: false } };

    fn at(boot: Millis) -> Now {
        Now { db: boot, boot, apart: 0 }
    }

    fn glances() -> Glances {
        Glances::new(Hearing { tells: true, glance: 200 }, at(1_000))
    }

    #[test]
    fn the_first_answer_is_news_and_the_next_question_begins_behind_it() {
        let mut glances = glances();
        assert_eq!(glances.begin(at(1_000)), Some(Marks::END));
        assert!(glances.has_ended() && !glances.has_ended());
        assert_eq!(glances.answered(at(1_002), SEEN), News::ANY);
        assert_eq!(glances.next_at(), 1_202);
        assert_eq!(glances.begin(at(1_201)), None);
        assert!(!glances.has_ended());
        assert_eq!(glances.begin(at(1_202)), Some(SEEN.marks));
        assert_eq!(glances.answered(at(1_203), SEEN), News::default());
    }

    #[test]
    fn after_news_they_follow_each_other_quickly_for_a_while() {
        let mut glances = glances();
        glances.answered(at(1_000), SEEN);
        let news = Glance { news: News { work: true, cancel: false }, ..SEEN };
        assert_eq!(glances.answered(at(1_200), news), news.news);
        assert_eq!(glances.next_at(), 1_250);
        glances.answered(at(3_199), SEEN);
        assert_eq!(glances.next_at(), 3_249);
        glances.answered(at(3_200), SEEN);
        assert_eq!(glances.next_at(), 3_400);
        let mut quick = Glances::new(Hearing { tells: false, glance: 25 }, at(1_000));
        quick.answered(at(1_000), SEEN);
        quick.answered(at(1_025), news);
        assert_eq!(quick.next_at(), 1_050);
    }

    #[test]
    fn nobody_glances_while_the_database_tells_and_then_anew() {
        let mut glances = glances();
        glances.answered(at(1_000), SEEN);
        glances.told(at(1_100), true);
        assert_eq!((glances.next_at(), glances.begin(at(9_000))), (Millis::MAX, None));
        glances.told(at(9_000), false);
        assert_eq!(glances.begin(at(9_000)), Some(Marks::END), "what came meanwhile is unknown");
        assert_eq!(glances.answered(at(9_001), SEEN), News::ANY);
    }

    #[test]
    fn after_a_failure_there_is_a_pause() {
        let mut glances = glances();
        glances.failed(at(1_000));
        assert_eq!(glances.next_at(), 2_000);
        let mut rare = Glances::new(Hearing { tells: false, glance: 5_000 }, at(1_000));
        rare.failed(at(1_000));
        assert_eq!(rare.next_at(), 6_000);
    }
}
