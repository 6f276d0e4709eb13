//! What is made of the texts of a request, once for all runs of a stack.

use crate::core::measure::FigurePattern;
use crate::core::recipe::Preset;
use oomctl_diagnose::ProgressPattern;
use oomctl_memory::Profile;

/// What is made of the texts of a request: assembled, compiled.
#[derive(Debug)]
pub(super) struct Made {
    pub preset: Preset,
    pub profile: Option<Profile>,
    pub progress: Vec<ProgressPattern>,
    pub measures: Vec<FigurePattern>,
}

impl Made {
    /// Compiles what is compiled once. A pattern that the preset's check refuses is left out.
    pub fn new(preset: Preset, profile: Option<Profile>) -> Self {
        let progress = preset.progress.iter();
        let measures = preset.measures.iter();
        Self {
            progress: progress
                .filter_map(|p| ProgressPattern::new(p).ok())
                .collect(),
            measures: measures
                .filter_map(|s| FigurePattern::new(s).ok())
                .collect(),
            preset,
            profile,
        }
    }
}
