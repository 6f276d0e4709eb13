//! Host memory that Slurm gave a job which asks for none.

use super::state::Run;
use crate::core::ladder::Decision;
use oomctl_base::job::JobStatus;
use oomctl_base::units::GIB;

/// The least that is proposed, in GiB.
const LEAST_GIB: f64 = 8.0;

/// A decision that says of rungs which would ask for more memory what the job got, and what to write.
pub(super) fn named(run: &Run, status: Option<&JobStatus>, mut decision: Decision) -> Decision {
    let given = status.and_then(|s| Some((s.host.as_deref()?.memory_given?, s.nodes.len())));
    if let (Decision::Exhausted { skipped, .. }, Some((given, nodes))) = (&mut decision, given) {
        let open = run.request.asks_no_memory(&run.history.rungs());
        let of_node = given.0 as f64 / GIB / nodes.max(1) as f64;
        let more = (2.0 * of_node).ceil().max(LEAST_GIB);
        let asking = skipped
            .iter_mut()
            .filter(|s| open.contains(&s.rung.as_str()));
        for rung in asking.filter(|_| given.0 > 0) {
            rung.reason = format!(
                "the job asks for no memory and got {of_node:.1} GiB. Add `#SBATCH --mem={more:.0}G`"
            );
        }
    }
    decision
}
