//! The classifier on series that are drawn, and what it must not say.

use proptest::prelude::*;

use super::judge::{ABOVE, growth};
use super::records::FigureMetric;
use super::trend::{is_outlier, rising};
use super::*;
use crate::{Class, Incident};
use oomctl_base::units::GIB;

/// Draws without a package: xorshift, and the sum of twelve uniform numbers for a normal one.
struct Draws(u64);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Noise of one kind, by its number: of no memory, of some, and the running maximum of the first.
fn noise(kind: usize, length: usize, seed: u64) -> Vec<f64> {
    let mut draws = Draws::new(seed);
    let (mut last, mut most) = (0.0, f64::MIN);
    let draw = |_| {
        let fresh = draws.normal();
        last = if kind == 1 { 0.5 * last + fresh } else { fresh };
        most = most.max(last);
        if kind == 2 { most } else { last }
    };
    (0..length).map(draw).collect()
}

fn points(values: &[f64]) -> Vec<TrendPoint> {
    let point = |(i, v): (usize, &f64)| (i as f64 + 1.0, *v);
    values.iter().enumerate().map(point).collect()
}

/// How many of some series are called rising, asked again and again as a watch does, and at their end.
fn alarms(kind: usize) -> (usize, usize) {
    const STEPS: usize = 96;
    let (mut ever, mut last) = (0, 0);
    for seed in 1..=200 {
        let points = points(&noise(kind, STEPS, seed));
        let asked = |n: usize| rising(&points[..n]).is_some();
        ever += usize::from((1..=STEPS).step_by(5).any(asked));
        last += usize::from(asked(STEPS));
    }
    (ever, last)
}

/// Measured on 1,000 series of 96 steps each. At the end: 1 of independent noise, 1 of noise with autocorrelation 0.5, 0 of a
/// running maximum. Asked at every one of the 96 steps: 10, 43, 0.
#[test]
fn noise_alone_is_hardly_ever_called_a_trend() {
    let found: Vec<_> = (0..3).map(alarms).collect();
    let few = |(found, most): (&(usize, usize), usize)| found.0 <= most && found.1 <= 1;
    assert!(found.iter().zip([4, 12, 1]).all(few), "{found:?}");
}

fn gpu_oom(step: u64) -> Incident {
    Incident {
        step: Some(step),
        first_step: Some(step <= 1),
        phase: "actor_update".to_owned(),
        ..Incident::bare("cuda_oom", Class::GpuOom)
    }
}

/// The records of a training whose figures are functions of the step.
fn records(steps: u64, of: impl Fn(u64) -> Vec<(FigureMetric, f64)>) -> Records {
    let mut records = Records::default();
    for step in 1..=steps {
        for (meter, value) in of(step) {
            records.take(step, meter, value);
        }
    }
    records
}

fn real(step: u64) -> f64 {
    step as f64
}

proptest! {
    #[test]
    fn a_leak_behind_noise_is_found_with_its_slope(
        seed in 1_u64..1_000_000,
        kind in 0_usize..2,
        steps in 64_u64..400,
        slope in 0.2_f64..4.0,
    ) {
        // Noise as wide as two steps of the leak.
        let noise = noise(kind, 400, seed);
        let records = records(steps, |step| {
            let at = usize::try_from(step).unwrap();
            vec![(FigureMetric::Host, GIB * (100.0 + slope * (real(step) + noise[at - 1])))]
        });
        let incident = Incident { step: Some(steps + 1), first_step: Some(false), ..Incident::bare("host_oom", Class::HostOom) };
        let course = judge(&records, &incident).expect("a leak");
        prop_assert_eq!((course.pattern, course.memory), (CoursePattern::Leak, Pool::Host));
        let found = course.bytes_per_step.unwrap().gib();
        prop_assert!((found - slope).abs() < 0.35 * slope, "{} for {}", found, slope);
    }

    #[test]
    fn memory_that_goes_with_the_responses_is_no_leak(
        seed in 1_u64..1_000_000,
        steps in 64_u64..300,
        running in any::<bool>(),
    ) {
        let noise = noise(0, 300, seed);
        let length = |step: u64| 400.0 + 6.0 * real(step) + 12.0 * noise[usize::try_from(step).unwrap() - 1];
        let longest = |step: u64| (1..=step).map(length).fold(0.0, f64::max);
        let records = records(steps, |step| {
            let of = if running { longest(step) } else { length(step) };
            vec![(FigureMetric::Allocated, GIB * (30.0 + of / 60.0)), (FigureMetric::Length, length(step))]
        });
        let course = judge(&records, &gpu_oom(steps + 1)).expect("growing responses");
        prop_assert_eq!(course.pattern, CoursePattern::GrowingResponses);
        let lengths = course.lengths.unwrap();
        prop_assert!(lengths.to > lengths.from);
    }

    #[test]
    fn one_batch_is_out_of_line_only_where_it_needs_far_more(
        seed in 1_u64..1_000_000,
        above in 0.0_f64..0.6,
    ) {
        let noise = noise(0, 60, seed);
        let memory = |step: u64| 40.0 + noise[usize::try_from(step).unwrap() - 1];
        let records = records(60, |step| vec![(FigureMetric::Allocated, GIB * memory(step))]);
        // The first step warms up and is left out of every series.
        let most = (2..=60).map(memory).fold(0.0, f64::max);
        let needed = most * (1.0 + above);
        let incident = Incident {
            allocated_bytes: Some(Bytes::from_gib(needed - 3.0)),
            requested_bytes: Some(Bytes::from_gib(3.0)),
            ..gpu_oom(61)
        };
        let pattern = judge(&records, &incident).map(|c| c.pattern);
        // One series of noise in a thousand is called a trend; `noise_alone_…` counts those.
        prop_assume!(pattern != Some(CoursePattern::Leak));
        prop_assert_eq!(pattern == Some(CoursePattern::Outlier), above > ABOVE);
    }
}

#[test]
fn what_died_in_the_first_steps_is_a_plain_lack_and_what_is_too_short_unknown() {
    let flat = |steps| records(steps, |_| vec![(FigureMetric::Allocated, 40.0 * GIB)]);
    let pattern = |records: &Records, step| judge(records, &gpu_oom(step)).map(|c| c.pattern);
    assert_eq!(pattern(&flat(0), 1), Some(CoursePattern::Lack));
    assert_eq!(pattern(&flat(1), 2), Some(CoursePattern::Lack));
    assert_eq!(pattern(&flat(5), 6), None);
    assert_eq!(pattern(&flat(90), 91), None);
    let rises = records(6, |step| vec![(FigureMetric::Allocated, GIB * real(step))]);
    assert_eq!(pattern(&rises, 7), None);
}

#[test]
fn memory_perhaps_grows_where_a_small_request_fails_late_and_nothing_else_explains_it() {
    let late = |step| Incident {
        requested_bytes: Some(Bytes(96 << 20)),
        allocated_bytes: Some(Bytes::from_gib(46.0)),
        total_bytes: Some(Bytes::from_gib(47.4)),
        ..gpu_oom(step)
    };
    let grown = growth(&Records::default(), &late(412)).expect("it is late, and small");
    assert_eq!(grown.pattern, CoursePattern::Growth);
    assert_eq!(
        grown.sentence(),
        "perhaps memory grows: 411 steps went well before, and the request that failed is small (96.00 MiB). Else this batch was larger"
    );
    let none = |incident: Incident| growth(&Records::default(), &incident).is_none();
    let large = Some(Bytes::from_gib(4.0));
    assert!(none(late(12)));
    for explained in [
        Incident {
            requested_bytes: large,
            ..late(412)
        },
        Incident {
            allocated_bytes: large,
            ..late(412)
        },
        Incident {
            fragmentation: true,
            ..late(412)
        },
        Incident {
            co_tenant_bytes: large,
            ..late(412)
        },
        Incident {
            engine: true,
            ..late(412)
        },
        Incident {
            logits: true,
            ..late(412)
        },
        Incident {
            phase: "eval".to_owned(),
            ..late(412)
        },
    ] {
        assert!(none(explained.clone()), "{explained:?}");
    }
    // What the log prints of each step says more.
    let flat = records(411, |_| vec![(FigureMetric::Allocated, 40.0 * GIB)]);
    assert_eq!(growth(&flat, &late(412)), None);
    let host = |step| Incident {
        step: Some(step),
        ..Incident::bare("host_oom", Class::HostOom)
    };
    let grown = growth(&Records::default(), &host(38)).expect("of the host");
    assert!(
        grown
            .sentence()
            .starts_with("perhaps memory grows: 37 steps went well before. Else")
    );
    // Before the next step a checkpoint may be saved.
    assert!(none(host(3)) && none(host(101)));
}

#[test]
fn what_levels_off_is_no_leak() {
    let records = records(90, |step| {
        vec![(
            FigureMetric::Reserved,
            GIB * (60.0 - 20.0 * (-real(step) / 8.0).exp()),
        )]
    });
    assert_eq!(judge(&records, &gpu_oom(91)), None);
}

#[test]
fn fragments_around_tensors_that_stay_are_no_leak() {
    let records = records(60, |step| {
        vec![
            (FigureMetric::Allocated, 40.0 * GIB),
            (FigureMetric::Reserved, GIB * (50.0 + real(step) / 4.0)),
        ]
    });
    assert_eq!(judge(&records, &gpu_oom(61)), None);
}

#[test]
fn an_engine_that_fails_is_not_judged_by_the_memory_of_the_trainer() {
    let rises = records(60, |step| vec![(FigureMetric::Allocated, GIB * real(step))]);
    let rollout = Incident {
        phase: "rollout".to_owned(),
        ..gpu_oom(61)
    };
    assert_eq!(judge(&rises, &rollout), None);
    assert!(judge(&rises, &gpu_oom(61)).is_some());
}

#[test]
fn completions_that_grow_tell_it_where_the_log_prints_no_memory() {
    let records = records(60, |step| {
        vec![(FigureMetric::Length, 200.0 + 10.0 * real(step))]
    });
    let course = judge(&records, &gpu_oom(61)).expect("growing responses");
    assert_eq!(course.pattern, CoursePattern::GrowingResponses);
    assert_eq!(course.bytes, None);
    assert!(!is_outlier(&[], 1.0));
}

/// What a sampler sees each minute of a program that loads for ten minutes and then trains for an hour.
fn sampled(of: impl Fn(i64) -> f64) -> Vec<(i64, Bytes)> {
    let minute = |m: i64| (60 * m, Bytes::from_gib(if m < 10 { 0.5 } else { of(m) }));
    (0..70).map(minute).collect()
}

#[test]
fn a_sampler_shows_a_leak_where_the_log_prints_no_memory() {
    let leaks = sampled(|m| 40.0 + 0.5 * m as f64 + [0.0, 0.4, -0.3][(m % 3) as usize]);
    let course = of_samples(&leaks, 120, &gpu_oom(121)).expect("a leak");
    assert_eq!(course.pattern, CoursePattern::Leak);
    let per_step = course.bytes_per_step.unwrap().gib();
    assert!((per_step - 0.25).abs() < 0.03, "{per_step}");
    let flat = sampled(|m| 60.0 + [0.0, 0.4, -0.3][(m % 3) as usize]);
    assert_eq!(of_samples(&flat, 120, &gpu_oom(121)), None);
    assert_eq!(of_samples(&[], 120, &gpu_oom(121)), None);
}
