//! W&B sweep files: `method`, and `parameters` with `value`, `values`, or a distribution.
//!
//! Source: wandb's sweep configuration options (documentation of 2026, wandb 0.13 to 0.22): the distributions
//! `constant`, `categorical`, `int_uniform`, `uniform`, `q_uniform`, `log_uniform` (min and max are exponents
//! of e), `log_uniform_values`, `q_log_uniform`, `q_log_uniform_values`, `inv_log_uniform`,
//! `inv_log_uniform_values`, `normal`, `q_normal`, `log_normal`, `q_log_normal`; nested `parameters`.

use super::axis::{
    Axis, AxisPlace, MOST_VALUES, Method, ParameterStyle, Sweep, SweepFault, SweepFile, Upper,
    scalar,
};
use super::span::{DrawRange, Spread, three_sigma};
use crate::core::config::{ConfigContent, ConfigKey, ConfigNode};
use oomctl_base::{Value, nearest};

/// Parameters that may lie in each other.
const DEEPEST: usize = 16;

type Entries = [(ConfigKey, ConfigNode)];

fn get<'n>(entries: &'n Entries, name: &str) -> Option<&'n ConfigNode> {
    let found = entries.iter().find(|(k, _)| k.name == name);
    found
        .map(|(_, n)| n)
        .filter(|n| n.content != ConfigContent::Null || name == "value")
}

pub(super) fn from_file(file: &SweepFile<'_>, entries: &Entries) -> Result<Sweep, SweepFault> {
    let Some(parameters) = get(entries, "parameters") else {
        let what = "the sweep has no `parameters`";
        return Err(file.fault(1, 1, what).hint(
            "a W&B sweep file has `method` and `parameters`; a Hydra one `hydra.sweeper.params`",
        ));
    };
    let method = match get(entries, "method") {
        None => Method::Grid,
        Some(node) => method(file, node)?,
    };
    let mut axes = Vec::new();
    collect(file, parameters, "", 0, &mut axes)?;
    let cap = match get(entries, "run_cap") {
        None => None,
        Some(node) => Some(run_cap(file, node)?),
    };
    let sweep = Sweep::new(method, words(entries), axes).map_err(|what| file.fault(1, 1, what))?;
    Ok(Sweep {
        cap,
        command: command(entries),
        ..sweep
    })
}

fn run_cap(file: &SweepFile<'_>, node: &ConfigNode) -> Result<u64, SweepFault> {
    let count = match &node.content {
        ConfigContent::Scalar(text) => text.parse().ok().filter(|n| *n > 0),
        _ => None,
    };
    count.ok_or_else(|| {
        let what = format!("`run_cap` must be a number of runs, got {}", node.noun());
        file.fault(node.line, node.column, what)
    })
}

/// The command of a cell, `${args}` and its like as they stand; W&B's own where only the program is named.
fn command(entries: &Entries) -> Vec<String> {
    let text = |node: &ConfigNode| match &node.content {
        ConfigContent::Scalar(text) => Some(text.clone()),
        _ => None,
    };
    let program = get(entries, "program").and_then(text);
    let parts = match get(entries, "command").map(|node| &node.content) {
        Some(ConfigContent::List(parts)) => parts.iter().filter_map(text).collect(),
        _ if program.is_some() => ["${interpreter}", "${program}", "${args}"]
            .map(str::to_owned)
            .to_vec(),
        _ => Vec::new(),
    };
    let words = parts.into_iter().filter_map(|part| match part.as_str() {
        "${env}" => None,
        "${interpreter}" => Some("python".to_owned()),
        "${program}" => program.clone(),
        _ => Some(part),
    });
    words.collect()
}

/// How the sweep's own command takes its parameters; without one as `${args}`.
fn words(entries: &Entries) -> ParameterStyle {
    let command = get(entries, "command").map(|node| &node.content);
    let Some(ConfigContent::List(parts)) = command else {
        return ParameterStyle::Dashed;
    };
    let bare = |part: &ConfigNode| matches!(&part.content, ConfigContent::Scalar(t) if t == "${args_no_hyphens}");
    match parts.iter().any(bare) {
        true => ParameterStyle::Bare,
        false => ParameterStyle::Dashed,
    }
}

fn method(file: &SweepFile<'_>, node: &ConfigNode) -> Result<Method, SweepFault> {
    match &node.content {
        ConfigContent::Scalar(text) if text == "grid" => Ok(Method::Grid),
        ConfigContent::Scalar(text) if text == "random" => Ok(Method::Random),
        ConfigContent::Scalar(text) if text == "bayes" => Ok(Method::Bayes),
        _ => {
            let what = format!("there is no method {}", node.noun());
            let fault = file.fault(node.line, node.column, what);
            Err(fault.hint("methods: grid, random, bayes"))
        }
    }
}

fn collect(
    file: &SweepFile<'_>,
    node: &ConfigNode,
    prefix: &str,
    depth: usize,
    axes: &mut Vec<Axis>,
) -> Result<(), SweepFault> {
    let ConfigContent::Map(entries) = &node.content else {
        let what = format!("expected parameters by name, got {}", node.noun());
        return Err(file.fault(node.line, node.column, what));
    };
    if depth > DEEPEST {
        return Err(file.fault(
            node.line,
            node.column,
            "parameters lie too deep in each other",
        ));
    }
    for (key, value) in entries {
        let name = match prefix {
            "" => key.name.clone(),
            _ => format!("{prefix}.{}", key.name),
        };
        match &value.content {
            ConfigContent::Map(fields) if fields.iter().any(|(k, _)| k.name == "parameters") => {
                let nested = get(fields, "parameters").unwrap_or(value);
                collect(file, nested, &name, depth + 1, axes)?;
            }
            ConfigContent::Map(fields) => axes.push(axis(file, name, key, fields)?),
            _ => {
                let what =
                    format!("parameter {name}: expected `value`, `values` or a distribution");
                return Err(file.fault(value.line, value.column, what));
            }
        }
    }
    Ok(())
}

fn axis(
    file: &SweepFile<'_>,
    name: String,
    key: &ConfigKey,
    fields: &Entries,
) -> Result<Axis, SweepFault> {
    let fault =
        |what: String| file.fault(key.line, key.column, format!("parameter {name}: {what}"));
    let listed = match (get(fields, "values"), get(fields, "value")) {
        (Some(list), _) => match &list.content {
            ConfigContent::List(items) => Some(items.iter().collect::<Vec<_>>()),
            _ => {
                return Err(fault(format!(
                    "`values` must be a list, got {}",
                    list.noun()
                )));
            }
        },
        (None, Some(one)) => Some(vec![one]),
        (None, None) => None,
    };
    if let Some(nodes) = listed {
        if nodes.is_empty() {
            return Err(fault("`values` is empty".to_owned()));
        }
        if u32::try_from(nodes.len()).is_ok_and(|n| n > MOST_VALUES) {
            return Err(fault(format!(
                "{} values; the limit is {MOST_VALUES}",
                nodes.len()
            )));
        }
        let values = nodes.iter().map(|n| value(n)).collect();
        let places = nodes.iter().map(|n| place(n)).collect();
        let weights = weights(fields, nodes.len()).map_err(fault)?;
        return Ok(Axis {
            weights,
            ..Axis::listed(name, values, places)
        });
    }
    let (span, exponent) = span(fields).map_err(fault)?;
    let (values, all) = span.values();
    let upper = exponent.and_then(|exponent| {
        let place = place(get(fields, "max")?);
        Some(Upper { place, exponent })
    });
    Ok(Axis {
        upper,
        sampled: !all,
        span: Some(span),
        ..Axis::listed(name, values, Vec::new())
    })
}

/// How often each of `count` values is drawn (`probabilities`); none where all are drawn alike.
fn weights(fields: &Entries, count: usize) -> Result<Vec<f64>, String> {
    let Some(node) = get(fields, "probabilities") else {
        return Ok(Vec::new());
    };
    let share = |node: &ConfigNode| match value(node) {
        Value::Int(x) if x >= 0 => Some(x as f64),
        Value::Float(x) if x >= 0.0 => Some(x),
        _ => None,
    };
    let shares: Option<Vec<f64>> = match &node.content {
        ConfigContent::List(items) => items.iter().map(share).collect(),
        _ => None,
    };
    let shares = shares.filter(|s| s.len() == count && s.iter().sum::<f64>() > 0.0);
    shares.ok_or_else(|| "`probabilities` must be a list with a share for each value".to_owned())
}

fn place(node: &ConfigNode) -> AxisPlace {
    AxisPlace {
        line: node.line,
        column: node.column,
    }
}

fn value(node: &ConfigNode) -> Value {
    match &node.content {
        ConfigContent::Null => Value::Null,
        ConfigContent::Scalar(text) => scalar(text),
        ConfigContent::List(_) | ConfigContent::Map(_) => Value::Text(node.to_json().to_string()),
    }
}

/// Distributions, with how their ends are to be read.
const DISTRIBUTIONS: [(&str, Ends); 13] = [
    ("uniform", Ends::Plain),
    ("int_uniform", Ends::Plain),
    ("q_uniform", Ends::Plain),
    ("log_uniform", Ends::Exponents),
    ("q_log_uniform", Ends::Exponents),
    ("log_uniform_values", Ends::Plain),
    ("q_log_uniform_values", Ends::Plain),
    ("inv_log_uniform", Ends::Inverse),
    ("inv_log_uniform_values", Ends::Plain),
    ("normal", Ends::Sigmas),
    ("q_normal", Ends::Sigmas),
    ("log_normal", Ends::LogSigmas),
    ("q_log_normal", Ends::LogSigmas),
];

/// How the ends of a distribution are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Plain,
    Exponents,
    Inverse,
    Sigmas,
    LogSigmas,
}

/// A field that is a number.
fn number(fields: &Entries, name: &str) -> Result<Option<f64>, String> {
    let Some(node) = get(fields, name) else {
        return Ok(None);
    };
    let value = match &node.content {
        ConfigContent::Scalar(text) => scalar(text),
        _ => Value::Null,
    };
    match value {
        Value::Int(i) => Ok(Some(i as f64)),
        Value::Float(x) => Ok(Some(x)),
        _ => Err(format!("`{name}` must be a number, got {}", node.noun())),
    }
}

/// The name of the distribution, or the one that wandb takes where none is given.
fn distribution(fields: &Entries) -> Result<&str, String> {
    if let Some(ConfigContent::Scalar(text)) = get(fields, "distribution").map(|n| &n.content) {
        return Ok(text);
    }
    let end = |name| match get(fields, name).map(|n| &n.content) {
        Some(ConfigContent::Scalar(text)) => Some(scalar(text)),
        _ => None,
    };
    match (end("min"), end("max")) {
        (Some(Value::Int(_)), Some(Value::Int(_))) => Ok("int_uniform"),
        (Some(_), Some(_)) => Ok("uniform"),
        _ => {
            let what = "has neither `value`, `values`, `min` and `max` nor a `distribution`";
            Err(what.to_owned())
        }
    }
}

/// The range of a distribution, and whether `max`, where that is its upper end, is written as an exponent of e.
fn span(fields: &Entries) -> Result<(DrawRange, Option<bool>), String> {
    let named = distribution(fields)?;
    let Some((_, ends)) = DISTRIBUTIONS.iter().find(|(name, _)| *name == named) else {
        let near = nearest(named, DISTRIBUTIONS.iter().map(|(name, _)| *name));
        let hint = near.map_or(String::new(), |n| format!(" (did you mean {n}?)"));
        return Err(format!("there is no distribution `{named}`{hint}"));
    };
    let (low, high) = match ends {
        Ends::Sigmas | Ends::LogSigmas => {
            let (mu, sigma) = (number(fields, "mu")?, number(fields, "sigma")?);
            let (low, high) = three_sigma(mu.unwrap_or(0.0), sigma.unwrap_or(1.0));
            match ends {
                Ends::Sigmas => (low, high),
                _ => (low.exp(), high.exp()),
            }
        }
        _ => {
            let both = number(fields, "min")?.zip(number(fields, "max")?);
            let (low, high) = both.ok_or(format!("{named} needs `min` and `max`"))?;
            match ends {
                Ends::Exponents => (low.exp(), high.exp()),
                Ends::Inverse => ((-high).exp(), (-low).exp()),
                _ => (low, high),
            }
        }
    };
    if !low.is_finite() || !high.is_finite() || low > high {
        return Err(format!("`min` {low} and `max` {high} are no range"));
    }
    let step = match (named.starts_with("q_"), number(fields, "q")?) {
        (true, Some(q)) if q > 0.0 => Some(q),
        (true, Some(q)) => return Err(format!("`q` must be above 0, got {q}")),
        (true, None) => Some(1.0),
        (false, _) => None,
    };
    let spread = match (ends, named.contains("log")) {
        (Ends::Sigmas, _) => Spread::Bell,
        (Ends::LogSigmas, _) => Spread::LogBell,
        _ if named == "int_uniform" => Spread::Steps,
        (_, true) => Spread::Log,
        (_, false) => Spread::Even,
    };
    let span = DrawRange {
        low,
        high,
        spread,
        whole: named == "int_uniform",
        step,
        origin: if step.is_some() { 0.0 } else { low },
    };
    let upper = match ends {
        Ends::Plain => Some(false),
        Ends::Exponents => Some(true),
        Ends::Inverse | Ends::Sigmas | Ends::LogSigmas => None,
    };
    Ok((span, upper))
}
