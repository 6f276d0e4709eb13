//! How often a scheduler is asked about the jobs of a process, however many they are.
//!
//! A run says when it wants to know how its job is (`due`); the pace says when the scheduler may be asked, about all of
//! them at once. It is in no fact: losing it costs a question.

use jiff::{SignedDuration, Timestamp};

/// A slow scheduler is left alone for so many times what its answer took above [`QUICK`]: for 30 s after two seconds. One
/// that limits the rate of questions is a slow one, for the commands wait by themselves (squeue since 23.02).
const REST: i32 = 20;
/// What an answer may take: a command has to be started, and the machine may be busy.
const QUICK: SignedDuration = SignedDuration::from_millis(500);
/// Longest time that it is left alone for, in seconds.
const REST_MAX_S: i64 = 120;
/// Questions that may come early in a row, as after an out-of-memory in a log.
const EARLY_MAX: f64 = 8.0;
/// Shortest time between two questions, in seconds.
const APART_S: i64 = 1;
/// Nobody waits longer, whatever is configured.
const YEAR_S: i64 = 31_536_000;
/// A wait is longer by up to this part of itself, so that processes that began together do not stay together.
const JITTER: f64 = 0.1;

/// When a scheduler may be asked again.
#[derive(Debug, Clone)]
pub struct Pace {
    seed: Option<u64>,
    questions: u64,
    asked: Option<Timestamp>,
    /// How long it is left alone after that.
    rest: SignedDuration,
    failures: u32,
    /// How many more questions may come early.
    early: f64,
}

impl Pace {
    /// The pace of a process that has not asked yet. Each seed gives other waits; without one they are as said.
    pub fn new(seed: Option<u64>) -> Self {
        Self {
            seed,
            questions: 0,
            asked: None,
            rest: SignedDuration::ZERO,
            failures: 0,
            early: EARLY_MAX,
        }
    }

    /// Takes note of a question that was asked at `asked` and answered, or not, at `now`. Without trouble there is one
    /// every `every_s` seconds.
    pub fn note(&mut self, asked: Timestamp, now: Timestamp, answered: bool, every_s: u64) {
        let every_s = i64::try_from(every_s)
            .unwrap_or(YEAR_S)
            .clamp(APART_S, YEAR_S);
        let every = SignedDuration::from_secs(every_s);
        let since = self.asked.map_or(every, |last| asked.duration_since(last));
        let earned = since.as_secs_f64().max(0.0) / every.as_secs_f64();
        self.early = (self.early + earned - 1.0).clamp(0.0, EARLY_MAX);
        self.failures = match answered {
            true => 0,
            false => self.failures.saturating_add(1),
        };
        // A question that failed took as long as its command tried, which says nothing of how busy the scheduler is.
        let took = match answered {
            true => now.duration_since(asked).saturating_sub(QUICK),
            false => SignedDuration::ZERO,
        };
        let took = took.max(SignedDuration::ZERO);
        let failed = match self.failures.checked_sub(1) {
            Some(n) => every.saturating_mul(1 << n.min(16)),
            None => SignedDuration::ZERO,
        };
        let most = SignedDuration::from_secs(REST_MAX_S.max(every_s));
        // Who has come early too often waits until the next question is earned.
        let owed = every.mul_f64((1.0 - self.early).max(0.0));
        let apart = SignedDuration::from_secs(APART_S);
        let rest = took.saturating_mul(REST).max(failed).min(most);
        self.rest = rest.max(owed).max(apart);
        self.questions = self.questions.wrapping_add(1);
        self.asked = Some(now.max(asked));
    }

    /// When a question that is wanted at `at` may be asked.
    pub fn hold(&self, at: Timestamp) -> Timestamp {
        let Some(asked) = self.asked else {
            return at;
        };
        let wait = at.duration_since(asked).max(self.rest);
        let wait = wait.mul_f64(1.0 + JITTER * self.draw());
        asked.checked_add(wait).unwrap_or(Timestamp::MAX)
    }

    /// A number from 0 to 1 that follows from the seed and the number of questions (splitmix64: Steele, Lea, Flood,
    /// OOPSLA 2014).
    fn draw(&self) -> f64 {
        let Some(seed) = self.seed else { return 0.0 };
        let step = self.questions.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut z = seed.wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 40) as f64 / 16_777_216.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::at;
    use super::*;

    const EVERY_S: u64 = 15;

    /// How many questions are asked in ten minutes when somebody wants to know each second and an answer takes so long.
    fn asked_in_600_s(pace: &mut Pace, took_s: i64, answered: bool) -> usize {
        let (mut now, mut questions) = (0, 0);
        while now < 600 {
            if pace.hold(at(now)) <= at(now) {
                pace.note(at(now), at(now + took_s), answered, EVERY_S);
                questions += 1;
                now += took_s;
            }
            now += 1;
        }
        questions
    }

    #[test]
    fn a_question_at_its_time_is_asked_at_once_and_a_few_early_ones_too() {
        let mut pace = Pace::new(None);
        assert_eq!(pace.hold(Timestamp::MIN), Timestamp::MIN);
        for second in [0, 15, 30, 31, 32, 34, 38] {
            assert_eq!(pace.hold(at(second)), at(second));
            pace.note(at(second), at(second), true, EVERY_S);
        }
        assert_eq!(pace.hold(at(38)), at(39), "never twice in a second");
    }

    #[test]
    fn however_many_jobs_want_to_know_the_questions_stay_few() {
        // 40 in their time, and eight early ones.
        assert!((47..=50).contains(&asked_in_600_s(&mut Pace::new(None), 0, true)));
        let slow = asked_in_600_s(&mut Pace::new(None), 3, true);
        assert!(
            (11..=13).contains(&slow),
            "after 3 s it rests for 50: {slow}"
        );
        let frozen = asked_in_600_s(&mut Pace::new(None), 45, true);
        assert!((3..=4).contains(&frozen), "{frozen}");
        let down = asked_in_600_s(&mut Pace::new(None), 0, false);
        assert!(
            (7..=9).contains(&down),
            "15, 30, 60, then 120 s apart: {down}"
        );
    }

    #[test]
    fn an_answer_ends_the_waiting_for_one() {
        let mut pace = Pace::new(None);
        for second in [0, 15, 45, 105, 225] {
            assert!(pace.hold(at(second)) <= at(second), "{second} s");
            pace.note(at(second), at(second), false, EVERY_S);
        }
        assert_eq!(pace.hold(at(226)), at(225 + REST_MAX_S));
        pace.note(at(345), at(345), true, EVERY_S);
        assert_eq!(pace.hold(at(347)), at(347));
    }

    proptest! {
        #[test]
        fn waits_are_a_little_longer_and_no_two_processes_keep_step(seed: u64, wait in 1_i64..600) {
            let mut pace = Pace::new(Some(seed));
            let mut other = Pace::new(Some(seed.wrapping_add(1)));
            let mut apart = 0;
            for question in 0..20 {
                let now = at(question * 1_000);
                pace.note(now, now, true, EVERY_S);
                other.note(now, now, true, EVERY_S);
                let wanted = at(question * 1_000 + wait);
                let held = pace.hold(wanted);
                let longer = held.duration_since(wanted).as_secs_f64();
                prop_assert!((0.0..=0.1 * wait as f64).contains(&longer), "{longer}");
                prop_assert_eq!(held, pace.clone().hold(wanted), "the same until it asks again");
                apart += usize::from(held != other.hold(wanted));
            }
            prop_assert!(apart > 10);
        }

        #[test]
        fn no_times_make_it_fail(times in proptest::collection::vec((any::<i32>(), any::<i32>(), any::<bool>(), any::<u64>()), 0..20)) {
            let mut pace = Pace::new(Some(1));
            for (asked, now, answered, every_s) in times {
                pace.note(at(asked.into()), at(now.into()), answered, every_s);
                let _ = (pace.hold(Timestamp::MIN), pace.hold(Timestamp::MAX), pace.hold(at(0)));
            }
        }
    }
}
