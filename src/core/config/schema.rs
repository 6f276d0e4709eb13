//! What a configuration file may hold as JSON Schema (draft 7, which editors read), so that they complete names
//! and mark mistakes while one types.
//!
//! Whatever follows from types is derived from them (`schemars`); here is what follows from presets: names of
//! knobs, of rungs, and what values they take. A schema never refuses what the program accepts, save numbers
//! that somebody put in quotes.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};

use crate::core::recipe::{Knob, KnobSetFile, PresetFile};
use oomctl_base::{Role, ValueKind};

/// The schema of a type, with the types that it uses under `definitions`.
pub fn schema_of<T: JsonSchema>() -> Map<String, Json> {
    let schema = SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<T>();
    match schema.to_value() {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

/// Describes what is printed: a field that is always there is required, and one that may be null says so.
pub fn output_schemas() -> SchemaGenerator {
    SchemaSettings::draft07().for_serialize().into_generator()
}

/// A section whose fields of seconds (`wall_time_s`) are written as durations (`wall_time: 3d`).
pub fn with_durations(mut section: Map<String, Json>, durations: &[&str]) -> Json {
    if let Some(Json::Object(fields)) = section.get_mut("properties") {
        for name in durations {
            let field = fields.remove(&format!("{name}_s")).unwrap_or_default();
            let doc = field["description"].as_str().unwrap_or_default();
            let mut entry = json!({
                "type": ["string", "integer", "null"],
                "description": format!("{doc} Written as a duration: 90s, 15m, 12h, 3d."),
            });
            if let Some(seconds) = field["default"].as_u64() {
                entry["default"] = format!("{seconds}s").into();
            }
            fields.insert((*name).to_owned(), entry);
        }
    }
    for key in ["$schema", "title"] {
        section.remove(key);
    }
    section.into()
}

/// A preset and the knob sets whose knobs it has: what a file may name when it is used.
pub struct Vocabulary<'a> {
    /// The preset.
    pub preset: &'a PresetFile,
    /// Its knob sets.
    pub sets: Vec<&'a KnobSetFile>,
}

impl Vocabulary<'_> {
    /// Knobs by the name of their definition, the preset's own before those of its sets, and instead of theirs.
    fn knobs(&self) -> impl Iterator<Item = (String, &Knob)> {
        let own = self.preset.knobs.iter().map(|k| (&self.preset.preset, k));
        let sets = self.sets.iter();
        let shared = sets.flat_map(|set| set.knobs.iter().map(move |k| (&set.set, k)));
        let shared = shared.filter(|(_, k)| self.preset.knobs.iter().all(|o| o.name != k.name));
        own.chain(shared)
            .map(|(from, k)| (format!("{from}:{}", k.name), k))
    }

    /// Adds a definition for each knob.
    pub fn define(&self, definitions: &mut Map<String, Json>) {
        for (name, knob) in self.knobs() {
            definitions.entry(name).or_insert_with(|| of_knob(knob));
        }
    }

    /// What `knobs`, `pin` and `ladder` may name. With `strict` other names are refused.
    pub fn sections(&self, strict: bool) -> Json {
        let mut fields = Map::new();
        for (definition, knob) in self.knobs() {
            let entry = json!({ "$ref": format!("#/definitions/{definition}") });
            let spelled = knob.spelling.as_ref().map(|s| s.name().to_owned());
            for name in [Some(knob.name.clone()), spelled].into_iter().flatten() {
                fields.entry(name).or_insert_with(|| entry.clone());
            }
        }
        let names: Vec<&String> = self.knobs().map(|(_, k)| &k.name).collect();
        let rungs: Vec<&String> = self.preset.ladder.iter().map(|r| &r.rung).collect();
        json!({
            "knobs": { "properties": fields, "additionalProperties": !strict },
            "pin": { "items": { "anyOf": [{ "enum": names }, { "type": "string" }] } },
            "ladder": { "items": { "anyOf": [{ "enum": rungs }, { "type": "object" }, { "type": "string" }] } },
        })
    }
}

/// The values of a knob, with what is known of it as the text that editors show.
fn of_knob(knob: &Knob) -> Json {
    let mut schema = Map::new();
    let unit = knob
        .unit
        .as_ref()
        .map_or(String::new(), |u| format!(" Unit: {u}."));
    let effect = knob.effect.describe();
    schema.insert(
        "description".to_owned(),
        format!("{}{unit} Effect of moving it: {effect}.", knob.doc).into(),
    );
    if let Some(default) = knob
        .default
        .as_ref()
        .and_then(|d| serde_json::to_value(d).ok())
    {
        schema.insert("default".to_owned(), default);
    }
    if !knob.choices.is_empty() {
        let texts = knob.choices.iter().map(|c| Json::from(c.clone()));
        let bare = knob
            .choices
            .iter()
            .filter_map(|c| serde_json::from_str(c).ok());
        let all = texts.chain(bare).chain([Json::Null]);
        schema.insert("enum".to_owned(), all.collect());
        return schema.into();
    }
    let types: &[&str] = match knob.kind {
        ValueKind::Int => &["integer", "null"],
        ValueKind::Float => &["number", "null"],
        ValueKind::Bool => &["boolean", "null"],
        ValueKind::Size => &["string", "null"],
        ValueKind::SlurmSize | ValueKind::Duration => &["string", "integer", "null"],
        ValueKind::Text => &["string", "number", "boolean", "null"],
        ValueKind::List => &["array", "string", "number", "boolean", "null"],
        ValueKind::Map => &["object", "null"],
    };
    schema.insert("type".to_owned(), types.into());
    if matches!(knob.kind, ValueKind::Int | ValueKind::Float) {
        let least = knob
            .min
            .or(knob.role.filter(|r| Role::counts_from_one(*r)).map(|_| 1.0));
        schema.extend(least.map(|min| ("minimum".to_owned(), min.into())));
        schema.extend(knob.max.map(|max| ("maximum".to_owned(), max.into())));
    }
    schema.into()
}
