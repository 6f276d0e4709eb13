//! Which family of remedies a failure asks for, and answers that may be unknown.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The class of a failure: which family of remedies applies.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Device memory of the GPU ran out.
    GpuOom,
    /// An inference engine's own memory budget does not fit (vLLM KV cache, start-up check). The
    /// remedy may have the opposite sign of an allocator's OOM.
    EngineMemory,
    /// Host memory ran out.
    HostOom,
    /// Shared memory (`/dev/shm`) ran out.
    Shm,
    /// Not a memory failure, or no failure at all; `kind` says which.
    #[default]
    NotOom,
}

impl Class {
    /// Its name in files and flags.
    pub fn word(self) -> &'static str {
        match self {
            Self::GpuOom => "gpu_oom",
            Self::EngineMemory => "engine_memory",
            Self::HostOom => "host_oom",
            Self::Shm => "shm",
            Self::NotOom => "not_oom",
        }
    }
}

/// True, false, or cannot be told from what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tri {
    /// Yes.
    True,
    /// No.
    #[default]
    False,
    /// The text alone cannot tell.
    Ambiguous,
}

impl Tri {
    /// Yes or no.
    pub(super) fn of(yes: bool) -> Self {
        if yes { Self::True } else { Self::False }
    }
}

impl JsonSchema for Tri {
    fn schema_name() -> Cow<'static, str> {
        "Tri".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, "ambiguous"] })
    }
}

impl Serialize for Tri {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::True => s.serialize_bool(true),
            Self::False => s.serialize_bool(false),
            Self::Ambiguous => s.serialize_str("ambiguous"),
        }
    }
}

impl<'de> Deserialize<'de> for Tri {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(d)? {
            serde_json::Value::Bool(true) => Ok(Self::True),
            serde_json::Value::Bool(false) => Ok(Self::False),
            _ => Ok(Self::Ambiguous),
        }
    }
}
