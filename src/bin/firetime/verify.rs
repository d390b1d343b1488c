//! `verify`: whether the ledger accounts for every occurrence that the triggers demanded.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use firetime::{Certificate, Client, ErrorKind, FlawKind, Verification};

use crate::failure::{Failure, Result};
use crate::inspect::{Kind, connect, find_application, names};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// What is verified, and what is left of it.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) schedule: Option<String>,
    /// The range; by default from the ledger's beginning until now.
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) until: Option<DateTime<Utc>>,
    /// Where a certificate is written.
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate that is verified, in place of a range.
    pub(crate) against: Option<PathBuf>,
}

pub(crate) fn verify(target: &Target, audit: &Audit, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    find_application(&client, target)?;
    let against = audit.against.as_deref().map(read).transpose()?;
    let verified = match &against {
        Some(certificate) => client.verify_against(certificate)?,
        None => of_range(&client, audit)?,
    };
    match output {
        Output::Json => output::json(out, &verified)?,
        Output::Table => {
            tell(&verified, out)?;
            let has_changed = verified.flaws.iter().any(|flaw| flaw.kind == FlawKind::Changed);
            if let (Some(certificate), false) = (&against, has_changed) {
                let sealed = utc(Some(certificate.sealed));
                let (rows, hash) = (certificate.rows, &certificate.hash);
                writeln!(out, "unchanged: the {rows} rows that had ended by {sealed} UTC, sealed as {hash}")?;
            }
            if let Some(file) = &audit.certificate {
                writeln!(
                    out,
                    "the certificate is in {}: --against tells whether anything has changed",
                    file.display()
                )?;
            }
            if let Some(until) = audit.until.filter(|until| *until > verified.until) {
                writeln!(
                    out,
                    "the range has not ended: it was verified until now, not {} UTC",
                    utc(Some(until))
                )?;
            }
        }
    }
    if verified.is_whole() { Ok(()) } else { Err(Failure::Unclean) }
}

fn of_range(client: &Client, audit: &Audit) -> Result<Verification> {
    let since = audit.since.map_or(Bound::Unbounded, Bound::Included);
    let until = audit.until.map_or(Bound::Unbounded, Bound::Excluded);
    let mut request = client.verify((since, until));
    if let Some(name) = &audit.schedule {
        request = request.schedule(name);
    }
    let unknown = |error: firetime::Error| match (&audit.schedule, error.kind()) {
        (Some(name), ErrorKind::NotFound) => {
            let known = names(client, Kind::Schedule).unwrap_or_default();
            Failure::not_found("schedule", name, known)
        }
        _ => error.into(),
    };
    let Some(file) = &audit.certificate else { return request.run().map_err(unknown) };
    if file.exists() {
        let name = file.display();
        return Err(Failure::Usage(format!(
            "{name} is there already: name a file that is not, or remove it"
        )));
    }
    let (verified, certificate) = request.certify().map_err(unknown)?;
    write(file, &certificate)?;
    Ok(verified)
}

fn write(file: &Path, certificate: &Certificate) -> Result {
    let failed = |error: std::io::Error| Failure::file("cannot write", file, &error);
    let mut out = BufWriter::new(File::create_new(file).map_err(failed)?);
    serde_json::to_writer_pretty(&mut out, certificate).map_err(|error| failed(error.into()))?;
    writeln!(out).and_then(|()| out.flush()).map_err(failed)
}

fn read(file: &Path) -> Result<Certificate> {
    let opened = File::open(file).map_err(|error| Failure::file("cannot read", file, &error))?;
    serde_json::from_reader(BufReader::new(opened)).map_err(|error| {
        Failure::Usage(format!("{} is no certificate of `firetime verify`: {error}", file.display()))
    })
}

fn tell(verified: &Verification, out: &mut dyn Write) -> Result {
    for flaw in &verified.flaws {
        writeln!(out, "flaw: {}", escaped(&flaw.sentence))?;
    }
    if verified.more_flaws > 0 {
        writeln!(out, "and {} more flaws", verified.more_flaws)?;
    }
    let mut known = vec![
        ("fire times from", verified.since.map_or_else(|| "the first".to_owned(), |from| utc(Some(from)))),
        ("until (UTC)", utc(Some(verified.until))),
        ("schedules", verified.schedules.to_string()),
        ("rows", verified.rows.to_string()),
        ("demanded", verified.demanded().to_string()),
    ];
    let ends = verified.occurrences.iter().map(|it| {
        let end = format!("{} {}", it.state, it.reason);
        (end.trim_end().to_lowercase(), it.occurrences.to_string())
    });
    let ends: Vec<(String, String)> = ends.collect();
    known.extend(ends.iter().map(|(end, count)| (end.as_str(), count.clone())));
    known.push(("due, not claimed yet", (verified.waiting - verified.paused).to_string()));
    if verified.paused > 0 {
        known.push(("due, their schedule paused", verified.paused.to_string()));
    }
    known.push(("by hand", verified.by_hand.to_string()));
    output::properties(out, &known)?;
    if verified.is_cut_short {
        writeln!(out, "retention has removed what was planned before")?;
    }
    match verified.flaws.len() as u64 + verified.more_flaws {
        0 => writeln!(out, "whole: every occurrence that the triggers demanded is accounted for")?,
        1 => writeln!(out, "not whole: 1 flaw")?,
        flaws => writeln!(out, "not whole: {flaws} flaws")?,
    }
    Ok(())
}
