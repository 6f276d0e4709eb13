//! How surely the GPUs are enough at best.

use super::super::bounds::SearchBounds;
use super::{LIKELY, Optimiser, lowest, order};
use crate::core::recipe::Values;

impl Optimiser<'_> {
    /// Values at which the GPUs are most surely enough: with all that saves memory, and with that and every number as it is,
    /// for gradients of earlier micro batches wait beside a smaller one.
    pub fn best(&mut self, present: &Values, reach: &SearchBounds) -> [Values; 2] {
        let saves = reach.switches.iter().filter(|s| s.loss > 0.0);
        let mut values = present.clone();
        for switch in saves {
            let before = values.set(&switch.knob, switch.to.clone());
            let broken = self.checker.broken_by(&switch.knob, &values).is_some();
            if let (true, Some(before)) = (broken, before) {
                values.set(&switch.knob, before);
            }
        }
        let ends = self.all_ends(reach, present);
        let numbers = self.free(&ends, &[], &values);
        [lowest(&values, &numbers), values]
    }

    /// How surely the GPUs are enough with the best of these, as `Filled::order`.
    pub fn at_best(&mut self, best: &[Values]) -> f64 {
        best.iter().map(|v| self.order_of(v)).fold(0.0, f64::max)
    }

    /// Whether that is as much as `bound`.
    pub fn reaches_at_best(&mut self, best: &[Values], bound: f64) -> bool {
        best.iter().any(|values| match bound < LIKELY {
            true => self.order_of(values) >= bound,
            false => self.fits_gpu(values, bound),
        })
    }

    fn order_of(&mut self, values: &Values) -> f64 {
        let Some(job) = self.model_cache.job(values) else {
            return 0.0;
        };
        let near = job.near(&self.particles);
        order(job.fits(&self.particles), near)
    }
}
