//! The `oomctl` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    oomctl::cli::main()
}
