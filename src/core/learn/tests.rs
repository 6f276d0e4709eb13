use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{AttemptEnd, JobFeatures, LearnedEntries, LearnedEntry};
use crate::core::measure::Measured;

fn job(stack: &str, sizes: [u8; 2]) -> JobFeatures {
    let sizes = [("length", sizes[0]), ("micro", sizes[1])];
    JobFeatures {
        same: BTreeMap::from([("preset".to_owned(), stack.to_owned())]),
        sizes: sizes.map(|(k, v)| (k.to_owned(), f64::from(v))).into(),
        ..JobFeatures::default()
    }
}

fn entry(number: usize, job: JobFeatures, fitted: bool) -> LearnedEntry {
    let second = i64::try_from(number).unwrap();
    LearnedEntry {
        id: number.to_string(),
        run: "r".to_owned(),
        attempt: 1,
        at: Timestamp::from_second(second).unwrap(),
        end: match fitted {
            true => AttemptEnd::Fitted,
            false => AttemptEnd::Failed {
                kind: "cuda_oom".to_owned(),
                phase: "backward".to_owned(),
            },
        },
        job,
        rungs: Vec::new(),
        measured: Measured::default(),
    }
}

fn entries() -> impl Strategy<Value = Vec<LearnedEntry>> {
    let one = (any::<bool>(), [0_u8..6, 0_u8..6], any::<bool>());
    prop::collection::vec(one, 0..24).prop_map(|all| {
        let stack = |other| if other { "a" } else { "b" };
        let numbered = all.into_iter().enumerate();
        numbered
            .map(|(n, (other, sizes, fitted))| entry(n, job(stack(other), sizes), fitted))
            .collect()
    })
}

#[test]
fn larger_in_one_thing_and_smaller_in_another_says_nothing() {
    let memory = LearnedEntries::new(vec![
        entry(1, job("a", [4, 1]), true),
        entry(2, job("a", [4, 3]), false),
    ]);
    let says = |sizes| {
        let job = job("a", sizes);
        (memory.fitted(&job).is_some(), memory.failed(&job).is_some())
    };
    assert_eq!(says([4, 1]), (true, false));
    assert_eq!(says([2, 1]), (true, false));
    assert_eq!(says([5, 1]), (false, false));
    assert_eq!(says([2, 2]), (false, false));
    assert_eq!(says([3, 3]), (false, false));
    assert_eq!(says([5, 3]), (false, true));
}

#[test]
fn a_job_with_a_size_that_the_other_lacks_says_nothing() {
    let mut other = job("a", [1, 1]);
    other.sizes.remove("micro");
    assert!(!other.within(&job("a", [4, 4])) && !job("a", [0, 0]).within(&other));
}

proptest! {
    /// Nothing is both known to fit and known to fail, whatever happened.
    #[test]
    fn nothing_is_known_to_fit_and_to_fail(entries in entries(), sizes in [0_u8..6, 0_u8..6]) {
        let memory = LearnedEntries::new(entries.clone());
        let job = job("a", sizes);
        prop_assert!(memory.fitted(&job).is_none() || memory.failed(&job).is_none());
        // The last word on a job stands.
        if let Some(last) = entries.last() {
            let known = if last.fitted() { memory.fitted(&last.job) } else { memory.failed(&last.job) };
            prop_assert_eq!(known.map(|e| &e.id), Some(&last.id));
        }
    }

    /// Of GPUs that do not change, nothing wrong is said; and neither order nor repetition matters.
    #[test]
    fn what_is_said_is_true(entries in entries(), sizes in [0_u8..6, 0_u8..6], card in 0_u8..36) {
        let fits = |job: &JobFeatures| job.sizes["length"] * job.sizes["micro"] <= f64::from(card);
        let of = |e: &LearnedEntry| entry(e.id.parse().unwrap(), e.job.clone(), fits(&e.job));
        let told: Vec<LearnedEntry> = entries.iter().map(of).collect();
        let job = job("a", sizes);
        let memory = LearnedEntries::new(told.clone());
        prop_assert!(memory.fitted(&job).is_none() || fits(&job));
        prop_assert!(memory.failed(&job).is_none() || !fits(&job));
        let mut twice = told.clone();
        twice.reverse();
        twice.extend(told);
        let again = LearnedEntries::new(twice);
        prop_assert_eq!(again.entries(), memory.entries());
        let kept = memory.clone().newest(memory.entries().len());
        prop_assert_eq!(kept.entries(), memory.entries());
        // What stands is all that is needed.
        let anew = LearnedEntries::new(memory.entries().to_vec());
        prop_assert_eq!(anew.entries(), memory.entries());
    }
}

#[test]
fn what_fitted_elsewhere_is_told_with_what_differs() {
    let at = |backend: &str, gpu: &str| {
        let mut job = job("a", [4, 2]);
        for (name, value) in [("backend", backend), ("gpu_memory", gpu)] {
            job.same.insert(name.to_owned(), value.to_owned());
        }
        job
    };
    let memory = LearnedEntries::new(vec![
        entry(1, at("local", "80G"), true),
        entry(2, at("local", "40G"), true),
        entry(3, job("b", [9, 9]), true),
    ]);
    let elsewhere = memory.fitted_elsewhere(&at("slurm", "80G")).unwrap();
    assert_eq!(elsewhere.entry.id, "1");
    assert_eq!(
        elsewhere.describe(),
        "run r, attempt 1 fitted, but with backend local (here slurm)"
    );
    assert!(
        memory
            .fitted_elsewhere(&at("local", "80G"))
            .is_some_and(|e| e.entry.id == "2")
    );
    assert_eq!(memory.fitted_elsewhere(&job("c", [1, 1])), None);
    // The same program with other words, or with another model, is another job.
    for name in ["given --workdir", "program", "model"] {
        let mut other = at("slurm", "80G");
        other.same.insert(name.to_owned(), "x".to_owned());
        assert_eq!(memory.fitted_elsewhere(&other), None, "{name}");
    }
}
