//! Passwords as the users file has them.

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params};

use crate::{Error, ErrorKind};

/// The longest password, in bytes.
const LONGEST: usize = 1_024;

/// The hash of a password, for the line of its user in the file of [`Users`](crate::console::Users): Argon2id
/// with a random salt, as a PHC string. Each call gives another.
///
/// ```
/// let hash = firetime::console::hash_password("correct horse battery staple")?;
/// assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
/// # Ok::<(), firetime::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Config`] if it is empty or has more than 1,024 bytes; [`ErrorKind::System`] if the system has
/// no random bits.
pub fn hash_password(password: &str) -> Result<String, Error> {
    if password.is_empty() || password.len() > LONGEST {
        let said = format!("a password has 1 to {LONGEST} bytes, and this has {}", password.len());
        return Err(Error::new(ErrorKind::Config, said));
    }
    let hash: Result<PasswordHash, _> = Argon2::default().hash_password(password.as_bytes());
    let failed = |error| Error::new(ErrorKind::System, format!("hashing the password: {error}"));
    Ok(hash.map_err(failed)?.to_string())
}

/// A password's hash from a users file.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    hash: PasswordHash,
    /// How much work a comparison is: KiB times passes.
    pub(crate) work: u64,
}

impl Hashed {
    /// The hash that a PHC string says, or what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let hint = "make one with `firetime console hash-password`";
        let hash = PasswordHash::new(text).map_err(|error| format!("its hash is none ({error}): {hint}"))?;
        let is_argon2id = Algorithm::try_from(hash.algorithm.as_str()) == Ok(Algorithm::Argon2id);
        if !is_argon2id || hash.hash.is_none() || hash.salt.is_none() {
            return Err(format!("its hash is not one of Argon2id: {hint}"));
        }
        let params =
            Params::try_from(&hash).map_err(|error| format!("its hash is none ({error}): {hint}"))?;
        Ok(Self { work: u64::from(params.m_cost()) * u64::from(params.t_cost()), hash })
    }

    /// Whether it is that of this password. It takes as long either way.
    pub(super) fn is_of(&self, password: &str) -> bool {
        password.len() <= LONGEST
            && Argon2::default().verify_password(password.as_bytes(), &self.hash).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash_alone() {
        let hash = hash_password("tr0ub4dor").unwrap();
        assert_ne!(hash_password("tr0ub4dor").unwrap(), hash, "the salt is another");
        let hashed = Hashed::read(&hash).unwrap();
        assert!(hashed.is_of("tr0ub4dor") && !hashed.is_of("tr0ub4dor ") && !hashed.is_of(""));
        assert!(hash_password("").is_err() && hash_password(&"x".repeat(1_025)).is_err());
    }

    #[test]
    fn weaker_hashes_are_refused() {
        for wrong in [
            "",
            "secret",
            "$2b$12$abcdefghijklmnopqrstuv",
            "$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$MDEyMzQ1Njc4OWFiY2RlZg",
            "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ",
        ] {
            let said = Hashed::read(wrong).unwrap_err();
            assert!(said.contains("firetime console hash-password"), "{wrong}: {said}");
        }
    }
}
