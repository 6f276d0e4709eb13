//! A version as something writes it.

use std::fmt;

use semver::Version;

/// A version as something writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenVersion {
    /// The release that it is, or is to become.
    pub version: Version,
    /// What is written of it behind the release: `.dev0`, `rc1`. Empty for a release.
    pub before: String,
}

impl WrittenVersion {
    /// `0.6.0` in `0.6.0`, `v0.6`, `0.6.0.post1` and `0.6.0/bin`, `0.6.0` with `rc1` in `0.6.0rc1`; None where it is longer.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
        let release = digits.trim_end_matches('.');
        let parts: Vec<&str> = release.split('.').collect();
        let padded = match parts.as_slice() {
            _ if rest.starts_with('*') => return None,
            [_, _] => format!("{release}.0"),
            [_, _, _] => release.to_owned(),
            _ => return None,
        };
        let version = Version::parse(&padded).ok()?;
        // PEP 440: pre-releases and development releases come before the release.
        let first = ["rc", "dev", "a", "b"].iter().any(|mark| {
            let behind = rest.strip_prefix(mark);
            behind.is_some_and(|r| *mark == "dev" || r.starts_with(|c: char| c.is_ascii_digit()))
        });
        let whole = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let whole = release.len()..digits.len() + whole.unwrap_or(rest.len());
        let before = text.get(whole).filter(|_| first).unwrap_or_default();
        Some(Self {
            version,
            before: before.trim_end_matches('.').to_owned(),
        })
    }
}

impl fmt::Display for WrittenVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.version, self.before)
    }
}
