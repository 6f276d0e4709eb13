//! Which of several answers to a failure ends first, by queue and speed. What is unknown stays an interval: one answer goes
//! before another only where it ends first whatever the unknown turns out to be.

/// What the job has left to do, in seconds at the speed that it had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// At least.
    pub least_s: f64,
    /// At most; `None` where nothing says it.
    pub most_s: Option<f64>,
}

/// When one answer would start, and how fast it would work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prospect {
    /// Seconds in the queue; `None` where the scheduler did not say.
    pub wait_s: Option<f64>,
    /// The scheduler would refuse it.
    pub refused: bool,
    /// Time that a piece of work takes, of what it took before, at least.
    pub least: f64,
    /// The same at most; `None` where nothing says it.
    pub most: Option<f64>,
}

impl Prospect {
    /// Seconds until its end at the earliest.
    pub fn earliest_s(&self, work: Work) -> f64 {
        self.wait_s.unwrap_or(0.0) + work.least_s * self.least
    }

    /// Seconds until its end at the latest; `None` where that is unknown.
    pub fn latest_s(&self, work: Work) -> Option<f64> {
        Some(self.wait_s? + work.most_s? * self.most?)
    }

    /// Does it end before the other, whatever the unknown is? Where both surely end no later than the other, neither does.
    pub fn surely_before(&self, other: &Self, work: Work) -> bool {
        if self.refused || other.refused {
            return other.refused && !self.refused;
        }
        self.never_after(other, work) && !other.never_after(self, work)
    }

    /// The work is the same for both, and each end grows with it in a straight line, so the least and the most work decide.
    fn never_after(&self, other: &Self, work: Work) -> bool {
        let (Some(wait), Some(most)) = (self.wait_s, self.most) else {
            return false;
        };
        let gain = |work_s: f64| {
            other.wait_s.unwrap_or(0.0) + work_s * other.least - (wait + work_s * most)
        };
        // Without a bound the slope decides how it goes on.
        let far = match work.most_s {
            Some(most_s) => gain(most_s),
            None => other.least - most,
        };
        gain(work.least_s) >= 0.0 && far >= 0.0
    }
}

/// The answer to take: the first, in their order, that no other one surely ends before.
pub fn soonest(prospects: &[Prospect], work: Work) -> Option<usize> {
    let beaten = |p: &Prospect| prospects.iter().any(|o| o.surely_before(p, work));
    prospects.iter().position(|p| !beaten(p))
}

/// Does it end before all others, whatever the unknown is?
pub fn is_certain(prospects: &[Prospect], chosen: usize, work: Work) -> bool {
    let others = prospects.iter().enumerate().filter(|(at, _)| *at != chosen);
    let of = prospects.get(chosen);
    of.is_some_and(|of| others.into_iter().all(|(_, o)| of.surely_before(o, work)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3_600.0;

    fn hours(least: f64, most: Option<f64>) -> Work {
        Work {
            least_s: least * HOUR,
            most_s: most.map(|m| m * HOUR),
        }
    }

    fn starts(wait_h: Option<f64>, least: f64, most: Option<f64>) -> Prospect {
        Prospect {
            wait_s: wait_h.map(|h| h * HOUR),
            refused: false,
            least,
            most,
        }
    }

    /// On twice as many GPUs in nine hours, or slower by a fifth on those that there are.
    fn two(wait_h: Option<f64>) -> [Prospect; 2] {
        [
            starts(wait_h, 0.5, Some(1.0)),
            starts(Some(0.0), 1.25, Some(1.25)),
        ]
    }

    #[test]
    fn short_work_starts_now_and_long_work_waits_for_more_gpus() {
        let five = hours(5.0, Some(5.0));
        assert_eq!(soonest(&two(Some(9.0)), five), Some(1));
        assert!(is_certain(&two(Some(9.0)), 1, five));
        let fifty = hours(50.0, Some(50.0));
        assert_eq!(soonest(&two(Some(9.0)), fifty), Some(0));
        assert!(is_certain(&two(Some(9.0)), 0, fifty));
    }

    #[test]
    fn where_the_speed_decides_and_is_unknown_the_order_stays() {
        let twenty = hours(20.0, Some(20.0));
        let both = two(Some(9.0));
        assert_eq!(soonest(&both, twenty), Some(0));
        assert!(!is_certain(&both, 0, twenty) && !is_certain(&both, 1, twenty));
        let turned = [both[1], both[0]];
        assert_eq!(soonest(&turned, twenty), Some(0));
    }

    #[test]
    fn work_that_is_only_bounded_is_enough_where_the_queue_decides() {
        assert_eq!(soonest(&two(Some(9.0)), hours(0.0, Some(4.0))), Some(1));
        assert_eq!(soonest(&two(Some(9.0)), hours(0.0, None)), Some(0));
        assert!(!is_certain(&two(Some(9.0)), 0, hours(0.0, None)));
        // The same speed and no wait: sooner, whatever the work is.
        let same = [
            starts(Some(1.0), 1.0, Some(1.0)),
            starts(Some(0.0), 1.0, Some(1.0)),
        ];
        assert_eq!(soonest(&same, hours(0.0, None)), Some(1));
        assert!(is_certain(&same, 1, hours(0.0, None)));
    }

    #[test]
    fn more_gpus_that_start_as_soon_go_before_rungs_of_unknown_cost() {
        let both = [
            starts(Some(0.0), 1.0, None),
            starts(Some(0.0), 0.5, Some(1.0)),
        ];
        assert_eq!(soonest(&both, hours(0.0, None)), Some(1));
        let alike = [starts(Some(0.0), 1.0, Some(1.0)); 2];
        assert_eq!(soonest(&alike, hours(1.0, None)), Some(0));
    }

    #[test]
    fn an_unknown_wait_or_speed_decides_nothing_and_what_is_refused_is_last() {
        let five = hours(5.0, Some(5.0));
        assert_eq!(soonest(&two(None), five), Some(0));
        let slow = [
            starts(Some(9.0), 1.0, Some(1.0)),
            starts(Some(0.0), 1.0, None),
        ];
        assert_eq!(soonest(&slow, five), Some(0));
        let mut refused = two(Some(0.0));
        refused[0].refused = true;
        assert_eq!(soonest(&refused, five), Some(1));
        assert!(is_certain(&refused, 1, five));
        refused[1].refused = true;
        assert_eq!(soonest(&refused, five), Some(0), "both: the order stays");
        assert_eq!(soonest(&[], five), None);
    }

    #[test]
    fn the_ends_that_are_told_are_those_that_decide() {
        let [more, here] = two(Some(9.0));
        let work = hours(10.0, Some(20.0));
        assert!((more.earliest_s(work) - 14.0 * HOUR).abs() < 1.0);
        assert!((more.latest_s(work).unwrap() - 29.0 * HOUR).abs() < 1.0);
        assert!((here.latest_s(work).unwrap() - 25.0 * HOUR).abs() < 1.0);
        assert_eq!(here.latest_s(hours(1.0, None)), None);
    }
}
