//! `cron next --file`: each line of the input is a question and is answered by one line. Names nothing of the
//! program but [`crate::text`], so that it can be tested alone.

use std::io::{self, BufRead, BufReader, Read, Write};

use chrono::{DateTime, Utc};
use firetime::Cron;

use crate::text::escaped;

/// The most fire times one question may ask for.
const MOST: u32 = 100_000;

/// An expression, and which of its fire times are wanted.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) cron: Cron,
    /// The fire times are strictly later.
    pub(crate) after: DateTime<Utc>,
    /// 1 to 100,000.
    pub(crate) count: u32,
}

impl Question {
    /// The fire times: fewer than asked for if no more exist.
    pub(crate) fn fire_times(&self) -> impl Iterator<Item = DateTime<Utc>> {
        let next = |at: &DateTime<Utc>| self.cron.next_after(*at);
        std::iter::successors(next(&self.after), next).take(usize::try_from(self.count).unwrap_or(usize::MAX))
    }
}

/// Longer lines are answered by an error, so that no line takes more memory than this.
const LONGEST: usize = 16 * 1_024;

pub(crate) fn answer_lines(input: impl Read, out: &mut dyn Write) -> io::Result<()> {
    let mut input = BufReader::with_capacity(64 * 1_024, input);
    let mut line = Vec::new();
    loop {
        // Whoever writes a line and waits for its answer gets it before we wait for the next.
        if input.buffer().is_empty() {
            out.flush()?;
        }
        line.clear();
        // One byte more is the line feed, or the line is too long.
        if input.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        line.pop_if(|last| *last == b'\n');
        if line.len() > LONGEST {
            input.skip_until(b'\n')?;
            answer(Err(format!("a line may have {LONGEST} bytes")), out)?;
        } else {
            answer(parse(&line), out)?;
        }
    }
}

fn parse(line: &[u8]) -> Result<Question, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
    let fields: Vec<&str> = line.splitn(5, '\t').collect();
    let [expression, zone, after, count] = fields[..] else {
        return Err("a line has four fields: EXPR, ZONE, AFTER_MS and COUNT, separated by tabs".to_owned());
    };
    let after: i64 =
        after.parse().map_err(|_| format!("AFTER_MS `{after}` is not a number of milliseconds"))?;
    let count = count.parse().ok().filter(|count| (1..=MOST).contains(count));
    let count = count.ok_or_else(|| format!("COUNT is not a number from 1 to {MOST}"))?;
    let cron = Cron::parse(expression, zone).map_err(|error| error.to_string())?;
    Ok(Question { cron, after: near(after), count })
}

/// The instant; before and behind the calendar its ends, between which all fire times lie.
fn near(millis: i64) -> DateTime<Utc> {
    let end = if millis < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_millis(millis).unwrap_or(end)
}

fn answer(question: Result<Question, String>, out: &mut dyn Write) -> io::Result<()> {
    match question {
        Err(reason) => writeln!(out, "err\t{}", escaped(&reason))?,
        Ok(question) => {
            out.write_all(b"ok")?;
            let mut found = 0;
            for at in question.fire_times() {
                write!(out, "\t{}", at.timestamp_millis())?;
                found += 1;
            }
            out.write_all(if found < question.count { b"\tend\n" } else { b"\n" })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: impl Read) -> String {
        let mut out = Vec::new();
        answer_lines(input, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_line_is_answered_in_order() {
        let input = "0 0 0 * * ?\tUTC\t0\t2\n\
                     0 0 0 1 1 ? 1971\tUTC\t0\t2\r\n\
                     0 0 0 1 1 ? 1971\tUTC\t31536000000\t1\n\
                     * * * * *\tUTC\t0\t1\n\
                     \n\
                     * * * * * ?\tUTC\t-5\t1\n\
                     * * * * * ?\tUTC\t-9223372036854775808\t1\n\
                     * * * * * ?\tUTC\t9223372036854775807\t1";
        let answers = answers(input.as_bytes());
        let lines: Vec<&str> = answers.lines().collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[..3], ["ok\t86400000\t172800000", "ok\t31536000000\tend", "ok\tend"]);
        assert!(lines[3].starts_with("err\tcron expression `* * * * *`: it has five fields"), "{}", lines[3]);
        assert!(lines[4].starts_with("err\ta line has four fields"), "{}", lines[4]);
        assert_eq!(lines[5], "ok\t0");
    }

    #[test]
    fn any_bytes_make_one_line_of_answer_each() {
        let huge = [b"* ".repeat(40_000), b"\n".to_vec()].concat();
        let input = [
            b"\xff\xfe\tUTC\t0\t1\n".as_slice(),
            b"* * * * * ?\tUTC\t99999999999999999999\t1\n",
            b"* * * * * ?\tUTC\t0\t100001\n",
            b"* * * * * ?\tUTC\t0\t0\n",
            b"* * * * * ?\tUTC\t0\t1\textra\n",
            b"* * * * * \x1b[2J\tUTC\t0\t1\n",
            b"\0\n",
            &huge,
            b"* * * * * ?\tUTC\t9223372036854775807\t1\n",
            b"* * * * * ?\tUTC\t-9223372036854775808\t1\n",
        ]
        .concat();
        let answers = answers(input.as_slice());
        let lines: Vec<&str> = answers.lines().collect();
        assert_eq!(lines.len(), 10, "{answers}");
        assert!(lines[..8].iter().all(|line| line.starts_with("err\t") && line.matches('\t').count() == 1));
        assert_eq!(lines[8..], ["ok\tend", "ok\t0"]);
        assert!(!answers.contains('\u{1b}'));
    }

    #[test]
    fn a_line_is_too_long_from_the_first_byte_beyond_the_limit() {
        let line = |length: usize| format!("{}\n", "x".repeat(length));
        let answers = answers(format!("{}{}\n", line(LONGEST), line(LONGEST + 1)).as_bytes());
        let lines: Vec<&str> = answers.lines().collect();
        let [fits, too_long, empty] = lines[..] else { panic!("{answers}") };
        assert!(fits.contains("four fields") && empty.contains("four fields"), "{answers}");
        assert_eq!(too_long, "err\ta line may have 16384 bytes");
    }

    #[test]
    fn no_input_has_no_answer_and_an_unfinished_line_has_one() {
        assert_eq!(answers(io::empty()), "");
        assert_eq!(answers(b"@yearly\tUTC\t0\t1".as_slice()), "ok\t31536000000\n");
    }

    #[test]
    fn lines_that_arrive_in_pieces_are_read_whole() {
        struct Trickle<'a>(&'a [u8]);
        impl Read for Trickle<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
                buffer[0] = *first;
                self.0 = rest;
                Ok(1)
            }
        }
        assert_eq!(
            answers(Trickle(b"@yearly\tUTC\t0\t1\n@yearly\tUTC\t0\t1\n")),
            "ok\t31536000000\n".repeat(2)
        );
    }
}
