//! Scripts that send the output of their program into a file of their own: oomctl reads it, and of it only what is the attempt's.

use std::fs;

use super::own_scripts;
use super::place::{Done, Place};

const OLD: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.\n";

fn lacks(done: &Done, words: &[&str]) {
    for word in words {
        let there = done.out.contains(word) || done.err.contains(word);
        assert!(!there, "{word:?} is said in\n{}", done.told());
    }
}

/// A script whose program sends its output elsewhere.
fn place(to: &str) -> Place {
    let place = own_scripts::place();
    place.write(
        "tools/train.sh",
        &format!(
            "#!/bin/bash\ncd \"$(dirname \"$0\")/..\"\n[ \"$1\" = early ] && exit 3\nOUT=out\nmkdir -p $OUT\n\
             torchrun --nproc_per_node=1 train.py --batch_size \"$2\" \\\n    --gradient_accumulation_steps=2 {to}\n"
        ),
    );
    fs::create_dir_all(place.root.join("out")).unwrap();
    place
}

const SUBMIT: [&str; 6] = ["submit", "--yes", "--watch", "--run", "r", "job.slurm"];

#[test]
fn an_out_of_memory_in_a_file_of_the_script_is_seen_and_climbed_from() {
    for to in [
        "> $OUT/training.log 2>&1",
        "&> $OUT/training.log",
        ">> $OUT/training.log 2>&1",
        "2>&1 | cat > $OUT/training.log; exit ${PIPESTATUS[0]}",
    ] {
        let place = place(to);
        place.write("out/training.log", OLD);
        place.run(&["plan", "job.slurm"]).ends(0).says(&[
            "the script sends the output of its program to out/training.log (tools/train.sh:7), which oomctl reads too",
        ]);
        let done = place.run(&SUBMIT).ends(0);
        done.says(&["halve-batch-keep-effective", "2.00 GiB requested"]);
        lacks(&done, &["9.00 GiB"]);
        let log = place.read("out/training.log");
        assert!(log.contains("batch 8 of"), "{to}: {log}");
        assert_eq!(log.contains("9.00 GiB"), to.contains(">>"), "{to}: {log}");
        let last = place.read(".oomctl/runs/r/attempt-3/slurm.out");
        assert!(!last.contains("batch 8 of"), "{to}: {last}");
        // Of what all attempts append, each has its own part.
        let diagnosed = place.run(&["diagnose", "r"]).ends(0);
        diagnosed.says(&[match to.contains(">>") {
            true => "training.log:",
            false => "training.log now holds the output of a later attempt",
        }]);
        let shown = place.run(&["logs", "r"]).ends(0);
        shown.says(&["batch 8 of"]);
        // The lines around the evidence of a file that is appended to are those of the file.
        if !to.contains(">>") {
            lacks(&diagnosed, &["9.00 GiB"]);
        }
        lacks(&shown, &["9.00 GiB"]);
    }
}

#[test]
fn what_an_earlier_job_left_in_the_file_is_no_reason_of_this_one() {
    for to in ["> out/training.log 2>&1", ">> out/training.log 2>&1"] {
        let place = place(to);
        place.write("out/training.log", OLD);
        let done = place.run(&[SUBMIT.as_slice(), &["early"]].concat()).ends(1);
        lacks(&done, &["9.00 GiB", "halve-batch"]);
        lacks(&place.run(&["diagnose", "r"]).ends(0), &["9.00 GiB"]);
    }
}

#[test]
fn a_path_that_only_the_job_knows_is_said() {
    let place = place("> out/$(date +%s).log 2>&1");
    place
        .run(&["plan", "job.slurm"])
        .ends(0)
        .says(&["(tools/train.sh:7), a path that only the job knows. oomctl cannot read it"]);
    // What `tee` hands on is in the job's own log.
    let place = self::place("2>&1 | tee out/training.log");
    lacks(
        &place.run(&["plan", "job.slurm"]).ends(0),
        &["sends the output"],
    );
}
