//! The tasks of a job array of the user's own (`--array`), and the variables that Slurm sets for them.

use super::job::array;
use oomctl_scripts::Reading;

/// Longest list that is read, in tasks. No `MaxArraySize` is larger (slurm.conf(5)).
const MOST: usize = 4_000_001;

/// Is this the option of sbatch that makes an array of a job, with its list in the same word?
pub fn is_array(option: &str) -> bool {
    let list = option.strip_prefix("--array=");
    let list = list.or_else(|| option.strip_prefix("-a"));
    list.is_some_and(|list| list.starts_with(|c: char| c.is_ascii_digit()))
}

/// The tasks of a job array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskList {
    /// As it is written.
    pub text: String,
    /// Their indices, ascending, each once.
    pub indices: Vec<u32>,
    /// How many may run at a time (`%N`).
    pub at_once: Option<u32>,
    step: u32,
}

impl TaskList {
    /// The array that a script asks for; `None` where it is one job, or one task.
    ///
    /// # Errors
    /// A list that cannot be read, for people.
    pub fn of(reading: &Reading) -> Result<Option<Self>, String> {
        let Some(text) = array(reading) else {
            return Ok(None);
        };
        let list =
            Self::read(&text).ok_or_else(|| format!("--array={text} is no list of tasks"))?;
        let one = text.bytes().all(|b| b.is_ascii_digit());
        Ok((!one).then_some(list))
    }

    /// Reads `0-15:4,20%2`.
    pub fn read(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let plain = text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| plain)
        };
        let (list, at_once) = match text.split_once('%') {
            Some((list, most)) => (list, Some(number(most).filter(|most| *most > 0)?)),
            None => (text, None),
        };
        let (mut indices, mut steps) = (Vec::new(), Vec::new());
        for range in list.split(',') {
            let (bounds, step) = match range.split_once(':') {
                Some((bounds, step)) => (bounds, number(step).filter(|step| *step > 0)?),
                None => (range, 1),
            };
            let (first, last) = bounds.split_once('-').unwrap_or((bounds, bounds));
            let (first, last) = (number(first)?, number(last)?);
            let count = usize::try_from(last.checked_sub(first)? / step).ok()?;
            (indices.len() + count < MOST).then_some(())?;
            indices.extend((first..=last).step_by(usize::try_from(step).ok()?));
            steps.push(step);
        }
        indices.sort_unstable();
        indices.dedup();
        let step = match steps.as_slice() {
            [step] => *step,
            _ => 1,
        };
        Some(Self {
            text: text.to_owned(),
            indices,
            at_once,
            step,
        })
    }

    /// The variables that Slurm sets for each task. A task that is submitted again is in a smaller array, but its script may
    /// divide the work by these numbers.
    pub fn variables(&self) -> Option<String> {
        let (first, last) = (self.indices.first()?, self.indices.last()?);
        let (count, step) = (self.indices.len(), self.step);
        Some(format!(
            "SLURM_ARRAY_TASK_COUNT={count} SLURM_ARRAY_TASK_MIN={first} SLURM_ARRAY_TASK_MAX={last} SLURM_ARRAY_TASK_STEP={step}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_sbatch_reads_them() {
        for (text, indices, at_once, told) in [
            (
                "0-5%2",
                vec![0, 1, 2, 3, 4, 5],
                Some(2),
                "COUNT=6 MIN=0 MAX=5 STEP=1",
            ),
            ("1,3-4,3", vec![1, 3, 4], None, "COUNT=3 MIN=1 MAX=4 STEP=1"),
            ("0-9:4", vec![0, 4, 8], None, "COUNT=3 MIN=0 MAX=8 STEP=4"),
            ("7", vec![7], None, "COUNT=1 MIN=7 MAX=7 STEP=1"),
        ] {
            let list = TaskList::read(text).unwrap();
            assert_eq!((&list.indices, list.at_once), (&indices, at_once), "{text}");
            let variables = list.variables().unwrap();
            assert_eq!(variables.replace("SLURM_ARRAY_TASK_", ""), told, "{text}");
        }
        for text in [
            "",
            "a",
            "1-",
            "5-1",
            "1%0",
            "1%",
            "0-9:0",
            "+1",
            "0-4294967295",
            "1,,2",
        ] {
            assert_eq!(TaskList::read(text), None, "{text}");
        }
    }
}
