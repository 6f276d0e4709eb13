//! A configuration file as sections: what the keys at its top mean.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::ConfigError;
use super::error::meant_by;
use super::node::{ConfigContent, ConfigKey, ConfigNode};
use crate::core::recipe::{Knob, Layer, LayerKind, MARK, Override, Preset, Setting};
use oomctl_base::{Origin, Value, ValueKind};

/// A configuration file whose top is a map.
#[derive(Debug, Clone)]
pub struct ConfigDocument {
    /// The file, as shown to the user.
    pub path: String,
    text: String,
    entries: Vec<(ConfigKey, ConfigNode)>,
}

/// A text with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedText {
    /// The text.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
}

/// One entry of `ladder:` in a project: a rung of the preset by name, or fields that define or change
/// one.
#[derive(Debug, Clone, PartialEq)]
pub struct LadderEntry {
    /// Name of the rung.
    pub rung: String,
    /// Fields given, as JSON; empty for a name alone.
    pub fields: serde_json::Map<String, serde_json::Value>,
    /// Where it stands.
    pub origin: Origin,
}

impl ConfigDocument {
    /// Parses a file.
    ///
    /// # Errors
    /// As `ConfigNode::parse`, and when the top is no map.
    pub fn parse(path: &str, text: &str) -> Result<Self, ConfigError> {
        let node = ConfigNode::parse(path, text)?;
        let entries = match node.content {
            ConfigContent::Map(entries) => entries,
            ConfigContent::Null => Vec::new(),
            _ => {
                let what = format!("expected keys and values, got {}", node.noun());
                let error = ConfigError::at(path, text, node.line, node.column, what);
                return Err(error.hint("write `key: value`, one a line, as `oomctl init` does"));
            }
        };
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            entries,
        })
    }

    /// The node under a key at the top.
    pub fn get(&self, key: &str) -> Option<&ConfigNode> {
        self.entries
            .iter()
            .find(|(k, _)| k.name == key)
            .map(|(_, n)| n)
            .filter(|n| n.content != ConfigContent::Null)
    }

    /// An error at a node.
    pub fn fault(&self, node: &ConfigNode, what: impl Into<String>) -> ConfigError {
        ConfigError::at(&self.path, &self.text, node.line, node.column, what)
    }

    /// Refuses keys at the top that are not in `known`.
    ///
    /// # Errors
    /// The first unknown key, with the nearest known one.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), ConfigError> {
        self.check(&self.entries, known)
    }

    fn check(
        &self,
        entries: &[(ConfigKey, ConfigNode)],
        known: &[&str],
    ) -> Result<(), ConfigError> {
        let mut names = entries.iter().map(|(name, _)| name);
        let unknown = names.find(|name| !known.contains(&name.name.as_str()));
        unknown.map_or(Ok(()), |name| Err(self.unknown_key(name, known)))
    }

    /// That a key is none of these.
    pub fn unknown_key(&self, key: &ConfigKey, known: &[&str]) -> ConfigError {
        let what = format!("unknown key `{}`", key.name);
        let error = ConfigError::at(&self.path, &self.text, key.line, key.column, what);
        error.hint(meant_by(&key.name, known))
    }

    /// The text under a key at the top.
    ///
    /// # Errors
    /// When it is a list or a map.
    pub fn text(&self, key: &str) -> Result<Option<PlacedText>, ConfigError> {
        self.get(key).map(|n| self.given(n)).transpose()
    }

    /// The names and texts of the map under a key at the top; none where it is missing.
    ///
    /// # Errors
    /// A node that is no map, and a value that is no text, with its place.
    pub fn texts(&self, key: &str) -> Result<BTreeMap<String, String>, ConfigError> {
        let entry = |(name, value): &(ConfigKey, ConfigNode)| {
            Ok((name.name.clone(), self.given(value)?.text))
        };
        self.entries(key)?.iter().map(entry).collect()
    }

    /// Refuses names in the map under a key at the top that are not in `known`.
    ///
    /// # Errors
    /// The first unknown name, with the nearest known one.
    pub fn check_names(&self, key: &str, known: &[&str]) -> Result<(), ConfigError> {
        self.check(self.entries(key)?, known)
    }

    fn given(&self, node: &ConfigNode) -> Result<PlacedText, ConfigError> {
        match &node.content {
            ConfigContent::Scalar(text) => Ok(PlacedText {
                text: text.clone(),
                origin: self.origin(node.line, node.column),
            }),
            _ => Err(self
                .fault(node, format!("expected text, got {}", node.noun()))
                .hint("write one value; put text with colons or brackets in quotes")),
        }
    }

    fn origin(&self, line: u32, column: u32) -> Origin {
        Origin::file(&self.path, line, column)
    }

    /// The entries of the map under a key at the top; none where it is missing.
    fn entries(&self, key: &str) -> Result<&[(ConfigKey, ConfigNode)], ConfigError> {
        let entries = self.get(key).map(|node| self.map(node)).transpose()?;
        Ok(entries.unwrap_or_default())
    }

    fn map<'a>(&self, node: &'a ConfigNode) -> Result<&'a [(ConfigKey, ConfigNode)], ConfigError> {
        match &node.content {
            ConfigContent::Map(entries) => Ok(entries),
            _ => Err(self
                .fault(
                    node,
                    format!("expected keys and values, got {}", node.noun()),
                )
                .hint(
                    "write `name: value` below it, one a line and indented, or `{ name: value }`",
                )),
        }
    }

    /// A section with fixed fields. Fields named in `durations` are written as durations
    /// (`wall_time: 3d`) and read into a field in seconds (`wall_time_s`).
    ///
    /// # Errors
    /// Unknown fields and values of the wrong type, with their place.
    pub fn section<T: DeserializeOwned + Default>(
        &self,
        key: &str,
        fields: &[&str],
        durations: &[&str],
    ) -> Result<T, ConfigError> {
        let Some(node) = self.get(key) else {
            return Ok(T::default());
        };
        let mut json = serde_json::Map::new();
        for (name, value) in self.map(node)? {
            if durations.contains(&name.name.as_str()) {
                let text = self.given(value)?.text;
                let seconds = oomctl_base::units::parse_duration_s(&text).map_err(|e| {
                    self.fault(value, format!("{}: {e}", name.name))
                        .hint("write it with its unit: 90s, 15m, 12h, 3d")
                })?;
                json.insert(format!("{}_s", name.name), seconds.into());
            } else if fields.contains(&name.name.as_str()) {
                json.insert(name.name.clone(), value.to_json());
            } else {
                let known: Vec<&str> = fields.iter().chain(durations).copied().collect();
                return Err(self.unknown_key(name, &known));
            }
        }
        serde_json::from_value(json.into()).map_err(|e| {
            self.fault(node, format!("{key}: {e}"))
                .hint("counts are whole numbers, switches true or false")
        })
    }

    /// The `knobs`, `pin` and `overrides` of the file as a layer.
    ///
    /// # Errors
    /// Every unknown knob and every value of the wrong type, each with its place.
    pub fn layer(&self, kind: LayerKind, preset: &Preset) -> Result<Layer, Vec<ConfigError>> {
        let mut layer = Layer::new(kind);
        let mut errors = Vec::new();
        match self.entries("knobs") {
            Ok(entries) => {
                // What still waits for its value is named with all else that is missing.
                let waits = |node: &ConfigNode| node.content == ConfigContent::Scalar(MARK.into());
                for (key, node) in entries.iter().filter(|(_, node)| !waits(node)) {
                    match self.setting(preset, key, node) {
                        Ok((name, setting)) => drop(layer.settings.insert(name, setting)),
                        Err(e) => errors.push(e),
                    }
                }
            }
            Err(e) => errors.push(e),
        }
        if let Err(e) = self.pins(preset, &mut layer) {
            errors.push(e);
        }
        if let Err(e) = self.overrides(&mut layer) {
            errors.push(e);
        }
        if errors.is_empty() {
            Ok(layer)
        } else {
            Err(errors)
        }
    }

    /// Of the `knobs` of the file those of some names, as a layer, and the names of the others.
    ///
    /// # Errors
    /// Values of the wrong kind, with their place.
    pub fn some_knobs(
        &self,
        kind: LayerKind,
        preset: &Preset,
        wanted: &[&str],
    ) -> Result<(Layer, Vec<String>), ConfigError> {
        let (mut layer, mut others) = (Layer::new(kind), Vec::new());
        for (key, node) in self.entries("knobs")? {
            let known = wanted.contains(&key.name.as_str()) && preset.knob(&key.name).is_some();
            if !known {
                others.push(key.name.clone());
                continue;
            }
            let (name, setting) = self.setting(preset, key, node)?;
            layer.settings.insert(name, setting);
        }
        Ok((layer, others))
    }

    fn setting(
        &self,
        preset: &Preset,
        key: &ConfigKey,
        node: &ConfigNode,
    ) -> Result<(String, Setting), ConfigError> {
        let Some(knob) = preset.knob(&key.name) else {
            return Err(self.no_knob(preset, &key.name, key.line, key.column));
        };
        let value = self.value(knob, node)?;
        let origin = self.origin(node.line, node.column);
        Ok((knob.name.clone(), Setting { value, origin }))
    }

    fn no_knob(&self, preset: &Preset, name: &str, line: u32, column: u32) -> ConfigError {
        let problem = preset.unknown_knob(name);
        let error = ConfigError::at(&self.path, &self.text, line, column, problem.what);
        match problem.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    fn value(&self, knob: &Knob, node: &ConfigNode) -> Result<Value, ConfigError> {
        let expected = || {
            let what = format!(
                "{}: expected {}, got {}",
                knob.name,
                knob.kind.noun(),
                node.noun()
            );
            self.fault(node, what).hint(knob.takes())
        };
        match (&node.content, knob.kind) {
            (ConfigContent::Null, _) => Ok(Value::Null),
            (ConfigContent::List(items), ValueKind::List) => items
                .iter()
                .map(|i| self.given(i).map(|g| g.text))
                .collect::<Result<_, _>>()
                .map(Value::List),
            (ConfigContent::Scalar(text), ValueKind::List) => Ok(Value::List(vec![text.clone()])),
            (ConfigContent::Map(entries), ValueKind::Map) => entries
                .iter()
                .map(|(k, v)| self.given(v).map(|g| (k.name.clone(), g.text)))
                .collect::<Result<_, _>>()
                .map(Value::Map),
            (ConfigContent::Scalar(text), kind) if kind != ValueKind::Map => {
                kind.parse(text).map_err(|e| {
                    self.fault(node, format!("{}: {e}", knob.name))
                        .hint(knob.takes())
                })
            }
            _ => Err(expected()),
        }
    }

    fn pins(&self, preset: &Preset, layer: &mut Layer) -> Result<(), ConfigError> {
        let Some(node) = self.get("pin") else {
            return Ok(());
        };
        let ConfigContent::List(items) = &node.content else {
            return Err(self
                .fault(node, "expected a list of knobs")
                .hint("write `pin: [KNOB, KNOB]`, each by its name"));
        };
        for item in items {
            let given = self.given(item)?;
            let Some(knob) = preset.knob(&given.text) else {
                return Err(self.no_knob(preset, &given.text, item.line, item.column));
            };
            layer.pins.insert(knob.name.clone(), given.origin);
        }
        Ok(())
    }

    fn overrides(&self, layer: &mut Layer) -> Result<(), ConfigError> {
        for (key, value) in self.entries("overrides")? {
            let given = self.given(value)?;
            layer.overrides.push(Override {
                key: key.name.clone(),
                value: given.text,
                origin: given.origin,
            });
        }
        Ok(())
    }

    /// The `ladder` of the file; `None` where it has none.
    ///
    /// # Errors
    /// Entries that are neither a name nor fields with `rung`.
    pub fn ladder(&self) -> Result<Option<Vec<LadderEntry>>, ConfigError> {
        let Some(node) = self.get("ladder") else {
            return Ok(None);
        };
        let ConfigContent::List(items) = &node.content else {
            return Err(self
                .fault(node, "expected a list of rungs")
                .hint("write `ladder: [RUNG, RUNG]`; `oomctl plan` names those of the preset"));
        };
        items
            .iter()
            .map(|i| self.rung(i))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn rung(&self, node: &ConfigNode) -> Result<LadderEntry, ConfigError> {
        let origin = self.origin(node.line, node.column);
        if let ConfigContent::Scalar(rung) = &node.content {
            return Ok(LadderEntry {
                rung: rung.clone(),
                fields: serde_json::Map::new(),
                origin,
            });
        }
        let serde_json::Value::Object(fields) = node.to_json() else {
            return Err(self
                .fault(node, "expected the name of a rung, or its fields")
                .hint("write `- RUNG`, or `- { rung: RUNG, laps: 2 }`"));
        };
        match fields.get("rung").and_then(|r| r.as_str()) {
            Some(rung) => Ok(LadderEntry {
                rung: rung.to_owned(),
                fields: fields.clone(),
                origin,
            }),
            None => Err(self
                .fault(node, "this rung has no name")
                .hint("add `rung: NAME`; `oomctl plan` names those of the preset")),
        }
    }
}
