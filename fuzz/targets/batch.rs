//! What `cron next --file -` reads.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

#[path = "../../src/bin/firetime/batch.rs"]
mod batch;
#[path = "../../src/domain/text.rs"]
#[allow(dead_code, reason = "the program shortens too")]
mod text;

fuzz_target!(|input: &[u8]| -> Corpus {
    // A long answer is the same loop, longer: it would only use up the time.
    if input.split(|byte| *byte == b'\n').any(|line| count(line) > 1_000) {
        return Corpus::Reject;
    }
    let mut out = Vec::new();
    batch::answer_lines(input, &mut out).expect("memory takes everything");
    let out = String::from_utf8(out).expect("answers are text");
    let asked =
        input.split(|byte| *byte == b'\n').count() - usize::from(input.is_empty() || input.ends_with(b"\n"));
    let answers: Vec<&str> = out.split_terminator('\n').collect();
    assert_eq!(answers.len(), asked, "{out:?}");
    for answer in answers {
        let fields: Vec<&str> = answer.split('\t').collect();
        assert!(!fields.iter().any(|field| field.contains(text::is_unsafe)), "{answer:?}");
        match fields[..] {
            ["err", reason] => assert!(!reason.is_empty()),
            ["ok", ref times @ ..] => increases(times),
            _ => panic!("{answer:?}"),
        }
    }
    Corpus::Keep
});

/// How many fire times a line asks for, as far as that is granted.
fn count(line: &[u8]) -> u32 {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let field = line.rsplit(|byte| *byte == b'\t').next().and_then(|field| str::from_utf8(field).ok());
    field.and_then(|field| field.parse().ok()).filter(|count| *count <= 100_000).unwrap_or(0)
}

/// Fire times in order, perhaps with `end` behind them.
fn increases(times: &[&str]) {
    let times = times.strip_suffix(&["end"]).unwrap_or(times);
    let times: Vec<i64> = times.iter().map(|time| time.parse().expect("a number")).collect();
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
}
