//! Cells that are drawn at random from the distributions of a sweep.

use super::axis::{Axis, Sweep};
use super::judge::Judge;
use super::nodes::Cell;

/// How many cells are drawn, and by which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// How many.
    pub count: usize,
    /// The same seed draws the same cells.
    pub seed: u64,
}

/// Numbers that only look random: splitmix64 (Steele, Lea and Flood, 2014).
pub(super) struct RandomStream(u64);

impl RandomStream {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to 1, 1 left out.
    fn share(&mut self) -> f64 {
        let numerator = (self.next() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }
}

/// Cells of `sweep`, each drawn anew, so that two may be alike, as with the method `random` of W&B. `wanted` are the
/// numbers of the values of each axis that may be drawn, none where all may.
///
/// # Errors
/// A value that is drawn and not of its knob's kind.
pub(super) fn drawn(
    sweep: &Sweep,
    judge: &mut Judge<'_>,
    draw: &Draw,
    wanted: &[Vec<u32>],
) -> Result<Vec<Cell>, String> {
    let mut stream = RandomStream::new(draw.seed);
    let mut cells = Vec::new();
    for _ in 0..draw.count {
        let mut cell = Cell::new();
        for (at, (axis, wanted)) in sweep.axes.iter().zip(wanted).enumerate() {
            // Two shares each, used or not: another distribution of one parameter leaves the others as they were.
            let (share, other) = (stream.share(), stream.share());
            cell.push(match axis.span.filter(|_| wanted.is_empty()) {
                Some(span) => judge.drawn(at, &span.drawn(share, other))?,
                None => listed(axis, wanted, share),
            });
        }
        cells.push(cell);
    }
    Ok(cells)
}

/// The number of the value at a share of those that are listed.
fn listed(axis: &Axis, wanted: &[u32], share: f64) -> u32 {
    let all: Vec<u32> = match wanted {
        [] => (0..).take(axis.values.len()).collect(),
        some => some.to_vec(),
    };
    let weight = |number: &u32| {
        let at = usize::try_from(*number).unwrap_or(usize::MAX);
        axis.weights.get(at).copied().unwrap_or(1.0)
    };
    let mut left = share * all.iter().map(weight).sum::<f64>();
    let mut last = 0;
    for number in all {
        last = number;
        left -= weight(&number);
        if left < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{below, preset};
    use super::*;
    use crate::core::recipe::ClusterFacts;
    use crate::core::sweep::parse_overrides;
    use oomctl_base::Value;

    /// The values of so many cells, by parameter.
    fn values(sweep: &Sweep, count: usize, seed: u64) -> Vec<Vec<Value>> {
        let preset = preset();
        let (_, recipe) = below(&preset);
        let cluster = ClusterFacts::default();
        let mut judge = Judge::new(&preset, &recipe, &cluster, None, sweep).unwrap();
        let wanted = vec![Vec::new(); sweep.axes.len()];
        let cells = drawn(sweep, &mut judge, &Draw { count, seed }, &wanted).unwrap();
        let of = |axis: usize| {
            let cells = cells.iter();
            cells.map(|c| judge.value(axis, c[axis]).clone()).collect()
        };
        (0..sweep.axes.len()).map(of).collect()
    }

    /// The drawn numbers of one parameter, sorted.
    fn numbers(fields: &str) -> Vec<f64> {
        let text = format!("method: random\nparameters:\n  x: {{{fields}}}\n");
        let sweep = parse("s.yaml", &text).unwrap();
        let values = values(&sweep, 2_000, 7);
        let number = |v: &Value| v.to_string().parse().unwrap();
        let mut numbers: Vec<f64> = values[0].iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    }

    /// Least, median and largest.
    fn spread(fields: &str) -> (f64, f64, f64) {
        let all = numbers(fields);
        (all[0], all[all.len() / 2], all[all.len() - 1])
    }

    #[test]
    fn each_distribution_is_drawn_from_as_wandb_does() {
        let within = |fields: &str, low: f64, middle: (f64, f64), high: f64| {
            let (least, median, most) = spread(fields);
            assert!(least >= low && most <= high, "{fields}: {least} to {most}");
            assert!(
                median > middle.0 && median < middle.1,
                "{fields}: median {median}"
            );
        };
        within("min: 0.0, max: 8.0", 0.0, (3.7, 4.3), 8.0);
        within("min: 1, max: 9", 1.0, (4.9, 5.1), 9.0);
        within(
            "distribution: log_uniform_values, min: 0.0001, max: 0.01",
            1e-4,
            (8e-4, 1.3e-3),
            1e-2,
        );
        within(
            "distribution: log_uniform, min: 0, max: 4",
            1.0,
            (6.5, 8.5),
            54.6,
        );
        within(
            "distribution: inv_log_uniform_values, min: 1, max: 100",
            1.0,
            (8.5, 11.5),
            100.0,
        );
        within(
            "distribution: normal, mu: 5, sigma: 2",
            -5.0,
            (4.8, 5.2),
            15.0,
        );
        within(
            "distribution: log_normal, mu: 0, sigma: 1",
            0.0,
            (0.9, 1.1),
            80.0,
        );
        // The first and the last step come half as often.
        let steps = numbers("distribution: q_uniform, min: 0, max: 100, q: 50");
        let count = |x: f64| steps.iter().filter(|s| **s == x).count();
        assert_eq!(count(0.0) + count(50.0) + count(100.0), 2_000);
        assert!((900..1_100).contains(&count(50.0)), "{}", count(50.0));
        let whole = numbers("distribution: q_log_uniform_values, min: 8, max: 512, q: 8");
        assert!(
            whole.iter().all(|x| x % 8.0 == 0.0 && *x >= 8.0),
            "{whole:?}"
        );
        // A bell has both halves, and two thirds within one deviation.
        let bell = numbers("distribution: normal, mu: 0, sigma: 1");
        let near = bell.iter().filter(|x| x.abs() < 1.0).count();
        assert!((1_300..1_430).contains(&near), "{near}");
    }

    #[test]
    fn the_same_seed_draws_the_same_cells_and_a_parameter_does_not_move_the_others() {
        let text = |dropout: &str| {
            let text = format!(
                "method: random\nparameters:\n  lr: {{min: 0.0, max: 1.0}}\n  dropout: {dropout}\n  seed: {{min: 0, max: 1000000}}\n"
            );
            parse("s.yaml", &text).unwrap()
        };
        let (listed, bell) = (text("{values: [0, 1]}"), text("{distribution: normal}"));
        let first = values(&listed, 20, 1);
        assert_eq!(first, values(&listed, 20, 1));
        assert_ne!(first, values(&listed, 20, 2));
        let other = values(&bell, 20, 1);
        assert_eq!((&first[0], &first[2]), (&other[0], &other[2]));
    }

    #[test]
    fn shares_of_listed_values_are_heeded_and_hydras_ranges_drawn() {
        let text = "method: random\nparameters:\n  a: {values: [x, y, z], probabilities: [0.7, 0.0, 0.3]}\n";
        let drawn = values(&parse("s.yaml", text).unwrap(), 2_000, 3);
        let count = |name: &str| drawn[0].iter().filter(|v| v.to_string() == name).count();
        assert_eq!(count("y"), 0);
        assert!((1_300..1_500).contains(&count("x")), "{}", count("x"));
        assert!(parse("s.yaml", &text.replace("0.7, 0.0", "1")).is_err());
        let words = ["lr=tag(log,interval(0.001,0.1))", "n=range(0,1000,10)"];
        let sweep = parse_overrides(&words.map(str::to_owned)).unwrap();
        let drawn = values(&sweep, 500, 0);
        let low = drawn[0]
            .iter()
            .filter(|v| matches!(v, Value::Float(x) if *x < 0.01));
        assert!((200..300).contains(&low.count()));
        assert!(
            drawn[1]
                .iter()
                .all(|v| matches!(v, Value::Int(n) if n % 10 == 0)),
            "{:?}",
            drawn[1]
        );
    }

    #[test]
    fn a_grid_goes_through_ranges_of_whole_numbers_and_of_steps_and_no_others() {
        let sizes = |text: &str| {
            let sweep = parse("s.yaml", text).unwrap().listed();
            let axes = sweep.axes.iter();
            axes.map(|a| (a.values.len(), a.sampled))
                .collect::<Vec<_>>()
        };
        let text = "parameters:\n  a: {min: 1, max: 500}\n  b: {distribution: q_uniform, min: 0, max: 50, q: 0.5}\n  c: {min: 0.0, max: 1.0}\n";
        assert_eq!(sizes(text), [(500, false), (101, false), (9, true)]);
    }
}
