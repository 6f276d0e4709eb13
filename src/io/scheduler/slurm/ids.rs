//! Slurm's ways of saying which job: `4711`, a task of an array `4711_3`, the tasks of an array that still wait,
//! as one record, `4711_[3-9,12%2]`, a component of a heterogeneous job `4711+1` (sbatch(1), squeue(1)).
//!
//! Rule: a text is read whole or not at all.

/// What a job id names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedJob {
    /// The number that everything else hangs on: of the job, the array, or the first component.
    pub number: u32,
    /// Which part of it.
    pub part: JobIdPart,
}

/// Which part of a job an id names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobIdPart {
    /// A job by itself, or all of an array.
    Whole,
    /// One task of an array.
    Task(u32),
    /// Tasks of an array that wait, in one record.
    Waiting(TaskRanges),
    /// A component of a heterogeneous job.
    Component(u32),
}

/// Tasks of an array, as ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRanges {
    /// First, last, step.
    ranges: Vec<(u32, u32, u32)>,
    /// The list was cut off by the command that printed it (`1,3,5...`): it may name any task.
    cut: bool,
}

impl TaskRanges {
    /// Could this task be one of them?
    pub fn may_hold(&self, task: u32) -> bool {
        let holds = |(first, last, step): &(u32, u32, u32)| {
            (*first..=*last).contains(&task) && (task - first).is_multiple_of(*step)
        };
        self.cut || self.ranges.iter().any(holds)
    }

    /// Those that are named.
    pub fn named(&self) -> impl Iterator<Item = u32> {
        let ranges = self.ranges.iter().copied();
        ranges.flat_map(|(first, last, step)| (first..=last).step_by(step as usize))
    }
}

impl NamedJob {
    /// Reads an id. `None` for anything else, steps (`4711.batch`) included.
    pub fn read(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit());
        let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
        let number = number(digits)?;
        let part = match rest.split_at_checked(1) {
            None => JobIdPart::Whole,
            Some(("+", component)) => JobIdPart::Component(self::number(component)?),
            Some(("_", task)) => match self::number(task) {
                Some(task) => JobIdPart::Task(task),
                None => JobIdPart::Waiting(tasks(task)?),
            },
            Some(_) => return None,
        };
        Some(Self { number, part })
    }

    /// Can it name several tasks: is it the id of an array, as far as one can see, or a list of its tasks?
    pub fn is_many(&self) -> bool {
        matches!(self.part, JobIdPart::Whole | JobIdPart::Waiting(_))
    }

    /// The id of an array, or a list of its tasks: is the other one of these?
    pub fn has_task(&self, other: &Self) -> bool {
        let whole = self.part == JobIdPart::Whole && matches!(other.part, JobIdPart::Task(_));
        whole && self.number == other.number || self.stands_for(other)
    }

    /// Is this the record of several waiting tasks, of which the other may be one?
    pub fn stands_for(&self, other: &Self) -> bool {
        match (&self.part, &other.part) {
            (JobIdPart::Waiting(tasks), JobIdPart::Task(task)) => {
                self.number == other.number && tasks.may_hold(*task)
            }
            _ => false,
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// `3-9,12`, `0-15:4`, with what may run at a time behind (`%2`), in brackets (squeue, sacct) or not (scontrol).
fn tasks(text: &str) -> Option<TaskRanges> {
    let inner = match text.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None => text,
    };
    let list = match inner.split_once('%') {
        Some((list, at_once)) => {
            number(at_once)?;
            list
        }
        None => inner,
    };
    let whole = list.strip_suffix("...");
    let mut ranges = Vec::new();
    for range in whole.unwrap_or(list).split(',').filter(|r| !r.is_empty()) {
        let (bounds, step) = match range.split_once(':') {
            Some((bounds, step)) => (bounds, number(step).filter(|step| *step > 0)?),
            None => (range, 1),
        };
        let (first, last) = bounds.split_once('-').unwrap_or((bounds, bounds));
        match (number(first), number(last)) {
            (Some(first), Some(last)) => ranges.push((first, last, step)),
            // The cut may go through a range.
            _ if whole.is_some() => {}
            _ => return None,
        }
    }
    let cut = whole.is_some();
    (cut || !ranges.is_empty()).then_some(TaskRanges { ranges, cut })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> NamedJob {
        NamedJob::read(text).unwrap_or_else(|| panic!("{text:?} is not read"))
    }

    #[test]
    fn one_record_stands_for_the_tasks_that_wait() {
        // As squeue without -r, sacct and scontrol of 22.05 print them.
        for (text, of, not) in [
            ("4711_[3-9]", [3, 9], [2, 10]),
            ("4711_[3-6%2]", [3, 6], [2, 7]),
            ("4711_3-9%2", [3, 9], [2, 10]),
            ("4711_[1,5-7]", [1, 6], [2, 4]),
            ("4711_[0-12:4]", [0, 8], [2, 13]),
        ] {
            for task in of {
                assert!(
                    read(text).stands_for(&read(&format!("4711_{task}"))),
                    "{text} {task}"
                );
            }
            for task in not {
                assert!(
                    !read(text).stands_for(&read(&format!("4711_{task}"))),
                    "{text} {task}"
                );
            }
            assert!(!read(text).stands_for(&read("4712_3")));
        }
        // A list that was cut names none of the others, so it excludes none.
        for cut in ["4711_[1,3,5...]", "4711_[1,3,5,...]", "4711_[1,3-...]"] {
            assert!(read(cut).stands_for(&read("4711_99")), "{cut}");
        }
    }

    #[test]
    fn an_array_has_its_tasks_and_no_others() {
        let task = read("4711_3");
        for array in ["4711", "4711_[3-9]"] {
            assert!(read(array).has_task(&task), "{array}");
        }
        for other in ["471", "4711_[4-9]", "4711_3", "4711+3"] {
            assert!(!read(other).has_task(&task), "{other}");
        }
        assert!(!read("4711").has_task(&read("4711")) && !read("4711").has_task(&read("4711+3")));
    }

    #[test]
    fn what_is_no_id_is_not_read() {
        for text in [
            "",
            "_3",
            "+1",
            "4711.batch",
            "4711_",
            "4711+",
            "4711_[]",
            "4711_[3",
            "4711_[3-]",
            "4711_[0-9:0]",
            "4711_3 ",
            " 4711",
            "4711;oomtest",
            "99999999999",
            "-4711",
            "4711_+3",
            "N/A",
            "4711+1_2",
        ] {
            assert_eq!(NamedJob::read(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(job in 1_u32.., index in 0_u32..4_000_001) {
            let whole = read(&job.to_string());
            prop_assert_eq!(&whole, &NamedJob { number: job, part: JobIdPart::Whole });
            let task = read(&format!("{job}_{index}"));
            prop_assert_eq!(&task, &NamedJob { number: job, part: JobIdPart::Task(index) });
            let component = read(&format!("{job}+{index}"));
            prop_assert_eq!(&component, &NamedJob { number: job, part: JobIdPart::Component(index) });
            prop_assert!(!task.stands_for(&task) && !whole.stands_for(&task) && !component.stands_for(&task));
        }

        #[test]
        fn a_list_stands_for_its_tasks_and_no_others(
            job in 1_u32..1_000_000, set in proptest::collection::btree_set(0_u32..200, 1..20), at_once in proptest::option::of(1_u32..9),
        ) {
            let list: Vec<String> = set.iter().map(u32::to_string).collect();
            let behind = at_once.map_or(String::new(), |n| format!("%{n}"));
            let record = read(&format!("{job}_[{}{behind}]", list.join(",")));
            // A list of one without brackets is a task.
            for task in 0..200 {
                let one = read(&format!("{job}_{task}"));
                prop_assert_eq!(record.stands_for(&one), set.contains(&task));
            }
        }

        #[test]
        fn no_text_makes_it_fail(text in "[0-9_+\\[\\]%,:.;-]{0,40}|\\PC{0,20}") {
            let _ = NamedJob::read(&text);
        }
    }
}
