//! The script of a job array: a few lines that start the script of the task's own run.

use super::quote::{comment, shell_word};

/// Options that a submission is given on the command line, which beats the script: `--job-name` and the like.
const GIVEN: [&str; 13] = [
    "--job-name",
    "-J",
    "--comment",
    "--output",
    "-o",
    "--error",
    "-e",
    "--chdir",
    "-D",
    "--array",
    "-a",
    "--open-mode",
    "--export",
];

/// What a script asks of sbatch: its lines with `#SBATCH` before the first command, without those that a submission
/// decides itself.
#[must_use]
pub fn directives(script: &str) -> Vec<&str> {
    let before = script
        .lines()
        .take_while(|l| l.is_empty() || l.starts_with('#'));
    let asks = before.filter(|line| {
        let option = line.strip_prefix("#SBATCH").map(str::trim);
        option.is_some_and(|o| !is_given(o))
    });
    asks.collect()
}

fn is_given(option: &str) -> bool {
    let name = option.split(['=', ' ', '\t']).next().unwrap_or(option);
    let short = |given: &str| {
        !given.starts_with("--") && !name.starts_with("--") && name.starts_with(given)
    };
    GIVEN.iter().any(|given| name == *given || short(given))
}

/// The script of an array whose tasks take what `directives` ask for. `folder` has for each task, under its index,
/// a folder with the file `script` in it.
///
/// # Errors
/// A path that cannot be a word of a shell.
pub fn dispatcher(
    sweep: &str,
    directives: &[&str],
    folder: &str,
    script: &str,
) -> Result<String, String> {
    let mut text = "#!/bin/bash\n".to_owned();
    for line in directives {
        text.push_str(line);
        text.push('\n');
    }
    let (folder, script) = (shell_word(folder)?, shell_word(script)?);
    let sweep = comment(sweep);
    text.push_str(&format!(
        "\n# Sweep {sweep}: each task is the first attempt of a run of its own.\nexec bash {folder}/\"$SLURM_ARRAY_TASK_ID\"/{script}\n"
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
        let text = dispatcher("s-1", &asked, "/a b/array-1", "job.sbatch").unwrap();
        assert_eq!(directives(&text), asked);
        assert!(
            text.ends_with("exec bash '/a b/array-1'/\"$SLURM_ARRAY_TASK_ID\"/job.sbatch\n"),
            "{text}"
        );
    }
}
