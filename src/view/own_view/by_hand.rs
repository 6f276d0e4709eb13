//! What is left to the user, where oomctl changes nothing.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::request::ScriptAttempt;
use crate::view::outcome::uneditable;
use crate::view::plan_table::PlanTable;
use crate::view::rung_view::MemoryForecast;
use crate::view::script_parts::{ScriptAttemptView, attempts};
use crate::view::script_values::ScriptValues;

/// The changes that oomctl cannot put into the script.
#[derive(Serialize, JsonSchema)]
pub(super) struct ByHand {
    /// Why not.
    why: String,
    /// In the order in which they help.
    attempts: Vec<ScriptAttemptView>,
}

impl ByHand {
    pub(super) fn new((why, changes): (String, Vec<ScriptAttempt>)) -> Self {
        Self {
            why,
            attempts: attempts(changes),
        }
    }

    /// Why, and the changes in a table.
    pub(super) fn text(
        &self,
        now: Option<&MemoryForecast>,
        values: &ScriptValues,
        columns: usize,
    ) -> String {
        let place = |knob: &str, number| {
            let attempt = self.attempts.iter().find(|a| a.attempt == number);
            let changed = attempt.and_then(|attempt| attempt.places.get(knob));
            changed
                .cloned()
                .unwrap_or_else(|| values.where_changed(knob))
        };
        let rungs = self.attempts.iter().map(|a| (a.attempt, &a.rungs[..]));
        let table = PlanTable::new(rungs, now, place).text(columns);
        let why = uneditable(&self.why);
        format!("{why}. Change it yourself, in this order:\n\n{table}")
    }
}

/// What is said of a program whose code gives its framework values that were not read.
pub(super) const VALUES_UNREAD: &str = "The program gives its framework values in a way that oomctl does not read.\n\
    oomctl changes options of the command, keys of settings files, and values that a call has by name (`name=8`).\n";

/// What is said of a script that starts no Python program, as far as oomctl reads it.
pub(super) const NO_PROGRAM: &str = "oomctl found no Python program in the script. It changes options, settings files and constants of Python programs only.\n";

/// What to do where no batch was found; words of the command that may be one.
pub(super) fn unknown_batch(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let why = match quoted[..] {
        [] => "It looks for an option such as `--batch_size 8` or `train.batch_size=8`,\na key of a settings file that the script names, and a constant of the program".to_owned(),
        _ => format!("It does not know what a GPU takes of {}", quoted.join(" and ")),
    };
    let word = words.first().map_or("--OPTION", String::as_str);
    format!(
        "oomctl found no batch that it can change. {why}.
If an option sets the batch of a GPU, name it in oomctl.yaml: `spellings: {{ batch_size: {word} }}`.
`--preset NAME` names the framework (`oomctl presets`).
"
    )
}
