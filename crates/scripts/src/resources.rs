//! Other resources in the form in which a script asks for them.

use std::collections::BTreeMap;

use super::change::TextEdit;
use super::preface::shell_holds;
use super::sbatch::{Directive, directives, long_option, wins};
use super::traced::{Quote, Span, Traced};
use super::walk::{Reading, SCRIPT};
use oomctl_base::Role;

/// Options of which the last one counts for GPUs; each with what its number counts.
pub(super) const GPU_OPTIONS: [&str; 5] =
    ["gres", "gpus-per-node", "gpus-per-task", PER_TASK, "gpus"];
/// The option that lists all that a task gets (since 23.02).
const PER_TASK: &str = "tres-per-task";

/// What one piece of an option's list says of GPUs, behind their name: `a100:4` of `gpu:a100:4` (`--gres`; newer versions take
/// `gpu=4` too), `a100=4` of `gres/gpu:a100=4` (`--tres-per-task`). None for another resource.
fn of_gpus<'p>(option: &str, piece: &'p str) -> Option<&'p str> {
    let named = match option {
        "gres" => piece,
        PER_TASK => piece.strip_prefix("gres")?.strip_prefix(['/', ':'])?,
        _ => return Some(piece),
    };
    let rest = named.strip_prefix("gpu")?;
    match rest.is_empty() {
        true => Some(rest),
        false => rest.strip_prefix(SIGNS),
    }
}

/// What stands before a number.
const SIGNS: [char; 2] = [':', '='];

/// How many GPUs of each node, or nodes, the job asks for, and the bytes that say it. None where it asks for none, or
/// not in a way that tells.
pub fn asked(reading: &Reading, role: Role) -> Option<(u32, Traced)> {
    let all = directives(reading);
    let (count, directive) = match role {
        Role::Nodes => {
            let nodes = wins(&all, "nodes")?;
            (counted(nodes)?, nodes)
        }
        Role::GpusPerNode => {
            let given = gpu_options(&all);
            let counts: Option<Vec<u32>> = given.iter().map(|d| per_node(&all, d)).collect();
            let counts = counts?;
            let count = *counts.first()?;
            // Several options may say the same.
            (
                counts.iter().all(|c| *c == count).then_some(count)?,
                *given.first()?,
            )
        }
        _ => return None,
    };
    Some((count, directive.value.clone()?))
}

/// How many GPUs the whole job asks for, where nothing tells how many each node has.
pub fn asked_in_all(reading: &Reading) -> Option<u32> {
    counted(wins(&directives(reading), "gpus")?)
}

/// The options that count by which GPUs are asked for.
fn gpu_options(all: &[Directive]) -> Vec<&Directive> {
    let given = GPU_OPTIONS.iter().filter_map(|option| wins(all, option));
    given.filter(|d| asks_gpus(d)).collect()
}

/// The number of an option that is not given stands for `none`.
pub(super) fn number(all: &[Directive], option: &str, none: u32) -> Option<u32> {
    wins(all, option).map_or(Some(none), counted)
}

/// GPUs of each node that an option asks for.
fn per_node(all: &[Directive], directive: &Directive) -> Option<u32> {
    let count = counted(directive)?;
    match directive.option.as_str() {
        "gpus" => {
            let nodes = number(all, "nodes", 1).filter(|n| *n > 0)?;
            count.is_multiple_of(nodes).then(|| count / nodes)
        }
        "gpus-per-task" | PER_TASK => count.checked_mul(tasks_per_node(all)?),
        _ => Some(count),
    }
}

/// Tasks of each node: as many as are asked for, or an even share of all.
pub(super) fn tasks_per_node(all: &[Directive]) -> Option<u32> {
    if let Some(directive) = wins(all, "ntasks-per-node") {
        return counted(directive);
    }
    let (tasks, nodes) = (counted(wins(all, "ntasks")?)?, number(all, "nodes", 1)?);
    (nodes > 0 && tasks.is_multiple_of(nodes)).then(|| tasks / nodes)
}

/// The number in `gpu:a100:4`, `a100:4` or `4`; 1 where none is said.
fn counted(directive: &Directive) -> Option<u32> {
    let text = directive.value.as_ref()?.known()?;
    let option = directive.option.as_str();
    let mine = match option {
        "gres" | PER_TASK => text.split(',').find_map(|p| of_gpus(option, p))?,
        _ => text.as_str(),
    };
    let last = mine.rsplit(SIGNS).next().unwrap_or(mine);
    let bare = mine.is_empty() && option == "gres";
    let named = option.starts_with('g') && last.starts_with(char::is_alphabetic);
    if named || bare {
        Some(1)
    } else {
        last.parse().ok()
    }
}

/// The type of the GPUs that the job asks for, with the bytes of the option that says it; None where it names none, or
/// several.
pub fn gpu_type(reading: &Reading) -> Option<(String, Span)> {
    let all = directives(reading);
    let mut types = BTreeMap::new();
    for directive in GPU_OPTIONS.iter().filter_map(|option| wins(&all, option)) {
        let text = directive.value.as_ref().and_then(Traced::known);
        let pieces = text.iter().flat_map(|text| text.split(','));
        for piece in pieces.filter_map(|p| of_gpus(&directive.option, p)) {
            let name = piece.split(['(', ':', '=']).next();
            let name = name.filter(|word| !word.is_empty() && word.parse::<u32>().is_err());
            types.extend(name.map(|name| (name.to_owned(), directive.span)));
        }
    }
    match types.len() {
        1 => types.pop_first(),
        _ => None,
    }
}

/// Words of shell scripts that start something on other nodes than the first.
const STARTERS: [&str; 9] = [
    "srun",
    "mpirun",
    "mpiexec",
    "ray start",
    "ray symmetric-run",
    "pdsh",
    "clush",
    "ssh ",
    "hostfile",
];

pub(super) fn nodes(
    reading: &Reading,
    all: &[Directive],
    count: u32,
) -> Result<Vec<TextEdit>, String> {
    if let Some(tasks) = wins(all, "ntasks") {
        let text = tasks.value.as_ref().map(Traced::text).unwrap_or_default();
        return Err(format!(
            "the job also requests --ntasks={text}; change both by hand"
        ));
    }
    if wins(all, "gpus").is_some() {
        return Err(
            "the job requests its GPUs in total with --gpus; change both by hand".to_owned(),
        );
    }
    if count > 1 && !shell_holds(reading, &STARTERS) {
        return Err(
            "the script starts its program on one node: it has no srun, mpirun or `ray start`"
                .to_owned(),
        );
    }
    match wins(all, "nodes") {
        Some(directive) => Ok(vec![value(directive, &count.to_string())?]),
        None => added(reading, &format!("--nodes={count}")),
    }
}

pub(super) fn gpus(
    reading: &Reading,
    all: &[Directive],
    count: u32,
) -> Result<Vec<TextEdit>, String> {
    let given = gpu_options(all);
    if given.is_empty() {
        return added(reading, &format!("--gres=gpu:{count}"));
    }
    let unclear = |d: &Directive| {
        let option = &d.option;
        format!("the number of GPUs in --{option} is unclear; change it by hand")
    };
    let mut before = None;
    for directive in &given {
        let here = per_node(all, directive).ok_or_else(|| unclear(directive))?;
        if before.replace(here).is_some_and(|other| other != here) {
            let why = "several options request different numbers of GPUs; change them by hand";
            return Err(why.to_owned());
        }
    }
    let per_task = given
        .iter()
        .any(|d| [PER_TASK, "gpus-per-task"].contains(&d.option.as_str()));
    let (mut edits, tasks) = tasks_along(all, before.unwrap_or(count), count, per_task)?;
    steps_fit(reading, !edits.is_empty())?;
    for directive in given {
        let new = match directive.option.as_str() {
            "gpus" => number(all, "nodes", 1).and_then(|nodes| count.checked_mul(nodes)),
            "gpus-per-task" | PER_TASK => {
                let tasks = tasks.filter(|n| *n > 0 && count.is_multiple_of(*n));
                tasks.map(|n| count / n)
            }
            _ => Some(count),
        };
        let new = new.ok_or_else(|| unclear(directive))?;
        if counted(directive) != Some(new) {
            edits.extend(recounted(directive, new)?);
        }
    }
    Ok(edits)
}

/// Where each GPU has a task of its own, there are as many tasks as GPUs: the edits, and how many tasks a node then has.
fn tasks_along(
    all: &[Directive],
    before: u32,
    count: u32,
    per_task: bool,
) -> Result<(Vec<TextEdit>, Option<u32>), String> {
    let [in_all, on_node] = ["ntasks", "ntasks-per-node"].map(|option| wins(all, option));
    if in_all.or(on_node).is_none() {
        return Ok((Vec::new(), None));
    }
    let (here, nodes) = (tasks_per_node(all), number(all, "nodes", 1));
    let whole = |tasks: u32| nodes.and_then(|n| tasks.checked_mul(n));
    let agree = in_all.is_none_or(|d| here.and_then(whole) == counted(d));
    let placed = in_all.is_none() || per_task || wins(all, "nodes").is_some();
    match here.filter(|_| agree) {
        Some(1) if before == 1 && !per_task => Ok((Vec::new(), Some(1))),
        Some(tasks) if tasks == before && placed => {
            let each = [(on_node, Some(count)), (in_all, whole(count))].into_iter();
            let edits =
                each.filter_map(|(directive, new)| Some(value(directive?, &new?.to_string())));
            Ok((edits.collect::<Result<_, _>>()?, Some(count)))
        }
        Some(1) => Ok((Vec::new(), Some(1))),
        _ => Err(match in_all.map(|d| d.value.as_ref().map(Traced::text)) {
            Some(text) => format!(
                "the job also requests --ntasks={}, perhaps one task per GPU; change both by hand",
                text.unwrap_or_default()
            ),
            None => "--ntasks-per-node is neither 1 nor the number of GPUs; change both by hand"
                .to_owned(),
        }),
    }
}

/// A step that asks for GPUs of its own would not get those that the job has more, nor one with its own number of tasks the `tasks`.
fn steps_fit(reading: &Reading, tasks: bool) -> Result<(), String> {
    for call in &reading.calls {
        let own = call.words.iter().take(call.args);
        let launchers: Vec<String> = call
            .around
            .iter()
            .chain(own)
            .map(|w| w.text.text())
            .collect();
        let own = |word: &String| {
            let counts = |o| GPU_OPTIONS.contains(&o) || o == "ntasks-per-node";
            let numbered = word.starts_with("-n") || long_option(word) == Some("ntasks");
            long_option(word).is_some_and(counts) || tasks && numbered
        };
        let steps = launchers.iter().any(|l| l == "srun");
        if let Some(word) = launchers.iter().find(|w| steps && own(w)) {
            return Err(format!("srun gets {word} too; change both by hand"));
        }
    }
    Ok(())
}

fn asks_gpus(directive: &Directive) -> bool {
    let text = directive
        .value
        .as_ref()
        .map(Traced::text)
        .unwrap_or_default();
    text.split(',')
        .any(|piece| of_gpus(&directive.option, piece).is_some())
}

/// The number of GPUs in `gpu:a100:4`, `a100:4` or `4`, changed.
fn recounted(directive: &Directive, count: u32) -> Result<Vec<TextEdit>, String> {
    let by_hand = || {
        format!(
            "--{} has a form that oomctl does not edit",
            directive.option
        )
    };
    let whole = directive.value.as_ref().ok_or_else(by_hand)?;
    let text = whole.text();
    let gres = directive.option == "gres";
    let (mut start, mut found) = (0, Vec::new());
    for piece in text.split(',') {
        if of_gpus(&directive.option, piece).is_some() {
            found.push((start, piece));
        }
        start += piece.len() + 1;
    }
    let [(start, piece)] = found.as_slice() else {
        return Err(by_hand());
    };
    let last = piece.rsplit(SIGNS).next().unwrap_or(piece);
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
    Ok(vec![TextEdit { span, text: new }])
}

/// The value of an option, changed where it stands.
pub(super) fn value(directive: &Directive, new: &str) -> Result<TextEdit, String> {
    let old = directive.value.as_ref();
    let stretch = old.and_then(Traced::stretch);
    match stretch {
        Some((span, Quote::Raw | Quote::Bare | Quote::Single | Quote::Double, _)) => Ok(TextEdit {
            span,
            text: new.to_owned(),
        }),
        _ => Err(format!("--{} has no value to change", directive.option)),
    }
}

/// A directive behind the last one, or behind the first line.
pub(super) fn added(reading: &Reading, option: &str) -> Result<Vec<TextEdit>, String> {
    let script = reading.sources.get(SCRIPT).ok_or("the script is unknown")?;
    let inside = directives(reading).into_iter().map(|d| d.span);
    let last = inside.filter(|s| s.file == SCRIPT).map(|s| s.end).max();
    let from = last.unwrap_or(0);
    let rest = &script.text[from..];
    let at = match rest.find('\n') {
        Some(line) => from + line + 1,
        None => {
            return Err("the script has no place for a directive".to_owned());
        }
    };
    let span = Span::empty(SCRIPT, at);
    Ok(vec![TextEdit {
        span,
        text: format!("#SBATCH {option}\n"),
    }])
}
