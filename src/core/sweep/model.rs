//! What a cell needs: by the formulas of its preset, or by the memory model.

use std::collections::HashMap;

use super::nodes::{Cell, Nodes};
use crate::core::memory::spec_from;
use crate::core::recipe::{Formulas, MemoryFields};
use oomctl_memory::{Profile, Room, Spec, estimate};

/// Share of a GPU over which a formula's result is called tight: the context, the allocator's rounding and what
/// the formulas leave out.
const TIGHT: f64 = 0.9;

/// Memory of one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CellNeed {
    /// Bytes of the fullest phase.
    pub bytes: f64,
    /// Number of that phase.
    pub phase: usize,
    /// Bytes of the GPU, where they are known.
    pub gpu: Option<f64>,
    /// How surely it fits; `None` where the GPU is unknown.
    pub room: Option<Room>,
}

/// A name, and the number of the expression's node.
type NamedNode = (String, usize);

/// Where memory is known from.
pub(super) enum MemorySource<'a> {
    /// Nothing is known.
    Unknown,
    /// The preset's own formulas.
    Formulas {
        gpu: usize,
        phases: Vec<(String, Vec<NamedNode>)>,
    },
    /// The memory model, from a bare specification.
    Profile {
        fields: Vec<NamedNode>,
        axes: Vec<usize>,
        profile: &'a Profile,
        phases: Vec<String>,
        known: HashMap<Box<[u32]>, Result<CellNeed, String>>,
    },
}

impl<'a> MemorySource<'a> {
    pub(super) fn formulas(nodes: &mut Nodes<'a>, formulas: &Formulas) -> Result<Self, String> {
        let mut phases = Vec::new();
        for phase in &formulas.phases {
            let mut terms = Vec::new();
            for term in &phase.terms {
                terms.push((term.term.clone(), nodes.add(&term.bytes)?));
            }
            phases.push((phase.phase.clone(), terms));
        }
        Ok(Self::Formulas {
            gpu: nodes.add(&formulas.gpu_bytes)?,
            phases,
        })
    }

    pub(super) fn profile(
        nodes: &mut Nodes<'a>,
        fields: &MemoryFields,
        profile: &'a Profile,
    ) -> Result<Self, String> {
        let mut all = Vec::new();
        for (field, text) in &fields.fields {
            all.push((field.clone(), nodes.add(text)?));
        }
        let mut axes: Vec<usize> = all
            .iter()
            .flat_map(|(_, n)| nodes.axes(*n))
            .copied()
            .collect();
        axes.sort_unstable();
        axes.dedup();
        Ok(Self::Profile {
            fields: all,
            axes,
            profile,
            phases: Vec::new(),
            known: HashMap::new(),
        })
    }

    /// Axes that memory depends on.
    pub(super) fn axes(&self, nodes: &Nodes<'_>) -> Vec<usize> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Formulas { gpu, phases } => {
                let terms = phases.iter().flat_map(|(_, terms)| terms).map(|(_, n)| n);
                let all = terms.chain([gpu]);
                all.flat_map(|n| nodes.axes(*n)).copied().collect()
            }
            Self::Profile { axes, .. } => axes.clone(),
        }
    }

    /// The name of a phase.
    pub(super) fn phase(&self, number: usize) -> &str {
        let name = match self {
            Self::Unknown => None,
            Self::Formulas { phases, .. } => phases.get(number).map(|(name, _)| name),
            Self::Profile { phases, .. } => phases.get(number),
        };
        name.map_or("", String::as_str)
    }

    /// What a cell needs; `None` where the preset says nothing about memory.
    ///
    /// # Errors
    /// What is unknown or cannot be computed.
    pub(super) fn need(
        &mut self,
        nodes: &mut Nodes<'_>,
        cell: &Cell,
    ) -> Result<Option<CellNeed>, String> {
        match self {
            Self::Unknown => Ok(None),
            Self::Formulas { gpu, phases } => by_formulas(nodes, *gpu, phases, cell).map(Some),
            Self::Profile {
                fields,
                axes,
                profile,
                phases,
                known,
            } => {
                let key: Box<[u32]> = axes.iter().map(|a| cell[*a]).collect();
                if let Some(known) = known.get(&key) {
                    return known.clone().map(Some);
                }
                let need = by_profile(nodes, fields, profile, phases, cell);
                known.insert(key, need.clone());
                need.map(Some)
            }
        }
    }

    /// The terms of a phase in a cell, the largest first, in bytes.
    pub(super) fn terms(
        &mut self,
        nodes: &mut Nodes<'_>,
        cell: &Cell,
        phase: usize,
    ) -> Vec<(String, f64)> {
        let mut terms: Vec<(String, f64)> = match self {
            Self::Unknown => Vec::new(),
            Self::Formulas { phases, .. } => {
                let all = phases.get(phase).map(|(_, terms)| terms.as_slice());
                let value = |(name, node): &NamedNode| {
                    let bytes = nodes.number(*node, cell).ok().flatten()?;
                    Some((name.clone(), bytes))
                };
                all.unwrap_or_default().iter().filter_map(value).collect()
            }
            Self::Profile {
                fields, profile, ..
            } => match spec(nodes, fields, profile, cell) {
                Ok(spec) => {
                    let estimate = estimate(&spec, profile);
                    let fullest = estimate
                        .phases
                        .into_iter()
                        .find(|p| p.phase == estimate.phase);
                    let terms = fullest.map(|p| p.terms).unwrap_or_default();
                    terms
                        .into_iter()
                        .map(|t| (t.name.to_owned(), t.bytes))
                        .collect()
                }
                Err(_) => Vec::new(),
            },
        };
        terms.retain(|(_, bytes)| *bytes > 0.0);
        terms.sort_by(|a, b| b.1.total_cmp(&a.1));
        terms
    }
}

fn by_formulas(
    nodes: &mut Nodes<'_>,
    gpu: usize,
    phases: &[(String, Vec<NamedNode>)],
    cell: &Cell,
) -> Result<CellNeed, String> {
    let gpu = nodes.number(gpu, cell)?;
    let (mut bytes, mut fullest) = (0.0_f64, 0);
    for (number, (_, terms)) in phases.iter().enumerate() {
        let mut sum = 0.0;
        for (name, node) in terms {
            let term = nodes.number(*node, cell)?;
            sum += term.ok_or_else(|| format!("{name} is not a number"))?;
        }
        if sum > bytes {
            (bytes, fullest) = (sum, number);
        }
    }
    let room = gpu.map(|gpu| match bytes {
        b if b <= gpu * TIGHT => Room::Fits,
        b if b <= gpu => Room::Tight,
        _ => Room::TooLarge,
    });
    Ok(CellNeed {
        bytes,
        phase: fullest,
        gpu,
        room,
    })
}

fn spec(
    nodes: &mut Nodes<'_>,
    fields: &[NamedNode],
    profile: &Profile,
    cell: &Cell,
) -> Result<Spec, String> {
    let mut value = |node: usize| {
        let value = nodes.eval(node, cell).ok();
        let value = value.and_then(|v| serde_json::to_value(v).ok());
        value.unwrap_or_default()
    };
    let values: Vec<_> = fields.iter().map(|(_, node)| value(*node)).collect();
    let names = fields.iter().map(|(name, _)| name.as_str());
    spec_from(nodes.preset_name(), names.zip(&values), profile).map_err(|e| e.to_string())
}

fn by_profile(
    nodes: &mut Nodes<'_>,
    fields: &[NamedNode],
    profile: &Profile,
    phases: &mut Vec<String>,
    cell: &Cell,
) -> Result<CellNeed, String> {
    let estimate = estimate(&spec(nodes, fields, profile, cell)?, profile);
    let name = estimate.phase.name();
    let phase = phases.iter().position(|p| p == name).unwrap_or_else(|| {
        phases.push(name.to_owned());
        phases.len() - 1
    });
    let room = estimate.fits_probability.map(Room::of);
    Ok(CellNeed {
        bytes: estimate.peak_bytes,
        phase,
        gpu: estimate.gpu_bytes,
        room,
    })
}
