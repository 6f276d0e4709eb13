//! Host memory in the form in which a script asks for it: of a node, of each CPU, or of each GPU.

use super::change::TextEdit;
use super::resources::{added, asked, number, tasks_per_node, value};
use super::sbatch::{Directive, directives, wins};
use super::traced::{Span, Traced};
use super::walk::Reading;
use oomctl_base::units::{Bytes, in_unit_of};
use oomctl_base::{Role, word_list};

/// The options that ask for it, which exclude each other (sbatch 25.05, `--mem`).
const OPTIONS: [&str; 3] = ["mem", "mem-per-gpu", "mem-per-cpu"];
/// Options with which Slurm itself chooses how many CPUs a task or a job gets.
const OTHER_CPUS: [&str; 4] = word_list("exclusive cpus-per-gpu ntasks-per-gpu ntasks-per-core");

/// The memory that a job asks for on each node, as Slurm writes it, and the bytes that say it. None where it asks for none, or
/// for so much for each CPU or GPU and nothing tells how many of these a node has.
pub fn host_memory(reading: &Reading) -> Option<(String, Span)> {
    let all = directives(reading);
    let directive = given(&all).ok()??;
    let text = directive.value.as_ref()?.known()?;
    let amount = match parts(reading, &all, directive).ok()? {
        1 => text,
        parts => format!("{}M", mib(&text)?.checked_mul(u64::from(parts))?),
    };
    Some((amount, directive.span))
}

/// The edits after which each node gives the job this amount, or a little more.
pub(super) fn edits(reading: &Reading, amount: &str) -> Result<Vec<TextEdit>, String> {
    let all = directives(reading);
    let Some(directive) = given(&all)? else {
        return added(reading, &format!("--mem={amount}"));
    };
    let new = match parts(reading, &all, directive)? {
        1 => amount.to_owned(),
        parts => {
            let whole = mib(amount).ok_or_else(|| by_hand(directive))?;
            let part = format!("{}M", whole.div_ceil(u64::from(parts)));
            let written = directive.value.as_ref().and_then(Traced::known);
            written.and_then(|w| in_unit_of(&part, &w)).unwrap_or(part)
        }
    };
    Ok(vec![value(directive, &new)?])
}

/// The option that counts.
fn given(all: &[Directive]) -> Result<Option<&Directive>, String> {
    let given: Vec<&Directive> = OPTIONS.iter().filter_map(|o| wins(all, o)).collect();
    match given.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [one, other, ..] => Err(format!(
            "the job requests memory with --{} and --{}; change it by hand",
            one.option, other.option
        )),
    }
}

/// How many times a node gives what an option asks for.
fn parts(reading: &Reading, all: &[Directive], directive: &Directive) -> Result<u32, String> {
    let parts = match directive.option.as_str() {
        "mem" => Some(1),
        "mem-per-gpu" => asked(reading, Role::GpusPerNode).map(|(count, _)| count),
        _ => cpus(all),
    };
    parts
        .filter(|parts| *parts > 0)
        .ok_or_else(|| by_hand(directive))
}

/// CPUs that a job asks for on each node: one task a node and one CPU a task where it does not say (sbatch 25.05).
fn cpus(all: &[Directive]) -> Option<u32> {
    if OTHER_CPUS.iter().any(|o| wins(all, o).is_some()) {
        return None;
    }
    let given = ["ntasks-per-node", "ntasks"].map(|option| wins(all, option));
    let tasks = match given {
        [None, None] => 1,
        _ => tasks_per_node(all)?,
    };
    tasks.checked_mul(number(all, "cpus-per-task", 1)?)
}

fn mib(amount: &str) -> Option<u64> {
    Bytes::parse_mib(amount).ok().map(|bytes| bytes.0 >> 20)
}

fn by_hand(directive: &Directive) -> String {
    let text = directive.value.as_ref().map(Traced::text);
    format!(
        "the job requests memory with --{}={}, and the script does not say how many of these a node has; change it by hand",
        directive.option,
        text.unwrap_or_default()
    )
}
