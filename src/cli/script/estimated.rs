//! A script whose memory is to be estimated.

use super::submit::{ScriptCommandLine, planned};
use super::unread::unread;
use crate::cli::args::Configuration;
use crate::cli::session::Session;
use crate::core::request::Request;
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
    let unread = unread(&session.library, &request);
    if unread.iter().all(|u| !u.needed) {
        return Ok(request);
    }
    let open: String = unread.iter().map(|u| format!("\n{}", u.line())).collect();
    let what = format!("the script leaves open what an estimate needs. Add before SCRIPT:{open}");
    Err(CommandFailure::configuration(what))
}
