//! Tuning without a memory model: from what was measured and what was learned.

use super::start::request;
use crate::core::engine::tests::at;
use crate::core::ladder::Tuned;
use crate::core::learn::{AttemptEnd, LearnedEntries, LearnedEntry};
use crate::core::measure::{GpuPeak, Measured};
use crate::core::request::{Basis, Request};
use oomctl_base::Value;
use oomctl_base::units::Bytes;

pub(crate) fn seen(gib: f64) -> Measured {
    let gpu = GpuPeak {
        utilization_percent: None,
        node: "n1".to_owned(),
        gpu: 0,
        uuid: "GPU-1".to_owned(),
        name: "H100".to_owned(),
        peak_bytes: Bytes::from_gib(gib),
        own_peak_bytes: None,
        pid: None,
        total_bytes: Bytes::from_gib(80.0),
    };
    Measured::new(vec![gpu], Vec::new())
}

pub(crate) fn basis(measured: Measured, memory: LearnedEntries) -> Basis {
    Basis {
        rungs: Vec::new(),
        fits: true,
        measured,
        tried: Vec::new(),
        memory,
        trials: Vec::new(),
    }
}

pub(crate) fn asked() -> Request {
    request(
        "r",
        &[("micro", Value::Int(4)), ("offload", Value::Bool(true))],
        &["length=512"],
    )
}

fn names(tuned: &Tuned) -> Vec<&str> {
    tuned.steps.iter().map(|s| s.step.rung.as_str()).collect()
}

/// An attempt of another run with this micro batch and offload.
fn entry(micro: i64, offload: bool, end: AttemptEnd) -> LearnedEntry {
    let project = [
        ("micro", Value::Int(micro)),
        ("offload", Value::Bool(offload)),
    ];
    LearnedEntry {
        id: format!("{micro}-{offload}"),
        run: "other".to_owned(),
        attempt: 1,
        at: at(0),
        end,
        job: request("other", &project, &["length=512"])
            .job(&[])
            .unwrap(),
        rungs: Vec::new(),
        measured: Measured::default(),
    }
}

#[test]
fn twice_the_batch_takes_at_most_twice_what_was_measured() {
    let tuned = asked()
        .tune(&basis(seen(18.0), LearnedEntries::default()), false)
        .unwrap();
    // 36 and 72 of 80 GiB at most, then 144: that is not known. Nor is what the switch takes.
    assert_eq!(names(&tuned), ["thicker", "thicker"]);
    let last = tuned.steps[1].then.as_ref().unwrap();
    assert!((last.peak_gib.unwrap() - 72.0).abs() < 1e-6);
    let reasons: Vec<&str> = tuned.skipped.iter().map(|s| s.reason.as_str()).collect();
    assert!(
        reasons
            .iter()
            .all(|r| r.contains("its memory use is unknown")),
        "{reasons:?}"
    );
    // Nothing measured, nothing known.
    let tuned = asked()
        .tune(
            &basis(Measured::default(), LearnedEntries::default()),
            false,
        )
        .unwrap();
    assert_eq!(names(&tuned), Vec::<&str>::new());
}

#[test]
fn what_was_learned_comes_first() {
    let failed = AttemptEnd::Failed {
        kind: "cuda_oom".to_owned(),
        phase: "backward".to_owned(),
    };
    let memory = LearnedEntries::new(vec![
        entry(16, true, failed),
        entry(8, false, AttemptEnd::Fitted),
    ]);
    let tuned = asked().tune(&basis(seen(10.0), memory), false).unwrap();
    // 16 is known to fail, though the measure would allow it; 8 without offload is known to fit.
    assert_eq!(names(&tuned), ["stay", "thicker"]);
    let last = tuned.steps[1].then.as_ref().unwrap();
    assert_eq!(last.ground, "fitted in an earlier run");
    assert!((last.fits_probability - 1.0).abs() < 1e-9);
    assert!(
        tuned.skipped[0]
            .reason
            .contains("ran out of GPU memory in run "),
        "{tuned:?}"
    );
}

#[test]
fn the_settings_lead_from_the_projects_files_to_the_result() {
    let asked = asked();
    let basis = basis(seen(18.0), LearnedEntries::default());
    let tuned = asked.tune(&basis, false).unwrap();
    let layers: Vec<_> = tuned.steps.iter().map(|s| s.step.layer.clone()).collect();
    let settings = asked.settings(&layers).unwrap();
    let expected = [("micro", Value::Int(16)), ("length", Value::Int(512))];
    let expected = expected.map(|(k, v)| (k.to_owned(), v));
    assert_eq!(settings, expected);
}
