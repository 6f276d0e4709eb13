//! What a project knows of failures: `signatures:` of its file, messages that only its own program prints, and its tables of bugs.

use serde_json::{Map, Value};

use crate::cli::session::Session;
use crate::core::config::{
    ConfigContent, ConfigDocument, ConfigError, ConfigKey, ConfigNode, parse_data,
};
use crate::io::library::{Library, LibraryFolder};
use crate::view::CommandFailure;
use oomctl_diagnose::{Bugs, Package, ProjectFailures, UserSignature};

const TEXTS: [&str; 6] = ["id", "kind", "class", "contains", "pattern", "phase"];
const SWITCHES: [&str; 2] = ["fatal", "retryable_unchanged"];
const LISTS: [&str; 2] = ["helps", "worse"];

impl Session {
    /// What this project knows of the failures of its own program.
    pub fn own_failures(&self) -> Result<ProjectFailures, CommandFailure> {
        Ok(ProjectFailures {
            signatures: of(&self.document)?,
            bugs: bugs(&self.library)?,
        })
    }
}

/// Reads and checks them; the first fault with its place.
pub fn of(doc: &ConfigDocument) -> Result<Vec<UserSignature>, ConfigError> {
    let Some(node) = doc.get("signatures") else {
        return Ok(Vec::new());
    };
    let ConfigContent::List(items) = &node.content else {
        return Err(doc.fault(node, "expected a list of signatures"));
    };
    let mut all: Vec<UserSignature> = Vec::new();
    for item in items {
        let signature = one(doc, item)?;
        if all.iter().any(|s| s.id == signature.id) {
            let what = format!("the signature `{}` is defined twice", signature.id);
            return Err(doc.fault(item, what));
        }
        all.push(signature);
    }
    Ok(all)
}

/// The tables of bugs in the project's `presets/bugs`.
pub fn bugs(library: &Library) -> Result<Bugs, CommandFailure> {
    let mut all: Vec<Package> = Vec::new();
    for source in library.own_sources(LibraryFolder::Bugs)? {
        let table: Package = parse_data(&source.path, &source.text)?;
        if let Some(fault) = table.fault() {
            return Err(ConfigError::plain(&source.path, fault).into());
        }
        all.push(table);
    }
    Ok(Bugs::new(all))
}

fn one(doc: &ConfigDocument, node: &ConfigNode) -> Result<UserSignature, ConfigError> {
    let ConfigContent::Map(entries) = &node.content else {
        let what = format!("expected the fields of a signature, got {}", node.noun());
        return Err(doc.fault(node, what));
    };
    let mut fields = Map::new();
    for (key, value) in entries {
        fields.insert(key.name.clone(), field(doc, key, value)?);
    }
    let signature: UserSignature = serde_json::from_value(fields.into()).map_err(|e| {
        let class = "one of gpu_oom, engine_memory, host_oom, shm, not_oom";
        let error = doc.fault(node, format!("signature: {e}"));
        error.hint(format!(
            "`id`, `kind` and `contains` are needed; `class` is {class}"
        ))
    })?;
    signature.check().map_err(|e| {
        let at = entries.iter().find(|(k, _)| k.name == e.field);
        doc.fault(at.map_or(node, |(_, value)| value), e.to_string())
    })?;
    Ok(signature)
}

fn field(doc: &ConfigDocument, key: &ConfigKey, value: &ConfigNode) -> Result<Value, ConfigError> {
    let name = key.name.as_str();
    match (&value.content, value.to_json()) {
        (ConfigContent::Scalar(text), _) if TEXTS.contains(&name) => Ok(text.clone().into()),
        (_, Value::Bool(switch)) if SWITCHES.contains(&name) => Ok(switch.into()),
        (ConfigContent::Scalar(text), _) if LISTS.contains(&name) => Ok(vec![text.clone()].into()),
        (ConfigContent::List(items), _) if LISTS.contains(&name) => {
            let text = |item: &ConfigNode| match &item.content {
                ConfigContent::Scalar(text) => Ok(Value::from(text.clone())),
                _ => Err(doc.fault(item, format!("expected text, got {}", item.noun()))),
            };
            items.iter().map(text).collect()
        }
        _ if TEXTS.contains(&name) || LISTS.contains(&name) => Err(doc.fault(
            value,
            format!("{name}: expected text, got {}", value.noun()),
        )),
        _ if SWITCHES.contains(&name) => {
            let what = format!("{name}: expected true or false, got {}", value.noun());
            Err(doc.fault(value, what))
        }
        _ => {
            let known: Vec<&str> = TEXTS.into_iter().chain(SWITCHES).chain(LISTS).collect();
            Err(doc.unknown_key(key, &known))
        }
    }
}
