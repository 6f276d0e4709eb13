//! The program of a job as one process can be started with it, on a machine that is not the job's.

use std::collections::BTreeMap;

use super::adopt::Adoption;
use super::launchers::MeasuredLauncher;
use super::traced::{PartOrigin, Traced, TracedPart, Why};
use super::walk::{Arg, Call};
use oomctl_base::ValueKind;

/// What stands for a part of an argument that the job computes.
const COMPUTED: &str = "oomctl-measure";
/// What stands for a part of a launcher's option that the job computes: most are numbers.
const COMPUTED_OPTION: &str = "1";

/// The program of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobProgram {
    /// The command.
    pub words: Vec<String>,
    /// Variables that the scripts set.
    pub variables: BTreeMap<String, String>,
    /// The folder in which it runs, relative to that of the job.
    pub folder: Option<String>,
    /// Files that the scripts write before, by path.
    pub files: BTreeMap<String, String>,
    /// It plays one of several processes that a launcher which is left out would start.
    pub plays_a_rank: bool,
    /// A number among a launcher's options is computed in the job.
    pub open_options: bool,
    /// What differs from the job's command.
    pub replaced: Vec<String>,
}

impl Adoption<'_> {
    /// The program that the job starts: of the recognised ones, or else the last.
    ///
    /// # Errors
    /// Why it cannot be started here, as a sentence.
    pub fn program(&self) -> Result<JobProgram, String> {
        let call = self.calls().next().or(self.reading.calls.last());
        let call = call.ok_or("the script starts no program that oomctl can follow")?;
        let mut made = JobProgram {
            folder: call.folder.clone(),
            ..JobProgram::default()
        };
        self.around(call, &mut made)?;
        let bounds = call.launched.iter().copied().zip(&call.launchers);
        let bounds: Vec<(usize, &String)> = bounds.collect();
        let first = bounds.first().map_or(call.args, |(at, _)| *at);
        made.launcher_words(&call.words[..first]);
        for (number, (from, name)) in bounds.iter().enumerate() {
            let to = bounds.get(number + 1).map_or(call.args, |(at, _)| *at);
            if self.runs(name, &mut made)? {
                made.launcher_words(&call.words[*from..to]);
            } else if number + 1 == bounds.len() {
                // The launcher's own words end where the program is named.
                made.launcher_words(&call.words[to.saturating_sub(1)..to]);
            }
        }
        for at in call.args..call.words.len() {
            let before = at.checked_sub(1).map(|at| call.words[at].text.text());
            let names = before.is_some_and(|text| text.starts_with("--") && !text.contains('='));
            let text = self.argument(call, &call.words[at], names, &mut made)?;
            made.words.push(text);
        }
        let known = |texts: &BTreeMap<String, Traced>| {
            let known = |(name, text): (&String, &Traced)| Some((name.clone(), text.known()?));
            texts.iter().filter_map(known).collect()
        };
        made.variables = known(&call.variables);
        made.files = known(&self.reading.created);
        Ok(made)
    }

    /// Launchers that start the script in which the command stands.
    fn around(&self, call: &Call, made: &mut JobProgram) -> Result<(), String> {
        let texts: Vec<String> = call.around.iter().map(|word| word.text.text()).collect();
        for at in 0..texts.len() {
            if let Some((launcher, _)) = self.given.launchers.find(&texts[at..])
                && launcher.measured != MeasuredLauncher::Kept
            {
                self.runs(&texts[at..].join(" "), made)?;
            }
        }
        Ok(())
    }

    /// Is a launcher part of the measured command?
    fn runs(&self, name: &str, made: &mut JobProgram) -> Result<bool, String> {
        let words: Vec<String> = name.split(' ').map(str::to_owned).collect();
        let found = self.given.launchers.find(&words).map(|(l, _)| l.measured);
        let program = words[0].rsplit('/').next().unwrap_or_default();
        match found.unwrap_or_default() {
            MeasuredLauncher::Kept => return Ok(true),
            MeasuredLauncher::Needed => {
                return Err(format!(
                    "the job starts its program with {program}, which oomctl cannot do here"
                ));
            }
            MeasuredLauncher::OneProcess => {
                made.plays_a_rank = true;
                made.say(format!("{program}: left out"));
            }
            MeasuredLauncher::LeftOut => {}
        }
        Ok(false)
    }

    /// An argument of the program; `named` behind an option whose value it may be.
    fn argument(
        &self,
        call: &Call,
        word: &Arg,
        named: bool,
        made: &mut JobProgram,
    ) -> Result<String, String> {
        let shown = word.text.text();
        let doubt =
            || format!("whether the program gets `{shown}` depends on a condition of the script");
        let Some((span, why)) = word.text.unknown() else {
            return if word.maybe { Err(doubt()) } else { Ok(shown) };
        };
        let text = |part: &TracedPart| matches!(part.from, PartOrigin::Literal { .. });
        let known = named || word.text.parts().iter().any(text);
        match why {
            Why::Condition | Why::Loop | Why::TooLong => {
                return Err(format!("`{shown}` {}", why.describe()));
            }
            Why::Code | Why::Environment if !known => return Err(doubt()),
            Why::Code | Why::Environment => {}
        }
        let mut knobs = self.stack.iter().flat_map(|stack| &stack.knobs);
        let counts = knobs.find(|knob| {
            let text = matches!(knob.kind, ValueKind::Text);
            let found = self.given_by(call, knob);
            !text && found.is_some_and(|f| f.value.unknown().is_some_and(|(at, _)| at == span))
        });
        if let Some(knob) = counts {
            let (name, why) = (&knob.name, why.describe());
            return Err(format!("the script's value of {name}, `{shown}`, {why}"));
        }
        made.say(format!(
            "`{shown}` {}: the program gets {COMPUTED} for it",
            why.describe()
        ));
        Ok(filled(&word.text, COMPUTED))
    }
}

impl JobProgram {
    fn say(&mut self, what: String) {
        if !self.replaced.contains(&what) {
            self.replaced.push(what);
        }
    }

    fn launcher_words(&mut self, words: &[Arg]) {
        for word in words {
            self.open_options |= word.text.unknown().is_some();
            self.words.push(filled(&word.text, COMPUTED_OPTION));
        }
    }
}

/// A text in which something stands for what is computed.
fn filled(text: &Traced, computed: &str) -> String {
    let part = |part: &TracedPart| match part.from {
        PartOrigin::Computed { .. } => computed.to_owned(),
        PartOrigin::Literal { .. } => part.text.clone(),
    };
    text.parts().iter().map(part).collect()
}
