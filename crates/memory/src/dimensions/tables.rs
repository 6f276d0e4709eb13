//! The tables that are shipped: dimensions of well-known models, capacities of GPUs.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use serde_yaml::Spanned;

use super::Dimensions;
use crate::Unknown;
use oomctl_base::units::Bytes;

/// A file of `presets/models/`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// One line for people.
    #[serde(default)]
    pub summary: String,
    /// Its models.
    pub models: Vec<ModelEntry>,
}

/// A model, with the names that it has on the hub.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// Names (`Qwen/Qwen2.5-7B-Instruct`); case counts not.
    pub names: Vec<String>,
    /// Parameters as the hub counts them; a matrix that serves twice once.
    pub params: Spanned<u64>,
    /// What its `config.json` says of its dimensions, under the same keys.
    pub config: Map<String, Json>,
}

impl ModelTable {
    /// The model of this name.
    pub fn find(&self, name: &str) -> Option<&ModelEntry> {
        let same = |other: &String| other.eq_ignore_ascii_case(name);
        self.models.iter().find(|m| m.names.iter().any(same))
    }

    /// The models that have this name on the hub behind some organisation, with the whole name.
    pub fn of_any_organisation<'t>(
        &'t self,
        last: &'t str,
    ) -> impl Iterator<Item = (&'t str, &'t ModelEntry)> {
        let same = move |name: &&String| {
            let (_, own) = name.rsplit_once('/').unwrap_or(("", name));
            own.eq_ignore_ascii_case(last)
        };
        let models = self.models.iter();
        models.filter_map(move |m| Some((m.names.iter().find(same)?.as_str(), m)))
    }
}

impl ModelEntry {
    /// Its dimensions, with the published number of parameters.
    ///
    /// # Errors
    /// As `read_dimensions`.
    pub fn dimensions(&self) -> Result<Dimensions, Unknown> {
        let mut dimensions = Dimensions::of(&self.config)?;
        let published = self.params.value as f64;
        dimensions.params = published;
        Ok(dimensions)
    }

    /// The line of its file, from 1.
    pub fn line(&self) -> u32 {
        u32::try_from(self.params.referenced.line()).unwrap_or(u32::MAX)
    }
}

/// A file of `presets/gpus/`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuTable {
    /// One line for people.
    #[serde(default)]
    pub summary: String,
    /// Its types of GPU.
    pub gpus: Vec<GpuEntry>,
    /// What CUDA's context takes of some of them.
    #[serde(default)]
    pub contexts: Vec<ContextEntry>,
}

/// A published size of CUDA's context, kernels that were loaded included.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextEntry {
    /// Names of its cards.
    pub gpus: Vec<String>,
    /// CUDA's major version.
    pub cuda: u32,
    /// The least that was seen.
    pub least: String,
    /// The most.
    pub most: String,
    /// Where.
    pub source: String,
}

/// A type of GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuEntry {
    /// Names, small, with hyphens, without the maker's: as GRES types are called and as NVML prints them.
    pub names: Vec<String>,
    /// What PyTorch reports as the total (`79.18GiB`), at one of the settings that are in use (with ECC).
    pub memory: Spanned<String>,
    /// CUDA's compute capability (`9.0`).
    pub capability: Option<String>,
    /// Streaming multiprocessors.
    pub processors: Option<u16>,
}

/// What the tables say of a type of GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// One capacity, its text, and the line of its file.
    Known(String, u32),
    /// The name belongs to cards of several capacities.
    Several(Vec<String>),
}

/// The capacity of a type of GPU, by its GRES type (`a100`, `nvidia_h100_80gb_hbm3`) or product name (`NVIDIA L40S`);
/// `None` for one that the tables do not have.
pub fn capacity<'t>(tables: impl Iterator<Item = &'t GpuTable>, name: &str) -> Option<Capacity> {
    let wanted = plain(name);
    let entries = tables.flat_map(|t| &t.gpus);
    let mut found: Vec<&GpuEntry> = entries.filter(|g| g.names.contains(&wanted)).collect();
    found.dedup_by_key(|g| Bytes::parse(&g.memory.value).ok());
    match found[..] {
        [] => None,
        [one] => {
            let line = u32::try_from(one.memory.referenced.line()).unwrap_or(u32::MAX);
            Some(Capacity::Known(one.memory.value.clone(), line))
        }
        _ => Some(Capacity::Several(
            found.iter().map(|g| g.memory.value.clone()).collect(),
        )),
    }
}

/// Compute capability and multiprocessors of a type of GPU; `None` where the tables do not have them, or cards of one name
/// differ in them.
pub fn processor<'t>(
    tables: impl Iterator<Item = &'t GpuTable>,
    name: &str,
) -> Option<(&'t str, u16)> {
    let wanted = plain(name);
    let entries = tables.flat_map(|t| &t.gpus);
    let mut found = entries.filter(|g| g.names.contains(&wanted));
    let of = |gpu: &'t GpuEntry| Some((gpu.capability.as_deref()?, gpu.processors?));
    let first = of(found.next()?)?;
    found.all(|gpu| of(gpu) == Some(first)).then_some(first)
}

/// A name in the tables' spelling.
pub(super) fn plain(name: &str) -> String {
    const MAKERS: [&str; 7] = [
        "nvidia", "amd", "tesla", "geforce", "quadro", "instinct", "graphics",
    ];
    let small = name.to_lowercase();
    let words = small.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let words = words.filter(|w| !w.is_empty() && !MAKERS.contains(w));
    words.collect::<Vec<_>>().join("-")
}
