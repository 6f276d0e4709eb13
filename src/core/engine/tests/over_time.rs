//! What follows from what memory did over the steps, and what is said of it before the end.

use super::table::{Bench, accepted, polled, polled_of, read_to_the_end, status};
use super::{Toy, incident};
use crate::core::engine::{AttemptEvent, Event, Fact, LogLook, RetryCause, Rising, Verdict};
use crate::core::measure::Measured;
use oomctl_base::job::JobState;
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, CoursePattern, MemoryCourse, Pool, Progress, StepSpan};

const GIB: u64 = 1 << 30;

fn course(pattern: CoursePattern, memory: Pool) -> MemoryCourse {
    MemoryCourse {
        pattern,
        memory,
        bytes_per_step: Some(Bytes(2 * GIB)),
        bytes: Some(StepSpan {
            from_step: 2,
            to_step: 100,
            from: 104 * GIB,
            to: 300 * GIB,
        }),
        lengths: None,
        steps_before: None,
        needed_bytes: None,
    }
}

fn progress(step: u64, total: Option<u64>) -> Progress {
    Progress::new(step, total)
}

/// The next attempt dies of memory with this course behind so many steps.
fn died(bench: &mut Bench, number: u32, course: &MemoryCourse, step: u64) -> Verdict {
    let second = i64::from(number) * 1_000;
    bench.prepared(number, second);
    bench.feed(&accepted(number), second + 1);
    bench.feed(&polled_of(number, status(JobState::Failed)), second + 10);
    let mut incident = match course.memory {
        Pool::Gpu => incident("cuda_oom", Class::GpuOom),
        Pool::Host => incident("host_oom", Class::HostOom),
    };
    incident.course = Some(course.clone());
    let progress = Some(progress(step, Some(500)));
    let event = read_to_the_end(number, incident, progress, Measured::default());
    let facts = bench.feed(&event, second + 20);
    let verdict = facts.into_iter().find_map(|fact| match fact {
        Fact::Decided { verdict, .. } => Some(*verdict),
        _ => None,
    });
    verdict.unwrap()
}

fn cause(verdict: &Verdict) -> Option<RetryCause> {
    match verdict {
        Verdict::Again { cause, .. } => Some(*cause),
        _ => None,
    }
}

fn toy(resumes: bool) -> Toy {
    Toy {
        resumes,
        host_rungs: 2,
        ..Toy::new(3)
    }
}

#[test]
fn a_leak_goes_on_from_its_checkpoint_as_often_as_allowed_and_then_takes_a_rung() {
    for memory in [Pool::Gpu, Pool::Host] {
        let mut bench = Bench::new(toy(true));
        let leak = course(CoursePattern::Leak, memory);
        for number in 1..=5 {
            let verdict = died(&mut bench, number, &leak, u64::from(number) * 90);
            assert_eq!(
                cause(&verdict),
                Some(RetryCause::Leak),
                "{memory:?} {number}"
            );
        }
        let verdict = died(&mut bench, 6, &leak, 600);
        assert!(matches!(verdict, Verdict::Climb { .. }), "{verdict:?}");
    }
}

#[test]
fn a_leak_that_no_checkpoint_carries_further_takes_a_rung() {
    let leak = course(CoursePattern::Leak, Pool::Host);
    let mut bench = Bench::new(toy(false));
    let verdict = died(&mut bench, 1, &leak, 90);
    assert!(matches!(verdict, Verdict::Climb { .. }), "{verdict:?}");
    let mut bench = Bench::new(toy(true));
    assert_eq!(
        cause(&died(&mut bench, 1, &leak, 90)),
        Some(RetryCause::Leak)
    );
    let verdict = died(&mut bench, 2, &leak, 90);
    assert!(matches!(verdict, Verdict::Climb { .. }), "{verdict:?}");
}

#[test]
fn what_the_same_configuration_would_meet_again_is_not_tried_again() {
    for pattern in [CoursePattern::GrowingResponses, CoursePattern::Outlier] {
        let mut bench = Bench::new(toy(true));
        let verdict = died(&mut bench, 1, &course(pattern, Pool::Gpu), 400);
        assert!(matches!(verdict, Verdict::Climb { .. }), "{pattern:?}");
    }
}

/// What is told of a leak of host memory when so many steps are done of 500, where a node has 480 GiB.
fn told(total: u64, memory: Option<Bytes>) -> Vec<Fact> {
    let mut bench = Bench::running(Toy {
        memory,
        ..toy(true)
    });
    let look = LogLook {
        progress: Some(progress(100, Some(total))),
        rising: Rising {
            courses: vec![course(CoursePattern::Leak, Pool::Host)],
            step_s: Some(30.0),
        },
        ..LogLook::default()
    };
    let event = Event::Attempt(1, AttemptEvent::LogsRead(look));
    let mut facts = bench.feed(&event, 20);
    facts.extend(bench.feed(&event, 50));
    facts.extend(bench.feed(&polled(status(JobState::Running)), 60));
    facts
}

#[test]
fn memory_that_will_be_full_is_told_of_once_with_the_step_and_the_time() {
    let facts = told(500, Some(Bytes(480 * GIB)));
    let [Fact::Foreseen { foreseen, .. }] = facts.as_slice() else {
        panic!("{facts:?}");
    };
    assert_eq!((foreseen.full_step, foreseen.in_s), (190, Some(2_700)));
    assert_eq!(
        foreseen.sentence(),
        "host memory rises by 2.00 GiB a step (steps 2 to 100); at this rate 480.00 GiB are full at step 190 of 500, in about 45 min"
    );
}

#[test]
fn nothing_is_told_of_what_lasts_or_is_not_known() {
    assert_eq!(told(180, Some(Bytes(480 * GIB))), []);
    assert_eq!(told(500, None), []);
    assert_eq!(told(500, Some(Bytes(200 * GIB))), []);
    assert_eq!(told(90_000, Some(Bytes(4_000 * GIB))), []);
}
