//! The example `data-parallel`: one process on four GPUs dies on the first; with a script for torchrun that is named,
//! and without one.

use oomctl_base::{table, word_list};
use std::net::TcpListener;
use std::path::Path;

use super::place::{Done, Place};

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];

fn example() -> Place {
    let mut place = Place::bare();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data-parallel");
    place.copy_project(&from);
    place.set("SIM_STEP_S", "0.01");
    place
}

fn watched(place: &Place, more: &[&str]) -> Done {
    let words: Vec<&str> = WATCH.iter().chain(more).copied().collect();
    place.run(&words).ends(0)
}

fn log(place: &Place, attempt: u32) -> String {
    place.read(&format!(
        ".oomctl/runs/data-parallel-1/attempt-{attempt}/slurm.out"
    ))
}

#[test]
fn the_named_script_for_torchrun_is_taken_with_the_programs_arguments_and_fits() {
    let place = example();
    // The port that everybody takes first is held by somebody else, this test or another program.
    let _held = TcpListener::bind(("0.0.0.0", 29_500));
    let done = watched(&place, &[]);
    done.says(&[
        "GPU 0 ran out of memory in forward",
        "why        one process drives all GPUs (run_experiment.py:11:13, nn.DataParallel). It gathers their outputs on the first",
        "only the first holds replica outputs",
        "in the script: use DistributedDataParallel under torchrun",
        "climb      distributed: one process a GPU",
        "the effective batch stays 32, 8 a GPU",
        "succeeded",
    ]);
    let told = log(&place, 2);
    assert!(told.contains("simulated torchrun: 4 processes"), "{told}");
    assert!(!told.contains("at port 29500"), "{told}");
    let experiment = "simulated trainer: run_experiment_ddp.py sst2 entropy gpt2-medium 8 shots";
    assert_eq!(told.matches(experiment).count(), 4, "{told}");
}

#[test]
fn without_a_script_for_torchrun_the_outputs_are_gathered_elsewhere_and_then_the_batch_is_halved() {
    let place = example();
    let done = watched(&place, &["--set", "ddp_script=null"]);
    done.says(&[
        "climb      output-device: gather the outputs on the last GPU",
        "GPU 3 ran out of memory in forward",
        "batch_size  32 -> 16",
        "succeeded",
    ]);
    assert!(!done.err.contains("climb      distributed"), "{}", done.err);
    assert!(log(&place, 3).contains("simulated trainer: run_experiment.py"));
}

#[test]
fn why_the_first_gpu_is_full_and_what_helps_in_the_script_is_said_wherever_one_asks() {
    let place = example();
    let before = place.read("run_experiment.py");
    watched(&place, &[]);
    assert_eq!(place.read("run_experiment.py"), before);
    let helps = "use DistributedDataParallel under torchrun";
    let told = place.run(&["diagnose", "data-parallel-1"]).ends(0);
    told.says(&[
        "why        one process drives all GPUs",
        helps,
        "torchrun around a script that uses DataParallel",
    ]);
    let after = ["plan", "--after", "logs/slurm-1.err"];
    place.says(&after, 0, &["distributed", "why        one process", helps]);
    let json = place.json("diagnose --json logs/slurm-1.err");
    assert_eq!(json["files"][0]["data_parallel"], true);
}

/// An attempt on the same GPUs comes first: whoever holds the memory may have gone. It is one, for only a difference of figures
/// says that somebody does.
#[test]
fn a_gpu_on_which_somebody_else_holds_memory_is_left_out_in_the_end() {
    let mut place = example();
    place.set("SIM_FOREIGN_GIB", "4");
    let words = ["ddp_script=null", "output_device=null", "batch_size=16"];
    let words = words.map(|word| ["--set", word]);
    let done = watched(&place, words.as_flattened());
    done.says(&[
        "climb      leave-out-gpu",
        "left_out  [] -> [0]",
        "succeeded",
    ]);
    assert_eq!(
        done.err
            .matches("again      the same configuration")
            .count(),
        1
    );
    assert!(log(&place, 3).contains("step 3/3"));
}

#[test]
fn the_plan_has_the_remedies_in_the_order_of_their_worth() {
    let place = example();
    let order = |more: &[&str]| {
        let words: Vec<&str> = ["plan", "--all"].iter().chain(more).copied().collect();
        let told = place.run(&words).ends(0).out;
        let names =
            word_list::<5>("distributed output-device halve-batch shorter-prompts half-precision");
        let taken = told.split("Not used:").next().unwrap().to_owned();
        let at = |name: &'static str| Some((taken.find(&format!("       {name}: "))?, name));
        let mut found: Vec<_> = names.into_iter().filter_map(at).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    // With a replica a GPU the optimizer's step is fullest at the end: shorter prompts free nothing there. Half precision needs
    // more, for its states lie beside full ones.
    assert_eq!(order(&[]), ["distributed", "halve-batch"]);
    let without = order(&["--set", "ddp_script=null"]);
    assert_eq!(without, ["output-device", "halve-batch", "shorter-prompts"]);
}

#[test]
fn every_rung_of_the_preset_is_described() {
    let preset = include_str!("../../presets/data-parallel.yaml");
    let page = include_str!("../../docs/data-parallel.md");
    let rungs = preset.lines().filter_map(|l| l.strip_prefix("  - rung: "));
    let rungs: Vec<&str> = rungs.collect();
    assert!(rungs.len() > 5, "{rungs:?}");
    for rung in rungs {
        assert!(page.contains(&format!("`{rung}`")), "{rung}");
    }
}

#[test]
fn torchrun_around_the_script_with_data_parallel_and_gpus_that_are_not_there_are_refused() {
    let place = example();
    place
        .run("submit --dry-run --set ddp_script=run_experiment.py")
        .ends(5)
        .says(&["starts it once for each GPU"]);
    for [set, said] in table::<2, 4>(
        "
        left_out=0,7 | left_out names places that are not among 4 GPUs
        left_out=0,1,2,3 | 4 of 4 GPUs are left out
        output_device=4 | output_device 4 is not one of 4 visible GPUs
        ddp=true | no script for it is named
        ",
    ) {
        let unset = [
            "submit",
            "--dry-run",
            "--set",
            "ddp_script=null",
            "--set",
            set,
        ];
        place.says(&unset, 5, &[said]);
    }
}

#[test]
fn a_gpu_that_is_left_out_is_taken_from_the_list_of_the_job() {
    let mut place = example();
    place.set("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d");
    place.write(
        "run_experiment.py",
        "import os\nprint('sees', os.environ['CUDA_VISIBLE_DEVICES'])\n",
    );
    watched(&place, &["--set", "left_out=0,2"]);
    assert!(
        log(&place, 1).contains("sees GPU-b,GPU-d"),
        "{}",
        log(&place, 1)
    );
}
