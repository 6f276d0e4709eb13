//! The JSON documents that commands print, each described by the type that is printed.

use clap::ValueEnum;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value as Json, json};

use crate::cli::commands::{diagnose, explain, presets};
use crate::cli::gpus::free::FreeView;
use crate::core::config::output_schemas;
use crate::view::doctor_view::DoctorView;
use crate::view::error_document::ErrorDocument;
use crate::view::estimate_view::EstimateView;
use crate::view::everybody::EverybodyView;
use crate::view::files_view::FilesView;
use crate::view::fix_view::{FixDecision, LogAdvice};
use crate::view::gpus_view::{GpusView, JobGpusView};
use crate::view::history_summary::HistorySummary;
use crate::view::history_view::HistoryView;
use crate::view::launch_summary::LaunchView;
use crate::view::measured_plan_view::MeasuredPlanView;
use crate::view::own_view::ScriptView;
use crate::view::phantom_view::PhantomView;
use crate::view::plan_after_view::PlanAfterView;
use crate::view::plan_view::PlanView;
use crate::view::probe_view::{NextView, ProbeView};
use crate::view::prune_view::PruneView;
use crate::view::report::Report;
use crate::view::run_view::RunsDocument;
use crate::view::settings_view::SettingsView;
use crate::view::sweep_fix_view::FixView;
use crate::view::sweep_submit_view::SweepSubmitDocument;
use crate::view::sweep_view::SweepView;
use crate::view::tune_view::TuneView;

/// The commands that have `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Why a job died
    Diagnose,
    /// What is there and works
    Doctor,
    /// Memory before a job runs
    Estimate,
    /// Where a value comes from, or all values
    Explain,
    /// What to change after a failure
    Fix,
    /// GPUs and who holds them
    Gpus,
    /// Attempts of many runs
    History,
    /// Memory of a program on phantom GPUs
    Measure,
    /// What would change after each out-of-memory
    Plan,
    /// Presets and profiles
    Presets,
    /// Runs whose folders are removed
    Prune,
    /// The files of a job
    Render,
    /// A report's figures
    Report,
    /// The run that goes on
    Retry,
    /// A program that ran on a GPU of this machine
    Run,
    /// Runs and their attempts
    Status,
    /// The run that was submitted, or would be
    Submit,
    /// Cells of a sweep
    Sweep,
    /// The fastest configuration that fits
    Tune,
    /// The runs that were watched
    Watch,
}

impl Output {
    /// The schema of what `oomctl COMMAND --json` prints.
    pub fn schema(self) -> Json {
        match self {
            Self::Diagnose => one::<diagnose::DiagnosisView>(),
            Self::Doctor => one::<DoctorView>(),
            Self::Estimate => one::<EstimateView>(),
            Self::Explain => any(&[of::<explain::ExplainView>, of::<SettingsView<'_>>]),
            Self::Fix => any(&[of::<FixDecision>, of::<LogAdvice>]),
            Self::Gpus => any(&[of::<GpusView>, of::<JobGpusView>, of::<FreeView<'_>>]),
            Self::History => any(&[of::<HistoryView>, of::<HistorySummary>]),
            Self::Measure => one::<PhantomView>(),
            Self::Plan => any(&[
                of::<PlanView>,
                of::<PlanAfterView>,
                of::<ScriptView>,
                of::<MeasuredPlanView>,
            ]),
            Self::Presets => one::<presets::PresetsView>(),
            Self::Prune => one::<PruneView>(),
            Self::Render => one::<FilesView<'_>>(),
            Self::Report => one::<Report>(),
            Self::Run => one::<LaunchView<'_>>(),
            Self::Status => any(&[of::<RunsDocument<'_>>, of::<EverybodyView>]),
            Self::Retry | Self::Watch => one::<RunsDocument<'_>>(),
            Self::Submit => any(&[
                of::<RunsDocument<'_>>,
                of::<ScriptView>,
                of::<FilesView<'_>>,
            ]),
            Self::Sweep => any(&[
                of::<SweepView>,
                of::<FixView>,
                of::<SweepSubmitDocument<'_>>,
            ]),
            Self::Tune => any(&[of::<TuneView>, of::<NextView<'_>>, of::<ProbeView>]),
        }
    }
}

type Describe = fn(&mut SchemaGenerator) -> schemars::Schema;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

fn one<T: JsonSchema>() -> Json {
    any(&[of::<T>])
}

/// A command that prints one of several documents, or an error.
fn any(documents: &[Describe]) -> Json {
    let mut generator = output_schemas();
    let error: Describe = of::<ErrorDocument>;
    let all = documents.iter().chain([&error]);
    let each: Vec<_> = all.map(|of| of(&mut generator)).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "anyOf": each,
        "definitions": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory as _, ValueEnum as _};

    use super::Output;

    fn prints_json(command: &Command) -> bool {
        let own = command.get_arguments().any(|a| a.get_id() == "json");
        own || command.get_subcommands().any(prints_json)
    }

    #[test]
    fn every_command_with_json_has_a_schema_and_no_other() {
        let all = crate::cli::Cli::command();
        let printing = all.get_subcommands().filter(|c| prints_json(c));
        let printing: BTreeSet<_> = printing.map(|c| c.get_name().to_owned()).collect();
        let described = Output::value_variants().iter();
        let described =
            described.filter_map(|o| Some(o.to_possible_value()?.get_name().to_owned()));
        assert_eq!(printing, described.collect());
    }
}
