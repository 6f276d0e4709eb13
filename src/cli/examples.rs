//! Examples at the end of a command's help.

use clap::Command;

/// The commands that show their examples themselves, beside other text, are not here.
const EXAMPLES: [(&str, &str); 23] = [
    (
        "submit",
        "oomctl submit -n my_job.slurm               show what would be submitted, and the changes
oomctl submit -w my_job.slurm --lr 1e-6     submit, follow, resubmit smaller
oomctl submit -w --same-math my_job.slurm   the same, without changes of training
oomctl submit -w --dataset gsm8k            the job of oomctl.yaml",
    ),
    (
        "watch",
        "oomctl watch                      go on with the newest run
oomctl watch 4711                 a job that plain sbatch submitted
oomctl watch --watch-only 4711    the same, and submit nothing",
    ),
    (
        "retry",
        "oomctl retry -w grpo-1            go on where the run ended, and follow it
oomctl retry --as-submitted       the newest run, with its script as it was",
    ),
    (
        "status",
        "oomctl status                     every run, and the newest in full
oomctl status grpo-1              the attempts of one run
oomctl status -o run,state,job    for a script",
    ),
    (
        "logs",
        "oomctl logs -f                    follow the newest run, through all attempts
oomctl logs --err grpo-1          standard error alone
oomctl logs --attempt 2 4711      the second attempt of the run with this job",
    ),
    (
        "history",
        "oomctl history --since 7d --state failed    what failed this week
oomctl history --summary ~/projects         causes, GPU-hours lost, what helped",
    ),
    (
        "report",
        "oomctl report grpo-1              write a page about a run
oomctl report --to report.md      of the newest run, as Markdown",
    ),
    (
        "cancel",
        "oomctl cancel grpo-1              end the run and its job
oomctl cancel -y 4711 4712        the runs of these jobs, without a question",
    ),
    (
        "prune",
        "oomctl prune -n                   show which runs would be removed
oomctl prune -y --older-than 90d --state failed",
    ),
    (
        "diagnose",
        "oomctl diagnose slurm-4711.err    why did this job die?
oomctl diagnose 4711              find its logs and read them
kubectl logs pod | oomctl diagnose -",
    ),
    (
        "render",
        "oomctl render --dataset gsm8k     print the files of the first attempt
oomctl render --to out            write them into a folder",
    ),
    (
        "estimate",
        "oomctl estimate my_job.slurm      what the script leaves open, or the memory by phase
oomctl estimate --set max_seq_len=4096 --set gpu_memory=79.18GiB my_job.slurm",
    ),
    (
        "plan",
        "oomctl plan my_job.slurm                        the changes after each out-of-memory
oomctl plan --all my_job.slurm                  with diffs and reasons
oomctl plan --after slurm-4711.err my_job.slurm what would follow this failure",
    ),
    (
        "sweep",
        "oomctl sweep check sweep.yaml                   which cells cannot fit?
oomctl sweep fix -o fits.yaml sweep.yaml        the sweep without them
oomctl sweep submit -w sweep.yaml               submit the cells that can fit",
    ),
    (
        "tune",
        "oomctl tune grpo-1                the fastest configuration that still fits
oomctl tune --probe-steps 3       find it with short jobs",
    ),
    (
        "explain",
        "oomctl explain                    every knob that is not at its default
oomctl explain save_freq          where this value comes from
oomctl explain --run grpo-1 save_freq    the value in a run, rungs included",
    ),
    (
        "presets",
        "oomctl presets                    what oomctl knows
oomctl presets trl                the text of a preset",
    ),
    (
        "gpus",
        "oomctl gpus                       what each GPU holds, and for whom
oomctl gpus --watch               the same, every 2 seconds
oomctl gpus --wait 40GiB          wait until one is free",
    ),
    (
        "probe",
        "oomctl probe --dir .oomctl/runs/grpo-1/attempt-1    what a job script calls",
    ),
    (
        "init",
        "oomctl init                       look around, write a job script or oomctl.yaml
oomctl init first-job             a small job that runs, in a new folder
oomctl init --cluster             a cluster profile from sinfo",
    ),
    (
        "doctor",
        "oomctl doctor                     check Slurm, GPUs, storage and notices
oomctl doctor --deadline 60s      on a slow cluster",
    ),
    (
        "completions",
        "oomctl completions bash > ~/.local/share/bash-completion/completions/oomctl
oomctl completions zsh > ~/.zfunc/_oomctl",
    ),
    ("man", "oomctl man --out ~/.local/share/man/man1"),
];

/// With more options than these the short help is a screen already, and only `--help` has the examples.
const MOST_OPTIONS: usize = 9;

/// The command line whose commands show their examples.
pub fn added(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |all, (name, lines)| {
        all.mut_subcommand(name, |command| {
            let shown = command
                .get_arguments()
                .filter(|a| !a.is_hide_short_help_set());
            let is_short = shown.count() <= MOST_OPTIONS;
            let lines: Vec<String> = lines.lines().map(|line| format!("  {line}")).collect();
            let text = format!("Examples:\n{}", lines.join("\n"));
            match is_short {
                true => command.after_help(text),
                false => command.after_long_help(text),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::cli::command;

    /// The words of an example, up to what explains it or redirects it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (vec![String::new()], false);
        let mut letters = line.trim().chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if quoted => words.last_mut().unwrap().push(' '),
                ' ' if letters.peek() == Some(&' ') => break,
                ' ' => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        let from = words.iter().position(|w| w == "oomctl").unwrap_or(0);
        let ends = |w: &String| w == "<" || w == ">" || w == "|";
        words
            .into_iter()
            .skip(from)
            .take_while(|w| !ends(w))
            .collect()
    }

    #[test]
    fn every_command_has_examples_and_each_is_one_that_it_takes() {
        let all = command();
        for below in all.get_subcommands() {
            let name = below.get_name();
            let help = below.clone().render_long_help().to_string();
            let (_, examples) = help.split_once("\nExamples:\n").expect(name);
            let lines = examples.lines().take_while(|line| line.starts_with("  "));
            let lines: Vec<&str> = lines.collect();
            assert!((1..=4).contains(&lines.len()), "{name}: {lines:?}");
            for line in lines {
                assert!(line.chars().count() <= 100, "{line}");
                let words = words(line);
                assert_eq!(words.get(1).map(String::as_str), Some(name), "{line}");
                let parsed = command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
            let short = below.clone().render_help().to_string();
            assert!(short.lines().count() <= 34, "{name}: {short}");
        }
    }
}
