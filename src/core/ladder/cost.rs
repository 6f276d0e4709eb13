//! What a lap of a rung costs in speed, after what its preset states.

use super::decision::Step;
use crate::core::recipe::{Move, Preset, RungSpec};
use oomctl_base::{Value, ValueKind};

/// Share of its speed that a job loses by each of some steps, from 0 to below 1; `None` for one whose rung does not say.
///
/// What is stated is for a usual lap. A rung that divides a size (`times: 0.5`) costs it for each usual lap that a step is. So does one
/// that may be taken again and lowers a number by an expression, which is said to halve it. One that moves by an amount (`plus: -0.2`)
/// costs it in proportion to what is left to move, everything else what is stated. So a change costs the same whatever comes before
/// or after it.
pub fn costs(preset: &Preset, ladder: &[RungSpec], steps: &[&Step]) -> Vec<Option<f64>> {
    let cost = |step: &&Step| {
        let rung = ladder.iter().find(|r| r.rung == step.rung)?;
        Some(1.0 - (1.0 - rung.slower?).powf(laps(preset, rung, step)))
    };
    steps.iter().map(cost).collect()
}

/// How many usual laps of its rung a step is.
fn laps(preset: &Preset, rung: &RungSpec, step: &Step) -> f64 {
    let leading = || rung.moves.iter().filter(|m| !m.along);
    let divided = leading().filter_map(|m| {
        let halves = (m.to_expr.is_some() && rung.laps > 1).then_some(0.5);
        let times = m.times.filter(|t| *t > 0.0 && *t < 1.0).or(halves)?;
        let moved = moved(preset, m, step).into_iter();
        let factor = largest(moved.map(|(from, to)| from / to))?;
        let divides = factor > 1.0 || m.times.is_some();
        divides.then(|| factor.max(1.0).ln() / -times.ln())
    });
    let portions = leading().filter_map(|m| {
        let whole = m.plus.filter(|plus| *plus != 0.0)?;
        let moved = moved(preset, m, step).into_iter();
        largest(moved.map(|(from, to)| ((to - from) / whole).clamp(0.0, 1.0)))
    });
    largest(divided)
        .or_else(|| largest(portions))
        .unwrap_or(1.0)
}

/// The numbers that a move changed in a step, before and after.
fn moved(preset: &Preset, step: &Move, of: &Step) -> Vec<(f64, f64)> {
    let its = |knob: &str| match (&step.role, &step.knob) {
        (Some(role), _) => preset.knob(knob).is_some_and(|k| k.role == Some(*role)),
        (None, name) => name.as_deref() == Some(knob),
    };
    let changes = of.changes.iter().filter(|c| its(&c.knob));
    let number = |value: &Value| value.number(ValueKind::Float);
    changes
        .filter_map(|c| Some((number(&c.from)?, number(&c.to)?)))
        .collect()
}

fn largest(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    numbers.filter(|n| n.is_finite()).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::parse_preset;
    use crate::core::ladder::Change;
    use crate::core::recipe::{Layer, LayerKind};
    use oomctl_base::Effect;

    const PRESET: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: micro, role: micro_batch, type: int, default: 16, doc: d }
  - { name: share, role: rollout_memory_fraction, type: float, default: 0.6, doc: d }
  - { name: offload, role: param_offload, type: bool, default: false, doc: d }
ladder:
  - { rung: thin, title: t, slower: 0.1, laps: 9, moves: [{ role: micro_batch, times: 0.5 }] }
  - { rung: part, title: t, slower: 0.1, laps: 9, moves: [{ role: micro_batch, to_expr: micro // 2 }] }
  - { rung: less, title: t, slower: 0.19, laps: 9, moves: [{ knob: share, plus: -0.2, floor: 0.1 }] }
  - { rung: away, title: t, slower: 0.3, moves: [{ role: param_offload, to: true }] }
  - { rung: free, title: t, moves: [{ knob: micro, to: 1 }] }
";

    fn step(rung: &str, knob: &str, from: Value, to: Value) -> Step {
        Step {
            rung: rung.to_owned(),
            title: String::new(),
            changes: vec![Change {
                knob: knob.to_owned(),
                from,
                to,
                effect: Effect::SameMath,
                called: None,
            }],
            effect: Effect::SameMath,
            notes: Vec::new(),
            reshards: false,
            layer: Layer::new(LayerKind::Rung),
        }
    }

    /// In thousandths.
    fn told(steps: &[Step]) -> Vec<Option<f64>> {
        let preset = Preset::assemble(parse_preset("toy.yaml", PRESET).unwrap(), Vec::new(), None);
        let preset = preset.unwrap();
        let steps: Vec<&Step> = steps.iter().collect();
        let costs = costs(&preset, &preset.ladder, &steps);
        let thousandths = |cost: f64| (cost * 1_000.0).round();
        costs.into_iter().map(|c| c.map(thousandths)).collect()
    }

    fn halve(from: i64, to: i64) -> Step {
        step("thin", "micro", Value::Int(from), Value::Int(to))
    }

    #[test]
    fn a_halving_costs_the_same_whatever_comes_before_and_after_it() {
        let all = told(&[halve(16, 8), halve(8, 4), halve(4, 2)]);
        assert_eq!(all, [Some(100.0); 3]);
        assert_eq!(told(&[halve(16, 8)]), [Some(100.0)]);
        // A quarter at once is two laps.
        assert_eq!(told(&[halve(16, 4)]), [Some(190.0)]);
        let part = step("part", "micro", Value::Int(16), Value::Int(4));
        assert_eq!(told(&[part]), [Some(190.0)]);
    }

    #[test]
    fn half_of_the_way_costs_half_and_a_switch_what_is_stated() {
        let less = |from, to| step("less", "share", Value::Float(from), Value::Float(to));
        let all = told(&[less(0.6, 0.4), less(0.4, 0.3)]);
        assert_eq!(all, [Some(190.0), Some(100.0)]);
        let away = step("away", "offload", Value::Bool(false), Value::Bool(true));
        let free = step("free", "micro", Value::Int(16), Value::Int(1));
        assert_eq!(told(&[away, free]), [Some(300.0), None]);
    }
}
