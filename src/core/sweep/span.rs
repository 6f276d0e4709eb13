//! Ranges of a sweep, by the values that stand for them.

use oomctl_base::Value;

/// Numbers of a range that are all tried.
const ALL_VALUES: u32 = 32;
/// Values that stand for a longer range, its ends among them.
const POINTS: u32 = 9;

/// How the values of a range are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spread {
    /// Evenly.
    Even,
    /// Evenly over the numbers on its steps.
    Steps,
    /// Evenly in the logarithm.
    Log,
    /// Normally; its ends are three standard deviations from the middle.
    Bell,
    /// Normally in the logarithm.
    LogBell,
}

/// A range between two ends, both of which can be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawRange {
    pub low: f64,
    pub high: f64,
    pub spread: Spread,
    /// Whole numbers only.
    pub whole: bool,
    /// Distance between two values, where only some are drawn.
    pub step: Option<f64>,
    /// The number from which steps are counted.
    pub origin: f64,
}

impl DrawRange {
    /// Values that stand for the range, and whether they are all there are.
    pub(super) fn values(&self) -> (Vec<Value>, bool) {
        if let Some(all) = self.all(ALL_VALUES) {
            return (all, true);
        }
        let mut values: Vec<Value> = (0..POINTS).map(|i| self.value(self.at(i))).collect();
        values.dedup();
        (values, false)
    }

    /// All values of the range; `None` where they are more than `most`, or have no steps between them.
    fn all(&self, most: u32) -> Option<Vec<Value>> {
        let step = self.step_size()?;
        let count = self.count()?;
        let on = |i: u32| self.value(self.on_step(self.low, Some(step)) + f64::from(i) * step);
        let numbers = (0..most).take_while(|i| f64::from(*i) < count);
        let mut values: Vec<Value> =
            (count <= f64::from(most)).then(|| numbers.map(on).collect())?;
        values.dedup();
        Some(values)
    }

    /// As `all`, of ranges that a grid goes through: of W&B's those that are even and have steps
    /// (`sweeps/grid_search.py`), of Hydra's every `range()`.
    pub(super) fn listed(&self, most: u32) -> Option<Vec<Value>> {
        matches!(self.spread, Spread::Even | Spread::Steps)
            .then(|| self.all(most))
            .flatten()
    }

    fn step_size(&self) -> Option<f64> {
        self.step.or(self.whole.then_some(1.0))
    }

    /// How many values it has, where there are steps between them.
    fn count(&self) -> Option<f64> {
        let step = self.step_size()?;
        Some(((self.high - self.low) / step + 1e-9).floor() + 1.0)
    }

    /// The value at a share of the distribution, from 0 to 1, as W&B's own sampling has it
    /// (`HyperParameter.ppf` of `wandb/sweeps`): rounded to a step after it was drawn, so that the first and the last
    /// step come half as often. A bell takes a second share (Box and Muller, 1958).
    pub(super) fn drawn(&self, share: f64, other: f64) -> Value {
        let even = |low: f64, high: f64| low + share * (high - low);
        let bell = |low: f64, high: f64| {
            let far = (-2.0 * (1.0 - share).ln()).sqrt() * (std::f64::consts::TAU * other).cos();
            f64::midpoint(low, high) + far * (high - low) / 6.0
        };
        let x = match (self.spread, self.count(), self.step_size()) {
            (Spread::Steps, Some(count), Some(step)) => {
                return self.value(self.low + (share * count).floor() * step);
            }
            (Spread::Log, ..) if self.low > 0.0 => even(self.low.ln(), self.high.ln()).exp(),
            (Spread::LogBell, ..) => bell(self.low.ln(), self.high.ln()).exp(),
            (Spread::Bell, ..) => bell(self.low, self.high),
            _ => even(self.low, self.high),
        };
        self.value(self.on_step(x, self.step))
    }

    fn at(&self, point: u32) -> f64 {
        let share = f64::from(point) / f64::from(POINTS - 1);
        let x = match (self.spread, point) {
            (_, 0) => self.low,
            (_, p) if p == POINTS - 1 => self.high,
            (Spread::Log | Spread::LogBell, _) if self.low > 0.0 => {
                (self.low.ln() + share * (self.high / self.low).ln()).exp()
            }
            _ => self.low + share * (self.high - self.low),
        };
        self.on_step(x, self.step)
    }

    /// The nearest number that is drawn.
    fn on_step(&self, x: f64, step: Option<f64>) -> f64 {
        step.map_or(x, |s| self.origin + ((x - self.origin) / s).round() * s)
    }

    fn value(&self, x: f64) -> Value {
        let rounded = x.round();
        if self.whole || (self.step.is_some_and(|s| s.fract() == 0.0) && rounded == x) {
            return Value::Int(rounded as i64);
        }
        Value::Float(x)
    }
}

/// Numbers that a normal distribution nearly always stays between.
pub(super) fn three_sigma(mu: f64, sigma: f64) -> (f64, f64) {
    (mu - 3.0 * sigma, mu + 3.0 * sigma)
}
