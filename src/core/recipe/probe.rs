//! A short job that only shows whether a configuration fits and how fast it is: what a preset says of it.

use super::knob::default_value;
use super::layer::{Layer, LayerKind};
use super::preset::ProbeSpec;
use super::stack::Preset;
use oomctl_base::{Origin, Value, ValueKind};

impl ProbeSpec {
    /// The layer that makes a job of so many training steps. It lies above the rungs.
    pub fn layer(&self, preset: &Preset, steps: u32) -> Layer {
        let mut layer = Layer::new(LayerKind::Rung);
        let origin = Origin::Flag {
            text: format!("--probe-steps {steps}"),
        };
        let mut put = |name: &str, value: Value| layer.set(name, value, origin.clone());
        for (name, scalar) in &self.set {
            let knob = preset.knob(name);
            if let Some((knob, value)) =
                knob.and_then(|k| Some((k, default_value(k.kind, scalar).ok()?)))
            {
                put(&knob.name, value);
            }
        }
        put(&self.steps, Value::Int(i64::from(steps)));
        layer
    }

    /// What is wrong with it on a preset.
    pub(super) fn faults(&self, preset: &Preset) -> Vec<String> {
        let mut faults = Vec::new();
        match preset.knob(&self.steps) {
            Some(knob) if knob.kind == ValueKind::Int => {}
            Some(_) => faults.push(format!("probe: {} is not a count of steps", self.steps)),
            None => faults.push(format!("probe: no knob named {}", self.steps)),
        }
        for (name, scalar) in &self.set {
            match preset.knob(name) {
                Some(knob) => faults.extend(
                    default_value(knob.kind, scalar)
                        .err()
                        .map(|what| format!("probe: {name}: {what}")),
                ),
                None if preset.absent.contains_key(name) => {}
                None => faults.push(format!("probe: no knob named {name}")),
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::parse_preset;
    use crate::core::recipe::{ClusterFacts, PresetFile, resolve};

    const PRESET: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: stop, type: int, min: 1, spelling: { flag: --stop }, doc: d }
  - { name: save, type: int, default: 100, spelling: { flag: --save }, doc: d }
  - { name: eval, type: bool, default: true, spelling: { switch: --eval }, doc: d }
probe: PROBE
";

    fn file(probe: &str) -> PresetFile {
        parse_preset("toy.yaml", &PRESET.replace("PROBE", probe)).unwrap()
    }

    #[test]
    fn a_probe_ends_after_its_steps_and_writes_nothing() {
        let file = file("{ steps: stop, set: { save: -1, eval: false } }");
        let preset = Preset::assemble(file, Vec::new(), None).unwrap();
        let layer = preset.probe.as_ref().unwrap().layer(&preset, 3);
        let recipe = resolve(&preset, &[layer], &ClusterFacts::default()).unwrap();
        let told = ["stop", "save", "eval"].map(|knob| recipe.value(knob).to_string());
        assert_eq!(told, ["3", "-1", "false"]);
        assert_eq!(recipe.values["save"].origin.to_string(), "--probe-steps 3");
    }

    #[test]
    fn a_probe_of_knobs_that_do_not_exist_or_count_nothing_is_refused() {
        for (probe, what) in [
            ("{ steps: halt }", "no knob named halt"),
            ("{ steps: eval }", "eval is not a count of steps"),
            ("{ steps: stop, set: { sav: -1 } }", "no knob named sav"),
            ("{ steps: stop, set: { save: often } }", "save: "),
        ] {
            let refusal = Preset::assemble(file(probe), Vec::new(), None).unwrap_err();
            assert!(refusal.to_string().contains(what), "{refusal}");
        }
    }
}
