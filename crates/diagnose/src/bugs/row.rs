//! Rows of the tables of bugs, as `presets/bugs` declares them.

use regex::Regex;
use semver::VersionReq;
use serde::{Deserialize, Serialize};

use super::known::{BugSetting, KnownBug};
use super::versions::{Telling, Versions};
use crate::class::Class;
use crate::incident::Incident;

/// Bugs that are named for one incident at most.
const MOST: usize = 3;

/// Phases before the first step.
const EARLY: [&str; 4] = ["init", "load", "preparation", "preprocessing"];

/// The bugs of one package: a file of `presets/bugs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The package, as it is installed.
    pub package: String,
    /// Its bugs.
    pub bugs: Vec<Bug>,
}

/// All tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bugs(Vec<Package>);

/// A failure of memory that is a bug of some versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bug {
    /// Name.
    pub id: String,
    /// What the bug is, in one sentence without a full stop.
    pub says: String,
    /// Versions that have it.
    pub versions: VersionReq,
    /// The first version without it, where one is known to be.
    pub fixed_in: Option<String>,
    /// Issue, pull request or commit.
    pub source: String,
    /// What must be seen in the incident.
    pub seen: BugConditions,
    /// What must hold of the configuration: an expression over knobs.
    pub when: Option<String>,
    /// What is seen has ordinary causes as well, so that it is never said as a fact.
    #[serde(default)]
    pub ordinary: bool,
    /// Memory that is never given back: more of it only delays the end.
    #[serde(default)]
    pub leak: bool,
    /// What helps, in words.
    pub workaround: String,
    /// Knobs, by role or name, with which the workaround can be set.
    #[serde(default)]
    pub helps: Vec<BugSetting>,
    /// Roles, knobs or rungs that cannot help.
    #[serde(default)]
    pub useless: Vec<String>,
    /// A log that shows it; a project's own row may lack one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
}

/// A log that shows a bug.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// A version that has the bug.
    pub with: String,
    /// A version that does not have it.
    pub without: String,
    /// The log, in the real format; `VERSION` stands for the version, where it does not begin with a list of packages.
    pub log: String,
}

/// What must be seen in an incident. All that is given must be there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BugConditions {
    /// One of these classes.
    pub class: Vec<Class>,
    /// One of these signatures in the evidence.
    #[serde(default)]
    pub signature: Vec<String>,
    /// One of these phases.
    #[serde(default)]
    pub phase: Vec<String>,
    /// A pattern for a frame of the traceback, as `path/file.py:function`.
    pub frame: Option<String>,
    /// A pattern for the text of the evidence, the exception or a source line.
    pub text: Option<String>,
    /// Memory lies reserved and unused.
    #[serde(default)]
    pub fragmentation: bool,
    /// Steps that were finished at least.
    pub after_steps: Option<u64>,
    /// Lines of the log that refute it, as the engine that is not the one with the bug: names that [`Versions`] tells.
    #[serde(default)]
    pub unless: Vec<String>,
}

impl Bugs {
    /// Of several packages.
    pub fn new(packages: Vec<Package>) -> Self {
        Self(packages)
    }

    /// The tables.
    pub fn packages(&self) -> &[Package] {
        &self.0
    }

    /// No tables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bugs that an incident may be, those that are certain first; a row of `own` stands for one of the same name.
    /// `trace` holds the frames of its traceback, as `path/file.py:function`.
    pub fn of(
        &self,
        own: &Self,
        incident: &Incident,
        trace: &[String],
        versions: &Versions,
    ) -> Vec<KnownBug> {
        if !incident.fatal || incident.class == Class::NotOom {
            return Vec::new();
        }
        let mut known: Vec<KnownBug> = Vec::new();
        for (shipped, package) in [(false, own), (true, self)]
            .into_iter()
            .flat_map(|(shipped, tables)| tables.0.iter().map(move |package| (shipped, package)))
        {
            let telling = match versions.of(&package.package) {
                Telling::Nothing if is_in(trace, &package.package) => Telling::Seen,
                telling => telling,
            };
            let replaced = |bug: &&Bug| {
                let mut rows = own.0.iter().flat_map(|package| &package.bugs);
                shipped && rows.any(|row| row.id == bug.id)
            };
            let bugs = package.bugs.iter().filter(|bug| !replaced(bug));
            let refuted = |name: &String| versions.of(name) != Telling::Nothing;
            let bugs = bugs.filter(|bug| !bug.seen.unless.iter().any(refuted));
            known.extend(
                bugs.filter_map(|bug| bug.named(&package.package, &telling, incident, trace)),
            );
        }
        known.sort_by_key(|bug| (!bug.certain, bug.version.is_none()));
        known.truncate(MOST);
        known
    }
}

impl Package {
    /// What is wrong with a table: a pattern that is none, a name that stands there twice.
    pub fn fault(&self) -> Option<String> {
        let patterns = self.bugs.iter().flat_map(|bug| {
            let texts = bug.seen.frame.iter().chain(&bug.seen.text);
            texts.map(move |text| (bug, text))
        });
        let bad = patterns.filter_map(|(bug, text)| {
            let error = Regex::new(text).err()?;
            Some(format!("the pattern of {}: {error}", bug.id))
        });
        let twice = self.bugs.iter().enumerate().filter_map(|(at, bug)| {
            let mut before = self.bugs[..at].iter();
            let known = before.any(|other| other.id == bug.id);
            known.then(|| format!("the bug `{}` is defined twice", bug.id))
        });
        bad.chain(twice).next()
    }
}

impl Bug {
    fn named(
        &self,
        package: &str,
        telling: &Telling,
        incident: &Incident,
        trace: &[String],
    ) -> Option<KnownBug> {
        let version = match telling {
            Telling::One(version) if self.versions.matches(version) => Some(version.to_string()),
            // Without a version there must be something that speaks of this bug alone.
            Telling::Seen if self.seen.is_telling() && !self.ordinary => None,
            _ => return None,
        };
        let sure = self.seen.in_incident(incident, trace)?;
        let certain = sure && version.is_some() && self.when.is_none() && !self.ordinary;
        Some(KnownBug {
            id: self.id.clone(),
            package: package.to_owned(),
            version,
            affected: self.versions.to_string(),
            fixed_in: self.fixed_in.clone(),
            says: self.says.clone(),
            source: self.source.clone(),
            certain,
            when: self.when.clone(),
            doubtful: self.ordinary || !sure,
            leak: self.leak,
            workaround: self.workaround.clone(),
            helps: self.helps.clone(),
            useless: self.useless.clone(),
        })
    }
}

impl BugConditions {
    /// Is there a function or a text that speaks of this bug? A signature is common to many failures.
    pub fn is_telling(&self) -> bool {
        self.frame.is_some() || self.text.is_some()
    }

    /// Is all of it there? `Some(false)` where the log does not tell all that is asked.
    fn in_incident(&self, incident: &Incident, trace: &[String]) -> Option<bool> {
        let one_of = |asked: &[String], is: &str| asked.is_empty() || asked.iter().any(|a| a == is);
        let signed = self.signature.is_empty()
            || incident
                .evidence
                .iter()
                .any(|e| self.signature.contains(&e.signature));
        let fits = self.class.contains(&incident.class)
            && signed
            && one_of(&self.phase, &incident.phase)
            && (!self.fragmentation || incident.fragmentation);
        if !fits || !self.patterns(incident, trace) {
            return None;
        }
        // `step` is the one that was begun.
        match (self.after_steps, incident.step) {
            (None, _) => Some(true),
            // Nothing trains yet.
            (Some(_), None) if EARLY.contains(&incident.phase.as_str()) => None,
            (Some(_), None) => Some(false),
            (Some(asked), Some(step)) => (step > asked).then_some(true),
        }
    }

    fn patterns(&self, incident: &Incident, trace: &[String]) -> bool {
        let holds = |asked: &Option<String>, texts: &[&str]| match asked {
            None => true,
            Some(asked) => {
                let matches = |p: Regex| texts.iter().any(|text| p.is_match(text));
                Regex::new(asked).is_ok_and(matches)
            }
        };
        let frames: Vec<&str> = trace.iter().map(String::as_str).collect();
        let evidence = incident.evidence.iter().map(|e| e.text.as_str());
        let code = incident.frame.as_ref().map(|f| f.code.as_str());
        let texts = evidence.chain(incident.exception.as_deref()).chain(code);
        holds(&self.frame, &frames) && holds(&self.text, &texts.collect::<Vec<_>>())
    }
}

/// Does one of the frames lie in a folder with the package's name?
fn is_in(trace: &[String], package: &str) -> bool {
    let folder = package.replace('-', "_");
    trace
        .iter()
        .any(|frame| frame.split(['/', '\\']).any(|part| part == folder))
}
