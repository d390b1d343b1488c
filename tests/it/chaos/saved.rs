//! Handlers that store how far they have come, step by step, and go on from there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use firetime::{Context, ErrorKind, HandlerError};

use super::history::number;
use super::job::Log;
use super::judge::{Checkpoint, Resume};

/// How many steps such an execution takes.
pub const STEPS: i64 = 15;

/// What a line of a process's own file begins with, so that it is told from those of begins and ends.
pub const LINE: &str = "checkpoint\t";

/// Its value is the number of steps that are done, and no other run's.
fn value(context: &Context, done: i64) -> i64 {
    (1_000 * context.execution().get() + context.fence()) * 1_000 + done
}

fn done(value: i64) -> i64 {
    value % 1_000
}

pub fn save(log: &Log, context: &Context, step: Duration) -> Result<(), HandlerError> {
    let note = |what: &str, value: i64| log.note(context, &format!("{LINE}{what}\t{value}"));
    let resume = || -> Result<i64, HandlerError> {
        let from: Option<i64> = context.resume()?;
        note("resumed", from.unwrap_or(-1));
        Ok(from.map_or(0, done))
    };
    let mut done = resume()?;
    while done < STEPS {
        // The job's own work: nothing is waited for.
        std::thread::sleep(step);
        let value = value(context, done + 1);
        note("asked", value);
        match context.checkpoint(&value) {
            Ok(()) => {
                note("stored", value);
                done += 1;
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                note("refused", value);
                return Err(error.into());
            }
            // Nobody knows whether it is stored.
            Err(_) => done = resume()?,
        }
    }
    Ok(())
}

/// What all processes wrote down.
pub fn checkpoints(files: &[PathBuf]) -> (Vec<Checkpoint>, Vec<Resume>) {
    let (mut checkpoints, mut resumes) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.exists()) {
        read(file, &mut checkpoints, &mut resumes);
    }
    (checkpoints, resumes)
}

fn read(file: &Path, checkpoints: &mut Vec<Checkpoint>, resumes: &mut Vec<Resume>) {
    let text = std::fs::read_to_string(file).unwrap();
    for line in text.lines().filter_map(|line| line.strip_prefix(LINE)) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [what, value, execution, fence, at] = parts[..] else { panic!("{line:?} in {}", file.display()) };
        let (value, execution, fence) = (number(value), number(execution), number(fence));
        let heard = |checkpoints: &mut Vec<Checkpoint>, is_stored| {
            let asked = checkpoints.iter_mut().rfind(|it| it.value == value);
            asked.unwrap_or_else(|| panic!("not asked for: {line:?}")).heard = Some(is_stored);
        };
        match what {
            "resumed" => {
                let value = Some(value).filter(|value| *value != -1);
                resumes.push(Resume { execution, fence, at: number(at), value });
            }
            "asked" => {
                let (asked, stored, heard) = (number(at), None, None);
                checkpoints.push(Checkpoint { execution, fence, value, asked, stored, heard });
            }
            "stored" => heard(checkpoints, true),
            "refused" => heard(checkpoints, false),
            _ => panic!("{line:?} in {}", file.display()),
        }
    }
}
