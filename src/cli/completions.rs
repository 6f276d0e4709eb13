//! `oomctl completions`: the script that a shell reads once, and the answers to what it asks at each Tab.

mod values;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{self, EnvCompleter, Shells};

use super::print::{self, Failure};

/// Variable by which a shell asks for candidates; its value names the shell.
const ASKS: &str = "OOMCTL_COMPLETE";
/// The program, as the shell finds it.
const PROGRAM: &str = "oomctl";

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs `oomctl completions`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &env::Zsh,
        Shell::Fish => &env::Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(ASKS, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|e| Failure::new(1, format!("cannot write the script: {e}")))?;
    print::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The same for a word that names a shell.
pub fn of(shell: &str) -> Option<Result<ExitCode, Failure>> {
    let shell = Shell::from_str(shell, false).ok()?;
    Some(run(&Args { shell }))
}

/// The answer to a shell that asks for candidates; `None` when none asks. Whatever goes wrong is silent: the
/// person is in the middle of a line.
pub fn answer(program: fn() -> Command) -> Option<ExitCode> {
    let asked = std::env::var_os(ASKS)?;
    let shells = Shells(&[&Bash, &env::Zsh, &env::Fish]);
    shells.completer(&asked.to_string_lossy())?;
    let env = CompleteEnv::with_factory(|| values::offered(program()))
        .var(ASKS)
        .shells(shells);
    let here = std::env::current_dir().ok();
    match env.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(_) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Bash splits words at `=` and `:`, so that `--set batch=` would come as three words; a script of our own puts
/// them together again, and the answer is the same as for any shell.
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        to.write_all(include_bytes!("completions/script.bash"))
    }

    fn write_complete(
        &self,
        program: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        env::Bash.write_complete(program, words, here, to)
    }
}
