//! Who asks for all that look at the same thing: one task for each distinct question, as long as somebody
//! looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::parts::{Part, parts};
use crate::console::access::role::Role;
use crate::console::web::trouble::Trouble;
use crate::console::words::zone::ZonePick;

/// A question is asked again this long after its answer.
const EVERY: Duration = Duration::from_secs(2);
/// So many distinct questions are asked.
const MOST_QUESTIONS: usize = 128;
/// So many of them ask the database at once: pages that people open are not to wait for these.
const AT_ONCE: usize = 4;

/// What somebody looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// The page's address beside the console's others.
    pub(crate) address: String,
    /// What whoever looks may do: forms for more are not shown.
    pub(crate) role: Role,
    /// The zone that they see times in.
    pub(crate) zone: ZonePick,
}

/// What a page shows, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// None before the first answer.
    pub(crate) parts: Option<Vec<Part>>,
    /// Why it cannot be asked for now.
    pub(crate) trouble: Option<String>,
}

impl Shown {
    /// Takes an answer; whether that differs.
    fn take(&mut self, answer: Result<String, Trouble>) -> bool {
        let marks = |it: &Self| it.parts.iter().flatten().map(|part| part.mark).collect::<Vec<_>>();
        let before = (marks(self), self.trouble.take());
        match answer {
            Ok(page) => self.parts = Some(parts(&page).unwrap_or_default()),
            // What was known is kept: whoever comes now sees it too.
            Err(trouble) => self.trouble = Some(trouble.said),
        }
        before != (marks(self), self.trouble.clone())
    }
}

/// The questions that are asked.
#[derive(Clone)]
pub(crate) struct Askers {
    questions: Arc<Mutex<HashMap<Question, watch::Sender<Shown>>>>,
    calls: Arc<Semaphore>,
}

impl Default for Askers {
    fn default() -> Self {
        Self { questions: Arc::default(), calls: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Askers {
    /// Looks at what a question brings, and begins to ask it if nobody does: by `ask`, again and again until
    /// nobody looks. None if too many questions are asked.
    pub(crate) fn look<A>(
        &self,
        question: Question,
        ask: impl Fn(Question) -> A + Send + Sync + 'static,
    ) -> Option<watch::Receiver<Shown>>
    where
        A: Future<Output = Result<String, Trouble>> + Send + 'static,
    {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = questions.get(&question) {
            return Some(sender.subscribe());
        }
        if questions.len() >= MOST_QUESTIONS {
            return None;
        }
        let (sender, receiver) = watch::channel(Shown::default());
        questions.insert(question.clone(), sender.clone());
        tokio::spawn(self.clone().go_on(question, sender, ask));
        Some(receiver)
    }

    async fn go_on<A>(self, question: Question, sender: watch::Sender<Shown>, ask: impl Fn(Question) -> A)
    where
        A: Future<Output = Result<String, Trouble>>,
    {
        while self.is_watched(&question) {
            // The semaphore is never closed.
            let permit = self.calls.acquire().await.ok();
            let answer = ask(question.clone()).await;
            drop(permit);
            sender.send_if_modified(|shown| shown.take(answer));
            tokio::time::timeout(EVERY, sender.closed()).await.ok();
        }
    }

    /// Whether somebody looks at it. If nobody does it is forgotten.
    fn is_watched(&self, question: &Question) -> bool {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_watched = questions.get(question).is_some_and(|sender| sender.receiver_count() > 0);
        if !is_watched {
            questions.remove(question);
        }
        is_watched
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn question(address: &str) -> Question {
        Question { address: address.to_owned(), role: Role::Admin, zone: ZonePick::default() }
    }

    fn page(content: &str) -> String {
        format!(r#"<div id="matter">{content}</div><!-- matter -->"#)
    }

    /// Runs with a clock that goes on by itself whenever all wait.
    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn whoever_looks_at_the_same_shares_one_asker_that_ends_with_the_last() {
        run(async {
            let (askers, asked) = (Askers::default(), Arc::new(AtomicUsize::new(0)));
            let look = || {
                let asked = Arc::clone(&asked);
                askers.look(question("now"), move |_| {
                    let count = asked.fetch_add(1, Ordering::SeqCst);
                    async move { Ok(page(&count.to_string())) }
                })
            };
            let mut viewers: Vec<_> = (0..200).map(|_| look().unwrap()).collect();
            for round in 0..5 {
                for viewer in &mut viewers {
                    viewer.changed().await.unwrap();
                    let shown = viewer.borrow_and_update().clone();
                    assert_eq!(&*shown.parts.unwrap()[0].html, round.to_string());
                }
            }
            assert_eq!(asked.load(Ordering::SeqCst), 5, "once for all");
            drop(viewers);
            tokio::time::sleep(EVERY * 3).await;
            assert_eq!(asked.load(Ordering::SeqCst), 5, "nobody looks");
            assert!(askers.questions.lock().unwrap().is_empty());
            let mut again = look().unwrap();
            again.changed().await.unwrap();
            assert_eq!(asked.load(Ordering::SeqCst), 6);
        });
    }

    #[test]
    fn too_many_distinct_questions_are_refused_until_some_end() {
        run(async {
            let askers = Askers::default();
            let look = |n: usize| askers.look(question(&n.to_string()), |_| async { Ok(page("")) });
            let viewers: Vec<_> = (0..MOST_QUESTIONS).map(|n| look(n).unwrap()).collect();
            assert!(look(MOST_QUESTIONS).is_none());
            assert!(look(7).is_some(), "it is asked already");
            drop(viewers);
            tokio::time::sleep(EVERY * 2).await;
            assert!(look(MOST_QUESTIONS).is_some());
        });
    }

    #[test]
    fn a_trouble_keeps_what_was_known_and_ends_with_the_next_answer() {
        let mut shown = Shown::default();
        assert!(shown.take(Ok(page("a"))) && !shown.take(Ok(page("a"))));
        assert!(shown.take(Err(Trouble::away())) && !shown.take(Err(Trouble::away())));
        assert!(shown.trouble.is_some() && &*shown.parts.as_ref().unwrap()[0].html == "a");
        assert!(shown.take(Ok(page("a"))), "it is back");
        assert!(shown.trouble.is_none());
    }
}
