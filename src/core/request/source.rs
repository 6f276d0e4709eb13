//! Where the files of a run's attempts come from, and the preset that goes with it.

use std::path::Path;
use std::sync::Arc;

use super::inputs::Inputs;
use crate::core::adopt;
use crate::core::launch::{Command, Copied};
use crate::core::recipe::{KnobSetFile, Preset, PresetFile};
use oomctl_base::Refusal;
use oomctl_scripts::{Adoption, INTERPRETER, Reading, Stack, Submission};

/// Where the files of a run's attempts come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Templates of the preset.
    Templates,
    /// The user's own scripts, patched.
    Scripts(Box<RequestScripts>),
    /// The command of a program, with other values.
    Command(Box<Command>),
}

impl Source {
    /// The source of a request, and the preset that goes with it.
    pub(super) fn new(
        inputs: &Inputs,
        file: PresetFile,
        sets: Vec<KnobSetFile>,
    ) -> Result<(Preset, Self), Refusal> {
        if let Some(program) = &inputs.program {
            let preset = program.assemble(file, sets)?;
            let source = Self::command(inputs, &preset)?;
            return Ok((preset, source));
        }
        let version = inputs.framework_version.as_deref();
        let Some(scripts) = &inputs.scripts else {
            return Ok((Preset::assemble(file, sets, version)?, Self::Templates));
        };
        let (preset, scripts) = RequestScripts::new(inputs, scripts, file, sets)?;
        Ok((preset, Self::Scripts(Box::new(scripts))))
    }

    /// The command of a program, whose preset this is.
    pub(super) fn command(inputs: &Inputs, preset: &Preset) -> Result<Self, Refusal> {
        let Some(program) = &inputs.program else {
            return Ok(Self::Templates);
        };
        let copied = Copied {
            project: Path::new(&inputs.project),
            workdir: Path::new(&inputs.workdir),
        };
        let command = Command::new(program, preset, &inputs.originals, copied)?;
        Ok(Self::Command(Box::new(command)))
    }
}

/// The scripts of a request made ready to be read.
#[derive(Debug, Clone)]
pub(super) struct RequestScripts {
    pub submission: Submission,
    pub stacks: Arc<Vec<Stack>>,
    /// Where they go against the preset.
    pub doubts: Vec<String>,
}

/// Whether a line asks for the folder of the script.
fn asks_for_its_folder(text: &str) -> bool {
    const FOLDER: [&str; 4] = ["dirname", "realpath", "readlink", "${0%/*}"];
    const SELF: [&str; 3] = ["$0", "${0", "BASH_SOURCE"];
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'));
    lines.any(|line| has(line, &FOLDER) && has(line, &SELF))
}

impl RequestScripts {
    /// The preset of a request for scripts, and what reads them.
    fn new(
        inputs: &Inputs,
        scripts: &adopt::Scripts,
        file: PresetFile,
        sets: Vec<KnobSetFile>,
    ) -> Result<(Preset, Self), Refusal> {
        let version = inputs.framework_version.as_deref();
        let file = file.with(sets);
        let stacks = vec![file.stack()];
        let mut preset = adopt::assemble(file, Vec::new(), version)?;
        let mut doubts = adopt::loosen(&mut preset, &inputs.layers, &inputs.cluster_facts);
        let text = scripts.files.get(&scripts.script);
        if text.is_some_and(|text| !text.starts_with("#!")) {
            let line = INTERPRETER.trim_end();
            let name = &scripts.script;
            doubts.push(format!(
                "{name} has no interpreter line; oomctl's copy begins with `{line}`"
            ));
        }
        let mut own = Self {
            submission: scripts.submission(),
            stacks: Arc::new(stacks),
            doubts,
        };
        let adoption = scripts.read(&own.submission, &own.stacks);
        let mut doubts = adoption.refused();
        doubts.extend(adoption.misspelt());
        doubts.extend(adopt::impossible(&adoption.reading));
        doubts.extend(adopt::broken(&adoption.reading));
        doubts.extend(adopt::cut(&adoption.reading));
        doubts.extend(submits(&adoption.reading));
        doubts.extend(own.anew(&adoption));
        doubts.extend(adopt::hidden_remark(&adoption));
        doubts.extend(adopt::output_remarks(&adoption));
        let spooled = text.is_some_and(|text| asks_for_its_folder(text));
        doubts.extend((spooled && inputs.backend == "slurm").then(|| {
            "the script asks for its own folder ($0). Slurm runs a copy in its spool folder, where your files are not: `cd \"$SLURM_SUBMIT_DIR\"` goes to where you submit"
                .to_owned()
        }));
        own.doubts.extend(doubts);
        Ok((preset, own))
    }

    /// That an attempt goes on from no checkpoint, where it is known that none of the programs does.
    fn anew(&self, adoption: &Adoption<'_>) -> Option<String> {
        let stack = self.stacks.first();
        let stack = stack.filter(|s| !s.recognise.begins_anew.is_empty())?;
        let anew = adoption.calls().all(|call| stack.begins_anew(call));
        anew.then(|| {
            "the program does not resume from checkpoints: each attempt starts at step 0".to_owned()
        })
    }
}

/// That what runs is another job than ours, where the scripts submit it.
fn submits(reading: &Reading) -> Option<String> {
    let all: Vec<&str> = reading.submits.iter().map(String::as_str).collect();
    (!all.is_empty()).then(|| {
        format!(
            "{} submits further jobs, which this run does not follow. Submit their script instead, \
             or take them over with `oomctl watch JOBID`",
            all.join(", ")
        )
    })
}
