//! Who may ask and who may change models: bearer tokens, compared in constant time, for every protocol.

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::failure::{Failure, Kind};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Health: probes carry no tokens.
    Open,
    /// The page, which asks for the token itself.
    Page,
    /// Answers and descriptions.
    Query,
    /// Loading and unloading of models.
    Change,
}

/// The tokens of a server.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Of every request.
    pub query: Option<String>,
    /// For changes of models; it may ask too.
    pub admin: Option<String>,
}

impl Tokens {
    /// Whether a call with these headers is allowed.
    ///
    /// # Errors
    /// If its token is missing or wrong, or the server has none for changes.
    pub fn admit(&self, access: Access, headers: &HeaderMap) -> Result<(), Failure> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("");
        let fits = |token: &Option<String>| {
            token.as_ref().is_some_and(|token| bool::from(token.as_bytes().ct_eq(given.as_bytes())))
        };
        match access {
            Access::Change if self.admin.is_none() => {
                let what = "models are loaded and unloaded only by a server with an admin token";
                Err(Failure::new(Kind::Unsupported, what))
            }
            Access::Change if !fits(&self.admin) => {
                Err(Failure::new(Kind::Unauthorised, "the admin token is missing or wrong"))
            }
            Access::Query if self.query.is_some() && !fits(&self.query) && !fits(&self.admin) => {
                Err(Failure::new(Kind::Unauthorised, "the token is missing or wrong"))
            }
            Access::Open | Access::Page | Access::Query | Access::Change => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_needs_its_own_token() {
        let tokens = Tokens { query: Some("a".repeat(16)), admin: Some("b".repeat(16)) };
        let kind = |tokens: &Tokens, access, token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            tokens.admit(access, &headers).err().map(|failure| failure.kind)
        };
        let (ask, admin) = ("a".repeat(16), "b".repeat(16));
        assert_eq!(kind(&tokens, Access::Open, ""), None);
        assert_eq!(kind(&tokens, Access::Page, ""), None);
        assert_eq!(kind(&tokens, Access::Query, &ask), None);
        assert_eq!(kind(&tokens, Access::Query, &admin), None);
        assert_eq!(kind(&tokens, Access::Change, &admin), None);
        assert_eq!(kind(&tokens, Access::Query, "a"), Some(Kind::Unauthorised));
        assert_eq!(kind(&tokens, Access::Change, &ask), Some(Kind::Unauthorised));
        assert_eq!(kind(&Tokens::default(), Access::Query, ""), None);
        assert_eq!(kind(&Tokens::default(), Access::Change, ""), Some(Kind::Unsupported));
    }
}
