//! Expressions that build on each other, each evaluated once for every combination of the values that it
//! depends on. That is what makes a hundred thousand cells cheap: most expressions look at two or three axes.

use std::collections::{BTreeMap, HashMap};

use minijinja::{Expression, Value as Jinja};

use crate::core::recipe::expr::{self, Scope};
use crate::core::recipe::{Binding, Preset, Recipe};

/// The values of a cell: for each axis the number of its value.
pub(super) type Cell = Vec<u32>;

/// Where a name of an expression comes from.
#[derive(Debug, Clone, Copy)]
enum NameSource {
    Axis(usize),
    Node(usize),
}

struct ExpressionNode<'a> {
    expression: Expression<'a, 'a>,
    text: String,
    /// Names that differ from cell to cell.
    inputs: Vec<(String, NameSource)>,
    fixed: Scope,
    /// Axes that the value depends on, in order.
    axes: Vec<usize>,
    known: HashMap<Box<[u32]>, Result<Jinja, String>>,
}

/// The expressions of a preset over the axes of a sweep.
pub(super) struct Nodes<'a> {
    preset: &'a Preset,
    recipe: &'a Recipe,
    ambient: Scope,
    /// Values of each axis; more may be asked for than the sweep has.
    values: Vec<Vec<Jinja>>,
    /// The knob that each axis sets; an axis may set none.
    axes: BTreeMap<String, usize>,
    nodes: Vec<ExpressionNode<'a>>,
    names: BTreeMap<String, usize>,
    /// Names that are being compiled, to find those that depend on themselves.
    open: Vec<String>,
    key: Vec<u32>,
}

impl<'a> Nodes<'a> {
    /// `axes` names the knob of each axis; `ambient` holds what no knob says (the cluster).
    pub(super) fn new(
        preset: &'a Preset,
        recipe: &'a Recipe,
        ambient: Scope,
        axes: Vec<(String, Vec<Jinja>)>,
    ) -> Self {
        let (names, values): (Vec<String>, Vec<_>) = axes.into_iter().unzip();
        let axes = names.into_iter().enumerate().map(|(i, n)| (n, i)).collect();
        Self {
            preset,
            recipe,
            ambient,
            values,
            axes,
            nodes: Vec::new(),
            names: BTreeMap::new(),
            open: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Another value of an axis; its number.
    pub(super) fn value(&mut self, axis: usize, value: Jinja) -> u32 {
        let values = &mut self.values[axis];
        let at = values.iter().position(|v| *v == value).unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Adds an expression; its number.
    ///
    /// # Errors
    /// The engine's words.
    pub(super) fn add(&mut self, text: &str) -> Result<usize, String> {
        let expression = self
            .preset
            .env()
            .compile_expression_owned(text.to_owned())
            .map_err(|e| expr::describe(text, &e))?;
        let mut node = ExpressionNode {
            inputs: Vec::new(),
            fixed: self.ambient.clone(),
            axes: Vec::new(),
            known: HashMap::new(),
            text: text.to_owned(),
            expression,
        };
        for name in expr::names(&node.expression) {
            self.input(&mut node, &name)?;
        }
        node.axes.sort_unstable();
        node.axes.dedup();
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn input(&mut self, node: &mut ExpressionNode<'a>, name: &str) -> Result<(), String> {
        let named = Binding::of(self.preset, self.recipe, name);
        if let Binding::Knob(knob) | Binding::Computed(knob, _) = &named
            && let Some(axis) = self.axes.get(*knob)
        {
            node.inputs
                .push(((*knob).to_owned(), NameSource::Axis(*axis)));
            node.axes.push(*axis);
            return Ok(());
        }
        match named {
            Binding::Knob(knob) => node
                .fixed
                .set(knob, expr::to_jinja(self.recipe.value(knob))),
            Binding::Computed(knob, text) => self.depend(node, knob, text)?,
            Binding::Derived(derived) => self.depend(node, &derived.name, &derived.expr)?,
            Binding::Absent => node.fixed.set(name, Jinja::from(())),
            Binding::Group(knobs) => knobs.iter().try_for_each(|k| self.input(node, k))?,
            Binding::Other => {}
        }
        Ok(())
    }

    fn depend(
        &mut self,
        node: &mut ExpressionNode<'a>,
        name: &str,
        text: &str,
    ) -> Result<(), String> {
        let at = match self.names.get(name) {
            Some(at) => *at,
            None => {
                if self.open.iter().any(|o| o == name) {
                    return Err(format!("{name} depends on itself"));
                }
                self.open.push(name.to_owned());
                let at = self.add(text);
                self.open.pop();
                let at = at?;
                self.names.insert(name.to_owned(), at);
                at
            }
        };
        node.axes.extend(&self.nodes[at].axes);
        node.inputs.push((name.to_owned(), NameSource::Node(at)));
        Ok(())
    }

    /// The name of the preset.
    pub(super) fn preset_name(&self) -> &'a str {
        &self.preset.name
    }

    /// Axes that an expression depends on.
    pub(super) fn axes(&self, node: usize) -> &[usize] {
        &self.nodes[node].axes
    }

    /// The value of an expression in a cell.
    ///
    /// # Errors
    /// The engine's words.
    pub(super) fn eval(&mut self, at: usize, cell: &[u32]) -> Result<Jinja, String> {
        self.key.clear();
        self.key
            .extend(self.nodes[at].axes.iter().map(|a| cell[*a]));
        if let Some(known) = self.nodes[at].known.get(self.key.as_slice()) {
            return known.clone();
        }
        let key: Box<[u32]> = self.key.as_slice().into();
        let inputs = self.nodes[at].inputs.clone();
        let mut scope = self.nodes[at].fixed.clone();
        for (name, source) in inputs {
            let value = match source {
                NameSource::Axis(axis) => {
                    let number = usize::try_from(cell[axis]).unwrap_or(usize::MAX);
                    self.values[axis].get(number).cloned().unwrap_or_default()
                }
                // A derived value that cannot be computed is none; the expression that needs it will say so.
                NameSource::Node(node) => self.eval(node, cell).unwrap_or(Jinja::from(())),
            };
            scope.set(&name, value);
        }
        let node = &mut self.nodes[at];
        let value = node
            .expression
            .eval(scope.context())
            .map_err(|e| expr::describe(&node.text, &e));
        node.known.insert(key, value.clone());
        value
    }

    /// The value of an expression as a number; `None` where it is none.
    pub(super) fn number(&mut self, at: usize, cell: &[u32]) -> Result<Option<f64>, String> {
        let value = self.eval(at, cell)?;
        Ok(f64::try_from(value).ok().filter(|x| x.is_finite()))
    }
}
