//! The sampler beside a local job, on made-up GPUs.

use std::time::Instant;

use serde_json::Value;

use super::nvml::Gpus;
use super::place::{PATIENCE, Place, install};
use super::weaver;

const ATTEMPT: &str = ".oomctl/runs/weaver-1/attempt-1";

/// Tells its process id, waits for `go`, and ends with the code in it.
const TRAINER: &str = r#"#!/bin/bash
echo $$ >pid
while [[ ! -s go ]]; do sleep 0.02; done
if [[ -e last-words ]]; then cat last-words >&2; fi
exit "$(<go)"
"#;

/// A project whose program waits, with these GPUs.
fn project(gpus: &Gpus, yaml: &str) -> Place {
    let mut place = weaver::project(&format!("knobs: {{ launcher: [./waits.sh] {yaml} }}"));
    install(&place.path("waits.sh"), TRAINER);
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    place
}

fn submit(place: &Place) {
    place.run(&["submit", "--backend", "local"]).ends(0);
    place.written("pid");
}

/// The lines of a sampler that are whole.
fn samples(place: &Place) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(place.path(ATTEMPT)) else {
        return Vec::new();
    };
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let file = names
        .into_iter()
        .find(|n| n.starts_with("samples-") && n.ends_with(".jsonl"));
    let text = file
        .map(|n| place.read(&format!("{ATTEMPT}/{n}")))
        .unwrap_or_default();
    text.lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect()
}

/// Processes of the machine that sample for this place.
fn samplers(place: &Place) -> Vec<String> {
    let wanted = place.root.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|e| {
        let pid = e.ok()?.file_name().into_string().ok()?;
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        (words.contains(" probe --dir ") && words.contains(&wanted)).then_some(pid)
    });
    processes.collect()
}

fn gpu(uuid: &str, used_mib: u32) -> String {
    format!("gpu uuid={uuid} name=H100 total_mib=81920 used_mib={used_mib} util=97")
}

#[test]
fn the_peak_of_a_job_is_in_its_samples_its_ledger_and_its_status_and_no_sampler_is_left() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 1_024), &gpu("GPU-b", 1_024)]);
    let place = project(&gpus, "");
    submit(&place);
    place.wait_for("the first sample", || !samples(&place).is_empty());
    let process = format!("process gpu=0 pid={} used_mib=61440", place.written("pid"));
    let stranger = format!("process gpu=1 pid={} used_mib=70000", std::process::id());
    gpus.are(&[
        &gpu("GPU-a", 62_720),
        &gpu("GPU-b", 71_680),
        &process,
        &stranger,
    ]);
    let peak = |s: &Value| {
        let gpu = &s["gpus"][0];
        gpu["peak_bytes"] == 62_720_u64 << 20 && gpu["own_peak_bytes"] == 61_440_u64 << 20
    };
    place.wait_for("the peak", || samples(&place).iter().any(peak));
    // The job still runs, and its peak can be seen.
    place
        .run(&["status", "weaver-1"])
        .ends(0)
        .says(&["peak 61.2 of 80.0 GiB"]);
    gpus.are(&[&gpu("GPU-a", 2_048), &gpu("GPU-b", 71_680), &stranger]);
    place.wait_for("the fall", || {
        let last = samples(&place).pop().unwrap();
        last["gpus"][0]["used_bytes"] == 2_048_u64 << 20 && peak(&last)
    });
    place.write("go", "0");
    let done = place.run(&["watch", "weaver-1"]).ends(0);
    done.says(&["attempt 1  peak 61.2 of 80.0 GiB", "COMPLETED after"]);
    assert!(samplers(&place).is_empty());
    let facts = place.facts("weaver-1");
    let at = |kind: &str| facts.iter().position(|f| f["fact"] == kind).unwrap();
    assert!(at("ended") < at("measured") && at("measured") < at("diagnosed"));
    // The GPU on which only somebody else computed is not the job's.
    let measured = &facts[at("measured")]["measured"]["gpus"];
    assert_eq!(measured.as_array().unwrap().len(), 1, "{measured}");
    assert_eq!(measured[0]["uuid"], "GPU-a");
    assert_eq!(measured[0]["own_peak_bytes"], 61_440_u64 << 20);
    let status = place.json("status weaver-1 --json");
    let attempt = &status["runs"][0]["attempts"][0];
    assert_eq!(attempt["measured"]["gpus"], *measured);
    let row = &place.json("history --json")["attempts"][0];
    assert_eq!(row["peak_bytes"], measured[0]["peak_bytes"]);
    let share = row["peak_bytes"].as_f64().unwrap() / row["capacity_bytes"].as_f64().unwrap();
    assert!(
        (row["memory"].as_f64().unwrap() - share).abs() < 1e-9 && share > 0.5,
        "{row:#}"
    );
    let percent = format!("{:.0}%", share * 100.0);
    place.says("history", 0, &[&percent]);
}

/// The log of an optimizer shows no frame that tells of one process on several GPUs; the samples do.
#[test]
fn one_process_that_fills_one_of_its_gpus_is_told_by_its_samples() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 1_024), &gpu("GPU-b", 1_024)]);
    let place = project(&gpus, "");
    submit(&place);
    let pid = place.written("pid");
    gpus.are(&[
        &gpu("GPU-a", 81_000),
        &gpu("GPU-b", 30_720),
        &format!("process gpu=0 pid={pid} used_mib=80500"),
        &format!("process gpu=1 pid={pid} used_mib=30000"),
    ]);
    place.wait_for("the peak", || {
        let full = |s: &Value| s["gpus"][0]["peak_bytes"] == 81_000_u64 << 20;
        samples(&place).iter().any(full)
    });
    place.write(
        "last-words",
        "Traceback (most recent call last):\n  File \"/w/train.py\", line 9, in main\n    optimizer.step()\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
         79.18 GiB of which 1.00 GiB is free.\n",
    );
    place.write("go", "1");
    let watched = place.run(&["watch", "weaver-1"]);
    watched.says(&[
        "why        one process drives all GPUs. It gathers their outputs on the first",
        "measured: GPU 0 at 79.10 GiB of 80.00 GiB, the other one at most at 30.00 GiB, all held by one process",
    ]);
}

#[test]
fn a_sampler_that_is_killed_leaves_what_it_saw_and_the_job_goes_on() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 40_960)]);
    let place = project(&gpus, "");
    submit(&place);
    place.wait_for("the first sample", || !samples(&place).is_empty());
    for pid in samplers(&place) {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    place.write("go", "0");
    place.says("watch weaver-1", 0, &["peak 40.0 of 80.0 GiB"]);
}

#[test]
fn without_a_driver_or_a_gpu_nothing_is_written_and_nothing_is_said() {
    for lines in [&["init error=9"][..], &[], &["gpu error=4"]] {
        let gpus = Gpus::new(lines);
        let place = project(&gpus, "");
        submit(&place);
        place.wait_for("the end of the sampler", || samplers(&place).is_empty());
        place.write("go", "0");
        let done = place.run(&["watch", "weaver-1"]).ends(0);
        assert!(!done.told().contains("peak"), "{}", done.told());
        assert!(samples(&place).is_empty());
        assert_eq!(place.read(&format!("{ATTEMPT}/sampler.log")), "");
        assert_eq!(place.read(&format!("{ATTEMPT}/slurm.err")), "");
    }
}

#[test]
fn a_driver_that_refuses_is_said_in_the_samplers_own_log_only() {
    let gpus = Gpus::new(&["init error=18"]);
    let place = project(&gpus, "");
    submit(&place);
    let log = || place.read(&format!("{ATTEMPT}/sampler.log"));
    place.wait_for("what the sampler says", || log().ends_with('\n'));
    place.write("go", "0");
    place.run(&["watch", "weaver-1"]).ends(0);
    let log = log();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("no samples of this node's GPUs"), "{log}");
    assert_eq!(place.read(&format!("{ATTEMPT}/slurm.err")), "");
}

#[test]
fn one_key_switches_the_sampler_off_and_nothing_of_it_is_rendered() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 1_024)]);
    let place = project(&gpus, ", sampler: false");
    submit(&place);
    place.write("go", "0");
    place.run(&["watch", "weaver-1"]).ends(0);
    assert!(
        !place
            .read(&format!("{ATTEMPT}/job.sbatch"))
            .contains("sample")
    );
    assert!(!place.has(&format!("{ATTEMPT}/sampler.log")));
}

#[test]
fn a_program_that_is_not_there_any_more_costs_the_samples_and_not_the_job() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 1_024)]);
    let place = project(&gpus, "");
    let shown = place.run(&["render"]).ends(0).out;
    let (_, script) = shown.split_once('\n').unwrap();
    let script = script.split("\n####").next().unwrap();
    let absent = script.replace(env!("CARGO_BIN_EXE_oomctl"), "/gone/oomctl");
    let no_program = script.replace(env!("CARGO_BIN_EXE_oomctl"), "/etc");
    place.write("go", "7");
    for text in [absent, no_program] {
        assert_ne!(text, script);
        place.write(
            "attempt/job.sbatch",
            &text.replace(
                &place
                    .path(".oomctl/runs/preview/attempt-1")
                    .display()
                    .to_string(),
                &place.path("attempt").display().to_string(),
            ),
        );
        let mut bash = std::process::Command::new("bash");
        bash.arg("attempt/job.sbatch");
        place.at_home(&mut bash);
        let output = bash.output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        std::fs::remove_file(place.path("attempt/claim")).unwrap();
    }
}

#[test]
fn a_folder_that_cannot_be_written_disturbs_nothing() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 1_024)]);
    let place = project(&gpus, "");
    let shown = place.run(&["render"]).ends(0).out;
    let script = shown
        .split_once('\n')
        .unwrap()
        .1
        .split("\n####")
        .next()
        .unwrap();
    let script = script.replace(
        &place
            .path(".oomctl/runs/preview/attempt-1")
            .display()
            .to_string(),
        &place.path("attempt").display().to_string(),
    );
    place.write("go", "0");
    place.write("attempt/job.sbatch", &script);
    // Folders where files are wanted: neither log nor samples can be opened, not even by root.
    place.write("attempt/sampler.log/x", "");
    let mut bash = std::process::Command::new("bash");
    bash.arg("attempt/job.sbatch");
    place.at_home(&mut bash);
    let output = bash.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// `oomctl probe` by hand, in a folder, and what ends it.
#[test]
fn the_sampler_ends_with_a_signal_its_process_or_its_folder() {
    use rustix::process::{Pid, Signal, kill_process};
    let gpus = Gpus::new(&[&gpu("GPU-a", 1_024)]);
    let mut place = Place::bare();
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    for what in ["signal", "process", "folder"] {
        place.write(&format!("{what}/x"), "");
        let mut job = std::process::Command::new("sleep")
            .arg("300")
            .spawn()
            .unwrap();
        let pid = job.id().to_string();
        let sampler = place.start(&["probe", "--dir", what, "--pid", &pid]);
        place.wait_for("a sample", || {
            let entries = std::fs::read_dir(place.path(what)).unwrap();
            entries.count() > 1
        });
        // Signals for the program of the job are none of its business.
        sampler.signal(Signal::USR1);
        sampler.signal(Signal::HUP);
        let start = Instant::now();
        match what {
            "signal" => sampler.signal(Signal::TERM),
            "folder" => std::fs::remove_dir_all(place.path(what)).unwrap(),
            _ => {
                let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
                kill_process(pid, Signal::KILL).unwrap();
                job.wait().unwrap();
            }
        }
        sampler.end().ends(0);
        assert!(start.elapsed() < PATIENCE, "{what}");
        let _ = job.kill();
        let _ = job.wait();
    }
}

#[test]
fn parts_of_a_gpu_are_measured_each_for_itself_and_the_jobs_list_is_heeded() {
    let gpus = Gpus::new(&[
        "gpu uuid=GPU-a name=H100 total_mib=81920 used_mib=70000 mig=1",
        "gpu uuid=GPU-b name=H100 total_mib=81920 used_mib=60000 mig=0",
        "part gpu=0 uuid=MIG-1 name=H100-1g total_mib=9728 used_mib=512",
        "part gpu=0 uuid=MIG-2 name=H100-1g total_mib=9728 used_mib=4864",
    ]);
    for (list, expected) in [
        (None, vec!["MIG-1", "MIG-2", "GPU-b"]),
        (Some("MIG-2"), vec!["MIG-2"]),
        (Some("1"), vec!["GPU-b"]),
        (Some(""), vec![]),
    ] {
        let mut place = project(&gpus, "");
        if let Some(list) = list {
            place.set("CUDA_VISIBLE_DEVICES", list);
        }
        submit(&place);
        if expected.is_empty() {
            place.wait_for("the end of the sampler", || samplers(&place).is_empty());
        } else {
            place.wait_for("the first sample", || !samples(&place).is_empty());
        }
        place.write("go", "0");
        place.run(&["watch", "weaver-1"]).ends(0);
        let lines = samples(&place);
        let seen = lines
            .last()
            .map(|line| line["gpus"].as_array().unwrap().clone());
        let seen = seen.unwrap_or_default();
        let uuids: Vec<&str> = seen.iter().map(|g| g["uuid"].as_str().unwrap()).collect();
        assert_eq!(uuids, expected, "{list:?}");
    }
}
