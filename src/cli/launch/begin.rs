//! A program at the place that was found for it: what was learned, the name of its run, and its attempts.

use std::path::Path;
use std::sync::PoisonError;

use crate::cli::runs::Runs;
use crate::cli::session::Session;
use crate::core::learn::LearnedEntries;
use crate::core::request::{Ground, Request};
use crate::drive::launch::{
    Launch, LaunchNews, LaunchPlace, Launched, MachineGpus, ProgramResult, SharedListener, launch,
};
use crate::drive::{Environment, Handle};
use crate::io::program::{Ears, Outputs};
use crate::view::launch_summary::Summary;
use crate::view::{CommandFailure, start_view};

/// A program that is ready to be run.
pub struct ReadyProgram<'a> {
    pub session: &'a Session,
    pub request: Request,
    /// What earlier runs taught.
    pub memory: Option<&'a LearnedEntries>,
    pub ears: Ears,
    pub listener: SharedListener,
    /// Where its output goes besides its logs.
    pub outputs: Box<dyn Fn() -> Outputs + Send>,
}

impl ReadyProgram<'_> {
    /// Finds a place for its first attempt, and waits for it.
    pub fn place(&self, machine: &MachineGpus) -> Result<LaunchPlace, CommandFailure> {
        let wish = self.request.gpu_wish(&[])?;
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(machine.place(&wish, &self.ears, &mut *listener)?)
    }

    /// Runs it to its end.
    pub fn run(mut self, machine: MachineGpus, place: LaunchPlace) -> Result<Ran, CommandFailure> {
        let first = match place {
            LaunchPlace::Signal(signal) => {
                return Ok(Ran::nothing(ProgramResult::Signalled(signal)));
            }
            LaunchPlace::Nowhere { why, exit } => {
                self.news(&LaunchNews::NoGpu { why: &why });
                let Some(steps) = self.request.without_gpu(&[], 1)? else {
                    return Ok(Ran::nothing(ProgramResult::NoGpu { why, exit }));
                };
                self.news(&LaunchNews::Climbing(&steps));
                self.request = self.request.with_steps(&steps);
                LaunchPlace::Cpu
            }
            found => found,
        };
        let request = self.request.clone().on_gpu(&machine.machine(&first));
        let request = self.started(request);
        let (handle, request) = self.create(&request)?;
        let launched = launch(
            handle,
            Launch {
                outputs: self.outputs,
                ears: self.ears,
                machine: machine.into(),
                first,
                listener: self.listener,
            },
        );
        Ok(Ran::of(&request, launched))
    }

    fn news(&self, news: &LaunchNews<'_>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        listener.news(news);
    }

    /// The request as earlier runs say that it should start. That it starts as asked for is no news.
    fn started(&self, request: Request) -> Request {
        let start = self.memory.and_then(|m| request.start(m).ok().flatten());
        let Some(start) = start.filter(|s| s.ground != Ground::FitsAsAsked) else {
            return request;
        };
        let started = request.clone().starting(&start);
        match started.words(&[], "") {
            Ok(_) => {
                self.news(&LaunchNews::Start(start_view::text(&start).trim_end()));
                started
            }
            Err(_) => request,
        }
    }

    /// The run on disk. Where the project's folder cannot be written it lies among the temporary files.
    fn create(&self, request: &Request) -> Result<(Handle, Request), CommandFailure> {
        let stem = stem(request);
        let runs = &self.session.runs;
        match created(runs, &stem, request) {
            Ok(made) => Ok(made),
            Err(failure) => {
                let uid = rustix::process::getuid().as_raw();
                let folder = std::env::temp_dir().join(format!("oomctl-run-{uid}"));
                let made = created(&Runs::of(&folder), &stem, request)?;
                let what = format!(
                    "{}; the run is recorded in {}",
                    failure.sentence(),
                    folder.display()
                );
                self.news(&LaunchNews::Remark(&what));
                Ok(made)
            }
        }
    }
}

fn created(
    runs: &Runs,
    stem: &str,
    request: &Request,
) -> Result<(Handle, Request), CommandFailure> {
    let name = runs.new_folder(stem)?;
    let request = request.clone().named(&name);
    let inputs = serde_json::to_string(request.inputs()).map_err(|e| {
        CommandFailure::configuration(format!("cannot write down the request: {e}"))
    })?;
    // Its environment is that of this process, and is not written down.
    let environment = Environment::default();
    let (folder, now) = (runs.folder(&name)?, jiff::Timestamp::now());
    let handle = Handle::create(folder, request.clone(), &inputs, &environment, now)?;
    Ok((handle, request))
}

/// What the run is named after: the script, or else the program.
fn stem(request: &Request) -> String {
    let program = request.inputs().program.as_ref();
    let words = program.map(|p| p.command.as_slice()).unwrap_or_default();
    let is_script = |word: &&String| word.ends_with(".py") || word.ends_with(".sh");
    let named = words.iter().find(is_script).or(words.first());
    let stem = named.and_then(|word| Path::new(word).file_stem());
    stem.map_or_else(
        || "run".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// What has become of a program.
pub struct Ran {
    pub summary: Summary,
    /// Why it could not be started.
    pub failure: Option<CommandFailure>,
}

impl Ran {
    /// Nothing was begun.
    fn nothing(result: ProgramResult) -> Self {
        let launched = Launched::nothing(result);
        Self {
            summary: Summary::new(&launched, Vec::new()),
            failure: None,
        }
    }

    fn of(request: &Request, launched: Launched) -> Self {
        let (mut rungs, mut commands) = (Vec::new(), Vec::new());
        for attempt in &launched.history.attempts {
            let dir = launched.folder.join(format!("attempt-{}", attempt.number));
            let words = request.words(&rungs, &dir.to_string_lossy());
            commands.push(words.ok().flatten().unwrap_or_default());
            rungs.extend(attempt.layers());
        }
        Self {
            summary: Summary::new(&launched, commands),
            failure: match launched.result {
                ProgramResult::NotStarted(error) => Some(error.into()),
                _ => None,
            },
        }
    }
}
