//! The values that a program's text fixes, by the names that its knobs have.

use std::collections::{BTreeMap, BTreeSet};

use super::code_value::PythonFile;
use super::constants::{BATCH, Constant, constants};
use super::dictionary::entries;
use super::parts::part_and_whole;
use oomctl_base::only;

/// The name that a batch of all GPUs has of which an accumulation is computed.
const GLOBAL_BATCH: &str = "global_batch_size";

/// The name that an accumulation has which its use alone tells.
const ACCUMULATION: &str = "gradient_accumulation_steps";

/// The values that a program's text fixes, by names in small letters: constants, and entries of dictionaries. Names of `used`
/// accumulate, and `widths` are those of the slices of a batch.
pub(super) fn fixed(
    files: &[PythonFile<'_>],
    used: &BTreeSet<&str>,
    widths: &BTreeSet<&str>,
) -> BTreeMap<String, Constant> {
    let mut all = constants(files);
    for (key, constant) in entries(files) {
        let key = key.to_lowercase();
        if all.remove(&key).is_none() {
            all.insert(key, constant);
        }
    }
    let computed = only(
        files
            .iter()
            .filter_map(|file| part_and_whole(&file.tokens, used)),
    );
    if let Some((part, whole)) = computed {
        let named = |name: &str| all.get(&name.to_lowercase()).cloned();
        if let (Some(part), Some(whole)) = (named(part), named(whole)) {
            let is_global = true;
            all.entry(BATCH.to_owned()).or_insert(part);
            all.entry(GLOBAL_BATCH.to_owned())
                .or_insert(Constant { is_global, ..whole });
        }
    }
    for (names, knob) in [(used, ACCUMULATION), (widths, BATCH)] {
        let named = names
            .iter()
            .filter_map(|name| all.get(&name.to_lowercase()));
        if let Some(one) = only(named).cloned() {
            all.entry(knob.to_owned()).or_insert(one);
        }
    }
    all
}
