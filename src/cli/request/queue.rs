//! When Slurm would start what `plan` shows.

use jiff::Timestamp;

use crate::cli::session::Session;
use crate::core::ladder::Policy;
use crate::core::request::Request;
use crate::drive::QueueQuestion;
use crate::io::environment::variables;
use crate::io::scheduler::slurm_is_here;
use crate::io::scratch::ScratchFolder;
use crate::view::starts_view::StartsView;

/// Asks Slurm when the job would start as it is, and with each answer to its first out-of-memory; `None` where no answer asks
/// for more, so that all start alike. Nothing is submitted.
pub fn starts(session: &Session, request: &Request) -> Option<StartsView> {
    if request.inputs().backend != "slurm" || !slurm_is_here() {
        return None;
    }
    let alternatives = request.first_alternatives();
    let more = alternatives.iter().any(|a| request.asks_for_more(&a.steps));
    if !more && request.inputs().policy != Policy::Soonest {
        return None;
    }
    let all = request.unchanged_and(alternatives);
    let question = QueueQuestion {
        request,
        rungs: &[],
        alternatives: &all,
        environment: variables(),
    };
    let folder = ScratchFolder::new("queue").ok()?;
    let mut scheduler = session.runs.scheduler("slurm");
    Some(StartsView {
        asked_at: Timestamp::now(),
        starts: question.ask(&folder.path().join("answers"), scheduler.as_mut()),
    })
}
