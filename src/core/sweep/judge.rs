//! The verdict on one cell.

use minijinja::Value as Jinja;

use super::axis::{Sweep, of_kind, within};
use super::model::MemorySource;
use super::nodes::{Cell, Nodes};
use crate::core::recipe::expr::{Scope, to_jinja};
use crate::core::recipe::{ClusterFacts, Knob, Preset, Recipe, Rule, add_ambient, bounds};
use oomctl_base::{Problem, Refusal, Value};
use oomctl_memory::{Profile, Room};

/// What becomes of a cell.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CellVerdict {
    /// It fits.
    Fits,
    /// It may fit, or may not.
    Tight,
    /// Its memory is not known.
    Unknown,
    /// It does not fit.
    DoesNotFit,
    /// It breaks a rule of its preset, whatever its memory.
    BreaksRule,
}

/// The verdict on a cell, in short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brief {
    /// What becomes of it.
    pub verdict: CellVerdict,
    /// Bytes of its fullest phase, where they are known.
    pub bytes: Option<f64>,
    /// Bytes of the GPU, where they are known.
    pub gpu_bytes: Option<f64>,
    /// True when it fits, whatever the rules say.
    pub has_room: bool,
    /// Number of the fullest phase.
    pub phase: usize,
    /// Number of the first rule that it breaks.
    pub rule: Option<usize>,
}

/// What a cell needs, in detail.
#[derive(Debug, Clone, PartialEq)]
pub struct CellDetail {
    /// The fullest phase.
    pub phase: String,
    /// Its terms in bytes, the largest first.
    pub terms: Vec<(String, f64)>,
    /// The message of the rule that is broken, or why memory is unknown.
    pub why: Option<String>,
    /// The rule that is broken, with what would help, in a few words.
    pub rule: Option<String>,
}

struct RuleNodes<'a> {
    rule: &'a Rule,
    when: Option<usize>,
    must: usize,
}

/// Judges the cells of a sweep over a preset.
pub struct Judge<'a> {
    nodes: Nodes<'a>,
    rules: Vec<RuleNodes<'a>>,
    model: MemorySource<'a>,
    preset: &'a Preset,
    /// Values of each axis as knobs take them; more than the sweep's own once others were asked for.
    values: Vec<Vec<Value>>,
    /// Whether each of them is within its knob's own bounds.
    within: Vec<Vec<bool>>,
    /// The knob that each axis sets.
    knobs: Vec<Option<&'a Knob>>,
    units: Vec<(String, usize)>,
    /// Parameters of which it is not known what they do to memory.
    unmentioned: Vec<String>,
    /// Why the memory of no cell is known, beside them.
    doubt: Option<String>,
}

impl<'a> Judge<'a> {
    /// Compiles everything that is asked of a cell. `recipe` has the values below the sweep.
    ///
    /// # Errors
    /// Values of the sweep that are of the wrong kind for their knob, expressions that do not compile.
    pub fn new(
        preset: &'a Preset,
        recipe: &'a Recipe,
        cluster: &ClusterFacts,
        profile: Option<&'a Profile>,
        sweep: &Sweep,
    ) -> Result<Self, Refusal> {
        let (mut axes, mut values, mut knobs, mut problems) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for axis in &sweep.axes {
            let knob = preset.knob(&axis.name);
            let read = |v: &Value| match knob {
                Some(knob) => of_kind(knob.kind, v)
                    .map_err(|what| problems.push(Problem::new(format!("{}: {what}", axis.name))))
                    .ok(),
                None => Some(v.clone()),
            };
            let read: Vec<Value> = axis.values.iter().filter_map(read).collect();
            let name = knob.map_or_else(|| format!("{}?", axis.name), |k| k.name.clone());
            axes.push((name, read.iter().map(to_jinja).collect::<Vec<Jinja>>()));
            values.push(read);
            knobs.push(knob);
        }
        if !problems.is_empty() {
            return Err(Refusal(problems));
        }
        let mut ambient = Scope::default();
        add_ambient(preset, cluster, &mut ambient);
        let mut nodes = Nodes::new(preset, recipe, ambient, axes);
        let compiled = compile(preset, profile, &mut nodes);
        let (rules, model, units) = compiled.map_err(|what| Refusal::from(Problem::new(what)))?;
        let mentioned = model.axes(&nodes);
        let unmentioned = (0..sweep.axes.len()).filter(|axis| {
            // A knob that the memory model does not ask for is one that makes no difference to it.
            let modelled = knobs[*axis].is_some() && preset.formulas.is_none();
            let indifferent = preset.recognise.is_indifferent(&sweep.axes[*axis].name);
            !mentioned.contains(axis) && !modelled && !indifferent
        });
        Ok(Self {
            doubt: None,
            unmentioned: unmentioned
                .map(|axis| sweep.axes[axis].name.clone())
                .collect(),
            nodes,
            rules,
            model,
            preset,
            within: values
                .iter()
                .zip(&knobs)
                .map(|(v, k)| within(v, *k))
                .collect(),
            values,
            knobs,
            units,
        })
    }

    /// The same judge, which says why the memory of no cell is known.
    pub fn doubting(self, doubt: Option<String>) -> Self {
        Self { doubt, ..self }
    }

    /// Axes on which some verdict depends, in order.
    pub fn axes(&self) -> Vec<usize> {
        let mut axes = self.model.axes(&self.nodes);
        for rule in &self.rules {
            axes.extend(self.nodes.axes(rule.must));
            axes.extend(rule.when.iter().flat_map(|w| self.nodes.axes(*w)));
        }
        let bounded = (0..self.within.len()).filter(|a| self.within[*a].contains(&false));
        axes.extend(bounded);
        axes.sort_unstable();
        axes.dedup();
        axes
    }

    /// Axes on which memory depends.
    pub fn memory_axes(&self) -> Vec<usize> {
        let mut axes = self.model.axes(&self.nodes);
        axes.sort_unstable();
        axes.dedup();
        axes
    }

    /// Axes that a rule looks at.
    pub fn rule_axes(&self, rule: usize) -> Vec<usize> {
        let Some(rule) = self.rules.get(rule) else {
            // A knob's own bounds.
            let bounded = (0..self.knobs.len()).filter(|axis| self.knobs[*axis].is_some());
            return bounded.collect();
        };
        let both = rule.when.iter().chain([&rule.must]);
        both.flat_map(|n| self.nodes.axes(*n)).copied().collect()
    }

    /// The rule of this number.
    pub fn rule(&self, number: usize) -> &'a Rule {
        self.rules[number].rule
    }

    /// The name of the rule of this number; `None` for a knob's own bounds.
    pub fn rule_name(&self, number: usize) -> Option<&'a str> {
        self.rules.get(number).map(|r| r.rule.name.as_str())
    }

    /// The knob that an axis sets.
    pub fn knob(&self, axis: usize) -> Option<&'a Knob> {
        self.knobs[axis]
    }

    /// The value with this number of an axis.
    pub fn value(&self, axis: usize, number: u32) -> &Value {
        static NULL: Value = Value::Null;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.values[axis].get(number).unwrap_or(&NULL)
    }

    /// The number of a value of an axis, which need not be one of the sweep's.
    pub fn number(&mut self, axis: usize, value: &Value) -> u32 {
        let number = self.nodes.value(axis, to_jinja(value));
        let values = &mut self.values[axis];
        if usize::try_from(number).is_ok_and(|n| n >= values.len()) {
            values.push(value.clone());
            let inside = within(std::slice::from_ref(value), self.knobs[axis]);
            self.within[axis].extend(inside);
        }
        number
    }

    /// As `number`, of a value that was drawn, as the axis's knob takes it.
    pub(super) fn drawn(&mut self, axis: usize, value: &Value) -> Result<u32, String> {
        let read = match self.knobs[axis] {
            Some(knob) => {
                of_kind(knob.kind, value).map_err(|what| format!("{}: {what}", knob.name))?
            }
            None => value.clone(),
        };
        Ok(self.number(axis, &read))
    }

    /// The verdict on a cell.
    pub fn brief(&mut self, cell: &Cell) -> Brief {
        let need = self.model.need(&mut self.nodes, cell);
        let rule = self.broken(cell);
        let need = need.ok().flatten();
        let all_mentioned = self.unmentioned.is_empty();
        let verdict = match (rule, need.map(|n| n.room)) {
            (Some(_), _) => CellVerdict::BreaksRule,
            (None, Some(Some(Room::Fits | Room::Tight))) if !all_mentioned => CellVerdict::Unknown,
            (None, Some(Some(Room::Fits))) => CellVerdict::Fits,
            (None, Some(Some(Room::Tight))) => CellVerdict::Tight,
            (None, Some(Some(Room::TooLarge))) => CellVerdict::DoesNotFit,
            (None, _) => CellVerdict::Unknown,
        };
        Brief {
            verdict,
            bytes: need.map(|n| n.bytes),
            gpu_bytes: need.and_then(|n| n.gpu),
            has_room: need.is_some_and(|n| n.room == Some(Room::Fits)),
            phase: need.map_or(0, |n| n.phase),
            rule,
        }
    }

    fn broken(&mut self, cell: &Cell) -> Option<usize> {
        let inside = |(axis, number): (usize, &u32)| {
            let at = usize::try_from(*number).unwrap_or(usize::MAX);
            self.within[axis].get(at).copied().unwrap_or(true)
        };
        if !cell.iter().enumerate().all(inside) {
            return Some(self.rules.len());
        }
        (0..self.rules.len()).find(|number| {
            let rule = &self.rules[*number];
            let (when, must) = (rule.when, rule.must);
            let mut holds = |node| self.nodes.eval(node, cell).map(|v| v.is_true());
            match when.map(&mut holds) {
                Some(Ok(false)) => false,
                Some(Err(_)) => true,
                _ => !holds(must).unwrap_or(false),
            }
        })
    }

    fn out_of_bounds(&self, axis: usize, number: u32) -> Option<String> {
        bounds(self.knobs[axis]?, self.value(axis, number))
    }

    /// What a cell needs, and why it does not run.
    pub fn detail(&mut self, cell: &Cell) -> CellDetail {
        let brief = self.brief(cell);
        let (why, rule) = match brief.rule {
            Some(number) => (Some(self.message(number, cell)), self.hint(number, cell)),
            None => {
                let unknown = self.model.need(&mut self.nodes, cell).err();
                let unmentioned =
                    || (brief.verdict == CellVerdict::Unknown).then(|| self.unmentioned())?;
                (unknown.or_else(unmentioned), None)
            }
        };
        CellDetail {
            phase: self.model.phase(brief.phase).to_owned(),
            terms: self.model.terms(&mut self.nodes, cell, brief.phase),
            why,
            rule,
        }
    }

    /// Why the memory of all cells is unknown, where that is known.
    pub fn unmentioned(&self) -> Option<String> {
        if let Some(doubt) = &self.doubt {
            return Some(doubt.clone());
        }
        let names = self.unmentioned.join(", ");
        (!names.is_empty()).then(|| {
            format!("the effect of {names} on memory is unknown; list knobs without effect under `recognise: indifferent` of the preset")
        })
    }

    fn message(&mut self, number: usize, cell: &Cell) -> String {
        let Some(rule) = self.rules.get(number).map(|r| r.rule) else {
            let all = (0..cell.len()).find_map(|axis| self.out_of_bounds(axis, cell[axis]));
            return all.unwrap_or_default();
        };
        self.render(&rule.message, cell)
            .unwrap_or_else(|| rule.name.clone())
    }

    fn hint(&mut self, number: usize, cell: &Cell) -> Option<String> {
        let rule = self.rules.get(number)?.rule;
        let hint = rule.hint.as_ref().and_then(|h| self.render(h, cell));
        Some(match hint {
            Some(hint) => format!("{}: {hint}", rule.name),
            None => rule.name.clone(),
        })
    }

    /// A text of the preset with the values of a cell.
    fn render(&mut self, text: &str, cell: &Cell) -> Option<String> {
        let env = self.preset.env();
        let names = env.template_from_str(text).ok()?.undeclared_variables(true);
        let mut scope = Scope::default();
        for name in names {
            if let Ok(node) = self.nodes.add(&name)
                && let Ok(value) = self.nodes.eval(node, cell)
            {
                scope.set(&name, value);
            }
        }
        env.render_str(text, scope.context()).ok()
    }

    /// What a failed request of so many bytes is made of: each unit of the preset that divides it, with the number.
    pub fn units(&mut self, cell: &Cell, requested_bytes: f64) -> Vec<(String, f64)> {
        let units = self.units.clone();
        let mut found = Vec::new();
        for (unit, node) in units {
            if let Ok(Some(bytes)) = self.nodes.number(node, cell)
                && bytes > 0.0
            {
                found.push((unit, requested_bytes / bytes));
            }
        }
        found
    }
}

type Compiled<'a> = (Vec<RuleNodes<'a>>, MemorySource<'a>, Vec<(String, usize)>);

fn compile<'a>(
    preset: &'a Preset,
    profile: Option<&'a Profile>,
    nodes: &mut Nodes<'a>,
) -> Result<Compiled<'a>, String> {
    let mut rules = Vec::new();
    for rule in &preset.rules {
        let when = rule.when.as_ref().map(|w| nodes.add(w)).transpose()?;
        let must = nodes.add(&rule.must)?;
        rules.push(RuleNodes { rule, when, must });
    }
    let model = match (&preset.formulas, &preset.memory, profile) {
        (Some(formulas), _, _) => MemorySource::formulas(nodes, formulas)?,
        (None, Some(fields), Some(profile)) => MemorySource::profile(nodes, fields, profile)?,
        _ => MemorySource::Unknown,
    };
    let mut units = Vec::new();
    for unit in preset.formulas.iter().flat_map(|f| &f.units) {
        units.push((unit.unit.clone(), nodes.add(&unit.bytes)?));
    }
    Ok((rules, model, units))
}
