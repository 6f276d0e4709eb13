//! Whether the tasks of a job array trained the same.

use super::style::{Paint, WARN};
use crate::core::ladder::Change;
use oomctl_base::Effect;

/// What the tasks trained with, where they did not train the same; `trained` has what changed the training of each.
pub fn unequal(trained: &[Vec<Change>]) -> Option<String> {
    let told = |changes: &Vec<Change>| match changes.as_slice() {
        [] => "as submitted".to_owned(),
        all => {
            let all = all.iter();
            let all: Vec<String> = all
                .map(|c| format!("{} {}", c.name(), c.values("->")))
                .collect();
            format!("with {}", all.join(", "))
        }
    };
    let mut all: Vec<String> = trained.iter().map(told).collect();
    all.sort();
    let mut groups: Vec<(usize, String)> = all
        .chunk_by(|a, b| a == b)
        .map(|same| (same.len(), same[0].clone()))
        .collect();
    groups.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let count = trained.len();
    let groups: Vec<String> = groups
        .iter()
        .map(|(of, told)| format!("{of} of {count} {told}"))
        .collect();
    let mut effects = trained.iter().flatten().map(|c| c.effect);
    let did = match effects.any(|effect| effect == Effect::ChangesTraining) {
        true => "the tasks did not train the same",
        false => "the tasks may not have trained the same",
    };
    (groups.len() > 1).then(|| {
        format!(
            "{} {did}: {}. To keep them equal, use --same-math, or put these values into \
             the script\n",
            Paint(WARN, "attention:"),
            groups.join("; ")
        )
    })
}
