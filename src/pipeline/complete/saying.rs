//! What the handler of a run says beside its answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::{ExecutionId, LONGEST_LINE, Line, LogLevel, MOST_LINES, Progress, Timestamp, Token};
use crate::store::said::Said;

/// What a run has said, shared by its handler's context and its thread or task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saying(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// It has begun to store its outcome in a transaction of its own.
    is_completing: AtomicBool,
    /// None while it has said nothing: most handlers never do.
    said: Mutex<Option<Box<Words>>>,
}

#[derive(Debug, Default)]
struct Words {
    /// As JSON.
    result: Option<String>,
    /// The newest lines.
    lines: VecDeque<Line>,
    /// How many lines there have been.
    count: u64,
    progress: Option<Progress>,
    /// It has said something since it was last stored, and who stores it knows.
    is_told: bool,
    /// The run has ended: nothing is added.
    is_over: bool,
}

/// A run that says something, and the guard under which that is stored.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    pub execution: ExecutionId,
    pub token: Token,
    pub fence: i64,
    pub saying: Saying,
}

impl Saying {
    /// The handler begins to store its outcome in a transaction of its own.
    #[cfg(any(feature = "sql", test))]
    pub(crate) fn complete(&self) {
        self.0.is_completing.store(true, Ordering::Release);
    }

    pub(crate) fn is_completing(&self) -> bool {
        self.0.is_completing.load(Ordering::Acquire)
    }

    /// The handler leaves a result, as JSON.
    pub(crate) fn leave(&self, result: String) {
        self.said().get_or_insert_default().result = Some(result);
    }

    pub(crate) fn result(&self) -> Option<String> {
        self.said().as_ref().and_then(|said| said.result.clone())
    }

    /// Adds a line; true if who stores it is to be told.
    pub(crate) fn line(&self, level: LogLevel, at: Timestamp, text: &str) -> bool {
        let text = text.char_indices().nth(LONGEST_LINE).map_or(text, |(end, _)| &text[..end]);
        self.add(|words| {
            if words.lines.len() == MOST_LINES {
                words.lines.pop_front();
            }
            words.lines.push_back(Line { number: words.count, at, level, text: text.to_owned() });
            words.count += 1;
        })
    }

    /// Sets how far it has come; true if who stores it is to be told.
    pub(crate) fn progress(&self, progress: Progress) -> bool {
        self.add(|words| words.progress = Some(progress))
    }

    fn add(&self, add: impl FnOnce(&mut Words)) -> bool {
        let mut said = self.said();
        let words = said.get_or_insert_default();
        if words.is_over {
            return false;
        }
        add(words);
        !std::mem::replace(&mut words.is_told, true)
    }

    /// What has been said so far.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn words(&self) -> (Vec<Line>, Option<Progress>) {
        let said = self.said();
        let words = said.as_ref();
        words.map_or_else(Default::default, |it| (it.lines.iter().cloned().collect(), it.progress))
    }

    /// The run has ended: what is said from now on is dropped.
    pub(crate) fn end(&self) {
        if let Some(words) = self.said().as_mut() {
            words.is_over = true;
        }
    }

    fn said(&self) -> MutexGuard<'_, Option<Box<Words>>> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Speaker {
    /// What it has said so far. Who adds to that tells again.
    pub(super) fn said(&self, now: Timestamp) -> Said {
        let mut said = self.saying.said();
        let (lines, progress) = said.as_mut().map_or_else(Default::default, |words| {
            words.is_told = false;
            (words.lines.iter().cloned().collect(), words.progress)
        });
        let Self { execution, token, fence, .. } = *self;
        Said { execution, token, fence, lines, progress, now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::at(7);

    fn speaker() -> Speaker {
        let saying = Saying::default();
        Speaker { execution: ExecutionId(1), token: Token::fresh(), fence: 3, saying }
    }

    #[test]
    fn the_first_unstored_word_is_told_and_no_other() {
        let speaker = speaker();
        let say = |text| speaker.saying.line(LogLevel::Info, AT, text);
        assert_eq!([say("a"), say("b"), speaker.saying.progress(Progress::new(1, 2))], [true, false, false]);
        let said = speaker.said(AT);
        assert_eq!((said.lines.len(), said.progress), (2, Some(Progress::new(1, 2))));
        assert_eq!([say("c"), say("d")], [true, false]);
        assert_eq!(speaker.said(AT).lines.iter().map(|it| it.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn lines_are_cut_between_characters_and_the_newest_are_kept() {
        let speaker = speaker();
        for _ in 0..=MOST_LINES {
            speaker.saying.line(LogLevel::Info, AT, &"ü".repeat(LONGEST_LINE + 1));
        }
        let said = speaker.said(AT);
        assert_eq!((said.lines.len(), said.lines[0].number), (MOST_LINES, 1));
        assert_eq!(said.lines[0].text, "ü".repeat(LONGEST_LINE));
    }

    #[test]
    fn a_run_that_has_ended_says_nothing_more() {
        let speaker = speaker();
        speaker.saying.line(LogLevel::Info, AT, "last");
        speaker.said(AT);
        speaker.saying.end();
        assert!(!speaker.saying.line(LogLevel::Info, AT, "late"));
        assert_eq!(speaker.said(AT).lines.len(), 1);
    }

    #[test]
    fn a_silent_run_allocates_nothing_to_say() {
        let saying = Saying::default();
        saying.end();
        assert!(saying.result().is_none() && saying.said().is_none());
    }
}
