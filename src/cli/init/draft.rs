//! A project file that is being put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::args::Configuration;
use crate::cli::request::load;
use crate::cli::session::Session;
use crate::core::recipe::{Knob, MARK, PresetFile};
use crate::core::request::Request;
use crate::io::library::LibraryFolder;
use crate::view::CommandFailure;
use oomctl_base::Value;
use oomctl_scripts::yaml::written;

/// Name of the run of a request that is never submitted.
const RUN: &str = "init";
/// The first line of the file.
const HEAD: &str = "# Written by `oomctl init`. `oomctl explain KNOB` shows where a value comes from, `oomctl plan` the ladder.\n";

/// A preset and the values that were chosen so far.
pub struct Draft {
    session: Session,
    flags: Configuration,
    /// Knobs that must have some value until they are asked for.
    assumed: Vec<String>,
    /// Where values were found, by knob.
    origins: BTreeMap<String, String>,
    /// Why this preset.
    why: Option<String>,
    /// The key for the framework's version, and the version that was found.
    version: Option<(String, String)>,
}

impl Draft {
    /// Nothing but the preset and these values (`KNOB=VALUE`), for a project in `folder`.
    pub fn new(folder: &Path, preset: &str, set: &[String]) -> Result<Self, CommandFailure> {
        let flags = Configuration {
            preset: Some(preset.to_owned()),
            set: set.to_vec(),
            ..Configuration::default()
        };
        let session = Session::empty(folder)?;
        Ok(Self {
            session,
            flags,
            assumed: Vec::new(),
            origins: BTreeMap::new(),
            why: None,
            version: None,
        })
    }

    /// The same, with the reason for its preset.
    pub fn because(self, why: String) -> Self {
        Self {
            why: Some(why),
            ..self
        }
    }

    /// The version of the framework in the active environment.
    pub fn version(&mut self, key: String, version: String) {
        self.version = Some((key, version));
    }

    /// Gives a knob a value that was found, unless it is not legal there.
    pub fn find(&mut self, knob: &str, value: &str, origin: String) {
        if self.set(knob, value, |_| Ok(())).is_ok() {
            self.origins.insert(knob.to_owned(), origin);
        }
    }

    /// The preset as it is written.
    pub fn preset(&self) -> Result<PresetFile, CommandFailure> {
        let name = self.flags.preset.as_deref().unwrap_or_default();
        load::parsed(&self.session.library, LibraryFolder::Presets, name)
    }

    /// The folder of the project.
    pub fn folder(&self) -> PathBuf {
        self.session.folder.clone()
    }

    /// The configuration as it would be with this file.
    pub fn request(&self) -> Result<Request, CommandFailure> {
        load::request(&self.session, &self.flags, RUN, &[])
    }

    /// Gives a knob a value; `legal` is asked whether that will do, and where not it is taken back.
    pub fn set(
        &mut self,
        knob: &str,
        value: &str,
        legal: impl Fn(&Request) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        self.flags.set.push(format!("{knob}={value}"));
        let done = self.request().and_then(|request| legal(&request));
        match &done {
            Ok(()) => self.assumed.retain(|assumed| assumed != knob),
            Err(_) => drop(self.flags.set.pop()),
        }
        done
    }

    /// Was it given a value?
    pub fn has(&self, knob: &str) -> bool {
        let mut names = self.flags.set.iter().filter_map(|s| s.split_once('='));
        names.any(|(name, _)| name.trim() == knob)
    }

    /// Gives a knob a value until it is asked for, unless it has one.
    pub fn assume(&mut self, knob: &str, value: &str) -> Result<(), CommandFailure> {
        if self.has(knob) {
            return Ok(());
        }
        self.set(knob, value, |_| Ok(()))?;
        self.assumed.push(knob.to_owned());
        Ok(())
    }

    /// Required knobs that neither a default nor any layer gives.
    pub fn missing(&self) -> Result<Vec<Knob>, CommandFailure> {
        let request = self.request()?;
        let layers = &request.inputs().layers;
        let given = |knob: &Knob| layers.iter().any(|l| l.settings.contains_key(&knob.name));
        let missing = |knob: &&Knob| {
            let by_default = knob.default.is_some() || knob.default_expr.is_some();
            knob.required && (self.assumes(&knob.name) || !by_default && !given(knob))
        };
        let knobs = request.preset().knobs.iter();
        Ok(knobs.filter(missing).cloned().collect())
    }

    /// The name of the preset.
    pub fn named(&self) -> &str {
        self.flags.preset.as_deref().unwrap_or_default()
    }

    /// The values that the user gave, as `KNOB=VALUE`.
    pub fn answers(&self) -> Vec<String> {
        let given = self.flags.set.iter().filter(|set| {
            let knob = set.split('=').next().unwrap_or_default();
            !self.assumes(knob) && !self.origins.contains_key(knob)
        });
        given.cloned().collect()
    }

    /// Has it only a value that was assumed?
    pub fn assumes(&self, knob: &str) -> bool {
        self.assumed.iter().any(|k| k == knob)
    }

    /// The text of the file, when the configuration is legal.
    pub fn checked(&self) -> Result<String, CommandFailure> {
        self.request()?.shape(&[])?;
        self.text()
    }

    /// The text of the file. A required knob without a value is marked.
    pub fn text(&self) -> Result<String, CommandFailure> {
        let request = self.request()?;
        let preset = request.preset();
        let said = |what: &str| format!("  # {what}");
        let why = self.why.as_deref().map(said).unwrap_or_default();
        let mut text = format!("{HEAD}preset: {}{why}\n", preset.name);
        if let Some((key, version)) = &self.version {
            text.push_str(&format!("{key}: {version}  # the active environment\n"));
        }
        let mut lines: Vec<String> = Vec::new();
        let missing = self.missing()?;
        for set in &self.flags.set {
            let (name, value) = set.split_once('=').unwrap_or((set, ""));
            let Some(knob) = preset.knob(name.trim()) else {
                continue;
            };
            if missing.iter().any(|other| other.name == knob.name) {
                continue;
            }
            let value = knob.kind.parse(value).unwrap_or(Value::Null);
            let origin = self.origins.get(&knob.name).map(|o| said(o));
            lines.retain(|l| !l.starts_with(&format!("  {}:", knob.name)));
            lines.push(format!(
                "  {}: {}{}\n",
                knob.name,
                inline(&value),
                origin.unwrap_or_default()
            ));
        }
        let marked = |knob: &Knob| format!("  {}: {MARK}  # required: {}\n", knob.name, knob.doc);
        lines.extend(missing.iter().map(marked));
        if !lines.is_empty() {
            text.push_str("\nknobs:\n");
            text.extend(lines);
        }
        Ok(text)
    }
}

/// A value in one line of YAML.
fn inline(value: &Value) -> String {
    let text = |t: &String| written(&Value::Text(t.clone())).unwrap_or_default();
    match value {
        Value::List(items) => format!(
            "[{}]",
            items.iter().map(text).collect::<Vec<_>>().join(", ")
        ),
        Value::Map(map) => {
            let entries = map.iter().map(|(k, v)| format!("{}: {}", text(k), text(v)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        single => written(single).unwrap_or_default(),
    }
}
