//! Other resources in the form in which a script asks for them.

use super::edit::{Edit, Refused};
use super::sbatch::{Directive, directives, wins};
use super::traced::{Quote, Span, Traced};
use super::walk::{Reading, SCRIPT};
use crate::core::recipe::{Role, Value};

/// Options of which the last one counts for GPUs; each with what its number counts.
const GPU_OPTIONS: [&str; 4] = ["gres", "gpus-per-node", "gpus-per-task", "gpus"];

/// A resource and how much of it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// GPUs of each node.
    GpusPerNode(u32),
    /// Nodes.
    Nodes(u32),
    /// Host memory of each node, as Slurm writes it (`128G`).
    Memory(String),
}

impl Ask {
    /// The resource that a value of this role is.
    #[must_use]
    pub fn of(role: Role, value: &Value) -> Option<Self> {
        let count = match value {
            Value::Int(count) => u32::try_from(*count).ok(),
            _ => None,
        };
        match (role, value) {
            (Role::GpusPerNode, _) => count.map(Self::GpusPerNode),
            (Role::Nodes, _) => count.map(Self::Nodes),
            (Role::HostMemory, Value::Text(amount)) => Some(Self::Memory(amount.clone())),
            _ => None,
        }
    }

    /// The resource in the words of a message.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self {
            Self::GpusPerNode(_) => "GPUs per node",
            Self::Nodes(_) => "nodes",
            Self::Memory(_) => "memory",
        }
    }
}

/// How many GPUs of each node, or nodes, the job asks for, and the bytes that say it.
pub(super) fn given(reading: &Reading, role: Role) -> Option<(u32, Traced)> {
    let all = directives(reading);
    let number = |option: &str| Some((counted(wins(&all, option)?)?, wins(&all, option)?));
    let (count, directive) = match role {
        Role::Nodes => number("nodes")?,
        Role::GpusPerNode => {
            let asked = GPU_OPTIONS.iter().filter_map(|option| wins(&all, option));
            let asked: Vec<&Directive> = asked.filter(|d| asks_gpus(d)).collect();
            let [one] = asked.as_slice() else {
                return None;
            };
            let count = counted(one)?;
            let count = match one.option.as_str() {
                "gpus" => {
                    let nodes = wins(&all, "nodes").map_or(Some(1), counted)?;
                    (nodes > 0 && count.is_multiple_of(nodes)).then(|| count / nodes)?
                }
                "gpus-per-task" => count.checked_mul(number("ntasks-per-node")?.0)?,
                _ => count,
            };
            (count, *one)
        }
        _ => return None,
    };
    Some((count, directive.value.clone()?))
}

/// The number in `gpu:a100:4`, `a100:4` or `4`; 1 where none is said.
fn counted(directive: &Directive) -> Option<u32> {
    let text = directive.value.as_ref()?.known()?;
    let mut pieces = text.split(',');
    let mine = match directive.option.as_str() {
        "gres" => pieces.find(|p| *p == "gpu" || p.starts_with("gpu:"))?,
        _ => text.as_str(),
    };
    let last = mine.rsplit(':').next().unwrap_or(mine);
    let named = directive.option.starts_with("g") && last.starts_with(char::is_alphabetic);
    if named { Some(1) } else { last.parse().ok() }
}

/// The edits that ask for it.
pub(super) fn ask(reading: &Reading, wish: &Ask) -> Result<Vec<Edit>, Refused> {
    let all = directives(reading);
    let edit = match wish {
        Ask::Memory(amount) => memory(reading, &all, amount),
        Ask::Nodes(count) => nodes(reading, &all, *count),
        Ask::GpusPerNode(count) => gpus(reading, &all, *count),
    };
    edit.map_err(|why| Refused {
        knob: wish.noun().to_owned(),
        why,
    })
}

fn memory(reading: &Reading, all: &[Directive], amount: &str) -> Result<Vec<Edit>, String> {
    for other in ["mem-per-cpu", "mem-per-gpu"] {
        if wins(all, other).is_some() {
            return Err(format!(
                "the job asks for memory with --{other}; change it by hand"
            ));
        }
    }
    match wins(all, "mem") {
        Some(directive) => Ok(vec![value(directive, amount)?]),
        None => added(reading, &format!("--mem={amount}")),
    }
}

fn nodes(reading: &Reading, all: &[Directive], count: u32) -> Result<Vec<Edit>, String> {
    if let Some(tasks) = wins(all, "ntasks") {
        let text = tasks.value.as_ref().map(Traced::text).unwrap_or_default();
        return Err(format!(
            "the job also asks for --ntasks={text}; change both by hand"
        ));
    }
    if wins(all, "gpus").is_some() {
        return Err(
            "the job asks for all GPUs together with --gpus; change both by hand".to_owned(),
        );
    }
    match wins(all, "nodes") {
        Some(directive) => Ok(vec![value(directive, &count.to_string())?]),
        None => added(reading, &format!("--nodes={count}")),
    }
}

fn gpus(reading: &Reading, all: &[Directive], count: u32) -> Result<Vec<Edit>, String> {
    let given = GPU_OPTIONS.iter().filter_map(|option| wins(all, option));
    let given: Vec<&Directive> = given.filter(|d| asks_gpus(d)).collect();
    let number = |option: &str| {
        let text =
            wins(all, option).map(|d| d.value.as_ref().map(Traced::text).unwrap_or_default());
        text.map_or(Some(1), |t| t.parse::<u32>().ok())
    };
    match given.as_slice() {
        [] => added(reading, &format!("--gres=gpu:{count}")),
        [one] => {
            let count = match one.option.as_str() {
                "gpus" => number("nodes").map(|nodes| count * nodes),
                "gpus-per-task" => {
                    let tasks = number("ntasks-per-node").filter(|n| *n > 0);
                    tasks
                        .filter(|n| count.is_multiple_of(*n))
                        .map(|n| count / n)
                }
                _ => Some(count),
            };
            let count = count.ok_or_else(|| {
                format!(
                    "how many GPUs --{} means is not known; change it by hand",
                    one.option
                )
            })?;
            recounted(one, count)
        }
        _ => Err("GPUs are asked for with several options; change them by hand".to_owned()),
    }
}

fn asks_gpus(directive: &Directive) -> bool {
    let text = directive
        .value
        .as_ref()
        .map(Traced::text)
        .unwrap_or_default();
    directive.option != "gres" || text.split(',').any(|g| g == "gpu" || g.starts_with("gpu:"))
}

/// The number of GPUs in `gpu:a100:4`, `a100:4` or `4`, changed.
fn recounted(directive: &Directive, count: u32) -> Result<Vec<Edit>, String> {
    let by_hand = || {
        format!(
            "--{} is written in a way that is not changed here",
            directive.option
        )
    };
    let whole = directive.value.as_ref().ok_or_else(by_hand)?;
    let text = whole.text();
    let gres = directive.option == "gres";
    let (mut start, mut found) = (0, Vec::new());
    for piece in text.split(',') {
        if !gres || piece == "gpu" || piece.starts_with("gpu:") {
            found.push((start, piece));
        }
        start += piece.len() + 1;
    }
    let [(start, piece)] = found.as_slice() else {
        return Err(by_hand());
    };
    let last = piece.rsplit(':').next().unwrap_or(piece);
    let digits = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    let end = start + piece.len();
    let (bytes, new) = match digits {
        true => (whole.slice(end - last.len(), end), count.to_string()),
        false
            if gres
                && last
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) =>
        {
            (whole.slice(end, end), format!(":{count}"))
        }
        false => return Err(by_hand()),
    };
    let (span, ..) = bytes.stretch().ok_or_else(by_hand)?;
    Ok(vec![Edit { span, text: new }])
}

/// The value of an option, changed where it stands.
fn value(directive: &Directive, new: &str) -> Result<Edit, String> {
    let old = directive.value.as_ref();
    let stretch = old.and_then(Traced::stretch);
    match stretch {
        Some((span, Quote::Raw | Quote::Bare | Quote::Single | Quote::Double, _)) => Ok(Edit {
            span,
            text: new.to_owned(),
        }),
        _ => Err(format!(
            "--{} has no value that could be changed",
            directive.option
        )),
    }
}

/// A directive behind the last one, or behind the first line.
fn added(reading: &Reading, option: &str) -> Result<Vec<Edit>, String> {
    let script = reading
        .sources
        .get(SCRIPT)
        .ok_or("the script is not known")?;
    let inside = directives(reading).into_iter().map(|d| d.span);
    let last = inside.filter(|s| s.file == SCRIPT).map(|s| s.end).max();
    let from = last.unwrap_or(0);
    let rest = &script.text[from..];
    let at = match rest.find('\n') {
        Some(line) => from + line + 1,
        None => {
            return Err("the script has no line behind which a directive could stand".to_owned());
        }
    };
    let span = Span {
        file: SCRIPT,
        start: at,
        end: at,
    };
    Ok(vec![Edit {
        span,
        text: format!("#SBATCH {option}\n"),
    }])
}
