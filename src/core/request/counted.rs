//! What a measurement that was kept says of a request, beside the memory model.

use std::sync::Arc;

use super::kept::{KeptMeasurement, MeasuredBefore};
use super::request::Request;
use crate::core::ladder::{PastAttempt, Peak, PhantomJudge};

impl Request {
    /// The same request, of whose configuration as it is something was measured.
    pub fn measured_before(self, kept: KeptMeasurement) -> Self {
        let past = PastAttempt {
            rungs: Vec::new(),
            incident: kept.incident.clone(),
            peaks: Peak::on_phantom(&kept.summary),
        };
        let spec = self.spec(&[]).zip(self.profile());
        let judge = spec.and_then(|(spec, profile)| PhantomJudge::new(&spec, profile, &past));
        self.knowing(Arc::new(MeasuredBefore { kept, past, judge }))
    }

    /// What was measured of its configuration as it is.
    pub fn kept_measurement(&self) -> Option<&KeptMeasurement> {
        self.known_before().map(|before| &before.kept)
    }

    /// The same as attempts of a run, for the judge.
    pub(super) fn counted_attempts(&self) -> Vec<PastAttempt> {
        let judged = self.known_before().filter(|b| b.judge.is_some());
        judged.map(|b| b.past.clone()).into_iter().collect()
    }
}
