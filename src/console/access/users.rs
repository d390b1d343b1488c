//! The users file: who may log in, and which programs may ask.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::password::Hashed;
use super::role::Role;
use super::secret::{self, Kept};
use super::user::User;
use crate::{Error, ErrorKind};

/// The largest file, in bytes.
const LARGEST: u64 = 1_024 * 1_024;
/// The most characters of a name.
const LONGEST_NAME: usize = 200;
/// What a token begins with, so that people and scanners know it where it does not belong.
pub(super) const TOKEN_BEGIN: &str = "firetime_";

/// Who may log in to a console, and the programs that may ask it: a file with a line for each.
///
/// ```text
/// # A name, a role, and the password's hash from `firetime console hash-password`.
/// user ann admin $argon2id$v=19$m=19456,t=2,p=1$...
/// # The same of a program, and the hash from `firetime console new-token`.
/// token deploy operator sha256:...
/// ```
///
/// It is read again whenever it has changed. A user whose line is gone, or has another hash, is logged out; a
/// new role counts from the next request on. While the file cannot be read nobody is known, and the log says
/// why.
#[derive(Clone, Debug)]
pub struct Users(Arc<Source>);

#[derive(Debug)]
struct Source {
    path: PathBuf,
    last: Mutex<Last>,
}

/// The file as it was when it was last read.
#[derive(Debug)]
struct Last {
    stamp: Option<Stamp>,
    list: Arc<List>,
}

/// What differs after a change: device, inode, size, and the times of the last changes.
type Stamp = [i128; 5];

/// A token for a program, and what the users file has in its place.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewToken {
    /// What the program sends: `Authorization: Bearer TOKEN`. It is kept nowhere.
    pub token: String,
    /// The hash at the end of the program's line in the file of [`Users`].
    pub hash: String,
}

/// Without the token.
impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl NewToken {
    /// A token of 256 random bits.
    ///
    /// ```
    /// let new = firetime::console::NewToken::generate()?;
    /// let line = format!("token deploy operator {}", new.hash);
    /// # assert!(line.contains(" sha256:") && !line.contains(&new.token));
    /// # Ok::<(), firetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the system has no random bits.
    pub fn generate() -> Result<Self, Error> {
        let token = format!("{TOKEN_BEGIN}{}", secret::fresh()?);
        let hash = format!("sha256:{}", secret::hex(&secret::kept(&token)));
        Ok(Self { token, hash })
    }
}

impl Users {
    /// Those of a file, which only its owner and group may read: nobody else has any permission on it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if it cannot be read, others may read it, or a line is wrong; it says which.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let (stamp, list) = read(&path).map_err(|said| Error::new(ErrorKind::Config, said))?;
        let last = Mutex::new(Last { stamp: Some(stamp), list: Arc::new(list) });
        Ok(Self(Arc::new(Source { path, last })))
    }

    /// What the file says now; nobody while it cannot be read.
    pub(crate) fn now(&self) -> Arc<List> {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(&self.0.path).ok().map(|it| stamp(&it));
        if stamp.is_none() || stamp != last.stamp {
            let list = match read(&self.0.path) {
                Ok((stamp, list)) => {
                    last.stamp = Some(stamp);
                    list
                }
                Err(said) => {
                    if last.stamp.is_some() || !last.list.is_empty() {
                        log::error!("console: nobody is let in: {said}");
                    }
                    last.stamp = stamp;
                    List::default()
                }
            };
            last.list = Arc::new(list);
        }
        Arc::clone(&last.list)
    }
}

fn stamp(it: &Metadata) -> Stamp {
    let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (modified, changed) = (time(it.mtime(), it.mtime_nsec()), time(it.ctime(), it.ctime_nsec()));
    [it.dev().into(), it.ino().into(), it.size().into(), modified, changed]
}

/// The file's stamp, taken before it is read, and what it says; or what is wrong.
fn read(path: &Path) -> Result<(Stamp, List), String> {
    let shown = path.display();
    let failed = |error| format!("reading the users file {shown}: {error}");
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.mode() & 0o007 != 0 {
        return Err(format!(
            "everybody on this machine may read or change the users file {shown}: `chmod o-rwx` it first"
        ));
    }
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(format!("the users file {shown} has more than {LARGEST} bytes"));
    }
    let list = List::read(&text).map_err(|(line, said)| format!("{shown}, line {line}: {said}"))?;
    Ok((stamp(&about), list))
}

/// What a users file says.
#[derive(Debug, Default)]
pub(crate) struct List {
    accounts: HashMap<String, Account>,
    tokens: HashMap<Kept, User>,
    /// The costliest of the hashes, for names that are not in the file.
    decoy: Option<Hashed>,
}

/// Somebody who may log in.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) user: User,
    hashed: Hashed,
    /// Differs once the line has another hash.
    pub(crate) version: Kept,
}

impl List {
    fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.tokens.is_empty()
    }

    /// What a file says, or the number of the first line that is wrong and what is wrong with it.
    fn read(text: &str) -> Result<Self, (usize, String)> {
        let (mut list, mut seen) = (Self::default(), HashMap::new());
        for (place, line) in text.lines().enumerate() {
            let place = place + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            list.add(line, place, &mut seen).map_err(|said| (place, said))?;
        }
        Ok(list)
    }

    fn add(&mut self, line: &str, place: usize, seen: &mut HashMap<String, usize>) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, name, role, hash] = words[..] else {
            return Err(format!(
                "it has {} words, and needs 4: `user NAME ROLE HASH` or `token NAME ROLE HASH`",
                words.len()
            ));
        };
        if name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("a name has at most {LONGEST_NAME} characters, and no control characters"));
        }
        let role: Role = role.parse().map_err(|error| format!("{error}"))?;
        if let Some(first) = seen.insert(name.to_owned(), place) {
            return Err(format!("line {first} has the name {name:?} already"));
        }
        let user = User::new(name, role);
        match kind {
            "user" => {
                let hashed = Hashed::read(hash)?;
                if self.decoy.as_ref().is_none_or(|it| it.work < hashed.work) {
                    self.decoy = Some(hashed.clone());
                }
                let version = secret::kept(hash);
                self.accounts.insert(name.to_owned(), Account { user, hashed, version });
            }
            "token" => {
                let kept = hash.strip_prefix("sha256:").and_then(secret::unhex);
                let hint = "its hash is none: make a token with `firetime console new-token`";
                self.tokens.insert(kept.ok_or(hint)?, user);
            }
            // The line may hold a secret that somebody has put into the wrong place.
            _ => return Err("it begins with neither `user` nor `token`".to_owned()),
        }
        Ok(())
    }

    /// One user, who is an admin.
    #[cfg(test)]
    pub(crate) fn of(name: &str) -> Self {
        Self::read(&format!("user {name} admin {}", tests::weak("x"))).unwrap()
    }

    /// The user who may log in under this name.
    pub(crate) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// The user of this name and password. An unknown name takes as long as a wrong password.
    pub(crate) fn check(&self, name: &str, password: &str) -> Option<&Account> {
        let account = self.accounts.get(name);
        let hashed = account.map(|it| &it.hashed).or(self.decoy.as_ref())?;
        let is_right = hashed.is_of(password);
        account.filter(|_| is_right)
    }

    /// The program that holds this token.
    pub(crate) fn program(&self, token: &str) -> Option<&User> {
        self.tokens.get(&secret::kept(token))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A hash that is quick to compare.
    pub(super) fn weak(password: &str) -> String {
        use argon2::password_hash::{PasswordHasher, phc::PasswordHash};
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
        let hash: PasswordHash = argon2.hash_password(password.as_bytes()).unwrap();
        hash.to_string()
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        write(&path, text);
        (folder, path)
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    }

    #[test]
    fn users_and_programs_are_known_by_their_secrets() {
        let new = NewToken::generate().unwrap();
        let text =
            format!("# ours\n\n  user ann admin {}\r\ntoken deploy viewer {}\n", weak("ann's"), new.hash);
        let (_folder, path) = file(&text);
        let list = Users::open(&path).unwrap().now();
        assert_eq!(list.check("ann", "ann's").unwrap().user, User::new("ann", Role::Admin));
        assert!(list.check("ann", "bob's").is_none() && list.check("bob", "ann's").is_none());
        assert_eq!(list.program(&new.token), Some(&User::new("deploy", Role::Viewer)));
        assert!(list.program(&new.hash).is_none() && list.program("").is_none());
        assert!(list.check("deploy", &new.token).is_none(), "a token is no password");
    }

    /// Otherwise who measures the answers would learn the names.
    #[test]
    fn an_unknown_name_takes_as_long_as_a_wrong_password() {
        let costly = super::super::password::hash_password("ann's").unwrap();
        let (_folder, path) = file(&format!("user bob admin {}\nuser ann admin {costly}", weak("bob's")));
        let list = Users::open(&path).unwrap().now();
        let took = |name: &str| {
            let spans = (0..3).map(|_| {
                let begun = std::time::Instant::now();
                assert!(list.check(name, "wrong").is_none());
                begun.elapsed()
            });
            spans.min().unwrap()
        };
        let (unknown, known) = (took("eve"), took("ann"));
        assert!(unknown > known / 4, "{unknown:?} {known:?}");
    }

    #[test]
    fn a_wrong_line_is_named_with_its_number() {
        let (hash, token) = (weak("x"), NewToken::generate().unwrap().hash);
        for (line, said) in [
            ("user ann admin".to_owned(), "it has 3 words, and needs 4"),
            (format!("user ann boss {hash}"), "\"boss\" is not a role (viewer, operator or admin)"),
            (format!("ann admin viewer {hash}"), "neither `user` nor `token`"),
            ("user ann admin secret".to_owned(), "firetime console hash-password"),
            (format!("user ann admin {token}"), "firetime console hash-password"),
            (format!("token ann admin {hash}"), "firetime console new-token"),
            (format!("token ann admin {}", &token[..40]), "firetime console new-token"),
            (format!("token bob viewer {token}"), "line 2 has the name \"bob\" already"),
            (format!("user {} admin {hash}", "x".repeat(201)), "at most 200 characters"),
        ] {
            let (_folder, path) = file(&format!("# ours\nuser bob viewer {hash}\n{line}\n"));
            let error = Users::open(&path).unwrap_err().to_string();
            assert!(error.contains(", line 3: ") && error.contains(said), "{line}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_that_everybody_may_read_is_refused() {
        let (_folder, path) = file(&format!("user ann admin {}", weak("x")));
        for mode in [0o644, 0o642, 0o641, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = Users::open(&path).unwrap_err().to_string();
            assert!(error.contains("chmod o-rwx"), "{mode:o}: {error}");
        }
        assert!(Users::open(path.join("none")).unwrap_err().to_string().contains("reading the users file"));
    }

    #[test]
    fn a_change_of_the_file_counts_at_once() {
        let (_folder, path) = file(&format!("user ann admin {}", weak("x")));
        let users = Users::open(&path).unwrap();
        let role = || users.now().account("ann").map(|it| it.user.role());
        assert_eq!(role(), Some(Role::Admin));
        write(&path, &format!("user ann viewer {}", weak("x")));
        assert_eq!(role(), Some(Role::Viewer));
        write(&path, "user ann viewer");
        assert_eq!(role(), None, "nobody is known while a line is wrong");
        write(&path, &format!("user ann operator {}", weak("x")));
        assert_eq!(role(), Some(Role::Operator));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(role(), None);
        fs::remove_file(&path).unwrap();
        assert_eq!(role(), None);
    }
}
