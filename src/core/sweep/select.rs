//! Which cells of a sweep are run, in which order, and what each of them sets.

use super::axis::{Method, ParameterStyle, Sweep};
use super::cells::{MOST_CELLS, digits};
use super::draw::{Draw, drawn};
use super::judge::{Brief, CellVerdict, Judge};
use super::nodes::Cell;
use crate::core::recipe::{Layer, LayerKind, Override};
use oomctl_base::{Origin, Value};

/// In which order cells begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As the sweep lists them, the last parameter running fastest.
    AsWritten,
    /// Those of which the least memory is expected first; those of which nothing is known last.
    SmallestFirst,
}

/// Values that a cell must have: one of them for each parameter that is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    /// The parameter.
    pub name: String,
    /// Its values, as they are written.
    pub values: Vec<String>,
}

/// Which cells are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct CellFilter {
    /// All of these must hold.
    pub selectors: Vec<Selector>,
    /// In which order.
    pub order: Order,
    /// At most so many.
    pub limit: Option<usize>,
    /// Cells drawn at random, in place of all.
    pub draw: Option<Draw>,
    /// Cells that do not fit, too.
    pub force: bool,
}

/// A cell with the verdict on it.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedCell {
    /// The numbers of its values.
    pub cell: Cell,
    /// The verdict.
    pub brief: Brief,
}

/// What becomes of the cells of a sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// Those to run, in order.
    pub run: Vec<SelectedCell>,
    /// Those that break a rule or cannot fit.
    pub refused: Vec<SelectedCell>,
    /// How many more would run but for the limit.
    pub beyond: usize,
}

/// Chooses the cells to run.
///
/// # Errors
/// A sweep that has no list of cells and of which none are drawn, or too many; a selector for a parameter or a value
/// that it does not have.
pub fn select(
    sweep: &Sweep,
    judge: &mut Judge<'_>,
    choice: &CellFilter,
) -> Result<Selection, String> {
    let wanted = wanted(sweep, judge, &choice.selectors)?;
    let cells = match &choice.draw {
        Some(draw) => drawn(sweep, judge, draw, &wanted)?,
        None => all(sweep, &wanted)?,
    };
    let mut selection = Selection::default();
    for cell in cells {
        let brief = judge.brief(&cell);
        let refused = match brief.verdict {
            CellVerdict::BreaksRule => true,
            CellVerdict::DoesNotFit => !choice.force,
            CellVerdict::Fits | CellVerdict::Tight | CellVerdict::Unknown => false,
        };
        let chosen = SelectedCell { cell, brief };
        match refused {
            true => selection.refused.push(chosen),
            false => selection.run.push(chosen),
        }
    }
    if choice.order == Order::SmallestFirst {
        let bytes = |c: &SelectedCell| c.brief.bytes.unwrap_or(f64::INFINITY);
        selection.run.sort_by(|a, b| bytes(a).total_cmp(&bytes(b)));
    }
    let limit = choice.limit.unwrap_or(usize::MAX);
    selection.beyond = selection.run.len().saturating_sub(limit);
    selection.run.truncate(limit);
    Ok(selection)
}

/// Every cell of a sweep with one of the values that are wanted.
fn all(sweep: &Sweep, wanted: &[Vec<u32>]) -> Result<Vec<Cell>, String> {
    if sweep.method == Method::Bayes {
        let what = "the method `bayes` needs W&B's service to choose each cell; here --count N draws N cells at random, and `method: grid` runs all";
        return Err(what.to_owned());
    }
    if let Some(axis) = sweep.axes.iter().find(|a| a.sampled) {
        return Err(format!(
            "{} is a range, which has no list of values; --count N draws N cells, --set {}=VALUE fixes it",
            axis.name, axis.name
        ));
    }
    let count = sweep.cells();
    if count > MOST_CELLS {
        return Err(format!(
            "the sweep has {count} cells; {MOST_CELLS} are looked at, at most; --count N draws N of them"
        ));
    }
    let sizes: Vec<u64> = sweep.axes.iter().map(|a| a.values.len() as u64).collect();
    let cell = |index| -> Cell {
        let numbers = digits(&sizes, index).into_iter();
        let numbers = numbers.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        numbers.collect()
    };
    let is_wanted = |cell: &Cell| {
        let mut both = cell.iter().zip(wanted);
        both.all(|(n, wanted)| wanted.is_empty() || wanted.contains(n))
    };
    Ok((0..count).map(cell).filter(is_wanted).collect())
}

/// The numbers of the values that are wanted of each axis; none where all are.
fn wanted(
    sweep: &Sweep,
    judge: &Judge<'_>,
    selectors: &[Selector],
) -> Result<Vec<Vec<u32>>, String> {
    let mut wanted = vec![Vec::new(); sweep.axes.len()];
    for selector in selectors {
        let Some(axis) = sweep.axis(&selector.name) else {
            let names: Vec<&str> = sweep.axes.iter().map(|a| a.name.as_str()).collect();
            return Err(format!(
                "the sweep has no parameter {}; it has {}",
                selector.name,
                names.join(", ")
            ));
        };
        for text in &selector.values {
            let numbers = (0_u32..).zip(&sweep.axes[axis].values);
            let same = |(n, value): &(u32, &Value)| {
                value.to_string() == *text || judge.value(axis, *n).to_string() == *text
            };
            let Some((number, _)) = numbers.into_iter().find(same) else {
                if sweep.axes[axis].sampled {
                    let name = &selector.name;
                    return Err(format!("{name} is a range; --set {name}={text} fixes it"));
                }
                let known: Vec<String> = sweep.axes[axis]
                    .values
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                return Err(format!(
                    "{} is never {text}; it is {}",
                    selector.name,
                    known.join(", ")
                ));
            };
            wanted[axis].push(number);
        }
    }
    Ok(wanted)
}

/// What a cell sets: knobs, and words for the parameters that no knob describes. `path` is the sweep's file.
pub fn cell_layer(sweep: &Sweep, judge: &Judge<'_>, cell: &[u32], path: &str) -> Layer {
    let mut layer = Layer::new(LayerKind::Sweep);
    for (at, axis) in sweep.axes.iter().enumerate() {
        let number = usize::try_from(cell[at]).unwrap_or(usize::MAX);
        let value = judge.value(at, cell[at]).clone();
        let place = axis
            .places
            .get(number)
            .or(axis.upper.as_ref().map(|u| &u.place));
        let origin = Origin::file(
            path,
            place.map_or(1, |p| p.line),
            place.map_or(1, |p| p.column),
        );
        match judge.knob(at) {
            Some(knob) => {
                layer.set(&knob.name, value, origin);
            }
            None => layer.overrides.push(Override {
                key: match sweep.words {
                    ParameterStyle::Dashed => format!("--{}", axis.name),
                    ParameterStyle::Bare => axis.name.clone(),
                },
                value: value.to_string(),
                origin,
            }),
        }
    }
    layer
}

#[cfg(test)]
mod tests {
    use super::super::tests::{below, preset};
    use super::*;
    use crate::core::recipe::ClusterFacts;
    use crate::core::sweep::parse;

    const TEXT: &str = "parameters:\n  graph_d: {values: [1000, 250, 4000]}\n  graph_vocab_size: {values: [1000000, 10000, 10000000]}\n  eval_batch_size: {value: 256}\n  seed: {values: [0, 1]}\n";

    /// The cells that are run and those that are refused, as their values.
    fn chosen(text: &str, choice: &CellFilter) -> Result<(Vec<String>, Vec<String>), String> {
        let preset = preset();
        let (_, recipe) = below(&preset);
        let sweep = parse("s.yaml", text).unwrap();
        let cluster = ClusterFacts::default();
        let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
        let selection = select(&sweep, &mut judge, choice)?;
        let show = |c: &SelectedCell| {
            let layer = cell_layer(&sweep, &judge, &c.cell, "s.yaml");
            let value = |name: &str| layer.settings[name].value.to_string();
            let words: Vec<String> = layer
                .overrides
                .iter()
                .map(|o| format!("{}={}", o.key, o.value))
                .collect();
            format!(
                "{} {} {}",
                value("graph_d"),
                value("graph_vocab_size"),
                words.join(" ")
            )
        };
        Ok((
            selection.run.iter().map(show).collect(),
            selection.refused.iter().map(show).collect(),
        ))
    }

    fn choice(selectors: &[(&str, &[&str])], order: Order, force: bool) -> CellFilter {
        let selector = |(name, values): &(&str, &[&str])| Selector {
            name: (*name).to_owned(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        CellFilter {
            selectors: selectors.iter().map(selector).collect(),
            order,
            limit: None,
            draw: None,
            force,
        }
    }

    #[test]
    fn what_breaks_a_rule_is_never_run_and_what_does_not_fit_only_by_force() {
        let one = [("seed", ["1"].as_slice())];
        let (run, refused) = chosen(TEXT, &choice(&one, Order::AsWritten, false)).unwrap();
        assert_eq!(
            run,
            [
                "1000 1000000 --seed=1",
                "1000 10000 --seed=1",
                "250 1000000 --seed=1",
                "250 10000 --seed=1",
                "4000 1000000 --seed=1"
            ]
        );
        assert_eq!(refused.len(), 4, "{refused:?}");
        assert!(refused.contains(&"4000 10000 --seed=1".to_owned()));
        let (run, refused) = chosen(TEXT, &choice(&one, Order::AsWritten, true)).unwrap();
        assert_eq!((run.len(), refused.len()), (8, 1));
    }

    #[test]
    fn the_smallest_begin_first_and_a_limit_cuts_the_last() {
        let mut choice = choice(
            &[("graph_d", &["250", "1000"])],
            Order::SmallestFirst,
            false,
        );
        choice.limit = Some(3);
        let (run, _) = chosen(TEXT, &choice).unwrap();
        assert_eq!(
            run,
            [
                "250 10000 --seed=0",
                "250 10000 --seed=1",
                "1000 10000 --seed=0"
            ]
        );
    }

    #[test]
    fn a_sweep_without_a_list_of_cells_and_a_selector_for_nothing_are_refused() {
        let fails = |text: &str, selectors: &[(&str, &[&str])]| {
            chosen(text, &choice(selectors, Order::AsWritten, false)).unwrap_err()
        };
        assert!(fails(TEXT, &[("depth", &["1"])]).contains("it has graph_d, graph_vocab_size"));
        assert!(fails(TEXT, &[("seed", &["7"])]).contains("seed is never 7; it is 0, 1"));
        let range = "method: random\nparameters:\n  seed: {min: 0, max: 100000}\n";
        assert!(fails(range, &[]).contains("seed is a range"));
        assert!(fails(range, &[("seed", &["7"])]).contains("--set seed=7 fixes it"));
        assert!(fails("method: bayes\nparameters:\n  seed: {value: 1}\n", &[]).contains("bayes"));
    }

    #[test]
    fn drawn_cells_are_judged_like_all_others_and_selectors_bound_what_is_drawn() {
        let text =
            format!("method: bayes\n{TEXT}").replace("{values: [0, 1]}", "{min: 0, max: 9999}");
        let mut choice = choice(&[("graph_d", &["250", "4000"])], Order::AsWritten, false);
        choice.draw = Some(Draw { count: 40, seed: 5 });
        let (run, refused) = chosen(&text, &choice).unwrap();
        assert_eq!(run.len() + refused.len(), 40);
        assert!(!run.is_empty() && refused.iter().any(|c| c.starts_with("4000 10000 ")));
        assert!(
            run.iter().chain(&refused).all(|c| !c.starts_with("1000 ")),
            "{run:?}"
        );
        assert_eq!(chosen(&text, &choice).unwrap(), (run, refused));
    }

    #[test]
    fn words_for_the_program_are_those_of_an_agent_or_of_hydra() {
        let bare = format!("command: [\"${{program}}\", \"${{args_no_hyphens}}\"]\n{TEXT}");
        let (run, _) = chosen(&bare, &choice(&[], Order::AsWritten, false)).unwrap();
        assert!(run[0].ends_with(" seed=0"), "{run:?}");
    }
}
