//! Why `qsub` did not say a job id: a refusal, with what to do about it, or a lost answer.

use oomctl_base::table;

use super::super::tokens::RefusalWords;

/// Signs that the request may have reached the server although no answer came back (`src/lib/Liblog/pbs_messages.c`, and
/// `qsub: Error (15031) submitting job` where the server said nothing).
const LOST_ANSWER: [&str; 9] = [
    "qsub: error (",
    "end of file",
    "batch protocol error",
    "system error",
    "internal error",
    "connection reset",
    "broken pipe",
    "timed out",
    "interrupted",
];

/// A part of PBS's reason (OpenPBS 23.06, tests/pbs), and the next step.
const HINTS: [[&str; 2]; 15] = table(
    "
    cannot connect to server | the server does not answer: `qstat -B` must work here; PBS_SERVER and /etc/pbs.conf say where it is
    unknown queue | `qstat -Q` lists the queues; set one in the script (`#PBS -q NAME`) or with the knob `partition`
    no default queue | this server wants a queue to be named: `qstat -Q`; set it in the script (`#PBS -q NAME`) or with the knob `partition`
    queue is not enabled | the administrators have closed this queue: `qstat -Q` shows those that are open
    access to queue is denied | your account may not use this queue: `qstat -Qf` shows who may
    unauthorized request | your account may not use this queue or server: `qstat -Qf` shows who may
    violates queue and/or server resource limits | more than a job may have: `qstat -Qf` and `qstat -Bf` show the limits (`resources_max`)
    unknown resource | this server has no such resource: `pbsnodes -a` shows what its nodes offer; GPUs are mostly `ngpus`
    illegal attribute or resource value | `qsub` does not take this value: pbs_resources(7B) has the forms
    bad uid for job execution | this account may run no jobs here; for root the administrators must allow it (`acl_roots`)
    maximum number of jobs already | you have as many jobs as you may: `qstat -u $USER`; try again when one has ended
    invalid account | see the script's `#PBS -A`, or the knob `account`
    illegal - | `qsub` does not take this option or its value: see the `#PBS` lines and qsub(1B)
    directive error | `qsub` does not know this option: see the `#PBS` lines and qsub(1B)
    script contains cr, lf | the script has the line ends of Windows: `sed -i 's/\\r$//' SCRIPT`
    ",
);

/// Parts of a reason that pass by themselves; without a connection nothing was sent.
const PASSING: [&str; 3] = [
    "cannot connect to server",
    "queue is not enabled",
    "maximum number of jobs already",
];

/// What a call of `qsub` means.
pub(super) const WORDS: RefusalWords = RefusalWords {
    command: "qsub",
    absent: "PBS's commands must be on PATH; `module load pbs` on some sites",
    usage: None,
    named: "qsub: ",
    lost: &LOST_ANSWER,
    hints: &HINTS,
    passing: &PASSING,
};

/// The lines that `qsub` says of itself, without its name and its usage.
pub(super) fn reason(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim);
    let own: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("qsub: "))
        .collect();
    own.join("; ").trim().to_owned()
}
