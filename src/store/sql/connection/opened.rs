//! Which file a SQLite database was when it was opened: its path may lead to another by now.

use std::io::ErrorKind::NotFound;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};

/// The file that all sessions of a store lead to, once it has been noted.
#[derive(Clone, Default)]
pub(crate) struct OpenedFile(Arc<OnceLock<FileId>>);

/// Device and inode. The inode is not given to another file while a session has this one open.
type FileId = (u64, u64);

impl OpenedFile {
    /// Notes the file at this path, unless one has been noted before.
    pub(crate) fn note(&self, path: &str) {
        if let Some(Some(id)) = file_at(path) {
            self.0.get_or_init(|| id);
        }
    }

    /// Whether the path leads to another file now, or to none.
    pub(crate) fn is_replaced(&self, path: &str) -> bool {
        self.0.get().is_some_and(|noted| file_at(path).is_some_and(|now| now != Some(*noted)))
    }
}

/// The file at a path, if there is one; nothing where that cannot be told.
fn file_at(path: &str) -> Option<Option<FileId>> {
    match std::fs::metadata(path) {
        Ok(file) => Some(Some((file.dev(), file.ino()))),
        Err(error) if error.kind() == NotFound => Some(None),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_by_another_and_by_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (database, other) = (path("jobs.db"), path("other.db"));
        let opened = OpenedFile::default();
        opened.note(&database);
        assert!(!opened.is_replaced(&database), "there was none");
        std::fs::write(&database, "one").unwrap();
        opened.note(&database);
        std::fs::write(&database, "another content").unwrap();
        std::fs::write(&other, "other").unwrap();
        assert!(!opened.is_replaced(&database));
        std::fs::rename(&database, path("away.db")).unwrap();
        assert!(opened.is_replaced(&database));
        std::fs::rename(&other, &database).unwrap();
        opened.note(&database);
        assert!(opened.is_replaced(&database));
        std::fs::rename(path("away.db"), &database).unwrap();
        assert!(!opened.is_replaced(&database));
    }

    #[test]
    fn a_path_that_cannot_be_looked_at_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        std::fs::write(&file, "one").unwrap();
        let opened = OpenedFile::default();
        opened.note(file.to_str().unwrap());
        assert!(!opened.is_replaced(file.join("below a file").to_str().unwrap()));
    }
}
