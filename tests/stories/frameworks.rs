//! Real frameworks on the CPU, with a model of a few thousand weights, in scripts of the user's own (`tests/trainers`). The
//! first ten forwards of an attempt fit; of the later ones those of more than four sequences do not. So the first attempt, of
//! two forwards of eight sequences a step, dies in its sixth step, behind checkpoints of its second and fourth.
//!
//! What is asserted of a batch is what the framework says of it. `tests/frameworks` runs all of these, `tests/all` the
//! quickest; in CI a missing framework fails, elsewhere the story says that it was skipped.

use std::fs;

use super::place::{Place, made_by};

const SAME: &str = "same math";

/// A run of this command, which needs two attempts, and what oomctl says of the second; `None` where the frameworks are not asked for.
fn rescued(command: &str, effect: &str) -> Option<Place> {
    if std::env::var_os("OOMCTL_TEST_FRAMEWORKS").is_none() && std::env::var_os("CI").is_none() {
        eprintln!("skipped: `tests/frameworks` installs the frameworks and runs this");
        return None;
    }
    let setup = "tests/trainers/setup";
    let frameworks = made_by(setup)?;
    let mut place = Place::bare();
    let patient = "supervision: { poll: 1s, poll_max: 1s, drain: 0s, settle: 2s }";
    place.write(
        "oomctl.yaml",
        &format!("backend: local\nlimits: {{ attempts: 3 }}\n{patient}\n"),
    );
    for entry in fs::read_dir("tests/trainers").unwrap() {
        let from = entry.unwrap().path();
        if from.extension().is_some_and(|e| e == "py") {
            fs::copy(
                &from,
                place.path(from.file_name().unwrap().to_str().unwrap()),
            )
            .unwrap();
        }
    }
    let limit = fs::canonicalize("tests/trainers/limit").unwrap();
    place.set("PYTHONPATH", limit.to_str().unwrap());
    place.set("PYTHONDONTWRITEBYTECODE", "1");
    place.set("FORWARDS", "10");
    place.set("ROWS", "4");
    place.set("TRANSFORMERS_VERBOSITY", "info");
    place.first_on_path.push(frameworks.join("venv/bin"));
    place.write("job.sh", &format!("#!/bin/bash\n{command}\n"));
    let words = ["submit", "--yes", "--watch", "--run", "r", "job.sh"];
    let done = place.run(&words).ends(0);
    done.says(&[
        "out of memory",
        &format!("climb      halve-batch-keep-effective: smaller batch, as much more accumulation ({effect}"),
        " 8 -> 4",
        "gradient_accumulation_steps  2 -> 4",
    ]);
    assert!(!place.has(".oomctl/runs/r/attempt-3"), "{}", done.told());
    Some(place)
}

fn log(place: &Place, attempt: u32) -> String {
    place.read(&format!(".oomctl/runs/r/attempt-{attempt}/slurm.out"))
}

/// The losses that an attempt printed, one a step.
fn losses(place: &Place, attempt: u32) -> Vec<f64> {
    let loss = regex::Regex::new(r"'loss': '?(-?[\d.]+(?:e-\d+)?)").unwrap();
    let log = log(place, attempt);
    let found = loss.captures_iter(&log);
    found.map(|c| c[1].parse().unwrap()).collect()
}

/// The fifth step was computed by both attempts, from the same weights on the same sequences: eight at a time, then four.
#[track_caller]
fn goes_on_from_step_4(place: &Place) -> (Vec<f64>, Vec<f64>) {
    let (first, second) = (losses(place, 1), losses(place, 2));
    assert_eq!((first.len(), second.len()), (5, 4), "{first:?} {second:?}");
    let apart = (first[4] - second[0]).abs();
    assert!(apart < 0.002, "{first:?} {second:?}");
    (first, second)
}

/// No step after the checkpoint has a loss as high as the first of all.
#[track_caller]
fn learns_on(place: &Place) {
    let (first, second) = goes_on_from_step_4(place);
    assert!(
        second.iter().all(|loss| *loss < first[0]),
        "{first:?} {second:?}"
    );
}

/// What the Trainer of transformers says of its batch at the start, and in the state that it saves at the end.
#[track_caller]
fn the_trainer_has_half_the_batch(place: &Place) {
    for (attempt, batch, accumulation) in [(1, 8, 2), (2, 4, 4)] {
        let log = log(place, attempt);
        for said in [
            format!("Instantaneous batch size per device = {batch}\n"),
            format!("Gradient Accumulation steps = {accumulation}\n"),
            "Total train batch size (w. parallel, distributed & accumulation) = 16\n".to_owned(),
        ] {
            assert!(log.contains(&said), "{said:?} is not in\n{log}");
        }
        let resumes = log.contains("and global step 4\n");
        assert_eq!(resumes, attempt == 2, "{log}");
    }
    let state = place.read("out/checkpoint-8/trainer_state.json");
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let history = state["log_history"].as_array().unwrap();
    let steps: Vec<_> = history.iter().filter_map(|h| h["step"].as_u64()).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5, 6, 7, 8], "{state}");
}

const TRAINER: &str = "--output_dir out --max_steps 8 --save_steps 2 --logging_steps 1 --learning_rate 0.01 \
    --use_cpu true --report_to none --per_device_train_batch_size 8 --gradient_accumulation_steps 2";

#[test]
fn trainer_goes_on_with_half_the_batch_and_the_same_loss() {
    let Some(place) = rescued(&format!("python run_clm.py {TRAINER}"), SAME) else {
        return;
    };
    the_trainer_has_half_the_batch(&place);
    learns_on(&place);
}

#[test]
#[ignore = "`tests/frameworks` runs it"]
fn sft_goes_on_with_half_the_batch_and_the_same_loss() {
    let Some(place) = rescued(&format!("python sft.py {TRAINER} --bf16 false"), SAME) else {
        return;
    };
    the_trainer_has_half_the_batch(&place);
    learns_on(&place);
}

#[test]
#[ignore = "`tests/frameworks` runs it"]
fn grpo_goes_on_with_half_the_batch_and_the_same_completions() {
    let command = format!(
        "python grpo.py {TRAINER} --bf16 false --num_generations 4 --max_completion_length 8"
    );
    let Some(place) = rescued(&command, SAME) else {
        return;
    };
    the_trainer_has_half_the_batch(&place);
    goes_on_from_step_4(&place);
    let tokens = regex::Regex::new(r"'num_tokens': '?(\d+)").unwrap();
    let counted = |attempt, step: usize| {
        let log = log(&place, attempt);
        tokens.captures_iter(&log).nth(step).unwrap()[1].to_owned()
    };
    assert_eq!(counted(1, 4), counted(2, 0));
}

#[test]
#[ignore = "`tests/frameworks` runs it"]
fn accelerate_goes_on_with_half_the_batch_and_the_same_loss() {
    let command = "accelerate launch --cpu --num_processes 1 loop.py --output_dir out --max_steps 8 --save_steps 2 \
        --batch_size 8 --gradient_accumulation_steps 2";
    // Its rows are all of one length, which its text does not show.
    let Some(place) = rescued(command, "effect on training unknown") else {
        return;
    };
    for (attempt, said) in [
        (1, "batch 8, accumulation 2, from 0\n"),
        (2, "batch 4, accumulation 4, from 4\n"),
    ] {
        let log = log(&place, attempt);
        assert!(log.contains(said), "{said:?} is not in\n{log}");
    }
    learns_on(&place);
}
