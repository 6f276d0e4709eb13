//! A script whose memory is to be estimated.

use super::submit::{ScriptCommandLine, planned};
use crate::cli::args::Configuration;
use crate::cli::session::Session;
use crate::core::request::{Request, UnreadKnob};
use crate::view::CommandFailure;

/// The request of a script. What it leaves open and the memory model needs is asked for.
pub fn estimated(
    session: &Session,
    flags: &Configuration,
    sbatch: &[String],
    words: &[String],
) -> Result<Request, CommandFailure> {
    let request = planned(
        session,
        &ScriptCommandLine {
            flags,
            run: None,
            sbatch,
            words,
            logs: &[],
        },
    )?;
    let unread = request.unread();
    if unread.iter().all(|u| !u.needed) {
        return Ok(request);
    }
    let open: Vec<String> = unread.iter().map(UnreadKnob::described).collect();
    let options: Vec<String> = unread.iter().map(UnreadKnob::option).collect();
    let what = format!(
        "no estimate yet: the script does not say {}",
        open.join(", ")
    );
    let command = format!("oomctl estimate {} {}", options.join(" "), words.join(" "));
    Err(CommandFailure::configuration(what).hint(command))
}
