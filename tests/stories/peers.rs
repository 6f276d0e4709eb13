//! Six mistakes of the nearest peer, none of which is made here.

use super::place::{Place, at_once};
use super::slurm::Slurm;
use super::weaver;
use oomctl_base::word_list;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];

fn attempts(place: &Place) -> u32 {
    (1..100)
        .take_while(|n| place.has(&format!("argv.{n}")))
        .count()
        .try_into()
        .unwrap()
}

fn number(words: &[String], flag: &str) -> u32 {
    let at = words.iter().position(|w| w == flag).unwrap();
    words[at + 1]
        .parse()
        .unwrap_or_else(|e| panic!("{flag} {}: {e}", words[at + 1]))
}

#[test]
fn no_batch_ever_reaches_0_or_stops_being_whole() {
    at_once(&[1, 2, 3, 6, 7], |threads| {
        let cloth = threads * 4;
        let mut place = weaver::project(&format!(
            "knobs: {{ threads: {threads}, cloth: {cloth} }}\nlimits: {{ attempts: 30 }}"
        ));
        place.set("WEAVER", "fits 0");
        let done = place.run(&WATCH).ends(3);
        for attempt in 1..=attempts(&place) {
            let words = weaver::words(&place, attempt);
            let (threads, cloth) = (number(&words, "--threads"), number(&words, "--cloth"));
            let row = threads * number(&words, "--bundles");
            assert!(threads >= 1 && cloth >= 1, "{words:?}");
            assert_eq!(cloth % row, 0, "{words:?}\n{}", done.told());
        }
    });
}

#[test]
fn an_effective_batch_is_kept_where_the_stack_can_and_otherwise_its_loss_is_said() {
    let mut place = weaver::project("");
    place.set("WEAVER", "fits 1");
    place.run(&WATCH).ends(0);
    for attempt in 1..=attempts(&place) {
        let words = weaver::words(&place, attempt);
        assert_eq!(
            number(&words, "--threads") * number(&words, "--bundles"),
            8,
            "{words:?}"
        );
        assert_eq!(number(&words, "--cloth"), 64);
    }
    let mut place = weaver::project("ladder: [narrow]");
    place.set("WEAVER", "fits 1");
    let done = place.run(&WATCH).ends(3);
    done.says(&["narrow", "changes training"]);
    assert!(
        done.err.contains("changes training"),
        "it is said when it happens: {}",
        done.told()
    );
    // A script that cannot accumulate.
    place.write(
        "torchrun.yaml",
        "preset: torchrun\nknobs: { script: train.py, batch_size: 8 }\n",
    );
    let done = place
        .run(&["plan", "--all", "--config", "torchrun.yaml"])
        .ends(0);
    done.says(&["without gradient accumulation, this also halves the effective batch, now 4"]);
    let done = place
        .run("plan --all --config torchrun.yaml --set gradient_accumulation_steps=2")
        .ends(0);
    done.says(&["the effective batch stays 16"]);
}

#[test]
fn both_logs_are_read_whichever_holds_the_oom() {
    const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.";
    for (to, other) in [("2", "1"), ("1", "2")] {
        let place = weaver::project("");
        let trainer = format!(
            "echo chatter >&{other}\nif [ $OOMCTL_ATTEMPT = 1 ]; then echo '{OOM}' >&{to}; exit 1; fi\n"
        );
        place.write("trainer.sh", &trainer);
        let done = place.run(&WATCH).ends(0);
        done.says(&[
            "thin",
            if to == "2" {
                "slurm.err:"
            } else {
                "slurm.out:"
            },
        ]);
    }
}

#[test]
fn a_host_oom_is_never_answered_with_the_remedy_for_the_gpu() {
    let mut place = weaver::project("");
    place.set("WEAVER", "host_oom");
    let done = place.run(&WATCH).ends(1);
    assert_eq!(attempts(&place), 1, "{}", done.told());
    done.says(&["host memory"]);
    assert!(!done.err.contains("climb"), "{}", done.told());
    // The same words from Slurm alone, with nothing in the log.
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    slurm.tell("state.1", "OUT_OF_MEMORY 0:125\n");
    place.says("submit --watch", 1, &["OUT_OF_MEMORY"]);
    assert_eq!(slurm.accepted(), [1]);
}

#[test]
fn a_crash_between_decision_and_submission_halves_once_and_submits_once() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    // Killed inside sbatch, before it accepts the second attempt: the decision is on disk, the job is not there.
    slurm.tell("before.2", "");
    let mut watch = place.start(&["submit", "--watch"]);
    slurm.tell("victim", &watch.pid().to_string());
    watch.child.wait().unwrap();
    place.run(&["watch", "weaver-1"]);
    let threads: Vec<u32> = (1..=attempts(&place))
        .map(|a| number(&weaver::words(&place, a), "--threads"))
        .collect();
    assert_eq!(threads, [8, 4, 2]);
    assert_eq!(slurm.accepted(), [1, 2, 3]);
}

#[test]
fn a_refused_resubmission_changes_nothing_of_the_users_configuration() {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    place.run(&["submit"]).ends(0);
    let files =
        word_list::<4>("oomctl.yaml presets/weaver.yaml templates/weaver/job.sbatch.j2 trainer.sh");
    let before: Vec<String> = files.iter().map(|f| place.read(f)).collect();
    let first = place.read(".oomctl/runs/weaver-1/attempt-1/job.sbatch");
    slurm.tell(
        "refuse",
        "sbatch: error: Batch job submission failed: Invalid qos specification\n",
    );
    let done = place.run(&["watch", "weaver-1"]).ends(4);
    done.says(&["thin", "Invalid qos specification"]);
    assert_eq!(
        files.iter().map(|f| place.read(f)).collect::<Vec<_>>(),
        before
    );
    assert_eq!(
        place.read(".oomctl/runs/weaver-1/attempt-1/job.sbatch"),
        first
    );
    slurm.forget("refuse");
    place.run(&["submit", "--run", "again", "--fresh"]).ends(0);
    assert_eq!(
        number(&weaver::words(&place, 1), "--threads"),
        8,
        "it starts where the user left it"
    );
}
