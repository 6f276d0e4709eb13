//! How a run ended, in words, and what to do next.

use super::estimate_view::phase_name;
use super::figures::percent;
use super::spool::without_spool;
use crate::core::engine::{Budget, History, Outcome, RetryCause, Verdict};
use crate::core::ladder::{Expectation, Shortfall, Skipped, cannot_edit};
use oomctl_base::job::somebody;
use oomctl_base::units::chance;
use oomctl_diagnose::Class;

/// Why a job waits or ended, in the scheduler's word. That its exit code is not zero says nothing more than its state.
pub fn job_reason(word: Option<&str>) -> Option<&str> {
    word.filter(|word| !matches!(*word, "" | "None" | "NonZeroExitCode"))
}

/// The rungs that the last decision passed over.
pub fn skipped(history: &History) -> Vec<Skipped> {
    let mut verdicts = history.attempts.iter().rev();
    let last = verdicts.find_map(|attempt| attempt.verdict.as_ref());
    match (&history.outcome, last) {
        (Some(Outcome::Exhausted { skipped, .. } | Outcome::Failed { skipped, .. }), _)
        | (_, Some(Verdict::Climb { skipped, .. })) => skipped.clone(),
        _ => Vec::new(),
    }
}

/// The word for an end. Of retries that were never allowed none was spent.
pub fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::RetriesSpent { retries: 0, .. } => "ended",
        outcome => outcome.word(),
    }
}

/// Why the run ended, beyond the word for it.
pub fn reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Succeeded => None,
        Outcome::Failed { reason, .. } | Outcome::Configuration { reason } => {
            Some(without_spool(reason))
        }
        Outcome::Exhausted { skipped, shortfall } => {
            Some(match (shortfall, cannot_edit(skipped)) {
                (Some(shortfall), _) => cannot_fit(shortfall),
                (None, Some(one)) => uneditable(&one.reason),
                (None, None) => "no rung of the ladder is left".to_owned(),
            })
        }
        Outcome::Refused {
            reason,
            rung,
            program,
            ..
        } => Some(match (rung, program) {
            (Some(rung), true) => {
                format!("the program could not be started after the rung {rung}: {reason}")
            }
            (None, true) => format!("the program could not be started: {reason}"),
            (Some(rung), false) => format!("the scheduler refused the rung {rung}: {reason}"),
            (None, false) => format!("the job could not be submitted: {reason}"),
        }),
        Outcome::RetriesSpent {
            cause,
            retries,
            setting,
            ..
        } => Some(spent(*cause, *retries, setting.as_deref())),
        Outcome::BudgetSpent { budget } => Some(format!("the limit of {budget} is reached")),
        Outcome::Pruned { reason, .. } => Some(reason.clone()),
        Outcome::Cancelled { by } => Some(match by {
            Some(by) => format!("by {}", somebody(by)),
            None => "not by oomctl".to_owned(),
        }),
    }
}

/// Why a job is not submitted again unchanged.
fn spent(cause: RetryCause, retries: u32, setting: Option<&str>) -> String {
    let what = match cause {
        RetryCause::TimeLimit => "time limit reached".to_owned(),
        cause => cause.to_string(),
    };
    match (retries, setting) {
        (0, Some(setting)) => format!("{what}; not resubmitted ({setting} is 0)"),
        (0, None) => format!("{what}; not resubmitted"),
        (retries, _) => format!("{what}, after {retries} unchanged retries"),
    }
}

/// The same of a run: attempts before `oomctl retry` do not count for the limit.
pub fn reason_of(outcome: &Outcome, history: &History) -> Option<String> {
    match outcome {
        Outcome::BudgetSpent { budget } if history.before_retry() > 0 => Some(format!(
            "the limit of {budget} since `oomctl retry` is reached"
        )),
        _ => reason(outcome),
    }
}

/// Why oomctl makes no change, where its copies of the scripts cannot hold it.
pub fn uneditable(why: &str) -> String {
    format!("cannot edit the script: {why}")
}

/// What is missing where nothing within reach fits.
pub fn cannot_fit(shortfall: &Shortfall) -> String {
    if let Some(host) = shortfall.enough_host_bytes {
        return format!(
            "cannot fit on these nodes: about {:.0} GiB of host memory would be needed on each",
            host.gib()
        );
    }
    let gpus = match shortfall.gpus {
        1 => "the GPU".to_owned(),
        gpus => format!("each of {gpus} GPUs"),
    };
    let odds = format!("probability to fit {}", chance(shortfall.fits_probability));
    // Where the expectation alone would fit, the failures so far are what speaks against it.
    if shortfall.least_bytes < shortfall.gpu_bytes {
        return format!(
            "will most likely not fit on this hardware ({odds}). The memory model alone expects {:.0} GiB of {:.0} on {gpus}, which the failures so far contradict",
            shortfall.least_bytes.gib(),
            shortfall.gpu_bytes.gib(),
        );
    }
    let needed = format!(
        "{:.0} GiB are expected on {gpus} ({}), with {:.0} GiB; {odds}",
        shortfall.least_bytes.gib(),
        phase_name(&shortfall.phase),
        shortfall.gpu_bytes.gib(),
    );
    match shortfall.sharded_bytes {
        Some(_) => format!("cannot fit on this hardware without sharding: {needed}"),
        None => format!("cannot fit on this hardware: {needed}"),
    }
}

/// The smallest request that would do.
pub fn smallest_request(shortfall: &Shortfall) -> String {
    let sharded = shortfall.sharded_bytes.map(|bytes| {
        format!(
            "sharding weights and states over these {} GPUs (DeepSpeed ZeRO-3 or FSDP), with about {:.0} GiB on each",
            shortfall.gpus,
            bytes.gib()
        )
    });
    let gpus = shortfall
        .enough_gpus
        .map(|n| format!("{n} GPUs of this size"));
    let larger = shortfall.enough_gpu_bytes;
    let larger = larger.map(|b| format!("GPUs with {:.0} GiB", b.gib()));
    let host = shortfall.enough_host_bytes;
    let host = host.map(|b| format!("nodes with {:.0} GiB of host memory", b.gib()));
    let all = sharded.into_iter().chain(gpus).chain(larger).chain(host);
    let all: Vec<String> = all.collect();
    match all.as_slice() {
        [] => "try a smaller model, an adapter or shorter sequences".to_owned(),
        all => format!("the smallest request that would fit: {}", all.join(", or ")),
    }
}

/// What to do after that end.
pub fn hint(outcome: &Outcome, history: &History) -> Option<String> {
    match outcome {
        Outcome::Refused { hint, .. } => hint.clone(),
        Outcome::Exhausted {
            shortfall: Some(shortfall),
            ..
        } => Some(smallest_request(shortfall)),
        Outcome::Exhausted { skipped, .. } if let Some(one) = cannot_edit(skipped) => {
            let changes = one.by_hand.iter();
            let changes = changes.map(|c| format!("{} {}", c.name(), c.values("->")));
            let changes: Vec<String> = changes.collect();
            let run = &history.run;
            let incident = history.attempt().and_then(|a| a.incident.as_ref());
            let code = incident.and_then(|incident| incident.own_code.first());
            let code = code.map_or_else(String::new, |line| format!("{line}; or "));
            Some(format!(
                "{code}by hand: {}; `oomctl fix {run}` prints the diff",
                changes.join(", ")
            ))
        }
        Outcome::Exhausted { skipped, .. }
            if history.steps().next().is_none() || is_taken_over(history) =>
        {
            let named = |helps| {
                let run = &history.run;
                format!("{helps}; `oomctl fix {run}` shows the lines that tell it")
            };
            by_hand(history, skipped).map(named).or_else(larger)
        }
        Outcome::Exhausted { .. } => larger(),
        Outcome::BudgetSpent { budget } => Some(match budget {
            Budget::Attempts { limit } => format!(
                "`oomctl retry {}` allows {limit} more; a new run takes `submit --attempts N`, or `limits: attempts`",
                history.run
            ),
            Budget::WallTime { .. } => "raise `limits: wall_time`".to_owned(),
            Budget::GpuHours { .. } => "raise `limits: gpu_hours`".to_owned(),
        }),
        Outcome::Failed { .. } => by_hand(history, &[])
            .filter(|_| is_taken_over(history))
            .or_else(|| Some(failed(history))),
        Outcome::RetriesSpent { cause, .. } => Some(again(*cause).to_owned()),
        Outcome::Pruned { by, .. } => Some(format!(
            "`oomctl status {by}` shows the run that failed; `oomctl sweep submit --cell` submits one cell"
        )),
        Outcome::Configuration { .. } | Outcome::Cancelled { .. } | Outcome::Succeeded => None,
    }
}

/// What is left where no rung is.
fn larger() -> Option<String> {
    let what =
        "try larger GPUs, more of them if the job is sharded, a smaller model or smaller inputs";
    Some(what.to_owned())
}

/// Whether the run began with a job that oomctl did not submit.
fn is_taken_over(history: &History) -> bool {
    history.attempts.first().is_some_and(|a| a.token.is_none())
}

/// How the remedies begin that say to lower the batch.
const SMALLER_BATCHES: &str = "smaller micro batches";

/// Whether a rung was passed over because the batch cannot be smaller.
fn is_least_batch(skipped: &[Skipped]) -> bool {
    let is_one = |s: &Skipped| {
        let ends = s.reason.ends_with(" is 1") || s.reason.ends_with(" is 1 already");
        ends && s.reason.contains("batch")
    };
    skipped.iter().any(is_one)
}

/// What a person should change, where no rung does it.
fn by_hand(history: &History, skipped: &[Skipped]) -> Option<String> {
    let incident = history.attempt()?.incident.as_ref()?;
    let bugs = incident.known_bugs.iter().filter(|bug| bug.certain);
    let helps = bugs.map(|bug| bug.workaround.clone());
    let least = is_least_batch(skipped);
    let own = incident.helps.iter();
    let own = own.filter(|text| !least || !text.starts_with(SMALLER_BATCHES));
    let helps: Vec<String> = helps.chain(own.cloned()).collect();
    (!helps.is_empty()).then(|| format!("change by hand: {}", helps.join("; ")))
}

/// What helps against an end that has nothing to do with the configuration.
fn again(cause: RetryCause) -> &'static str {
    match cause {
        RetryCause::TimeLimit => {
            "raise the time limit; if the job writes checkpoints, `supervision: time_limit_retries` resubmits it"
        }
        RetryCause::NodeFailure => {
            "raise `supervision: node_failure_retries`, or exclude the node (`--sbatch=--exclude=NODE`)"
        }
        RetryCause::Preemption => {
            "raise `supervision: preemption_retries`, or use a partition or QOS without preemption"
        }
        RetryCause::CoTenant => {
            "another process holds the GPU: report it to the site, or exclude the node"
        }
        RetryCause::Disk => "free disk space, then `oomctl watch RUN` continues",
        RetryCause::Asked => "`oomctl retry RUN` continues once more",
        RetryCause::LateOom => {
            "apply the next rung by hand, or raise `supervision: late_oom_retries`"
        }
        RetryCause::Leak => {
            "find the leak, or raise `supervision: leak_retries`; more frequent checkpoints lose less"
        }
    }
}

/// What helps against a failure that is none of memory, and where the evidence is.
fn failed(history: &History) -> String {
    let incident = history.attempt().and_then(|a| a.incident.as_ref());
    let helps = incident.filter(|i| i.class == Class::NotOom);
    let helps = helps.map_or(&[][..], |i| &i.helps);
    let again = format!(
        "after the fix: `oomctl retry {}`, or `oomctl submit` if you changed the script",
        history.run
    );
    let all = helps
        .iter()
        .cloned()
        .chain(evidence(history))
        .chain([again]);
    all.collect::<Vec<_>>().join("; ")
}

/// Where the last attempt's own words are.
fn evidence(history: &History) -> Option<String> {
    let run = &history.run;
    let number = history.attempts.len();
    let attempt = history.attempt();
    let job = attempt.and_then(|a| a.job.as_ref());
    let is_program = attempt.and_then(|a| a.status.as_ref()?.machine.as_ref());
    // The proof may stand on standard output: many jobs have one log.
    let incident = attempt.and_then(|a| a.incident.as_ref());
    let proofs = incident.iter().flat_map(|i| &i.evidence);
    let file = proofs
        .map(|proof| &proof.file)
        .find(|file| !file.is_empty());
    let stream = file.map(|file| match file.ends_with("slurm.out") {
        true => "out",
        false => "err",
    });
    match (job, stream) {
        (None, _) => None,
        (Some(_), _) if is_taken_over(history) => None,
        (Some(_), Some(stream)) if is_program.is_some() => Some(format!(
            "the log is .oomctl/runs/{run}/attempt-{number}/slurm.{stream}"
        )),
        (Some(_), _) => Some(format!("`oomctl logs {run}` prints the log")),
    }
}

/// Below this chance to fit, and above this part of a GPU that is left free, expectation and odds contradict each other.
const REFUTED: f64 = 0.3;
const ROOM: f64 = 0.2;

/// What the memory model expects of the next attempt.
pub fn expectation(expects: &Expectation) -> String {
    let speed = expects.slower.map_or_else(String::new, |slower| {
        format!(", about {} slower", percent(slower))
    });
    let (peak, phase) = (expects.peak_bytes.gib(), phase_name(&expects.phase));
    let odds = format!(
        "probability to fit {}{speed}",
        chance(expects.fits_probability)
    );
    let has_room = expects
        .gpu_bytes
        .is_some_and(|gpu| peak < gpu.gib() * (1.0 - ROOM));
    match has_room && expects.fits_probability < REFUTED {
        true => format!("the estimate was wrong, so oomctl takes the next change{speed}"),
        false => format!("then {peak:.0} GiB are expected ({phase}), {odds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::units::Bytes;

    #[test]
    fn a_user_is_told_by_name_or_said_to_be_a_number() {
        assert_eq!(somebody("0"), "root");
        assert_eq!(somebody("1000"), "the user with id 1000");
        assert_eq!(somebody("oomctl cancel"), "oomctl cancel");
    }

    #[test]
    fn what_is_less_than_a_gpu_has_is_not_said_to_exceed_it() {
        let least = |gib| Shortfall {
            least_bytes: Bytes::from_gib(gib),
            phase: "actor_update".to_owned(),
            gpu_bytes: Bytes::from_gib(24.0),
            gpus: 16,
            fits_probability: 0.03,
            enough_gpus: None,
            enough_gpu_bytes: None,
            sharded_bytes: None,
            enough_host_bytes: None,
        };
        assert_eq!(
            cannot_fit(&least(1.0)),
            "will most likely not fit on this hardware (probability to fit 0.03). The memory model alone expects 1 GiB of 24 on each of 16 GPUs, which the failures so far contradict"
        );
        assert!(cannot_fit(&least(30.0)).starts_with("cannot fit on this hardware: 30 GiB"));
        let whole = Shortfall {
            sharded_bytes: Some(Bytes::from_gib(9.0)),
            ..least(30.0)
        };
        assert!(
            cannot_fit(&whole).starts_with("cannot fit on this hardware without sharding: 30 GiB")
        );
        assert_eq!(
            smallest_request(&whole),
            "the smallest request that would fit: sharding weights and states over these 16 GPUs (DeepSpeed ZeRO-3 or FSDP), with about 9 GiB on each"
        );
    }
}
