//! Looks whether what oomctl needs is there and really does what it must: the scheduler, the file system, the
//! driver, this machine.
//!
//! Rule: every look is bounded in time, and leaves nothing behind.

mod folder;
mod here;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use super::finding::{CheckFinding, CheckHealth};

pub use folder::folder;
pub use here::{driver, programs};

/// Looks at the folder of runs, which may lie on a file server that answers no more: after the deadline the look is
/// given up, and its thread left where it hangs.
pub fn folder_within(deadline: Duration, path: PathBuf) -> Vec<CheckFinding> {
    let (send, receive) = mpsc::channel();
    let shown = path.display().to_string();
    std::thread::spawn(move || drop(send.send(folder(&path))));
    receive.recv_timeout(deadline).unwrap_or_else(|_| {
        let found = format!("{shown} does not answer within {} s", deadline.as_secs_f32());
        let advice = "its file server may be down (`df` would hang too); try again, or work in another folder";
        vec![CheckFinding::with(CheckHealth::Bad, "run folder", found, advice)]
    })
}
