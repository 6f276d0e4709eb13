//! Why `flux batch` did not say a job id: a refusal, with what to do about it, or a lost answer.

use oomctl_base::table;

use super::super::tokens::RefusalWords;

/// Signs that the request may have reached Flux although no answer came back (strerror(3), and `lost` in `src/cmd`).
const LOST_ANSWER: [&str; 8] = [
    "connection reset",
    "broken pipe",
    "timed out",
    "lost connection",
    "function not implemented",
    "no route to host",
    "interrupted",
    "unexpected",
];

/// A part of Flux's reason (flux-core 0.88, tests/flux), and the next step.
const HINTS: [[&str; 2]; 11] = table(
    "
    unable to connect | no Flux instance answers: on a cluster with Flux `flux resource list` must work here; elsewhere start one with `flux start`
    unsatisfiable request | no nodes of this instance have that together: `flux resource list` shows what it has; ask for less
    is not a valid queue | `flux queue list` lists the queues; set one in the script (`# flux: --queue=NAME`) or with the knob `partition`
    no queue specified | this instance wants a queue to be named: `flux queue list`; set it in the script (`# flux: --queue=NAME`) or with the knob `partition`
    requested duration | the time limit is longer than allowed: `flux queue list` shows the limits
    policy limit | more than a job may have: `flux queue list` shows the limits
    invalid hosts | `flux getattr hostlist` lists the hosts of this instance
    job not found | the job that this one waits for is unknown to this instance: `flux jobs -a`
    does not appear to start with | the first line of the script must be like `#!/bin/bash`
    unrecognized arguments | `flux batch` does not know this option: see the `# flux:` lines and `flux help batch`
    is disabled: | the administrators have stopped submissions: `flux queue status`
    ",
);

/// Parts of a reason that pass by themselves (`src/modules/job-manager/queue.c`, and the libraries' word for an
/// instance that does not listen: then nothing was sent).
const PASSING: [&str; 2] = ["unable to connect", "is disabled: "];

/// What a call of `flux batch` means.
pub(super) const WORDS: RefusalWords = RefusalWords {
    command: "flux batch",
    absent: "Flux's command must be on PATH; `module load flux` on some sites",
    usage: Some(2),
    named: "flux-batch: error:",
    lost: &LOST_ANSWER,
    hints: &HINTS,
    passing: &PASSING,
};

/// Flux's own lines of standard error, without their prefix; all of it where it has none.
pub(super) fn reason(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|l| !l.is_empty());
    let own: Vec<&str> = lines
        .clone()
        .filter_map(|line| {
            let rest = line.strip_prefix("flux-batch: ERROR: ");
            rest.or(line.strip_prefix("flux batch: error: "))
        })
        .collect();
    match own.is_empty() {
        true => lines.collect::<Vec<_>>().join("; "),
        false => own.join("; "),
    }
}
