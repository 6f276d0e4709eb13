//! Bare specifications that name a model or a type of GPU instead of giving dimensions and capacity.

use std::borrow::Cow;

use anyhow::bail;
use serde_json::{Map, Value};

use super::LookupTables;
use oomctl_base::units::{Bytes, GIB};
use oomctl_memory::{Capacity, Dimensions};

/// Fields of which none is given where a model is only named.
const DIMENSIONS: [&str; 5] = ["layers", "hidden", "heads", "ffn", "vocab"];

/// A specification with the dimensions that its `model` stands for, where it gives none, and the capacity of its
/// `gpu_type`, where it gives none. A type that is not known leaves the capacity unknown; without dimensions a model that
/// is not known is a fault.
pub fn filled<'t>(known: &LookupTables<'_>, text: &'t str) -> anyhow::Result<Cow<'t, str>> {
    let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(text) else {
        return Ok(Cow::Borrowed(text));
    };
    let missing =
        |fields: &Map<String, Value>, name: &str| fields.get(name).is_none_or(Value::is_null);
    let mut more = Vec::new();
    if DIMENSIONS.iter().all(|name| missing(&fields, name)) && !missing(&fields, "model") {
        more.extend(of_named(known, &fields)?);
    }
    if missing(&fields, "gpu_total_gib")
        && let Some(name) = fields.get("gpu_type").and_then(Value::as_str)
        && let Ok(Some((Capacity::Known(memory, _), _))) = known.gpu(name)
        && let Ok(memory) = Bytes::parse(&memory)
    {
        more.push(("gpu_total_gib", Value::from(memory.0 as f64 / GIB)));
    }
    if more.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    for (name, value) in more {
        if missing(&fields, name) {
            fields.insert(name.to_owned(), value);
        }
    }
    Ok(Cow::Owned(Value::from(fields).to_string()))
}

fn of_named(
    known: &LookupTables<'_>,
    fields: &Map<String, Value>,
) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let Some(name) = fields.get("model").and_then(Value::as_str) else {
        bail!("model: is no name");
    };
    match known.model(name) {
        Ok(Some(model)) => Ok(of_model(&model.dimensions)),
        Ok(None) => {
            let looked = known.where_looked(name);
            bail!("unknown model {name}: {looked}")
        }
        Err(fault) => bail!("model: {}", fault.sentence()),
    }
}

fn of_model(d: &Dimensions) -> Vec<(&'static str, Value)> {
    vec![
        ("layers", d.layers.into()),
        ("hidden", d.hidden.into()),
        ("heads", d.heads.into()),
        ("kv_heads", d.kv_heads.into()),
        ("head_dim", d.head_dim.into()),
        ("ffn", d.intermediate.into()),
        ("vocab", d.vocab.into()),
        ("params_b", (d.params / 1e9).into()),
        ("experts", d.experts.into()),
        ("tied", d.tied.into()),
        ("mlp", if d.gated { "swiglu" } else { "gelu" }.into()),
    ]
}
