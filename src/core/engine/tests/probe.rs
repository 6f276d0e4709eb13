//! Short jobs that try what tuning could propose.

use super::{at, incident, nothing};
use crate::core::config::from_flags;
use crate::core::engine::{Fact, History, Outcome, Record};
use crate::core::learn::LearnedEntries;
use crate::core::measure::Measured;
use crate::core::recipe::{Layer, LayerKind};
use crate::core::request::tests::tune::{asked, basis, seen};
use crate::core::request::{Basis, ProbeSeries, Request, Trial, TrialEnd};
use oomctl_base::job::{JobId, JobState, JobStatus, Token};
use oomctl_diagnose::{Class, Incident};

fn short() -> ProbeSeries<'static> {
    ProbeSeries {
        of: "r",
        steps: 3,
        set: &[],
        command: &[],
    }
}

fn unmeasured() -> Basis {
    basis(Measured::default(), LearnedEntries::default())
}

/// The probe of the first candidate that takes these steps.
fn probe(basis: &Basis, taken: &[&str]) -> Request {
    let asked = asked();
    let all = asked.candidates(basis, false).unwrap();
    let candidate = all.iter().find(|c| c.taken() == taken);
    asked
        .probe(basis, candidate.unwrap(), &short(), "r-probe-1")
        .unwrap()
}

/// What its ledger says when its only attempt ended so.
fn history(state: JobState, incident: Incident, outcome: Outcome, measured: Measured) -> History {
    let facts = [
        Fact::Intended {
            attempt: 1,
            token: Token("t".to_owned()),
            script: "job.sh".to_owned(),
            script_sha256: String::new(),
            gpus: 1,
            rungs: Vec::new(),
            outputs: Vec::new(),
        },
        Fact::Ended {
            attempt: 1,
            status: Some(JobStatus::bare(JobId("7".to_owned()), state)),
            gpu_seconds: 0.0,
        },
        Fact::Measured {
            attempt: 1,
            measured: Box::new(measured),
        },
        Fact::Diagnosed {
            attempt: 1,
            incident: Box::new(incident),
            progress: None,
        },
        Fact::Finished { outcome },
    ];
    let records = facts
        .into_iter()
        .enumerate()
        .map(|(i, fact)| Record::new(i as u64 + 1, at(0), 1, fact));
    History::replay(&records.collect::<Vec<_>>())
}

fn died(class: Class) -> History {
    let outcome = Outcome::Exhausted {
        skipped: Vec::new(),
        shortfall: None,
    };
    history(
        JobState::Failed,
        incident("cuda_oom", class),
        outcome,
        Measured::default(),
    )
}

fn fitted(gib: f64) -> History {
    let measured = seen(gib).with_steps(vec![9_000, 4_000, 5_000, 4_400]);
    history(JobState::Completed, nothing(), Outcome::Succeeded, measured)
}

fn trial(request: &Request, history: &History) -> Trial {
    crate::core::engine::trial(request.inputs(), history).unwrap()
}

#[test]
fn a_probe_is_short_writes_nothing_and_has_no_ladder() {
    let probe = probe(&unmeasured(), &["thicker", "thicker"]);
    let recipe = probe.recipe(&[]).unwrap();
    let told = ["micro", "stop", "save", "length"].map(|k| recipe.value(k).to_string());
    assert_eq!(told, ["16", "3", "-1", "512"]);
    assert!(probe.inputs().ladder.is_empty());
    let of = probe.inputs().probe.as_ref().unwrap();
    assert_eq!((of.of.as_str(), of.taken.len()), ("r", 2));
    // What is proposed after it is the configuration alone.
    let layers = trial(&probe, &fitted(20.0)).layers;
    assert_eq!(layers.len(), 2);
    let settings = asked().settings(&layers).unwrap();
    assert!(
        settings
            .iter()
            .all(|(knob, _)| knob != "stop" && knob != "save")
    );
}

#[test]
fn a_probe_is_known_again_by_its_configuration_and_its_steps() {
    let start = unmeasured();
    let probe = probe(&start, &["thicker"]);
    assert!(asked().is_probed_by(&start, &short(), &probe));
    let more = ProbeSeries {
        steps: 4,
        ..short()
    };
    assert!(!asked().is_probed_by(&start, &more, &probe));
    let other = ProbeSeries { of: "s", ..short() };
    assert!(!asked().is_probed_by(&start, &other, &probe));
    let longer = crate::core::request::tests::start::request("r", &[], &["length=600"]);
    assert!(!longer.is_probed_by(&start, &short(), &probe));
    assert!(!asked().is_probed_by(&start, &short(), &asked()));
}

#[test]
fn what_is_set_in_a_probe_besides_must_not_change_what_it_takes() {
    let start = unmeasured();
    let all = asked().candidates(&start, false).unwrap();
    let with = |text: &str| {
        let set = from_flags(asked().preset(), &[text.to_owned()], &[]).unwrap();
        let set = [Layer {
            kind: LayerKind::Rung,
            ..set
        }];
        let short = ProbeSeries {
            set: &set,
            ..short()
        };
        asked().probe(&start, &all[0], &short, "r-probe-1")
    };
    let longer = with("mem=128G").unwrap();
    let recipe = longer.recipe(&[]).unwrap();
    assert_eq!(recipe.value("mem").to_string(), "128G");
    let refusal = with("length=64").unwrap_err().to_string();
    assert!(refusal.contains("would prove nothing"), "{refusal}");
}

#[test]
fn what_ended_a_probe_is_an_answer_or_none() {
    let probe = probe(&unmeasured(), &["thicker"]);
    let end = |history: &History| trial(&probe, history).end;
    assert_eq!(end(&fitted(20.0)), TrialEnd::Fitted);
    assert!(matches!(
        end(&died(Class::GpuOom)),
        TrialEnd::OutOfMemory(_)
    ));
    assert!(matches!(
        end(&died(Class::HostOom)),
        TrialEnd::Failed { .. }
    ));
    let cancelled = Outcome::Cancelled { by: None };
    let cancelled = history(
        JobState::Cancelled,
        nothing(),
        cancelled,
        Measured::default(),
    );
    let failed = TrialEnd::Failed {
        reason: "cancelled".to_owned(),
    };
    assert_eq!(end(&cancelled), failed);
    assert_eq!(trial(&probe, &cancelled).tested(), None);
    assert_eq!(end(&History::default()), TrialEnd::Open);
    // The middle one of the three, the first left out.
    assert_eq!(
        trial(&probe, &fitted(20.0)).tested().unwrap().step_s,
        Some(5.0)
    );
}

#[test]
fn after_a_probe_everything_is_judged_anew() {
    let odds = |basis: &Basis, steps: &[&str]| {
        let all = asked().candidates(basis, false).unwrap();
        let found = all.iter().find(|c| c.taken() == steps);
        found.map(|c| c.fits_probability)
    };
    let mut basis = unmeasured();
    let (two, three) = (["thicker"; 2], ["thicker"; 3]);
    assert_eq!(odds(&basis, &two), Some(None));
    // Twice the batch of a probe that took 30 of 80 GiB takes 60 at most.
    basis.trials = vec![trial(&probe(&basis, &two), &fitted(30.0))];
    assert_eq!(odds(&basis, &["thicker"]), Some(Some(1.0)));
    assert!(odds(&basis, &three).unwrap().is_some_and(|p| p > 0.9));
    // What is no smaller than one that died is out.
    let third = trial(&probe(&basis, &three), &died(Class::GpuOom));
    basis.trials.push(third);
    assert_eq!(odds(&basis, &three), None);
    assert_eq!(odds(&basis, &two), Some(Some(1.0)));
}
