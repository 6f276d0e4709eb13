//! A script of the user's own: with PBS's directives, or Slurm's.

use super::place::Place;
use super::server::Server;

/// Runs out of memory with more than four sequences.
const TRAIN: &str = r#"
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int)
parser.add_argument("--gradient_accumulation_steps", type=int)
args, _ = parser.parse_known_args()
print("in", os.getcwd(), flush=True)
if args.per_device_train_batch_size > 4:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.18 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.")
print({"train_loss": 1.0}, flush=True)
"#;

fn ends_well(story: &str, directives: &str, launcher: &str) {
    let Some(server) = Server::here() else { return };
    let place = Place::beside(&server, story);
    place.write("train.py", TRAIN);
    let script = format!(
        "#!/bin/bash\n{directives}\n\n{launcher}python3 train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 1\n"
    );
    place.write("job.sh", &script);
    let words = ["--yes", "--watch", "--preset", "hf-trainer", "job.sh"];
    place.submit(&words).expect_code(0).says("succeeded");
    let statuses = place.one_job_per_attempt();
    let statuses: Vec<&str> = statuses.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(statuses, ["F 1 93", "F 0 92"]);
    assert_eq!(
        place.text("job.sh"),
        script,
        "changed copies, not the script"
    );
    let log = format!(".oomctl/runs/{}/attempt-2/slurm.out", place.run());
    let log = place.text(&log);
    let folder = log.lines().find_map(|line| line.strip_prefix("in "));
    let folder = folder.and_then(|folder| std::fs::canonicalize(folder).ok());
    assert_eq!(folder, std::fs::canonicalize(place.file("")).ok(), "{log}");
}

#[test]
fn a_script_with_pbss_directives_is_submitted_as_it_is_and_again_with_less() {
    let directives = "#PBS -l select=1:ncpus=2:ngpus=2 -l walltime=00:10:00\n#PBS -N mine -j oe\n#PBS -o mine.out";
    ends_well("pbs-lines", directives, "cd \"$PBS_O_WORKDIR\"\n");
}

#[test]
fn the_slurm_directives_of_a_script_are_said_in_pbss_words() {
    let directives =
        "#SBATCH --nodes=1 --gres=gpu:2 --time=10:00 --mem=4G\n#SBATCH -J mine -o %j.out";
    ends_well("slurm-lines", directives, "");
}
