//! Where a log says that snapshots of memory are.

/// Names of files, and of folders with them, that the lines of a log name as snapshots; the last first.
#[must_use]
pub fn named(log: &[u8]) -> Vec<String> {
    let lines = log.split(|byte| matches!(byte, b'\n' | b'\r'));
    let names = lines.filter_map(|line| name(&String::from_utf8_lossy(line)));
    let mut all: Vec<String> = names.collect();
    all.reverse();
    all.dedup();
    all
}

/// Longest line that is looked at, in bytes.
const LONGEST: usize = 2_000;

fn name(line: &str) -> Option<String> {
    if line.len() > LONGEST || !line.to_ascii_lowercase().contains("mem") {
        return None;
    }
    let quoted = |c: char| matches!(c, '"' | '\'' | '`' | ',' | ';' | '(' | ')');
    let bare = |word: &str| {
        let word = word.trim_matches(quoted).trim_end_matches('.');
        word.rsplit('=')
            .next()
            .unwrap_or(word)
            .trim_matches(quoted)
            .to_owned()
    };
    let file = |word: &String| word.ends_with(".pickle") || word.ends_with(".pkl");
    let mut words = line.split_whitespace().map(bare);
    // Some name the folder before anything lies in it.
    let folder = || {
        line.split_once("napshot will be saved at ")
            .map(|(_, rest)| bare(rest.trim()))
    };
    words.find(file).or_else(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_named_in_the_words_of_those_that_write_them() {
        let log = b"(WorkerDict pid=4) INFO:[memory_visualize] dumped: outputs/profile/oom_20260102-030405-000006/torch_memory_oom_rank0_pid4.pickle\n\
            step 3 loss 2.0\n\
            dumped memory snapshot to ./memory.pickle.\n\
            [rank0]:Memory profiler active. Snapshot will be saved at ./outputs/memory_snapshot\n\
            data read from 'train.pkl'\n";
        assert_eq!(
            named(log),
            [
                "./outputs/memory_snapshot",
                "./memory.pickle",
                "outputs/profile/oom_20260102-030405-000006/torch_memory_oom_rank0_pid4.pickle"
            ]
        );
    }
}
