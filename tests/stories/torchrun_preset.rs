//! The torchrun preset: a framework with flags instead of Hydra overrides, from the same format.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the tree and run what was rendered"
)]

use crate::harness::{files, preset, set, shape, templates};
use oomctl::core::ladder::{ClimbContext, Decision, climb};
use oomctl::core::recipe::{ClusterFacts, Layer};
use oomctl::core::render::RenderedFile;

fn rungs(assignments: &[&str]) -> Vec<String> {
    let preset = preset("torchrun", None);
    let layers = [set(&preset, assignments)];
    let (cluster, templates) = (ClusterFacts::default(), templates());
    let mut rungs: Vec<Layer> = Vec::new();
    let mut taken = Vec::new();
    for attempt in 1..30 {
        let footing = ClimbContext {
            attempt,
            ..ClimbContext::new(&preset, &cluster, &templates, &layers, &rungs)
        };
        match climb(&footing, None).unwrap() {
            Decision::Exhausted { .. } => return taken,
            Decision::Climb { steps, .. } => {
                let step = &steps[0];
                let changes: Vec<String> = step
                    .changes
                    .iter()
                    .map(|c| format!("{} {}", c.knob, c.to))
                    .collect();
                taken.push(format!(
                    "{} ({}): {}",
                    step.rung,
                    step.effect.describe(),
                    changes.join(", ")
                ));
                rungs.push(step.layer.clone());
            }
        }
    }
    panic!("the ladder does not end");
}

#[test]
fn flags_and_switches_are_handed_to_the_script() {
    let preset = preset("torchrun", None);
    let words = [
        "script=train.py",
        "batch_size=8",
        "gradient_checkpointing=true",
        "args=[\"--data\",\"a b\"]",
        "n_gpus_per_node=2",
    ];
    let shape = shape(&preset, &[set(&preset, &words)], &ClusterFacts::default()).unwrap();
    let files = files(&preset, &shape);
    let job = &files[0].text;
    let program = "program=(\n  train.py\n  --data\n  'a b'\n  --gradient_checkpointing\n  --batch_size\n  8\n)";
    assert!(job.contains(program), "{job}");
    assert!(
        job.contains("torchrun --standalone --nproc_per_node=2 \"${program[@]}\""),
        "{job}"
    );
    shells_take(&files);
}

/// The rendered scripts are bash, and shellcheck finds nothing.
fn shells_take(files: &[RenderedFile]) {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(&file.name);
        std::fs::write(&path, &file.text).unwrap();
        for tool in [vec!["bash", "-n"], vec!["shellcheck", "-s", "bash"]] {
            match std::process::Command::new(tool[0])
                .args(&tool[1..])
                .arg(&path)
                .output()
            {
                Ok(out) => assert!(
                    out.status.success(),
                    "{}",
                    String::from_utf8_lossy(&out.stdout)
                ),
                Err(_) => assert!(std::env::var_os("CI").is_none(), "{} is missing", tool[0]),
            }
        }
    }
}

/// The preset for scripts with one process on several GPUs, which goes over to torchrun.
#[test]
fn the_scripts_of_data_parallel_are_bash_before_and_after_it() {
    let preset = preset("data-parallel", None);
    for words in [
        vec!["left_out=0"],
        vec!["ddp=true", "ddp_script=train ddp.py", "left_out=1,3"],
        vec![
            "ddp=true",
            "ddp_script=ddp.py",
            "container_image=a.sqsh",
            "container_runtime=pyxis",
        ],
    ] {
        let all = [
            vec![
                "script=train.py",
                "batch_size=8",
                "args=[\"--data\",\"a b\"]",
            ],
            words,
        ]
        .concat();
        let shape = shape(&preset, &[set(&preset, &all)], &ClusterFacts::default()).unwrap();
        let files = files(&preset, &shape);
        assert!(
            files[0].text.contains("--data\n  'a b'\n  --batch_size\n"),
            "{}",
            files[0].text
        );
        shells_take(&files);
    }
}

#[test]
fn with_accumulation_the_effective_batch_is_kept() {
    assert_eq!(
        rungs(&[
            "script=train.py",
            "batch_size=4",
            "gradient_accumulation_steps=2"
        ]),
        [
            "halve-batch-keep-effective (same math): batch_size 2, gradient_accumulation_steps 4",
            "halve-batch-keep-effective (same math): batch_size 1, gradient_accumulation_steps 8",
        ]
    );
}

#[test]
fn without_accumulation_other_remedies_come_first() {
    assert_eq!(
        rungs(&[
            "script=train.py",
            "batch_size=4",
            "gradient_checkpointing=false",
            "max_seq_len=2048"
        ]),
        [
            "checkpoint-activations (same math): gradient_checkpointing true",
            "halve-batch (changes training): batch_size 2",
            "halve-batch (changes training): batch_size 1",
            "shorter-sequences (changes training): max_seq_len 1024",
        ]
    );
}

/// Lines in the formats of the trainers that the preset names, with what each says in MiB.
#[test]
fn what_trainers_print_of_their_memory_is_read_in_the_right_unit() {
    use oomctl::core::measure::{AttemptFigures, Overlap, Quantity};
    let (allocated, reserved) = (Quantity::GpuAllocated, Quantity::GpuReserved);
    let lines = [
        (
            "[Rank 0] (after 2 iterations) memory (MB) | allocated: 512.0 | max allocated: 2048.0 | \
             reserved: 1024.0 | max reserved: 3072.0",
            vec![(allocated, 2_048), (reserved, 3_072)],
        ),
        (
            "[2026-11-21 10:00:00,000] [INFO] [utils.py:789:see_memory_usage] MA 1.5 GB         \
             Max_MA 2.5 GB         CA 3.0 GB         Max_CA 4 GB ",
            vec![(allocated, 2_560), (reserved, 4_096)],
        ),
        (
            "step: 10  loss:  7.1234  grad_norm:  1.2  memory:  5.50GiB(57.85%)  tps: 7,000",
            vec![(reserved, 5_632)],
        ),
        (
            "Step 7 | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:900.1 peak_memory_active:1.9 \
             peak_memory_alloc:2.0 peak_memory_reserved:2.25",
            vec![(allocated, 2_048), (reserved, 2_304)],
        ),
        ("step: 10  memory: 40 sheep | allocated: 3", vec![]),
    ];
    let patterns = preset("torchrun", None).measures;
    for (line, expected) in lines {
        let mut figures = AttemptFigures::new(patterns.clone());
        figures.feed(&mut Overlap::default(), format!("{line}\n").as_bytes());
        let found: Vec<(Quantity, u64)> = figures
            .peaks()
            .iter()
            .map(|f| (f.measure, f.peak_bytes.0 >> 20))
            .collect();
        assert_eq!(found, expected, "{line}");
    }
}
