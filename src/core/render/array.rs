//! The script of a job array: a few lines that start the script of the task's own run.

use super::quote::{comment, shell_word};
use oomctl_base::word_list;

/// Options that a submission is given on the command line, which beats the script: `--job-name` and the like.
const GIVEN: [&str; 13] = word_list(
    "--job-name -J --comment --output -o --error -e --chdir -D --array -a --open-mode --export",
);

/// What a script asks of sbatch: its lines with `#SBATCH` before the first command, without those that a submission
/// decides itself.
pub fn directives(script: &str) -> Vec<&str> {
    let before = script
        .lines()
        .take_while(|l| l.trim().is_empty() || l.starts_with('#'));
    let asks = before.filter(|line| {
        let option = line.strip_prefix("#SBATCH").map(str::trim);
        option.is_some_and(|o| !is_given(o))
    });
    asks.collect()
}

/// Does a line say nothing but what a submission decides?
fn is_given(line: &str) -> bool {
    let mut options = line.split_whitespace().filter(|word| word.starts_with('-'));
    let given = |word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        let short = |given: &str| {
            !given.starts_with("--") && !name.starts_with("--") && name.starts_with(given)
        };
        GIVEN.iter().any(|given| name == *given || short(given))
    };
    options.all(given)
}

/// The script of an array whose tasks ask for what `script` does. `folder` has for each task, under its index, a
/// folder with such a script in it, called `name`.
///
/// # Errors
/// A path that cannot be a word of a shell.
pub fn dispatcher(sweep: &str, script: &str, folder: &str, name: &str) -> Result<String, String> {
    let mut text = "#!/bin/bash\n".to_owned();
    for line in directives(script) {
        text.push_str(line);
        text.push('\n');
    }
    let (folder, name) = (shell_word(folder)?, shell_word(name)?);
    let sweep = comment(sweep);
    // One of another interpreter, or with options for it, is started as the kernel does.
    let start = match script.lines().next() {
        Some(first) if first != text.lines().next().unwrap_or_default() => "exec",
        _ => "exec bash",
    };
    text.push_str(&format!(
        "\n# {sweep}: each task is an attempt of a run of its own.\n{start} {folder}/\"$SLURM_ARRAY_TASK_ID\"/{name} \"$@\"\n"
    ));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sbatch_would_not_read_is_not_asked_for_again() {
        let script = "#!/bin/bash\n#SBATCH --mem=4G\n#SBATCH --job-name=a\n#SBATCH -oa.out\n\n# A remark.\n#SBATCH --gres=gpu:1\nset -e\n#SBATCH --mem=9G\n";
        let asked = directives(script);
        assert_eq!(asked, ["#SBATCH --mem=4G", "#SBATCH --gres=gpu:1"]);
        let text = dispatcher("s-1", script, "/a b/array-1", "job.sbatch").unwrap();
        assert_eq!(directives(&text), asked);
        assert!(
            text.ends_with("exec bash '/a b/array-1'/\"$SLURM_ARRAY_TASK_ID\"/job.sbatch \"$@\"\n"),
            "{text}"
        );
        let login = script.replace("#!/bin/bash", "#!/bin/bash -l");
        let text = dispatcher("s-1", &login, "/a", "job.sbatch").unwrap();
        assert!(
            text.ends_with("exec /a/\"$SLURM_ARRAY_TASK_ID\"/job.sbatch \"$@\"\n"),
            "{text}"
        );
    }

    #[test]
    fn a_line_that_asks_for_more_than_a_submission_decides_is_kept() {
        let script = "#!/bin/bash\n#SBATCH --array=0-5%2 --mem=4G\n#SBATCH -J a -o b.out\n";
        assert_eq!(directives(script), ["#SBATCH --array=0-5%2 --mem=4G"]);
    }
}
