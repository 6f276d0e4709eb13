//! `oomctl init` with answers: asked on a terminal, or given by flags.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::gpus::{h100, seeing, terminal};
use super::nvml::Gpus;
use super::place::{PATIENCE, Place};
use oomctl_base::word_list;

/// A program that asks, and the terminal on which it does.
pub struct TerminalDialog {
    pub child: Child,
    screen: File,
    seen: String,
}

impl TerminalDialog {
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        let (ours, theirs) = terminal();
        // Ctrl-C ends it even where whoever runs the tests ignores it, as a shell's background jobs do.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(env!("CARGO_BIN_EXE_oomctl"))
            .args(arguments);
        place.at_home(&mut command);
        command
            .env("NO_COLOR", "1")
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        Self {
            child: command.spawn().unwrap(),
            screen: File::from(ours),
            seen: String::new(),
        }
    }

    /// Reads on until these words were seen.
    #[track_caller]
    pub fn until(&mut self, words: &str) {
        let mut bytes = [0; 4096];
        while !self.seen.contains(words) {
            let mut wait = [PollFd::new(&self.screen, PollFlags::IN)];
            let patience = Timespec::try_from(PATIENCE).unwrap();
            let told = poll(&mut wait, Some(&patience)).unwrap();
            // A terminal whose programs have all ended answers with an error.
            let read = if told > 0 {
                self.screen.read(&mut bytes)
            } else {
                Ok(0)
            };
            let Ok(n @ 1..) = read else {
                drop(self.child.kill());
                panic!("{words:?} is not in {:?}", self.seen)
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    }

    /// Waits for a question, and answers it. What was seen before is forgotten.
    #[track_caller]
    pub fn answer(&mut self, question: &str, answer: &str) -> String {
        self.until(question);
        let seen = std::mem::take(&mut self.seen);
        writeln!(self.screen, "{answer}").unwrap();
        seen
    }

    #[track_caller]
    pub fn ends(mut self, word: &str, code: i32) {
        // A terminal that nobody reads may keep its program waiting.
        self.until(word);
        assert_eq!(
            self.child.wait().unwrap().code(),
            Some(code),
            "{}",
            self.seen
        );
    }
}

/// The folder of the example without its project file, on a machine with one GPU of 80 GB.
fn checkout(gpus: &Gpus) -> Place {
    let place = seeing(gpus);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/swarm");
    let file = "rgym_exp/config/rg-swarm.yaml";
    place.write(file, &std::fs::read_to_string(example.join(file)).unwrap());
    place
}

const QWEN: &str = "Qwen/Qwen2.5-0.5B-Instruct";

#[test]
fn the_answers_become_a_project_file_with_computed_defaults() {
    let gpus = Gpus::new(&[&h100("GPU-a", 8_156, "")]);
    let place = checkout(&gpus);
    let mut asking = TerminalDialog::start(&place, &["init", "--interactive"]);
    // The preset whose file lies here is the default.
    let seen = asking.answer("preset [rl-swarm]: ", "");
    assert!(
        seen.contains("GPU 0  NVIDIA H100 80GB HBM3  71.7 of 79.6 GiB free"),
        "{seen}"
    );
    asking.answer("gpu_memory [81559MiB]: ", "");
    asking.answer("fp16 [false]: ", "maybe");
    let seen = asking.answer("fp16 [false]: ", "true");
    assert!(
        seen.contains("expected true or false, got `maybe`"),
        "{seen}"
    );
    // A round of 64 answers has room for 4 forwards of 16.
    asking.until("minibatch_size [16]: ");
    let told = regex::Regex::new(r"memory model: minibatch_size (\d+) at most").unwrap();
    let model: u32 = told.captures(&asking.seen).unwrap()[1].parse().unwrap();
    assert!(model >= 16, "{model}");
    asking.answer("minibatch_size [16]: ", "17");
    let seen = asking.answer("minibatch_size [16]: ", "8");
    assert!(
        seen.contains("4 forwards of 17 answers are more than a round has (64)"),
        "{seen}"
    );
    let seen = asking.answer("write this? [Y/n]: ", "");
    asking.answer("(status, logs, report)? [y/N]: ", "");
    assert!(seen.contains("  minibatch_size: 8\r\n"), "{seen}");
    asking.ends("next: ", 0);
    let text = place.read("oomctl.yaml");
    let values =
        "preset: rl-swarm\n\nknobs:\n  gpu_memory: '81559MiB'\n  fp16: true\n  minibatch_size: 8\n";
    assert!(text.ends_with(values), "{text}");
    place.run(&["plan"]).ends(0);
    // The model's own answer fits, and one more does not.
    let fits = |batch: u32| {
        let batch = format!("minibatch_size={batch}");
        let given = ["gradient_accumulation_steps=1", &batch];
        let mut words = vec!["estimate", "--json"];
        words.extend(given.iter().flat_map(|g| ["--set", g]));
        let estimate = place.json(&words);
        estimate["fits_probability"].as_f64().unwrap() >= 0.9
    };
    assert!(fits(model) && !fits(model + 1), "{model}");
}

#[test]
fn who_stops_answering_leaves_nothing_and_a_file_is_not_replaced_unasked() {
    let gpus = Gpus::new(&[&h100("GPU-a", 8_156, "")]);
    let place = checkout(&gpus);
    let given = word_list::<6>("init --interactive --preset rl-swarm --set gpu_memory=24GiB");
    // The end of the input.
    let mut asking = TerminalDialog::start(&place, &given);
    asking.until("fp16 [false]: ");
    asking.screen.write_all(b"\x04").unwrap();
    asking.ends("nothing was written", 2);
    // Ctrl-C.
    let mut asking = TerminalDialog::start(&place, &given);
    asking.until("fp16 [false]: ");
    let pid = rustix::process::Pid::from_child(&asking.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(!asking.child.wait().unwrap().success());
    let names = std::fs::read_dir(&place.root)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["rgym_exp"]);
    // A file that is there stays when the last answer is no.
    place.write("oomctl.yaml", "preset: torchrun\n");
    let mut asking = TerminalDialog::start(&place, &given);
    asking.answer("fp16 [false]: ", "");
    asking.answer("minibatch_size [", "16");
    asking.answer("already exists; replace it with this? [y/N]: ", "");
    asking.ends("nothing was written", 0);
    assert_eq!(place.read("oomctl.yaml"), "preset: torchrun\n");
}

#[test]
fn a_batch_that_must_be_given_is_computed_from_the_model() {
    let gpus = Gpus::new(&[&h100("GPU-a", 8_156, "")]);
    let place = seeing(&gpus);
    let mut asking = TerminalDialog::start(
        &place,
        &word_list::<6>("init --interactive --set max_seq_len=512 --preset torchrun"),
    );
    asking.answer("gpu_memory [81559MiB]: ", "");
    asking.answer("script (Enter: fill it in later): ", "train.py");
    asking.answer("model.path: ", QWEN);
    asking.answer("Adam's states in fp32\r\nprecision [fp32]: ", "amp");
    let told =
        regex::Regex::new(r"memory model: batch_size (\d+) at most[\s\S]*batch_size \[(\d+)\]: ")
            .unwrap();
    asking.until("batch_size [");
    asking.until("]: ");
    let found = told.captures(&asking.seen).expect(&asking.seen);
    assert_eq!(found[1], found[2]);
    let batch = found[1].to_owned();
    asking.answer("batch_size [", "");
    asking.answer("write this? [Y/n]: ", "");
    asking.answer("(status, logs, report)? [y/N]: ", "");
    asking.ends("next: ", 0);
    assert!(
        place
            .read("oomctl.yaml")
            .contains(&format!("  batch_size: {batch}\n"))
    );
}

#[test]
fn without_a_terminal_the_answers_are_flags() {
    let gpus = Gpus::new(&[]);
    let place = checkout(&gpus);
    let mut command = place.command(&["init", "--interactive"]);
    let done = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{told}");
    assert!(
        told.contains(
            "drop --interactive, or give the answers: `oomctl init --preset NAME --set KNOB=VALUE`"
        ),
        "{told}"
    );
    let words = [
        "init",
        "--preset",
        "rl-swarm",
        "--set",
        "fp16=true",
        "--set",
        "launcher=[python3, 'a: b']",
    ];
    place.run(&words).ends(0);
    let text = place.read("oomctl.yaml");
    assert!(
        text.ends_with("knobs:\n  fp16: true\n  launcher: [python3, 'a: b']\n"),
        "{text}"
    );
    place.run(&["plan"]).ends(0);
    // What would not be legal is not written, and what is there is not replaced unasked.
    place
        .run("init --force --preset rl-swarm --set gradient_accumulation_steps=8")
        .ends(5)
        .says(&["8 forwards of 16 answers"]);
    place.says(&words, 5, &["already exists", "--force"]);
    assert_eq!(place.read("oomctl.yaml"), text);
}

/// Ctrl-C at a question ends the program; what was answered before is not asked again.
#[test]
fn enter_leaves_a_value_for_later_and_answers_survive_ctrl_c() {
    let gpus = Gpus::new(&[&h100("GPU-a", 8_156, "")]);
    let place = seeing(&gpus);
    let words = ["init", "--interactive"];
    let mut asking = TerminalDialog::start(&place, &words);
    asking.answer("preset [", "torchrum");
    let seen = asking.answer("preset [", "trl");
    assert!(seen.contains("did you mean torchrun?"), "{seen}");
    let seen = asking.answer("preset [", "torchrun");
    assert!(
        seen.contains("oomctl writes no job script for trl"),
        "{seen}"
    );
    asking.answer("gpu_memory [81559MiB]: ", "24 parsecs");
    asking.answer("gpu_memory [81559MiB]: ", "24GiB");
    asking.answer("script (Enter: fill it in later): ", "");
    asking.until("model.path: ");
    let pid = rustix::process::Pid::from_child(&asking.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(!asking.child.wait().unwrap().success());
    assert!(!place.has("oomctl.yaml"));
    let mut asking = TerminalDialog::start(&place, &words);
    asking.until("earlier answers: preset torchrun gpu_memory=24GiB");
    asking.answer("script (Enter: fill it in later): ", "");
    asking.answer("model.path: ", "");
    asking.answer("write this? [Y/n]: ", "");
    asking.answer("(status, logs, report)? [y/N]: ", "");
    asking.ends("replace each FILL_IN (2 in all)", 0);
    let file = place.read("oomctl.yaml");
    for line in [
        "  gpu_memory: '24GiB'\n",
        "  script: FILL_IN  # required",
        "  batch_size: FILL_IN  # required",
    ] {
        assert!(file.contains(line), "{line}\n{file}");
    }
    assert!(!place.has(".oomctl/init-answers.json"));
}

#[test]
fn for_a_program_a_job_script_is_offered_and_what_only_estimates_need_is_not_asked() {
    let place = Place::bare();
    place.write("train.py", "");
    let offered = "job.sbatch: write this job script, and ask nothing more? [Y/n]: ";
    let mut asking = TerminalDialog::start(&place, &["init", "--interactive"]);
    asking.answer(offered, "n");
    asking.answer("preset [torchrun]: ", "");
    asking.answer("gpu_memory: ", "");
    let seen = asking.answer("batch_size [1]: ", "");
    assert!(
        !seen.contains("estimates") && !seen.contains("memory model"),
        "{seen}"
    );
    asking.answer("write this? [Y/n]: ", "n");
    asking.ends("nothing was written", 0);
    place.shell("rm -rf .oomctl").ends(0);
    let mut asking = TerminalDialog::start(&place, &["init", "--interactive"]);
    asking.answer(offered, "");
    asking.answer("(status, logs, report)? [y/N]: ", "");
    asking.ends("next: `oomctl plan job.sbatch`", 0);
    assert!(!place.has("oomctl.yaml"));
}
