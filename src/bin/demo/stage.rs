//! Where the demo runs: on a SQLite file of its own, or on a database that it is given.

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use crate::failure::{Failure, Result};
use crate::target::{Database, Target};

/// Where the demo's rows are.
#[derive(Debug)]
pub(crate) enum Place {
    /// A SQLite file that is deleted at the end.
    Temporary,
    /// A SQLite file in this folder.
    Folder(PathBuf),
    /// An application of its own in a database that others may use too.
    Database(Database),
}

/// A demo's place, prepared.
pub(super) struct Stage {
    pub(super) target: Target,
    /// The SQLite file, where it is not the user's database.
    pub(super) file: Option<PathBuf>,
    /// The file's folder, unless it is kept; dropping it deletes it.
    temporary: Option<tempfile::TempDir>,
}

impl Stage {
    pub(super) fn make(place: &Place, now: DateTime<Utc>) -> Result<Self> {
        const FILE: &str = "demo.db";
        match place {
            Place::Temporary => {
                let folder = tempfile::Builder::new()
                    .prefix("firetime-demo-")
                    .tempdir()
                    .map_err(|error| Failure::file("making a folder in", &std::env::temp_dir(), &error))?;
                Self::in_file(folder.path().join(FILE), Some(folder))
            }
            Place::Folder(folder) => {
                let make = || std::fs::create_dir_all(folder).and_then(|()| std::path::absolute(folder));
                let made = make().map_err(|error| Failure::file("making the folder", folder, &error))?;
                let file = made.join(FILE);
                if file.exists() {
                    let message = format!("{} exists already: a demo starts anew", file.display());
                    return Err(Failure::Usage(message));
                }
                Self::in_file(file, None)
            }
            Place::Database(database) => {
                // No two demos are to share one.
                let application = now.format("demo-%Y%m%d-%H%M%S-%3f").to_string();
                let target = Target { application, database: database.clone() };
                Ok(Self { target, file: None, temporary: None })
            }
        }
    }

    pub(super) fn in_file(file: PathBuf, temporary: Option<tempfile::TempDir>) -> Result<Self> {
        let not_utf8 = || Failure::Usage(format!("{} is not UTF-8", file.display()));
        let database = Database { url: format!("sqlite:{}", file.to_str().ok_or_else(not_utf8)?) };
        let target = Target { application: "demo".to_owned(), database };
        Ok(Self { target, file: Some(file), temporary })
    }

    /// The command that shows what the demo left, if it left anything.
    pub(super) fn look(&self) -> Option<String> {
        let look = format!("firetime executions --application {}", self.target.application);
        match &self.file {
            None => Some(look),
            Some(file) if self.temporary.is_none() => {
                Some(format!("FIRETIME_DATABASE_URL='sqlite:{}' {look}", file.display()))
            }
            Some(_) => None,
        }
    }
}
