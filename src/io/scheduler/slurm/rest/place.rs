//! Where slurmrestd listens, and the token that it wants.

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value;

use crate::io::files::read_text;

/// The variable that `scontrol token` prints.
pub const TOKEN_VARIABLE: &str = "SLURM_JWT";
/// Longest file of a token, in bytes.
const TOKEN_MAX: u64 = 64 << 10;

/// How to reach slurmrestd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestPlace {
    /// Where it listens.
    pub address: RestAddress,
    /// A file with the token, read anew for each question; else it is in `SLURM_JWT`.
    pub token_file: Option<PathBuf>,
}

/// Where slurmrestd listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestAddress {
    /// `http://HOST:PORT`.
    Port(String),
    /// `unix:/PATH`.
    Socket(PathBuf),
}

impl RestAddress {
    /// Reads what a configuration says.
    ///
    /// # Errors
    /// What to write instead.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let text = text.trim().trim_end_matches('/');
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Self::Socket(path.into())),
                false => Err("write the socket's absolute path: unix:/run/slurmrestd.socket"),
            };
        }
        if text.starts_with("https://") {
            return Err("oomctl speaks no TLS: use the unix socket, or a tunnel to the port");
        }
        match text.strip_prefix("http://") {
            Some(host) if !host.is_empty() => Ok(Self::Port(text.to_owned())),
            _ => Err("write http://HOST:6820 or unix:/PATH"),
        }
    }
}

impl fmt::Display for RestAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => f.write_str(address),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A token. It has no `Debug`: nothing prints it.
pub(super) struct RestToken {
    /// What slurmrestd is sent.
    pub text: String,
    /// Whose it is, as it says itself.
    pub user: Option<String>,
    /// When it is over, as it says itself.
    pub expires: Option<Timestamp>,
}

impl RestPlace {
    /// Where the token comes from, for messages.
    pub fn token_origin(&self) -> String {
        match &self.token_file {
            Some(file) => file.display().to_string(),
            None => TOKEN_VARIABLE.to_owned(),
        }
    }

    /// The token as it is now.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn token(&self) -> Result<RestToken, String> {
        let text = match &self.token_file {
            Some(file) => read_text(file, TOKEN_MAX).map_err(|e| e.to_string())?,
            None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
        };
        let text = text.trim();
        let name = format!("{TOKEN_VARIABLE}=");
        let text = text.strip_prefix(&name).unwrap_or(text);
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let origin = self.token_origin();
            let how = match &self.token_file {
                Some(file) => format!("scontrol token >{}", file.display()),
                None => "export $(scontrol token)".to_owned(),
            };
            return Err(format!("no token in {origin}: `{how}`"));
        }
        Ok(RestToken::read(text))
    }

    /// Is there a token at all?
    ///
    /// # Errors
    /// Why there is none.
    pub fn check_token(&self) -> Result<(), String> {
        self.token().map(|_| ())
    }
}

impl RestToken {
    /// The middle of a JSON web token says whose it is and when it ends (RFC 7519; `sun` is Slurm's own claim).
    fn read(text: &str) -> Self {
        let middle = text.split('.').nth(1).unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD.decode(middle.trim_end_matches('='));
        let claims: Value = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let user = ["sun", "username"].iter().find_map(|c| claims[c].as_str());
        let expires = claims["exp"].as_i64();
        Self {
            text: text.to_owned(),
            user: user.map(str::to_owned),
            expires: expires.and_then(|s| Timestamp::from_second(s).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_a_socket() {
        let read = |text: &str| RestAddress::read(text).map(|a| a.to_string());
        for (text, address) in [
            ("http://login:6820/", "http://login:6820"),
            ("unix:/run/slurmrestd.sock", "unix:/run/slurmrestd.sock"),
            ("unix:///run/slurmrestd.sock", "unix:/run/slurmrestd.sock"),
        ] {
            assert_eq!(read(text), Ok(address.to_owned()));
        }
        for (text, hint) in [
            ("https://login", "no TLS"),
            ("unix:run/x", "absolute"),
            ("login:6820", "http://HOST"),
            ("", "http://HOST"),
        ] {
            assert!(read(text).unwrap_err().contains(hint), "{text}");
        }
    }

    #[test]
    fn a_token_says_whose_it_is_and_when_it_ends() {
        // As `scontrol token` of 22.05 makes them: {"exp":1795813046,"iat":1795811246,"sun":"root"}.
        let claims = "eyJleHAiOjE3OTU4MTMwNDYsImlhdCI6MTc5NTgxMTI0Niwic3VuIjoicm9vdCJ9";
        let token = RestToken::read(&format!("eyJhbGciOiJIUzI1NiJ9.{claims}.c2ln"));
        assert_eq!(token.user.as_deref(), Some("root"));
        assert_eq!(token.expires.map(Timestamp::as_second), Some(1_795_813_046));
        for other in ["", "a.b.c", "opaque", "..", "a.e30.c"] {
            let token = RestToken::read(other);
            assert!(token.user.is_none() && token.expires.is_none(), "{other}");
        }
    }
}
