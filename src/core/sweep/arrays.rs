//! Cells as tasks of job arrays.

/// Cells by number, in arrays of at most `most` tasks. Those of one array ask for the same (`asks`, what each asks
/// of the scheduler); the order is kept.
pub fn arrays(asks: &[String], most: usize) -> Vec<Vec<usize>> {
    let mut arrays: Vec<Vec<usize>> = Vec::new();
    for (cell, ask) in asks.iter().enumerate() {
        let alike = |array: &&mut Vec<usize>| {
            array.len() < most.max(1) && array.first().is_some_and(|first| asks[*first] == *ask)
        };
        match arrays.iter_mut().find(alike) {
            Some(array) => array.push(cell),
            None => arrays.push(vec![cell]),
        }
    }
    arrays
}

/// How many tasks of each of so many arrays may run at a time, for `at_once` of all: at least one of each.
pub fn share(at_once: usize, arrays: usize) -> usize {
    (at_once / arrays.max(1)).max(1)
}

/// Indices of tasks, in ascending order, as sbatch reads them: `0-3,7`.
pub fn indices(tasks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for task in tasks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*task) => *last = *task,
            _ => ranges.push((*task, *task)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let all: Vec<String> = ranges.iter().map(text).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indices_are_written_as_ranges() {
        assert_eq!(indices(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(indices(&[]), "");
    }

    #[test]
    fn each_array_may_run_one_task_at_least() {
        assert_eq!((share(7, 2), share(1, 3), share(4, 0)), (3, 1, 4));
    }

    proptest! {
        /// Every cell is in one array; none is larger than it may be; all of one ask for the same; and no two could
        /// be one.
        #[test]
        fn every_cell_is_a_task_of_one_array(asks in prop::collection::vec(0_u8..4, 0..60), most in 1_usize..12) {
            let asks: Vec<String> = asks.iter().map(u8::to_string).collect();
            let arrays = arrays(&asks, most);
            let mut cells: Vec<usize> = arrays.iter().flatten().copied().collect();
            cells.sort_unstable();
            prop_assert!(cells.into_iter().eq(0..asks.len()));
            for array in &arrays {
                prop_assert!(array.len() <= most && array.is_sorted());
                prop_assert!(array.iter().all(|c| asks[*c] == asks[array[0]]));
            }
            let open = |ask: &String| arrays.iter().filter(|a| a.len() < most && asks[a[0]] == *ask).count();
            prop_assert!(asks.iter().all(|ask| open(ask) <= 1));
        }

        #[test]
        fn indices_are_read_back(tasks in prop::collection::btree_set(0_u32..40, 0..30)) {
            let tasks: Vec<u32> = tasks.into_iter().collect();
            let text = indices(&tasks);
            let range = |part: &str| {
                let (a, b) = part.split_once('-').unwrap_or((part, part));
                a.parse::<u32>().unwrap()..=b.parse::<u32>().unwrap()
            };
            let read: Vec<u32> = text.split(',').filter(|p| !p.is_empty()).flat_map(range).collect();
            prop_assert_eq!(read, tasks);
        }
    }
}
