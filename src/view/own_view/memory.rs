//! What is said of the memory of a script.

use super::super::measured_plan_view::kept_line;
use super::ScriptView;
use crate::core::request::UnreadKnob;

/// Values that an estimate needs and that are told one by one.
const MOST_ASKED: usize = 3;

impl ScriptView {
    /// Memory as it is and what of the attempts fits, or what has to be said before it can be estimated.
    pub(super) fn memory(&self) -> String {
        let kept = self.phantom.iter();
        let kept: String = kept.map(|kept| format!("\n{}", kept_line(kept))).collect();
        format!("{}{kept}", self.by_formulas())
    }

    fn by_formulas(&self) -> String {
        let open = UnreadKnob::lines(&self.asked, false);
        match &self.now {
            Some(now) if self.asked.is_empty() => {
                // Where a rung is expected to fit, nothing hinges on how rough this one is.
                let measure = self.measure.as_deref().filter(|_| !self.is_healed());
                let rough = measure.and_then(|m| now.undecided(m));
                let rough: String = rough.iter().map(|r| format!("\n{r}")).collect();
                format!("{}{}{rough}", now.now(), self.first_fit())
            }
            Some(now) => format!(
                "{}. To see whether it fits, add before SCRIPT:{open}",
                now.now()
            ),
            None if self.asked.len() > MOST_ASKED => match self.measured_instead() {
                measured if self.is_any && !measured.is_empty() => {
                    format!("memory unknown{measured}")
                }
                measured => format!(
                    "memory unknown. An estimate needs {} values that the script leaves open{}{measured}",
                    self.asked.len(),
                    self.estimate(|command| format!(": `{command}` lists them")),
                ),
            },
            None if self.asked.iter().any(|a| a.needed) => {
                format!(
                    "memory unknown. To estimate it, add before SCRIPT{}:{open}",
                    self.estimate(|command| format!(" (`{command}` explains each)"))
                )
            }
            None => {
                let why = match &self.preset {
                    _ if self.no_model.is_some() => self.no_model.clone().unwrap_or_default(),
                    Some(_) if self.modelled => "the model does not cover a value here".to_owned(),
                    Some(preset) => format!("no memory model for {preset}"),
                    None => "framework not recognised".to_owned(),
                };
                format!("memory unknown: {why}{}", self.measured_instead())
            }
        }
    }

    fn measured_instead(&self) -> String {
        let measure = self.measure.iter();
        measure
            .map(|m| format!("; `{m}` measures it without a GPU"))
            .collect()
    }

    /// Words with the command that estimates the script.
    fn estimate(&self, words: fn(String) -> String) -> String {
        let command = self.command.iter();
        command
            .map(|script| words(format!("oomctl estimate {script}")))
            .collect()
    }
}
