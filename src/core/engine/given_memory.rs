//! Host memory that Slurm gave a job which asks for none.

use super::state::Run;
use crate::core::ladder::{Decision, Skipped};
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
        if given.0 > 0 {
            let why = format!(
                "the job asks for no memory and got {of_node:.1} GiB. Add `#SBATCH --mem={more:.0}G`"
            );
            say(skipped, &open, &why);
        }
    }
    decision
}

/// Says it of the rungs that this failure could have asked for.
fn say(skipped: &mut [Skipped], open: &[&str], why: &str) {
    let asking = |s: &&mut Skipped| {
        let of_memory = s.reason.contains("memory") && !s.is_for_another_failure();
        open.contains(&s.rung.as_str()) && of_memory
    };
    for rung in skipped.iter_mut().filter(asking) {
        why.clone_into(&mut rung.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_host_memory_is_proposed_only_where_memory_is_what_lacks() {
        let reasons = [
            "for another kind of failure",
            "the number of GPUs is unknown",
            "the memory of its node is unknown",
        ];
        let mut skipped = reasons.map(|reason| Skipped::new("more-host-memory", reason));
        say(&mut skipped, &["more-host-memory"], "add memory");
        let said = skipped.map(|s| s.reason);
        let [other, gpus, _] = reasons;
        assert_eq!(said, [other, gpus, "add memory"]);
    }
}
