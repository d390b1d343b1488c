//! Random secrets, and what is kept in their place.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{Error, ErrorKind};

/// What is kept of a secret: enough to know it again, and not to make it.
pub(crate) type Kept = [u8; 32];

/// 256 random bits, as 64 hexadecimal digits.
pub(crate) fn fresh() -> Result<String, Error> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| {
        Error::new(ErrorKind::System, format!("the system gives no random bits: {error}"))
    })?;
    Ok(hex(&bits))
}

/// What is kept of a secret. It needs no salt and no slow hash, as nobody guesses 256 random bits.
pub(crate) fn kept(secret: &str) -> Kept {
    Sha256::digest(secret.as_bytes()).into()
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes whatever is written.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The bytes that hexadecimal digits say; none if they are others, or more or fewer.
pub(super) fn unhex(text: &str) -> Option<Kept> {
    let mut bytes = Kept::default();
    if text.len() != 2 * bytes.len() || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back_from_its_digits() {
        let secret = fresh().unwrap();
        assert_eq!((secret.len(), unhex(&hex(&kept(&secret)))), (64, Some(kept(&secret))));
        assert_ne!(fresh().unwrap(), secret);
        for wrong in ["", "0", &"z".repeat(64), &"é".repeat(32), &"0".repeat(65), &"0".repeat(63)] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
        // SHA-256 of nothing, as everybody else computes it.
        assert!(hex(&kept("")).starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
    }
}
