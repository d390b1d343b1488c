//! The application's code, run so that its panics end no thread of ours.

use std::any::Any;
use std::error::Error;
use std::fmt::{self, Display, Write};
use std::iter::successors;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::domain::LONGEST_ERROR;

/// Runs the application's code; if it panics, gives the panic's text.
pub(crate) fn guarded<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let said = brief(text(panic.as_ref()));
        // The panic's payload is the application's too, and its drop may panic again with another.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        said
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// An error's text, and behind it those of its causes, unless it ends with them.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    // An error that is a cause of its own has no end.
    const MOST_CAUSES: usize = 32;
    let causes = successors(error.source(), |&cause| cause.source()).take(MOST_CAUSES);
    causes.map(brief).fold(brief(error), |text, cause| {
        if text.ends_with(&cause) { text } else { brief(format_args!("{text}: {cause}")) }
    })
}

/// The beginning of a text, and no more: it is kept, sent on and logged. What does not fit is not even made.
pub(crate) fn brief(text: impl Display) -> String {
    struct Brief {
        text: String,
        left: usize,
    }

    impl Write for Brief {
        fn write_str(&mut self, more: &str) -> fmt::Result {
            let fits = more.char_indices().nth(self.left).map_or(more, |(end, _)| &more[..end]);
            self.text.push_str(fits);
            self.left -= fits.chars().count();
            if fits.len() < more.len() { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut brief = Brief { text: String::new(), left: LONGEST_ERROR };
    // An error only says that there was more.
    write!(brief, "{text}").ok();
    brief.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(brief("short"), "short");
        assert_eq!(brief("ü".repeat(LONGEST_ERROR)), "ü".repeat(LONGEST_ERROR));
        assert_eq!(brief("ü".repeat(LONGEST_ERROR + 1)), "ü".repeat(LONGEST_ERROR));
        let parts = format_args!("{}{}", "a".repeat(LONGEST_ERROR - 1), "☂☂").to_string();
        assert_eq!(
            brief(format_args!("{}{}{}", &parts[..10], &parts[10..], "more")),
            parts.replace("☂☂", "☂")
        );
    }

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            // The last is its own cause.
            Some(self.1.as_deref().unwrap_or(self))
        }
    }

    #[test]
    fn an_error_is_told_with_its_causes() {
        let of = |texts: &[&'static str]| {
            let failed = texts.iter().rev().fold(None, |cause, text| Some(Box::new(Failed(text, cause))));
            with_causes(&failed.unwrap())
        };
        assert_eq!(
            of(&["the upload failed", "no answer", "disk full"]),
            "the upload failed: no answer: disk full"
        );
        assert_eq!(of(&["no answer: disk full", "disk full"]), "no answer: disk full", "it is told already");
        assert_eq!(of(&["request 5003 failed", "500"]), "request 5003 failed: 500", "that is another text");
        assert_eq!(with_causes(&std::io::Error::other("short")), "short");
    }

    /// Writing goes on for ever; reading does not.
    #[test]
    fn a_text_without_end_is_cut() {
        struct Endless;
        impl Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("more ")?;
                }
            }
        }
        assert_eq!(brief(Endless).chars().count(), LONGEST_ERROR);
    }

    #[test]
    fn a_panic_that_panics_again_is_over() {
        struct Again(u32);
        impl Drop for Again {
            fn drop(&mut self) {
                if self.0 > 0 {
                    std::panic::panic_any(Again(self.0 - 1));
                }
            }
        }
        assert_eq!(guarded(|| std::panic::panic_any(Again(3))).unwrap_err(), "no message");
        let long = guarded(|| panic!("{}", "x".repeat(2 * LONGEST_ERROR))).unwrap_err();
        assert_eq!(long.chars().count(), LONGEST_ERROR);
    }
}
