//! A bug that an incident is, or may be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bug that an incident is, or may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownBug {
    /// Name of the bug (`vllm-n-above-1`).
    pub id: String,
    /// The package that has it.
    pub package: String,
    /// The version that runs here; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The versions that have the bug.
    pub affected: String,
    /// The first version without it, where one is known to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_in: Option<String>,
    /// What the bug is.
    pub says: String,
    /// Issue, pull request or commit.
    pub source: String,
    /// The version is known, all that must be seen is there, and all that must hold of the configuration holds.
    pub certain: bool,
    /// What must hold of the configuration, where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What is seen has ordinary causes as well, or is not all there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
    /// Memory is never given back: more of it only delays the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leak: bool,
    /// What helps, in words.
    pub workaround: String,
    /// Settings that do it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helps: Vec<BugSetting>,
    /// Roles, knobs and rungs that cannot help.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub useless: Vec<String>,
}

/// A setting that helps against a bug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Setting")]
pub struct BugSetting {
    /// Role or name of a knob.
    pub knob: String,
    /// The value that helps; any that a rung gives where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<serde_json::Value>,
}

impl KnownBug {
    /// Takes in whether what must hold of the configuration holds: `None` where that cannot be told. False when it is
    /// not this bug after all.
    pub fn settle(&mut self, holds: impl FnOnce(&str) -> Option<bool>) -> bool {
        if let Some(asked) = &self.when {
            match holds(asked) {
                Some(false) => return false,
                Some(true) => self.when = None,
                None => {}
            }
        }
        self.certain = self.version.is_some() && self.when.is_none() && !self.doubtful;
        true
    }

    /// It in a sentence, with what it depends on where it is not certain.
    pub fn sentence(&self) -> String {
        let Self {
            package,
            says,
            source,
            ..
        } = self;
        let fixed = match &self.fixed_in {
            Some(version) => format!("fixed in {version}; "),
            None => String::new(),
        };
        if let Some(version) = self.version.as_ref().filter(|_| self.certain) {
            return format!("{} ({package} {version}: {says}; {fixed}{source})", self.id);
        }
        let asked = match &self.version {
            Some(_) => None,
            None => Some(format!("{package} {}", self.affected)),
        };
        let asked: Vec<String> = asked.into_iter().chain(self.when.clone()).collect();
        let condition = match asked.as_slice() {
            [] => String::new(),
            asked => format!("if {}; ", asked.join(" and ")),
        };
        format!("may be: {} ({condition}{says}; {fixed}{source})", self.id)
    }

    /// What helps, with what does not.
    pub fn remedy(&self) -> String {
        let delays = if self.leak {
            "; more memory only delays it"
        } else {
            ""
        };
        format!("{}{delays}", self.workaround)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leak() -> KnownBug {
        KnownBug {
            id: "loom-leak".to_owned(),
            package: "loom".to_owned(),
            version: Some("1.2.0".to_owned()),
            affected: ">=1.0.0, <1.3.0".to_owned(),
            fixed_in: Some("1.3.0".to_owned()),
            says: "the loom keeps its thread".to_owned(),
            source: "https://loom/1".to_owned(),
            certain: true,
            when: None,
            doubtful: false,
            leak: true,
            workaround: "use loom 1.3.0".to_owned(),
            helps: Vec::new(),
            useless: Vec::new(),
        }
    }

    #[test]
    fn a_bug_that_is_certain_is_said_as_a_fact_and_others_with_what_they_depend_on() {
        let says = "the loom keeps its thread; fixed in 1.3.0; https://loom/1";
        assert_eq!(leak().sentence(), format!("loom-leak (loom 1.2.0: {says})"));
        let asked = KnownBug {
            certain: false,
            when: Some("threads > 1".to_owned()),
            ..leak()
        };
        let told = format!("may be: loom-leak (if threads > 1; {says})");
        assert_eq!(asked.sentence(), told);
        let unknown = KnownBug {
            version: None,
            ..asked
        };
        let told = format!("may be: loom-leak (if loom >=1.0.0, <1.3.0 and threads > 1; {says})");
        assert_eq!(unknown.sentence(), told);
        let doubtful = KnownBug {
            certain: false,
            doubtful: true,
            ..leak()
        };
        assert_eq!(doubtful.sentence(), format!("may be: loom-leak ({says})"));
        assert_eq!(
            leak().remedy(),
            "use loom 1.3.0; more memory only delays it"
        );
    }

    #[test]
    fn a_fact_written_by_another_version_is_read() {
        let text = serde_json::to_string(&leak()).unwrap();
        assert_eq!(serde_json::from_str::<KnownBug>(&text).unwrap(), leak());
    }
}
