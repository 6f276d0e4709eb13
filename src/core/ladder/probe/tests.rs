//! The search for the fastest configuration, on jobs that are formulas.

use proptest::prelude::*;

use super::*;
use crate::core::ladder::{Faster, Step};
use crate::core::recipe::{Layer, LayerKind};
use oomctl_base::Effect;

const BOUNDS: ProbeBounds = ProbeBounds {
    min_fit_probability: 0.9,
    probes_max: 4,
};

fn faster(name: &str) -> Faster {
    Faster {
        step: Step {
            rung: name.to_owned(),
            title: String::new(),
            changes: Vec::new(),
            effect: Effect::SameMath,
            notes: Vec::new(),
            reshards: false,
            layer: Layer::new(LayerKind::Rung),
        },
        gain: 0.0,
        because: String::new(),
        then: None,
    }
}

/// A candidate that takes the steps with these letters.
fn candidate(steps: &str, time: f64, odds: Option<f64>) -> TuneCandidate {
    TuneCandidate {
        steps: steps.chars().map(|c| faster(&c.to_string())).collect(),
        time,
        fits_probability: odds,
    }
}

fn tested(steps: &str, time: f64, fitted: bool, step_s: Option<f64>) -> Tested {
    Tested {
        taken: steps.chars().map(|c| c.to_string()).collect(),
        time,
        fitted,
        step_s,
    }
}

fn base(step_s: Option<f64>) -> Tested {
    tested("", 1.0, true, step_s)
}

#[test]
fn the_fastest_that_fits_surely_comes_first_then_the_best_odds_then_the_middle_of_the_unknown() {
    let mut all = vec![
        candidate("abc", 0.5, Some(0.6)),
        candidate("ab", 0.7, Some(0.95)),
        candidate("a", 0.9, Some(0.99)),
    ];
    let start = [base(None)];
    assert_eq!(next(&all, &start, BOUNDS), NextProbe::Probe(1));
    all[1].fits_probability = Some(0.7);
    all[2].fits_probability = Some(0.8);
    // 0.6 * 0.5 is more than 0.7 * 0.3 and 0.8 * 0.1.
    assert_eq!(next(&all, &start, BOUNDS), NextProbe::Probe(0));
    for c in &mut all {
        c.fits_probability = None;
    }
    assert_eq!(next(&all, &start, BOUNDS), NextProbe::Probe(1));
}

#[test]
fn what_takes_more_than_one_that_died_is_not_tried_nor_what_was_tried() {
    let all = [
        candidate("abc", 0.5, Some(0.95)),
        candidate("ca", 0.6, Some(0.95)),
        candidate("aab", 0.7, Some(0.95)),
        candidate("b", 0.8, Some(0.95)),
    ];
    let mut so_far = vec![base(None), tested("ac", 0.6, false, None)];
    assert_eq!(next(&all, &so_far, BOUNDS), NextProbe::Probe(2));
    so_far.push(tested("aa", 0.75, false, None));
    assert_eq!(next(&all, &so_far, BOUNDS), NextProbe::Probe(3));
    so_far.push(tested("b", 0.8, true, None));
    assert_eq!(
        next(&all, &so_far, BOUNDS),
        NextProbe::Stop(Stop::NothingToGain)
    );
    assert_eq!(fastest(&so_far), Some(3));
}

#[test]
fn what_was_measured_counts_more_than_what_the_preset_says() {
    // `a` was expected to save a tenth and costs a tenth: with `b` on top little is left to gain.
    let so_far = [
        base(Some(100.0)),
        tested("a", 0.9, true, Some(110.0)),
        tested("c", 0.95, true, Some(96.0)),
    ];
    let all = [
        candidate("ab", 0.76, Some(1.0)),
        candidate("b", 0.9, Some(1.0)),
    ];
    assert!((times(&so_far)[1] - 1.1).abs() < 1e-9);
    assert_eq!(fastest(&so_far), Some(2));
    // 0.76 * 1.1 / 0.9 is 0.93, and 0.9 stays what it was: 6 % below 0.96.
    assert_eq!(next(&all, &so_far, BOUNDS), NextProbe::Probe(1));
    // What does not save a twentieth is not worth a job.
    let little = [candidate("d", 0.96, Some(1.0))];
    assert_eq!(
        next(&little, &[base(None)], BOUNDS),
        NextProbe::Stop(Stop::NothingToGain)
    );
}

#[test]
fn without_a_measured_start_probes_are_compared_with_each_other() {
    let so_far = [
        base(None),
        tested("a", 0.9, true, Some(90.0)),
        tested("ab", 0.8, true, Some(95.0)),
    ];
    let shares = times(&so_far);
    assert!((shares[0] - 1.0).abs() < 1e-9 && (shares[2] - 0.95).abs() < 1e-9);
    assert_eq!(fastest(&so_far), Some(1));
}

#[test]
fn no_more_probes_are_made_than_asked_for() {
    let all = [
        candidate("a", 0.7, Some(1.0)),
        candidate("b", 0.6, Some(1.0)),
    ];
    let bounds = ProbeBounds {
        probes_max: 1,
        ..BOUNDS
    };
    let so_far = [base(None), tested("b", 0.6, false, None)];
    assert_eq!(
        next(&all, &so_far, bounds),
        NextProbe::Stop(Stop::ProbesSpent)
    );
}

/// Steps with what they take and save; the truth, and what is expected of it.
#[derive(Debug, Clone)]
struct Job {
    memory: [f64; 4],
    time: [f64; 4],
    room: f64,
    blur: f64,
}

const NAMES: [char; 4] = ['a', 'b', 'c', 'd'];

impl Job {
    fn sets() -> impl Iterator<Item = String> {
        (1..16_u32).map(|bits| {
            let taken = NAMES.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            taken.map(|(_, c)| *c).collect()
        })
    }

    fn sum(&self, of: &[f64; 4], steps: &str) -> f64 {
        let place = |c| NAMES.iter().position(|n| *n == c).unwrap_or(0);
        steps.chars().map(|c| of[place(c)]).sum()
    }

    fn fits(&self, steps: &str) -> bool {
        self.sum(&self.memory, steps) <= self.room
    }

    fn share(&self, steps: &str) -> f64 {
        1.0 - self.sum(&self.time, steps)
    }

    /// Odds from a memory that is known up to a factor, until a probe says more.
    fn candidates(&self) -> Vec<TuneCandidate> {
        let odds = |steps: &str| match self.sum(&self.memory, steps) * self.blur <= self.room {
            true => Some(0.95),
            false => Some(0.6),
        };
        Self::sets()
            .map(|s| candidate(&s, self.share(&s), odds(&s)))
            .collect()
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    let four = |least: f64, most: f64| prop::array::uniform4(least..most);
    (
        four(1.0, 20.0),
        four(0.02, 0.2),
        5.0..60.0_f64,
        0.6..1.6_f64,
    )
        .prop_map(|(memory, time, room, blur)| Job {
            memory,
            time,
            room,
            blur,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the job: no configuration twice, none above one that died, no more probes than allowed; and with
    /// as many as there are, nothing that fits is a twentieth faster than what comes out.
    #[test]
    fn the_search_ends_with_what_fits_and_wastes_nothing(job in jobs(), probes_max in 1..20_usize) {
        let candidates = job.candidates();
        let bounds = ProbeBounds { min_fit_probability: 0.9, probes_max };
        let mut so_far = vec![base(Some(100.0))];
        while let NextProbe::Probe(i) = next(&candidates, &so_far, bounds) {
            let steps: String = candidates[i].taken().concat();
            let taken = candidates[i].taken();
            for before in &so_far[1..] {
                prop_assert!(!same(&before.taken, &taken));
                prop_assert!(before.fitted || !within(&before.taken, &taken));
            }
            let step_s = job.fits(&steps).then(|| 100.0 * job.share(&steps));
            so_far.push(tested(&steps, job.share(&steps), job.fits(&steps), step_s));
            prop_assert!(so_far.len() <= probes_max + 1);
        }
        let found = &so_far[fastest(&so_far).unwrap()];
        prop_assert!(found.fitted);
        if so_far.len() <= probes_max {
            let best = Job::sets().filter(|s| job.fits(s)).map(|s| job.share(&s)).fold(1.0, f64::min);
            prop_assert!(best > found.time * (1.0 - GAIN_MIN) - 1e-9, "{best} {}", found.time);
        }
    }
}
