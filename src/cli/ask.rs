//! Questions that are answered with yes or no.

use std::io::IsTerminal;

use crate::view::{CommandFailure, print};

/// Asks; anything but yes is no, and so is the end of the input. Where there is no terminal nobody is asked:
/// the failure says what to give instead.
pub fn agree(question: &str, instead: &str) -> Result<bool, CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let what = format!("no terminal to ask: {question}");
        return Err(CommandFailure::usage(what).hint(instead));
    }
    print::prompt(&format!("{question} [y/N]: "));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    let yes = read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes");
    Ok(yes)
}
