//! How the parts of a scanner are written down that are no plain data.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::phase::{self, PhaseMention};

/// A signature of the tables, by its name.
pub(super) mod signature {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::exceptions;
    use crate::signatures::{Signature, named};

    pub(crate) fn serialize<S: Serializer>(
        signature: &&'static Signature,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        (&signature.id, &signature.kind).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<&'static Signature, D::Error> {
        let (id, kind) = <(String, String)>::deserialize(from)?;
        named(&id, &kind)
            .or_else(|| exceptions::named(&id, &kind))
            .ok_or_else(|| de::Error::custom(format!("no signature {id}")))
    }
}

/// A place in the tables, by the name of what stands there.
pub(super) mod entry {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

    use crate::signatures::all;

    pub(crate) fn serialize<S: Serializer>(entry: &usize, to: S) -> Result<S::Ok, S::Error> {
        let signature = all().nth(*entry);
        let signature = signature.ok_or_else(|| ser::Error::custom("no such entry"))?;
        signature.id.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        let id = String::deserialize(from)?;
        let entry = all().position(|signature| signature.id == id);
        entry.ok_or_else(|| de::Error::custom(format!("no signature {id}")))
    }
}

/// Bytes of a log, which need not be UTF-8, as the characters U+0000 to U+00FF.
pub(super) mod bytes {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        to.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        bytes.map_err(de::Error::custom)
    }
}

impl Serialize for PhaseMention {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.phase, self.weight).serialize(to)
    }
}

impl<'de> Deserialize<'de> for PhaseMention {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (name, weight) = <(String, u8)>::deserialize(from)?;
        let phase = phase::named(&name);
        let phase = phase.ok_or_else(|| de::Error::custom(format!("no phase {name}")))?;
        Ok(Self { phase, weight })
    }
}
