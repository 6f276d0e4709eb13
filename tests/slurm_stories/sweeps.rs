//! The cells of a sweep as tasks of job arrays.

use std::fs;

use super::cluster::{Cluster, answer, lost_nodes, path, program, wait_for};
use super::place::Place;
use oomctl_base::word_list;

/// Six cells, of which the last needs 95 GiB of a card and the others less than 90.
const CELLS: &str = "ppo_micro_batch_size_per_gpu=1,2,4,8,16,32";

/// Jobs whose names begin so: id and state. sacct is some seconds late, so as many are waited for.
fn jobs(place: &Place, token: &str, count: usize) -> Vec<(String, String)> {
    let fields = word_list::<7>("-X -n -P -S now-1hour -o JobID,State,JobName");
    wait_for(&format!("{count} jobs of {token}"), || {
        let text = answer(&place.conf, "sacct", &fields);
        let rows = text
            .lines()
            .map(|line| line.splitn(3, '|').collect::<Vec<_>>());
        let ours = rows.filter(|row| row.len() == 3 && row[2].starts_with(token));
        let jobs: Vec<_> = ours
            .map(|row| (row[0].to_owned(), row[1].to_owned()))
            .collect();
        (jobs.len() >= count).then_some(jobs)
    })
}

#[test]
fn six_cells_are_one_array_and_the_one_that_runs_out_of_memory_goes_on_alone() {
    let Some(place) = Place::on(Cluster::Full, "sweep") else {
        return;
    };
    let place = place.with(&[("SIM_GPU_GIB", "90")]);
    let words = [
        "sweep",
        "submit",
        CELLS,
        "--watch",
        "--force",
        "--max-running",
        "4",
        "--run",
    ];
    let told = place
        .oomctl(&[&words[..], &[place.run()]].concat())
        .expect_code(0);
    told.says("6 runs in 1 job array, 4 at a time");
    told.says("ran out of memory in");
    assert!(
        told.stdout.contains("6 runs: 6 succeeded"),
        "{}",
        told.stdout
    );
    // One array of six, and a job for each further attempt of the last cell.
    let array = jobs(&place, &format!("oomctl-{}-1-", place.run()), 6);
    assert_eq!(array.len(), 6, "{array:?}");
    let failed = array.iter().filter(|(_, state)| state == "FAILED");
    assert_eq!(failed.count(), 1, "{array:?}");
    let alone = jobs(&place, &format!("oomctl-{}.6-", place.run()), 1);
    assert!(
        !alone.is_empty() && alone.iter().all(|(id, _)| !id.contains('_')),
        "{alone:?}"
    );
    assert_eq!(alone.last().unwrap().1, "COMPLETED");
    for other in 1..6 {
        let more = jobs(&place, &format!("oomctl-{}.{other}-", place.run()), 0);
        assert_eq!(more, [], "a cell that fitted was submitted again");
    }
    // What slurmstepd and the trainer wrote is where each run's logs are.
    let log = place.text(&format!(
        ".oomctl/runs/{}.6/attempt-1/slurm.err",
        place.run()
    ));
    assert!(log.contains("OutOfMemoryError"), "{log}");
}

#[test]
fn an_array_is_found_again_by_its_token_after_a_kill_and_no_cell_is_submitted_twice() {
    let Some(place) = Place::on(Cluster::Full, "sweep-kill") else {
        return;
    };
    // Accepted, and whoever asked is dead before it is told.
    let dies = format!(
        "#!/bin/sh\n{} \"$@\"\nkill -9 $PPID\nsleep 5\n",
        program("sbatch").display()
    );
    let place = place.wrapping("sbatch", &dies).set("SIM_GPU_GIB", "140");
    let words = ["sweep", "submit", CELLS, "--force", "--run", place.run()];
    place.oomctl(&words).expect_code(-1);
    let place = place.set("PATH", &path());
    let told = place.watch().expect_code(0);
    assert!(
        told.stdout.contains("6 runs: 6 succeeded"),
        "{}",
        told.stdout
    );
    told.says("found again by its token");
    assert_eq!(jobs(&place, &format!("oomctl-{}", place.run()), 6).len(), 6);
}

#[test]
fn more_cells_than_an_array_may_have_are_two_arrays() {
    // The plain cluster's MaxArraySize is 4.
    let Some(place) = Place::on(Cluster::Plain, "sweep-wide") else {
        return;
    };
    let place = place.with(&[("SIM_GPU_GIB", "140")]);
    let words = [
        "sweep",
        "submit",
        CELLS,
        "--watch",
        "--force",
        "--run",
        place.run(),
    ];
    let told = place.oomctl(&words).expect_code(0);
    told.says("6 runs in 2 job arrays of 4, 2 tasks");
    assert!(
        told.stdout.contains("6 runs: 6 succeeded"),
        "{}",
        told.stdout
    );
    let submitted = told.stderr.matches("submitted as job").count();
    assert_eq!(submitted, 6, "{}", told.stderr);
}

/// The example whose memory is arithmetic, in place of the one that the place has.
fn path_star(place: &Place) {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/path-star");
    for name in [
        "train.py",
        "presets/path-star.yaml",
        "templates/path-star/job.sbatch.j2",
    ] {
        let to = place.file(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(format!("{from}/{name}"), to).unwrap();
    }
    let supervision = "poll: 1s, poll_max: 4s, settle: 4s, drain: 1s";
    let text = format!(
        "preset: path-star\nbackend: slurm\nknobs: {{ gpu_memory: 15.48GiB, exclude: '{}' }}\nsupervision: {{ {supervision} }}\n",
        lost_nodes()
    );
    fs::write(place.file("oomctl.yaml"), text).unwrap();
}

#[test]
fn a_larger_cell_is_taken_out_of_the_queue_before_it_begins() {
    let Some(place) = Place::on(Cluster::Full, "sweep-prune") else {
        return;
    };
    path_star(&place);
    // The first dies at once. The second trains until the third and fourth, which wait behind it, are pruned.
    let train = place.text("train.py");
    let step = "time.sleep(float(os.environ.get(\"SIM_STEP_S\", \"0.01\")))";
    assert!(train.contains(step));
    let held = "while not os.path.exists(\"pruned\"): time.sleep(0.1)";
    fs::write(place.file("train.py"), train.replace(step, held)).unwrap();
    let place = place.with(&[("SIM_GPU_GIB", "2.5")]);
    let sizes = "graph_vocab_size=1000000,10000,1500000,2000000";
    let words = [
        "sweep",
        "submit",
        sizes,
        "eval_batch_size=256",
        "--watch",
        "--max-running",
        "1",
        "--run",
        place.run(),
    ];
    let watching = place.start(&words);
    for cell in [3, 4] {
        wait_for(&format!("cell {cell} is pruned"), || {
            let view = place.oomctl(&["status", &format!("{}.{cell}", place.run()), "--json"]);
            view.stdout.contains("\"pruned\"").then_some(())
        });
    }
    fs::write(place.file("pruned"), "").unwrap();
    let told = watching.end().expect_code(3);
    let summary = "4 runs: 1 exhausted, 2 pruned, 1 succeeded";
    assert!(told.stdout.contains(summary), "{}", told.stdout);
    let states = jobs(&place, &format!("oomctl-{}", place.run()), 2);
    let ran = states
        .iter()
        .filter(|(_, state)| !state.starts_with("CANCELLED"));
    assert_eq!(ran.count(), 2, "{states:?}");
}
