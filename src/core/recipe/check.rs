//! Rules checked over and over while values are tried: compiled once, with only the names they need.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use minijinja::{Expression, Value as Jinja};

use super::expr::Scope;
use super::knob::Knob;
use super::needs::{Lens, Needs};
use super::preset::Rule;
use super::resolved::{Recipe, computed};
use super::shape::Shaper;
use super::stack::Preset;
use super::values::Values;
use oomctl_base::{Value, ValueKey, ValueKind, key};

/// The rules that look at one of some knobs whose values are being tried.
pub struct Checker<'a> {
    rules: Vec<CompiledRule<'a>>,
    /// Answers so far, by the number of the rule and the values that it looks at.
    known: RefCell<BTreeMap<(usize, ValueKey), bool>>,
}

struct CompiledRule<'a> {
    rule: &'a Rule,
    /// Knobs under trial that it looks at.
    about: BTreeSet<String>,
    lens: Lens<'a>,
    when: Option<Rc<Expression<'a, 'static>>>,
    must: Rc<Expression<'a, 'static>>,
    /// Where it looks at knobs that are not known.
    open: Option<UnknownKnobs>,
}

/// What a rule is asked where it looks at knobs that are not known. The values that there are run, so they hold.
struct UnknownKnobs {
    /// Those values.
    present: BTreeMap<String, Value>,
    /// What the others may be, as far as those values hold beside it; None where that cannot be counted.
    worlds: Option<Vec<World>>,
}

/// An expression of a preset for values under trial.
pub struct Formula<'a> {
    lens: Lens<'a>,
    expression: Rc<Expression<'a, 'static>>,
}

/// A recipe some of whose knobs are under trial.
pub struct UnderTrial<'s, 'a> {
    shaper: &'s Shaper<'a>,
    recipe: &'s Recipe,
    tried: &'s BTreeSet<String>,
    /// All values of the recipe.
    scope: Scope,
    /// Its computed knobs by line, on which depends what an expression needs.
    computed: String,
}

impl<'s, 'a> UnderTrial<'s, 'a> {
    /// Of these knobs; `scope` has the names of the recipe.
    pub fn new(
        shaper: &'s Shaper<'a>,
        recipe: &'s Recipe,
        scope: &Scope,
        tried: &'s BTreeSet<String>,
    ) -> Self {
        Self {
            shaper,
            recipe,
            tried,
            scope: scope.clone(),
            computed: computed(recipe),
        }
    }

    fn needs(&self, texts: &[&str]) -> Rc<Needs<'a>> {
        self.shaper.needs(self.recipe, &self.computed, texts)
    }

    fn lens(&self, needs: &Needs<'a>, also: &BTreeSet<String>) -> Lens<'a> {
        let tried = needs.leaves.intersection(self.tried).chain(also);
        Lens::new(&self.scope, tried.cloned().collect(), needs)
    }
}

impl<'a> Checker<'a> {
    /// Compiles the rules of a preset that look at one of the knobs under trial.
    pub fn new(trial: &UnderTrial<'_, 'a>) -> Self {
        let rules = trial.shaper.preset().rules.iter();
        let rules = rules.filter_map(|rule| CompiledRule::new(trial, rule));
        Self {
            rules: rules.collect(),
            known: RefCell::default(),
        }
    }

    /// The first rule about `just` that the values in `trial` break, among those rules all of whose
    /// knobs under trial have a value there.
    pub fn broken_by(&self, just: &str, trial: &Values) -> Option<&'a Rule> {
        let about = self.rules.iter().enumerate();
        let mut about = about.filter(|(_, c)| c.about.contains(just));
        about.find_map(|(rule, c)| {
            let knobs = c.about.iter();
            let values: Option<Vec<_>> = knobs
                .map(|knob| Some((knob.as_str(), trial.get(knob)?)))
                .collect();
            (!self.answer(rule, &values?)).then_some(c.rule)
        })
    }

    /// Whether a value of a knob breaks no rule, beside the values in `trial` of all others.
    pub fn allows<'t>(&'t self, knob: &'t str, trial: &'t Values) -> impl Fn(&Value) -> bool + 't {
        // The others of a rule's knobs with their values, the knob itself without one.
        let beside = |k: &'t String| match k == knob {
            true => Some((k.as_str(), None)),
            false => Some((k.as_str(), Some(trial.get(k)?))),
        };
        let rules = self.rules.iter().enumerate();
        let about = rules.filter(|(_, c)| c.about.contains(knob));
        let about: Vec<_> = about
            .filter_map(|(rule, c)| {
                let all: Option<Vec<_>> = c.about.iter().map(beside).collect();
                Some((rule, all?))
            })
            .collect();
        move |value: &Value| {
            about.iter().all(|(rule, beside)| {
                let values = beside.iter().map(|(k, other)| (*k, other.unwrap_or(value)));
                self.answer(*rule, &values.collect::<Vec<_>>())
            })
        }
    }

    /// What a rule says of values that it may have been asked about before.
    fn answer(&self, rule: usize, values: &[(&str, &Value)]) -> bool {
        let key = key(values.iter().map(|(_, value)| *value));
        let ask = || self.holds(rule, values.iter().copied());
        let mut known = self.known.borrow_mut();
        *known.entry((rule, key)).or_insert_with(ask)
    }

    /// For each rule the knobs under trial that it looks at.
    pub fn knobs(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.rules.iter().map(|c| &c.about)
    }

    /// Whether a rule, by its number in the order of `knobs`, holds for values of the knobs that it
    /// looks at.
    pub fn holds<'v>(
        &self,
        rule: usize,
        values: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> bool {
        self.rules.get(rule).is_none_or(|c| c.holds(values))
    }
}

impl<'a> CompiledRule<'a> {
    fn new(trial: &UnderTrial<'_, 'a>, rule: &'a Rule) -> Option<Self> {
        let texts = rule.when.iter().chain([&rule.must]).map(String::as_str);
        let needs = trial.needs(&texts.collect::<Vec<_>>());
        if needs.leaves.is_disjoint(trial.tried) {
            return None;
        }
        let expressions = &trial.shaper.expressions;
        let unknown = needs.unknown(&trial.recipe.unknown);
        let mut compiled = Self {
            rule,
            about: needs.leaves.intersection(trial.tried).cloned().collect(),
            lens: trial.lens(&needs, &unknown),
            when: match &rule.when {
                Some(when) => Some(expressions.of(when)?),
                None => None,
            },
            must: expressions.of(&rule.must)?,
            open: None,
        };
        if !unknown.is_empty() {
            compiled.open = Some(compiled.opened(trial, &unknown));
        }
        Some(compiled)
    }

    fn opened(&self, trial: &UnderTrial<'_, '_>, unknown: &BTreeSet<String>) -> UnknownKnobs {
        let present = |knob: &String| (knob.clone(), trial.recipe.value(knob).clone());
        let present: BTreeMap<String, Value> = self.about.iter().map(present).collect();
        let worlds = worlds(trial.shaper.preset(), unknown).map(|mut all| {
            all.retain(|world| {
                let values = present.iter().map(|(knob, value)| (knob.as_str(), value));
                self.says(values.chain(named(world)))
            });
            all
        });
        UnknownKnobs { present, worlds }
    }

    fn holds<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> bool {
        let Some(open) = &self.open else {
            return self.says(values);
        };
        let values: Vec<_> = values.collect();
        let same = |(knob, value): &(&str, &Value)| open.present.get(*knob) == Some(*value);
        let worlds = open.worlds.iter().flatten();
        let mut worlds = worlds.peekable();
        values.iter().all(same)
            || worlds.peek().is_some()
                && worlds.all(|world| self.says(values.iter().copied().chain(named(world))))
    }

    /// An expression that fails counts as broken: an unproven configuration is not submitted.
    fn says<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> bool {
        let scope = self.lens.scope(values);
        let yes = |e: &Rc<Expression<'_, '_>>| e.eval(scope.context()).map(|v| v.is_true());
        match self.when.as_ref().map(yes) {
            Some(Ok(false)) => true,
            Some(Err(_)) => false,
            _ => yes(&self.must).unwrap_or(false),
        }
    }
}

impl<'a> Formula<'a> {
    /// Compiles an expression of a preset; `None` where it is none.
    pub fn new(trial: &UnderTrial<'_, 'a>, text: &str) -> Option<Self> {
        Some(Self {
            lens: trial.lens(&trial.needs(&[text]), &BTreeSet::new()),
            expression: trial.shaper.expressions.of(text)?,
        })
    }

    /// The knobs under trial that it looks at.
    pub fn knobs(&self) -> &BTreeSet<String> {
        &self.lens.tried
    }

    /// Its value; `None` where it cannot be evaluated.
    pub fn value<'v>(&self, values: impl Iterator<Item = (&'v str, &'v Value)>) -> Option<Jinja> {
        let scope = self.lens.scope(values);
        self.expression.eval(scope.context()).ok()
    }
}

fn named(world: &World) -> impl Iterator<Item = (&str, &Value)> {
    world.iter().map(|(knob, value)| (knob.as_str(), value))
}

/// Whole numbers that stand for all: small ones, since numbers of GPUs must divide batches, and powers of two.
const COUNTS: [i64; 20] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096,
];
/// Those that stand for all of several knobs together: each divides another or does not.
const FEW_COUNTS: [i64; 4] = [1, 2, 3, 8];
/// Combinations of values that are asked for at most.
const MOST_WORLDS: usize = 2048;
/// Its multiples are spread evenly over any number of combinations (Knuth, The Art of Computer Programming 3, 6.4:
/// Fibonacci hashing).
const SPREAD: usize = 0x9E37_79B9_7F4A_7C15;

/// Values of all knobs that are not known, by name.
pub(super) type World = Vec<(String, Value)>;

/// The values that these knobs may have together: all, or where those are too many some that are spread over them. None
/// where they cannot be counted.
pub(super) fn worlds(preset: &Preset, unknown: &BTreeSet<String>) -> Option<Vec<World>> {
    let knob = |name: &String| preset.knobs.iter().find(|k| k.name == *name);
    let knobs: Vec<&Knob> = unknown.iter().map(knob).collect::<Option<_>>()?;
    let values = |counts: &[i64]| {
        let each = knobs.iter().map(|knob| may_be(knob, counts));
        each.collect::<Option<Vec<Vec<Value>>>>()
    };
    let mut values_of = values(&COUNTS)?;
    if combinations(&values_of) > MOST_WORLDS {
        values_of = values(&FEW_COUNTS)?;
    }
    let all = combinations(&values_of);
    let world = |number: usize| {
        let mut left = match all > MOST_WORLDS {
            true => number.wrapping_mul(SPREAD) % all,
            false => number,
        };
        let one = |(knob, values): (&&Knob, &Vec<Value>)| {
            let value = values.get(left % values.len())?;
            left /= values.len();
            Some((knob.name.clone(), value.clone()))
        };
        knobs.iter().zip(&values_of).map(one).collect()
    };
    (0..all.min(MOST_WORLDS)).map(world).collect()
}

fn combinations(values: &[Vec<Value>]) -> usize {
    let counts = values.iter().map(Vec::len);
    counts.fold(1, usize::saturating_mul)
}

/// The values that stand for all that a knob may have; None where nothing bounds them.
fn may_be(knob: &Knob, counts: &[i64]) -> Option<Vec<Value>> {
    let number = |count: i64| Value::Int(count).number(ValueKind::Int);
    let bounds = (knob.min.or(Some(1.0)), knob.max.or(Some(f64::INFINITY)));
    let fits = |count: &i64| bounds.0 <= number(*count) && number(*count) <= bounds.1;
    let counts = counts.iter().copied();
    let mut values: Vec<Value> = match knob.kind {
        ValueKind::Bool => vec![Value::Bool(false), Value::Bool(true)],
        ValueKind::Int => counts.filter(fits).map(Value::Int).collect(),
        ValueKind::Text if !knob.choices.is_empty() => {
            knob.choices.iter().cloned().map(Value::Text).collect()
        }
        _ => return None,
    };
    if knob.default.is_none() && knob.default_expr.is_none() {
        values.push(Value::Null);
    }
    Some(values)
}
