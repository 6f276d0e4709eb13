//! `oomctl doctor`: is everything there that oomctl needs, and does it work?

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::config_files::outer_files;
use crate::cli::request::sections;
use crate::cli::runs::Runs;
use crate::cli::session::{PROJECT_FILE, Session};
use crate::core::exit::Exit;
use crate::io::checkup::{driver, folder_within, programs};
use crate::io::finding::{CheckFinding, CheckHealth};
use crate::io::hook;
use crate::io::scheduler::pbs::Pbs;
use crate::io::scheduler::slurm::{Deadlines, RestClient, RestPlace, Slurm};
use crate::view::doctor_view::DoctorView;
use crate::view::{CommandFailure, columns, print};
use oomctl_base::units::parse_duration_s;

const NOTICES_ADVICE: &str =
    "fix it in `notices:`, or no notice is sent; `on: []` switches notices off";

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Project file [default: oomctl.yaml here or above]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Longest wait for each answer, such as those of Slurm's commands
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration_s)]
    deadline: u64,
    /// Print one JSON document
    #[arg(short, long)]
    json: bool,
}

/// Runs `oomctl doctor`.
pub fn run(args: &DoctorArgs) -> Result<Exit, CommandFailure> {
    let deadline = Duration::from_secs(args.deadline.max(1));
    let mut findings = programs(deadline);
    let (mut rest, mut wants_pbs) = (None, false);
    let folder = match Session::open(args.config.as_deref()) {
        Ok(session) => {
            findings.push(project_file(&session));
            findings.extend(notices(&session));
            let backend = session.document.text("backend").ok().flatten();
            wants_pbs = backend.is_some_and(|given| given.text == "pbs");
            rest = session.runs.rest().map(|rest| slurmrestd(rest, deadline));
            session.folder
        }
        Err(failure) => {
            let advice = "fix it: every command that reads it fails in the same way";
            findings.push(CheckFinding::with(
                CheckHealth::Bad,
                "project",
                failure.sentence(),
                advice,
            ));
            PathBuf::from(".")
        }
    };
    match rest {
        Some(rest) => findings.push(rest),
        None if wants_pbs => {}
        None => findings.extend(Slurm::new().deadlines(Deadlines::all(deadline)).checkup()),
    }
    let pbs = Pbs::new(&folder).deadline(deadline);
    findings.extend(pbs.checkup(wants_pbs));
    findings.extend(folder_within(deadline, Runs::of(&folder).dir()));
    findings.push(driver());
    findings.push(terminal());
    let view = DoctorView::new(findings);
    print::show(args.json, &view, |view| view.text())?;
    Ok(match view.stands_in_the_way() {
        true => Exit::Failed,
        false => Exit::Success,
    })
}

fn project_file(session: &Session) -> CheckFinding {
    let path = session.folder.join(PROJECT_FILE);
    match path.is_file() {
        true => CheckFinding::good("project", path.display().to_string()),
        false => CheckFinding::with(
            CheckHealth::Absent,
            "project",
            format!("no {} here or above", PROJECT_FILE),
            "`oomctl init` writes one; flags and `oomctl plan SCRIPT` need none",
        ),
    }
}

/// What a run's jobs go through, where that is not Slurm's commands.
fn slurmrestd(rest: &RestPlace, deadline: Duration) -> CheckFinding {
    let version = RestClient::at(rest.clone()).greet(Deadlines::all(deadline));
    match version {
        Ok(what) => CheckFinding::good("slurmrestd", what),
        Err(error) => {
            let advice = "see `slurm:` in the configuration, and docs/slurmrestd.md";
            CheckFinding::with(CheckHealth::Bad, "slurmrestd", error.to_string(), advice)
        }
    }
}

/// The program that tells of runs. It is not run.
fn notices(session: &Session) -> Option<CheckFinding> {
    let bad = |what| CheckFinding::with(CheckHealth::Bad, "notices", what, NOTICES_ADVICE);
    let notices = outer_files().and_then(|outer| sections::notices(&session.document, &outer));
    match notices {
        Err(failure) => Some(bad(failure.sentence())),
        Ok(notices) => notices.map(|notices| match hook::fault(&notices, &session.folder) {
            None => CheckFinding::good("notices", "the program exists"),
            Some(fault) => bad(fault),
        }),
    }
}

fn terminal() -> CheckFinding {
    let columns = columns();
    let width = columns.map_or_else(|| "no terminal".to_owned(), |n| format!("{n} columns"));
    if print::unicode() {
        return CheckFinding::good("terminal", format!("{width}, UTF-8"));
    }
    let found = format!("{width}, locale without UTF-8: bars in ASCII");
    CheckFinding::with(
        CheckHealth::Absent,
        "terminal",
        found,
        "`export LANG=C.UTF-8` for finer ones",
    )
}
