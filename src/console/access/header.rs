//! A proxy that says who asks, in a header.

use axum::http::HeaderMap;
use axum::http::header::HeaderName;

use super::role::Role;
use super::user::User;
use crate::console::web::trouble::Trouble;
use crate::{Error, ErrorKind};

/// A header in which a proxy says who has logged in there. It is believed of the proxies of
/// [`Options::proxy`](crate::console::Options::proxy) alone.
///
/// ```
/// use firetime::console::{Options, Role, TrustedHeader};
/// let header = TrustedHeader::new("X-Forwarded-User", Role::Viewer)?.role_header("X-Forwarded-Role")?;
/// let options = Options::new().trust(header);
/// # Ok::<(), firetime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TrustedHeader {
    name: HeaderName,
    role: Role,
    role_name: Option<HeaderName>,
}

impl TrustedHeader {
    /// A header with the user's name, all of whom have this role.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no header can have this name.
    pub fn new(name: &str, role: Role) -> Result<Self, Error> {
        Ok(Self { name: read(name)?, role, role_name: None })
    }

    /// The same, where a second header has the user's role: `viewer`, `operator` or `admin`. A request
    /// without it has the role of [`new`](Self::new); one with another word is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no header can have this name.
    pub fn role_header(self, name: &str) -> Result<Self, Error> {
        Ok(Self { role_name: Some(read(name)?), ..self })
    }

    /// Who asks, as the proxy says; none if it says nothing. Anybody but the proxy is refused who says it.
    pub(crate) fn user(&self, headers: &HeaderMap, is_proxy: bool) -> Result<Option<User>, Trouble> {
        let names = [Some(&self.name), self.role_name.as_ref()];
        if !is_proxy && names.into_iter().flatten().any(|name| headers.contains_key(name)) {
            return Err(Trouble::forbidden(format!(
                "The request says who asks, in the header {}, and does not come from a proxy that may: \
                 `firetime console --proxy ADDRESS`, or `Options::proxy`.",
                self.name
            )));
        }
        let Some(name) = only(headers, &self.name)?.filter(|name| !name.trim().is_empty()) else {
            return Ok(None);
        };
        let role = match &self.role_name {
            Some(header) => only(headers, header)?,
            None => None,
        };
        let role = role.map(|word| {
            word.trim().parse().map_err(|error| Trouble::forbidden(format!("The proxy says: {error}.")))
        });
        Ok(Some(User::new(name.trim(), role.transpose()?.unwrap_or(self.role))))
    }
}

fn read(name: &str) -> Result<HeaderName, Error> {
    name.parse().map_err(|_| Error::new(ErrorKind::Config, format!("{name:?} is no header's name")))
}

/// The value of a header that is there once: a proxy that adds it to what the browser sent would let anybody
/// be anybody.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Trouble> {
    let mut lines = headers.get_all(name).into_iter();
    let first = lines.next().map(|line| line.to_str());
    if lines.next().is_some() || matches!(first, Some(Err(_))) {
        return Err(Trouble::forbidden(format!(
            "The header {name} is there twice, or is no text: the proxy has to set it, and not to add it."
        )));
    }
    Ok(first.and_then(Result::ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_proxy_says_who_asks_and_their_role() {
        let header = TrustedHeader::new("X-User", Role::Operator).unwrap();
        let both = header.clone().role_header("X-Role").unwrap();
        let user = |header: &TrustedHeader, lines: &[(&'static str, &str)]| {
            header.user(&headers(lines), true).map_err(|trouble| trouble.said)
        };
        assert_eq!(user(&header, &[("x-user", "ann")]), Ok(Some(User::new("ann", Role::Operator))));
        assert_eq!(user(&both, &[("x-user", "ann")]), Ok(Some(User::new("ann", Role::Operator))));
        let admin = [("x-user", "ann"), ("x-role", "admin")];
        assert_eq!(user(&both, &admin), Ok(Some(User::new("ann", Role::Admin))));
        assert_eq!(user(&header, &admin), Ok(Some(User::new("ann", Role::Operator))), "nobody trusts X-Role");
        assert_eq!((user(&header, &[]), user(&header, &[("x-user", " ")])), (Ok(None), Ok(None)));
        assert!(user(&both, &[("x-user", "ann"), ("x-role", "root")]).unwrap_err().contains("not a role"));
        assert!(user(&header, &[("x-user", "ann"), ("x-user", "bea")]).unwrap_err().contains("twice"));
        assert!(TrustedHeader::new("no header", Role::Viewer).is_err());
    }

    #[test]
    fn nobody_else_says_who_asks() {
        let header = TrustedHeader::new("X-User", Role::Operator).unwrap().role_header("X-Role").unwrap();
        for name in ["x-user", "x-role"] {
            let refused = header.user(&headers(&[(name, "admin")]), false).unwrap_err();
            assert!(refused.said.contains("--proxy ADDRESS"), "{}", refused.said);
        }
        assert!(header.user(&headers(&[]), false).unwrap().is_none());
    }
}
