//! What to do about a job that waits for something that time alone does not bring.

use oomctl_base::job::never_passes;
use oomctl_base::table;

/// Slurm's reasons to wait that are not cured by waiting, or by waiting for something else than one's
/// turn (squeue(1), JOB REASON CODES; seen on 22.05.8), with what helps. Beginnings of reasons.
const REASONS: [[&str; 2]; 15] = table(
    "
    JobHeldUser | it is held: `scontrol release JOBID` lets it start
    JobHeldAdmin | an administrator holds it: ask the site
    job requeued in held state | it is held: `scontrol release JOBID` lets it start
    PartitionDown | the partition starts no jobs: `sinfo -s` shows those that do
    PartitionInactive | the partition starts no jobs: `sinfo -s` shows those that do
    PartitionNodeLimit | more nodes than the partition allows, or too many are down: `sinfo -s`
    PartitionTimeLimit | never starts: its time limit is above the partition's (`sinfo -s`); `scontrol update JobId=JOBID TimeLimit=LESS` lets it start
    AccountNotAllowed | the partition does not take this account: it will never start
    QOSNotAllowed | the partition does not take this QOS: it will never start
    BadConstraints | no node matches the request: it will never start
    DependencyNeverSatisfied | the job that it depends on failed: it will never start
    ReqNodeNotAvail, Reserved for maintenance | its time limit reaches into a maintenance (`scontrol show reservation`): it starts after that, or before it with `scontrol update JobId=JOBID TimeLimit=LESS`; with checkpoints, `time_limit` and `signal` let it stop in time
    ReqNodeNotAvail | a node that it needs is down or reserved: `sinfo -R`
    QOSMax | QOS limit on your jobs: it starts when your other jobs end
    Assoc | a limit of your account: `sacctmgr show assoc user=$USER`
    ",
);

/// The same of a limit on a single job.
const OF_ONE_JOB: &str =
    "a limit on a single job, which this one breaks: it will never start; `sacctmgr show qos`";

/// The same of job `id`, with what a watch does about it.
pub fn watched(reason: &str, id: &str) -> Option<String> {
    let hint = hint(reason)?.replace("JOBID", id);
    Some(match never_passes(reason) {
        true => format!("{hint}. A watch cancels it after 10 min (`supervision: never_starts`)"),
        false => hint,
    })
}

/// What to do about a job that waits for this reason, where waiting alone may not help.
pub fn hint(reason: &str) -> Option<&'static str> {
    let of_one_job = reason.starts_with("QOSM") || reason.starts_with("AssocM");
    if of_one_job && never_passes(reason) {
        return Some(OF_ONE_JOB);
    }
    let row = REASONS.iter().find(|[start, _]| reason.starts_with(start));
    row.map(|[_, step]| *step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_time_does_not_cure_has_a_hint_and_the_others_have_none() {
        for reason in [
            "PartitionTimeLimit",
            "JobHeldUser",
            "QOSMaxJobsPerUserLimit",
            "ReqNodeNotAvail, UnavailableNodes:node2",
        ] {
            assert!(hint(reason).is_some(), "{reason}");
        }
        let maintenance = hint("ReqNodeNotAvail, Reserved for maintenance").unwrap();
        assert!(maintenance.contains("TimeLimit"), "{maintenance}");
        assert!(hint("QOSMaxGRESPerJob").unwrap().contains("never start"));
        assert!(
            hint("QOSMaxGRESPerUser")
                .unwrap()
                .contains("your other jobs")
        );
        for reason in ["Priority", "Resources", "None", "BeginTime", ""] {
            assert_eq!(hint(reason), None);
        }
    }
}
