//! The framework's version of a script, once a log of its job names it.

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::request::Request;
use crate::core::adopt::version::{KnownVersion, LogExcerpt, in_frames, in_log};
use crate::core::adopt::{self, Scripts};
use crate::core::config::parse_preset;
use crate::core::recipe::{Layer, VersionSpan};
use oomctl_diagnose::Telling;

/// A version of the framework that a log names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionInLog {
    /// As the preset knows it.
    pub version: String,
    /// With the framework's name and `file:line`, for people.
    pub described: String,
    /// The versions that it can be, where it may be older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<VersionSpan>,
}

impl Request {
    /// Are its scripts read for a version of their framework that is assumed, or that an earlier run showed?
    pub fn assumes_version(&self) -> bool {
        let inputs = self.inputs();
        let assumed = |s: &Scripts| inputs.framework_version.is_none() || s.version_of_earlier;
        let scripts = inputs.scripts.as_ref();
        scripts.is_some_and(|s| s.recognised && assumed(s))
    }

    /// The version that its job's logs name, or that their tracebacks leave. `None` where it was known before, and
    /// where they name none, two, or one that is newer than those of the preset. Of an older one it is the oldest that the
    /// preset supports.
    pub fn version_in(&self, logs: &[LogExcerpt]) -> Option<VersionInLog> {
        let source = &self.inputs().preset;
        let file = parse_preset(&source.path, &source.text).ok()?;
        let framework = file.framework.as_ref()?;
        // One that an environment has and the preset does not support stays unsupported.
        let unnamed = |package| self.inputs().installed.of(package) == Telling::Nothing;
        if !self.assumes_version() || !framework.packages.first().is_some_and(|p| unnamed(p)) {
            return None;
        }
        let told: Vec<_> = logs.iter().flat_map(|log| in_log(framework, log)).collect();
        let known = KnownVersion::of(&file, &told, in_frames(framework, logs));
        Some(VersionInLog {
            version: known.version(&file)?,
            described: known.describe(&file)?,
            span: known.span(&file),
        })
    }

    /// The same scripts read for this version; `None` where that cannot be done.
    pub fn for_version(&self, found: &VersionInLog) -> Option<Self> {
        let inputs = self.inputs();
        let scripts = inputs.scripts.as_ref()?;
        let asked = Inputs {
            framework_version: Some(found.version.clone()),
            scripts: Some(Scripts {
                version: Some(found.described.clone()),
                version_span: found.span.clone(),
                version_of_earlier: false,
                ..scripts.clone()
            }),
            ..inputs.clone()
        };
        let again = Self::new(asked).ok()?;
        let before = self.layer_of_scripts()?;
        let after = again.layer_of_scripts()?;
        let mut asked = again.inputs().clone();
        let at = asked.layers.iter().position(|layer| *layer == before)?;
        asked.layers[at] = after;
        if *inputs.ladder == self.preset().ladder {
            asked.ladder = again.preset().ladder.clone().into();
        }
        asked.templates = again.preset().stand_in_templates().into();
        Self::new(asked).ok()
    }

    /// What the scripts say, read for the version that is assumed.
    fn layer_of_scripts(&self) -> Option<Layer> {
        let own = self.own_scripts()?;
        let scripts = self.inputs().scripts.as_ref()?;
        let adoption = scripts.read(&own.submission, &own.stacks);
        Some(adopt::layer(self.preset(), &adoption))
    }
}
