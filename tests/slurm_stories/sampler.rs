//! The sampler beside jobs of the real cluster, on made-up GPUs.

use serde_json::Value;

use super::cluster::{Cluster, answer, wait_for};
use super::nvml::Gpus;
use super::place::{LARGE_CARD, Place};

/// The eight GPUs of every node; a job has the first four of them or the others.
fn gpus() -> Gpus {
    let used_mib = |i: u32| 20_480 * (i % 4);
    let gpu = |i| {
        format!(
            "gpu uuid=GPU-{i} name=H100 total_mib=81920 used_mib={}",
            used_mib(i)
        )
    };
    let lines: Vec<String> = (0..8).map(gpu).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Gpus::new(&lines)
}

/// A place whose jobs see those GPUs.
fn seeing(gpus: &Gpus, place: Place) -> Place {
    let variables = gpus.variables();
    variables
        .iter()
        .fold(place, |place, (name, value)| place.set(name, value))
}

/// Processes of the machine that sample for this place.
fn samplers(place: &Place) -> usize {
    let wanted = place.file("").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let words = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        (words.contains(" probe --dir ") && words.contains(&wanted)).then_some(())
    });
    processes.count()
}

/// The peaks of the story's only attempt, in GiB, by node and index.
fn peaks(place: &Place) -> Vec<(String, u64)> {
    let attempts = place.attempts();
    assert_eq!(attempts.len(), 1);
    let gpus = attempts[0]["measured"]["gpus"].as_array().unwrap().clone();
    let peak = |gpu: &Value| {
        let bytes = gpu["peak_bytes"].as_u64().unwrap();
        let node = gpu["node"].as_str().unwrap().to_owned();
        (node, bytes >> 30)
    };
    gpus.iter().map(peak).collect()
}

/// Every step of the job, as `STATE EXIT`, once sacct knows them all.
fn steps(place: &Place, job: &str) -> Vec<String> {
    let words = ["-n", "-P", "-j", job, "-o", "JobName,State,ExitCode"];
    wait_for("sacct knows how the steps ended", || {
        let text = answer(&place.conf, "sacct", &words);
        let over = !text.is_empty() && !text.contains("RUNNING");
        over.then(|| text.lines().map(str::to_owned).collect())
    })
}

#[test]
fn the_peaks_of_a_job_on_two_nodes_are_measured_on_both_and_its_steps_end_well() {
    let Some(place) = Place::on(Cluster::Full, "sampler-two") else {
        return;
    };
    let gpus = gpus();
    let place = seeing(&gpus, place)
        .with_its_programs()
        .with(&[LARGE_CARD])
        .knob("nnodes", "2")
        .knob("cpus_per_task", "2");
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("peak 60.0 of 80.0 GiB");
    let job = place.one_job_per_attempt(place.run()).pop().unwrap();
    let nodes: Vec<String> = place.attempts()[0]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap().to_owned())
        .collect();
    let mut expected = Vec::new();
    for node in &nodes {
        // Four of the node's GPUs are the job's.
        expected.extend([0, 20, 40, 60].map(|gib| (node.clone(), gib)));
    }
    expected.sort();
    let mut measured = peaks(&place);
    measured.sort();
    assert_eq!(measured, expected);
    assert_eq!(samplers(&place), 0, "nothing is left running");
    // A step that failed would be read as a failure of the job.
    let ends = steps(&place, &job.id);
    assert!(
        ends.contains(&"oomctl|COMPLETED|0:0".to_owned()),
        "{ends:?}"
    );
}

#[test]
fn a_job_on_one_node_has_no_further_step_and_a_cancelled_one_leaves_no_sampler() {
    let Some(place) = Place::on(Cluster::Full, "sampler-one") else {
        return;
    };
    let gpus = gpus();
    let place = seeing(&gpus, place).with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    place.submit(&[]).expect_code(0);
    let job = place.until("RUNNING");
    // What it has seen so far is shown while it runs.
    wait_for("the peak of a running job", || {
        let told = place.oomctl(&["status", place.run()]);
        told.stdout.contains("peak 60.0 of 80.0 GiB").then_some(())
    });
    assert_eq!(samplers(&place), 1);
    place.oomctl(&["cancel", place.run()]).expect_code(0);
    assert_eq!(peaks(&place).len(), 4);
    assert_eq!(samplers(&place), 0, "nothing is left running");
    let ends = steps(&place, &job);
    assert_eq!(ends.len(), 2, "the job and its batch script: {ends:?}");
}

#[test]
fn without_a_driver_nothing_is_measured_and_nothing_changes() {
    let Some(place) = Place::on(Cluster::Full, "sampler-none") else {
        return;
    };
    let place = place
        .with_its_programs()
        .with(&[LARGE_CARD])
        .knob("nnodes", "2")
        .knob("cpus_per_task", "2");
    place.submit_and_watch(&[]).expect_code(0);
    let job = place.one_job_per_attempt(place.run()).pop().unwrap();
    let measured = place.attempts()[0]["measured"].clone();
    assert_eq!(measured["gpus"].as_array().map(Vec::len), Some(0));
    let ends = steps(&place, &job.id);
    assert!(
        ends.contains(&"oomctl|COMPLETED|0:0".to_owned()),
        "{ends:?}"
    );
}
