//! States as pages show them: a colour, a shape and a word.

use askama::Template;
use askama::filters::HtmlSafe;

/// What a state means: its colour, and the shape that says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Ran,
    Running,
    Waits,
    Late,
    Failed,
    Skipped,
}

impl Mark {
    /// The class that gives it its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Running => "running",
            Self::Waits => "waits",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The shape of a state, for those who see no colours.
#[derive(Clone, Copy, Debug, Template)]
#[template(path = "console/glyph.html")]
pub(crate) struct Glyph(pub(crate) Mark);

impl HtmlSafe for Glyph {}

/// A state: its shape and its word.
#[derive(Clone, Debug, Template)]
#[template(source = r#"<span class="state">{{ Glyph(*mark) }}<b>{{ word }}</b></span>"#, ext = "html")]
pub(crate) struct Badge {
    pub(crate) mark: Mark,
    pub(crate) word: String,
}

impl HtmlSafe for Badge {}

impl Badge {
    pub(crate) fn new(mark: Mark, word: impl Into<String>) -> Self {
        Self { mark, word: word.into() }
    }

    /// That of an execution's state.
    pub(crate) fn of_execution(state: &str) -> Self {
        let (mark, word) = match state {
            "PENDING" => (Mark::Waits, "waits"),
            "CLAIMED" => (Mark::Waits, "claimed"),
            "RUNNING" => (Mark::Running, "running"),
            "SUCCEEDED" => (Mark::Ran, "ran"),
            "FAILED" => (Mark::Failed, "failed"),
            "TIMED_OUT" => (Mark::Failed, "timed out"),
            "ABANDONED" => (Mark::Failed, "abandoned"),
            "CANCELLED" => (Mark::Skipped, "cancelled"),
            "SKIPPED" => (Mark::Skipped, "skipped"),
            "WITHDRAWN" => (Mark::Skipped, "withdrawn"),
            other => (Mark::Late, other),
        };
        Self::new(mark, word)
    }

    /// That of a schedule's state, a job's, a node's or the application's.
    pub(crate) fn of_state(state: &str) -> Self {
        let mark = match state {
            "active" => Mark::Ran,
            "paused" | "draining" | "drained" | "init" => Mark::Waits,
            "complete" => Mark::Skipped,
            _ => Mark::Failed,
        };
        Self::new(mark, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_states_word_is_escaped_and_has_its_shape() {
        let shown = Badge::of_execution("<b>").to_string();
        assert!(shown.contains("&#60;b&#62;") && shown.contains("<svg class=\"g late\""), "{shown}");
    }
}
