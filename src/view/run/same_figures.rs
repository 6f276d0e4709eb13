//! An attempt that dies with the very figures of the one before it, although its configuration was another.

use std::collections::BTreeMap;

use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;

/// The figures with which the last attempt of each run died.
#[derive(Debug, Default)]
pub struct LastFigures(BTreeMap<String, (u32, [Bytes; 2])>);

impl LastFigures {
    /// Takes in how an attempt died; what to say where nothing has changed since the attempt before.
    pub fn died(&mut self, run: &str, attempt: u32, incident: &Incident) -> Option<String> {
        let figures = [incident.requested_bytes?, incident.allocated_bytes?];
        let (before, old) = self.0.insert(run.to_owned(), (attempt, figures))?;
        (before < attempt && old == figures).then(|| {
            format!("note: the same figures as in attempt {before}, although the configuration is another. Check that the program reads what was changed")
        })
    }

    /// The next attempt of a run has the same configuration.
    pub fn again(&mut self, run: &str) {
        self.0.remove(run);
    }
}

#[cfg(test)]
mod tests {
    use oomctl_diagnose::Class;

    use super::*;

    #[test]
    fn figures_that_stay_after_a_change_are_told_once_a_change() {
        let incident = |allocated: f64| Incident {
            requested_bytes: Some(Bytes::from_gib(2.0)),
            allocated_bytes: Some(Bytes::from_gib(allocated)),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        };
        let mut last = LastFigures::default();
        assert_eq!(last.died("r", 1, &incident(70.0)), None);
        assert_eq!(last.died("r", 1, &incident(70.0)), None);
        let told = last.died("r", 2, &incident(70.0)).unwrap();
        assert!(told.contains("as in attempt 1"), "{told}");
        assert_eq!(last.died("r", 3, &incident(60.0)), None);
        last.again("r");
        assert_eq!(last.died("r", 4, &incident(60.0)), None);
    }
}
