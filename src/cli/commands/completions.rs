//! `oomctl completions`: the script that a shell reads once, and the answers to what it asks at each Tab.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{self, EnvCompleter, Shells};

use crate::cli::values;
use crate::core::exit::Exit;
use crate::view::{CommandFailure, print};

/// Variable by which a shell asks for candidates; its value names the shell.
const ASKS: &str = "OOMCTL_COMPLETE";

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
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
pub fn run(args: &CompletionsArgs) -> Result<Exit, CommandFailure> {
    print::data(match args.shell {
        Shell::Bash => BASH.script,
        Shell::Zsh => ZSH.script,
        Shell::Fish => FISH.script,
    })?;
    Ok(Exit::Success)
}

/// The same for a word that names a shell.
pub fn of(shell: &str) -> Option<Result<Exit, CommandFailure>> {
    let shell = Shell::from_str(shell, false).ok()?;
    Some(run(&CompletionsArgs { shell }))
}

/// The answer to a shell that asks for candidates; `None` when none asks. Whatever goes wrong is silent: the
/// person is in the middle of a line.
pub fn answer(program: fn() -> Command) -> Option<Exit> {
    let asked = std::env::var_os(ASKS)?;
    let shells = Shells(&[&BASH, &ZSH, &FISH]);
    shells.completer(&asked.to_string_lossy())?;
    let env = CompleteEnv::with_factory(|| values::offered(program()))
        .var(ASKS)
        .shells(shells);
    let here = std::env::current_dir().ok();
    match env.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(_) => Some(Exit::Success),
        Err(_) => Some(Exit::Failed),
    }
}

/// A shell with a script of ours: the library's know nothing of quotes and of words that go on after their `=`.
struct Scripted {
    /// How this shell is told its candidates.
    shell: &'static dyn EnvCompleter,
    script: &'static str,
}

const BASH: Scripted = Scripted {
    shell: &env::Bash,
    script: include_str!("completions/script.bash"),
};
const ZSH: Scripted = Scripted {
    shell: &env::Zsh,
    script: include_str!("completions/script.zsh"),
};
const FISH: Scripted = Scripted {
    shell: &env::Fish,
    script: include_str!("completions/script.fish"),
};

impl EnvCompleter for Scripted {
    fn name(&self) -> &'static str {
        self.shell.name()
    }

    fn is(&self, name: &str) -> bool {
        self.shell.is(name)
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        to.write_all(self.script.as_bytes())
    }

    fn write_complete(
        &self,
        program: &mut Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        self.shell.write_complete(program, words, here, to)
    }
}
