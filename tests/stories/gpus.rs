//! `oomctl gpus`, on made-up GPUs and before a scripted Slurm.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use super::nvml::Gpus;
use super::place::{Place, install};
use super::weaver;

/// A folder in which these GPUs are seen.
pub fn seeing(gpus: &Gpus) -> Place {
    let mut place = Place::bare();
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    // What programs of other tests are promised is not promised of these.
    let home = place.home.display().to_string();
    place.set("XDG_RUNTIME_DIR", &home);
    place
}

pub fn h100(uuid: &str, used_mib: u32, more: &str) -> String {
    format!("gpu uuid={uuid} name=NVIDIA_H100_80GB_HBM3 total_mib=81559 used_mib={used_mib} {more}")
}

/// A process that does nothing, of which the place knows the number.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new(place: &Place) -> Self {
        install(
            &place.path("train.py"),
            "#!/bin/sh\necho up\nexec sleep 600\n",
        );
        let mut command = std::process::Command::new(place.path("train.py"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        let sleeper = Self(child);
        place.wait_for("its program", || sleeper.command() == "sleep 600 ");
        sleeper
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn command(&self) -> String {
        let words = std::fs::read(format!("/proc/{}/cmdline", self.pid())).unwrap();
        String::from_utf8(words).unwrap().replace('\0', " ")
    }

    fn stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What differs from machine to machine, taken out.
fn steady(text: &str, sleeper: &Sleeper) -> String {
    let user = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    let pid = regex::Regex::new(&format!(r"\b{}\b", sleeper.pid())).unwrap();
    let text = pid.replace_all(text, "4711");
    // Where a line ends depends on how long both are.
    let end = regex::Regex::new(r",\s+which\s+is\s+stopped").unwrap();
    let text = end.replace_all(&text, ", which is stopped");
    text.replace(&format!("  {}  ", user.trim()), "  anna  ")
        .replace(&format!("({}, ", user.trim()), "(anna, ")
}

fn a_busy_node() -> (Gpus, Place, Sleeper) {
    let gpus = Gpus::new(&[]);
    let place = seeing(&gpus);
    let sleeper = Sleeper::new(&place);
    sleeper.stop();
    place.wait_for("its stop", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.pid())).unwrap();
        stat.contains(") T ")
    });
    let pid = sleeper.pid();
    gpus.are(&[
        &h100("GPU-5a1f", 62_720, "reserved_mib=600 util=97 temp=64 power_w=612 ecc=0 ecc_all=2"),
        &h100("GPU-77c2", 41_100, "util=12 temp=41 ecc=3 ecc_all=3 rows=1 pending=1 throttle=64"),
        &h100("GPU-d00d", 0, "error=4"),
        &h100("GPU-beef", 10_000, "temp=38 mig=1"),
        &h100("GPU-1057", 0, "error=15"),
        "part gpu=3 uuid=MIG-a1 name=NVIDIA_H100_80GB_HBM3_MIG_1g.10gb total_mib=9728 used_mib=9000",
        "part gpu=3 uuid=MIG-a2 name=NVIDIA_H100_80GB_HBM3_MIG_2g.20gb total_mib=19968 used_mib=0",
        &format!("process gpu=0 pid={pid} used_mib=62000"),
        "process gpu=1 pid=2000000001 used_mib=40960",
        &format!("process part=0 pid={pid} used_mib=8192"),
    ]);
    (gpus, place, sleeper)
}

/// What a command prints on a terminal of 80 columns.
pub fn on_a_terminal(place: &Place, arguments: &[&str]) -> String {
    let (ours, theirs) = terminal();
    let mut command = place.command(arguments);
    command.env("NO_COLOR", "1");
    command.stderr(theirs.try_clone().unwrap()).stdout(theirs);
    assert!(command.status().unwrap().success());
    drop(command);
    let mut shown = Vec::new();
    // The end of a terminal that nobody holds is an error.
    drop(std::fs::File::from(ours).read_to_end(&mut shown));
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_node_is_shown_with_its_holders_its_faults_and_what_helps() {
    let (_gpus, mut place, sleeper) = a_busy_node();
    let told = place.run(&["gpus"]).ends(0);
    let folded = on_a_terminal(&place, &["gpus"]);
    for line in folded.lines() {
        let command = line.starts_with("  ") && !line.starts_with("   ");
        assert!(command || line.trim_end().chars().count() <= 80, "{line}");
    }
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&folded), words(&told.out), "nothing is cut");
    // In a container nobody knows whether a process of the host exists.
    let here = std::fs::read_link("/proc/self/ns/pid").unwrap();
    if here.as_os_str() == "pid:[4026531836]" {
        insta::assert_snapshot!(steady(&told.out, &sleeper));
        place.set("LANG", "C");
        let plain = place.run(&["gpus"]).ends(0);
        assert!(plain.out.is_ascii(), "{}", plain.out);
        insta::assert_snapshot!(steady(plain.out.lines().next().unwrap(), &sleeper));
    }
}

#[test]
fn json_has_the_fields_that_the_page_describes() {
    let (_gpus, place, sleeper) = a_busy_node();
    let told = place.json("gpus --json");
    assert_eq!(told["schema_version"], 1);
    assert_eq!(told["driver"], "560.35.03");
    let gpu = &told["gpus"][0];
    assert_eq!(gpu["used_bytes"], 62_720_u64 << 20);
    assert_eq!(gpu["free_bytes"], (81_559_u64 - 62_720 - 600) << 20);
    assert_eq!(gpu["utilization_percent"], 97);
    assert_eq!(
        (&gpu["temperature_c"], &gpu["power_w"]),
        (&64.into(), &612.into())
    );
    assert_eq!(gpu["health"]["ecc_uncorrected_lifetime"], 2);
    assert_eq!(gpu["mig"], Value::Null);
    let process = &gpu["processes"][0];
    assert_eq!(
        (&process["pid"], &process["life"]),
        (&sleeper.pid().into(), &"stopped".into())
    );
    assert_eq!(process["command"], "sleep 600");
    assert_eq!(process["parent"], std::process::id());
    let health = &told["gpus"][1]["health"];
    assert_eq!(
        (&health["rows_replaced"], &health["replacement_pending"]),
        (&1.into(), &true.into())
    );
    assert_eq!(health["throttled"], serde_json::json!(["thermal"]));
    let split = &told["gpus"][2];
    assert_eq!(
        (&split["index"], &split["mig"][1]["uuid"]),
        (&3.into(), &"MIG-a2".into())
    );
    assert_eq!(
        split["mig"][0]["processes"][0]["used_bytes"],
        8_192_u64 << 20
    );
    let closed: Vec<_> = told["unavailable"].as_array().unwrap().iter().collect();
    assert_eq!((closed.len(), &closed[1]["lost"]), (2, &true.into()));
    let kinds: Vec<_> = told["advice"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["kind"])
        .collect();
    assert!(
        kinds.contains(&&"ecc".into()) && kinds.contains(&&"stopped".into()),
        "{kinds:?}"
    );
    let page = include_str!("../../docs/gpus.md");
    described(&told, page);
}

/// Every key of the document stands in the page.
fn described(value: &Value, page: &str) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            assert!(page.contains(&format!("`{key}`")), "{key} is not described");
            described(value, page);
        }),
        Value::Array(all) => all.iter().for_each(|value| described(value, page)),
        _ => {}
    }
}

#[test]
fn the_last_xid_of_each_gpu_is_shown_with_what_it_means() {
    let gpus = Gpus::new(&[
        &h100("GPU-a", 0, "pci=0000:3b:00"),
        &h100("GPU-b", 0, "pci=0000:af:00"),
    ]);
    let mut place = seeing(&gpus);
    place.set("TZ", "UTC");
    place.write(
        "kernel.log",
        "2026-11-20T09:00:00+00:00 gpu07 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python, Ch 00000008\n\
         2026-11-20T14:03:07+00:00 gpu07 kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', DBE at partition 3\n\
         2026-11-20T14:03:08+00:00 gpu07 kernel: NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, Ch 00000010\n\
         2026-11-20T15:00:00+00:00 gpu07 kernel: NVRM: Xid (PCI:0000:af:00): 13, pid=99, Graphics \x1b[31mException\n\
         2026-11-20T15:01:00+00:00 gpu07 kernel: NVRM: Xid (PCI:0000:d8:00): 79, GPU has fallen off the bus.\n",
    );
    let told = place.run(&["gpus", "--kernel-log", "kernel.log"]).ends(0);
    told.says(&[
        "GPU 0 had Xid 48 (2026-11-20 14:03 UTC): memory error that could not be corrected",
        "nvidia-smi -q -i GPU-a",
        "GPU 1 had Xid 13 (2026-11-20 15:00 UTC): a kernel of a program failed",
        "the GPU at 0000:d8:00 had Xid 79 (2026-11-20 15:01 UTC): the GPU has fallen off",
    ]);
    assert!(
        !told.out.contains("Xid 45") && !told.out.contains('\u{1b}'),
        "{}",
        told.out
    );
    let json = place.json("gpus --json --kernel-log kernel.log");
    let xid = &json["xids"][0];
    assert_eq!(
        (&xid["code"], &xid["gpu"], &xid["origin"]),
        (&48.into(), &0.into(), &"hardware".into())
    );
    assert_eq!(
        (&xid["pci"], &xid["at"]),
        (&"0000:3b:00".into(), &"2026-11-20T14:03:07Z".into())
    );
    described(&json, include_str!("../../docs/gpus.md"));
}

#[test]
fn a_kernel_log_that_cannot_be_read_is_told_once_and_is_no_error() {
    let gpus = Gpus::new(&[&h100("GPU-a", 0, "")]);
    let place = seeing(&gpus);
    let told = place.run(&["gpus", "--kernel-log", "gone.log"]).ends(0);
    assert_eq!(told.err.matches("no Xids:").count(), 1, "{}", told.err);
    assert!(!told.out.contains("Xid"), "{}", told.out);
    let json = place
        .run(&["gpus", "--json", "--kernel-log", "gone.log"])
        .ends(0);
    assert_eq!(json.err, "");
    assert!(
        json.json()["kernel_log_error"]
            .as_str()
            .unwrap()
            .contains("gone.log")
    );
}

#[test]
fn an_old_driver_counts_what_it_keeps_for_itself_as_used() {
    let gpus = Gpus::new(&[
        "old",
        &h100("GPU-a", 1_000, "reserved_mib=600"),
        "process gpu=0 pid=1 used_mib=500 graphics=1",
    ]);
    let told = seeing(&gpus).run(&["gpus", "--json"]).ends(0).json();
    assert_eq!(told["gpus"][0]["used_bytes"], 1_600_u64 << 20);
    assert_eq!(told["gpus"][0]["free_bytes"], (81_559_u64 - 1_600) << 20);
    let processes = told["gpus"][0]["processes"].as_array().unwrap();
    assert_eq!((processes.len(), &processes[0]["pid"]), (1, &1.into()));
}

#[test]
fn without_a_driver_there_are_no_gpus_and_nothing_fails_but_waiting() {
    let place = Place::bare();
    let told = place.json("gpus --json");
    assert_eq!(told["gpus"], serde_json::json!([]));
    assert!(
        told["reason"]
            .as_str()
            .unwrap()
            .starts_with("no NVIDIA driver")
    );
    let text = place.run(&["gpus"]).ends(0);
    text.says(&["No GPUs: no NVIDIA driver on this node", "On a login node"]);
    place.says("gpus --watch", 0, &["No GPUs"]);
    let waited = place.run(&["gpus", "--wait", "4000"]).ends(20);
    assert_eq!(waited.out, "");
    waited.says(&["no NVIDIA driver", "hint: "]);
}

#[test]
fn a_driver_that_refuses_is_an_error() {
    let gpus = Gpus::new(&["init error=18"]);
    seeing(&gpus).run(&["gpus"]).ends(1).says(&["NVML: "]);
}

#[test]
fn waiting_prints_the_freest_gpu_that_may_be_used() {
    let gpus = Gpus::new(&[
        &h100("GPU-a", 70_000, ""),
        &h100("GPU-b", 1_000, "reserved_mib=600"),
        &h100("GPU-c", 30_000, ""),
        &h100("GPU-d", 0, "mig=1"),
        "part gpu=3 uuid=MIG-d1 name=1g total_mib=9728 used_mib=0",
    ]);
    let mut place = seeing(&gpus);
    let said = |place: &Place, need: &str| place.run(&["gpus", "--wait", need]).ends(0).out;
    assert_eq!(said(&place, "4000"), "GPU-b\n");
    let json = place.json("gpus --wait 4GiB --json");
    assert_eq!((&json["uuid"], &json["gpu"]), (&"GPU-b".into(), &1.into()));
    assert_eq!(json["free_bytes"], (81_559_u64 - 1_600) << 20);
    place.set("CUDA_VISIBLE_DEVICES", "0,GPU-c");
    assert_eq!(said(&place, "4000"), "GPU-c\n");
    place.set("CUDA_VISIBLE_DEVICES", "MIG-d1");
    assert_eq!(said(&place, "9000"), "MIG-d1\n");
    place.says("gpus --wait 10GiB", 20, &["the largest has 9.50 GiB"]);
    place.set("CUDA_VISIBLE_DEVICES", "");
    place.says("gpus --wait 1", 20, &["no GPU may be used here"]);
}

#[test]
fn waiting_goes_on_until_memory_is_free_or_time_is_up() {
    let gpus = Gpus::new(&[&h100("GPU-a", 70_000, "")]);
    let place = seeing(&gpus);
    let late = place
        .run(&["gpus", "--wait", "40000", "--timeout", "0"])
        .ends(21);
    late.says(&[
        "no GPU had 39.06 GiB free in time; the freest has 11.29 GiB",
        "hint: ",
    ]);
    let mut waits = place.start(&["gpus", "--wait", "40000"]);
    let mut talk = String::new();
    BufReader::new(waits.child.stderr.as_mut().unwrap())
        .read_line(&mut talk)
        .unwrap();
    assert_eq!(
        talk,
        "waiting for a GPU with 39.06 GiB free; the freest has 11.29 GiB\n"
    );
    gpus.are(&[&h100("GPU-a", 1_000, "")]);
    assert_eq!(waits.end().ends(0).out, "GPU-a\n");
}

#[test]
fn a_signal_ends_the_wait() {
    let gpus = Gpus::new(&[&h100("GPU-a", 70_000, "")]);
    let place = seeing(&gpus);
    let mut waits = place.start(&["gpus", "--wait", "40000"]);
    let mut talk = [0; 7];
    waits
        .child
        .stderr
        .as_mut()
        .unwrap()
        .read_exact(&mut talk)
        .unwrap();
    waits.signal(Signal::INT);
    waits.end().ends(130);
}

#[test]
fn watching_off_a_terminal_is_a_line_a_gpu_and_look() {
    let gpus = Gpus::new(&[
        &h100("GPU-a", 8_156, "util=50 temp=60"),
        &h100("GPU-b", 0, ""),
    ]);
    let place = seeing(&gpus);
    let mut live = place.start(&["gpus", "--watch", "0.05"]);
    let out = live.child.stdout.take().unwrap();
    let mut lines = BufReader::new(out).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    assert!(
        first.ends_with("Z GPU 0 8.0 of 79.6 GiB 50% 60C GPU-a"),
        "{first}"
    );
    gpus.are(&[&h100("GPU-a", 40_780, "util=50 temp=61")]);
    assert!(lines.any(|line| line.ends_with("GPU 0 39.8 of 79.6 GiB 50% 61C GPU-a")));
    live.signal(Signal::INT);
    let code = live.child.wait().unwrap().code();
    assert_eq!(code, Some(130));
}

#[test]
fn watching_as_json_is_a_document_a_line() {
    let gpus = Gpus::new(&[&h100("GPU-a", 8_156, "")]);
    let place = seeing(&gpus);
    let mut live = place.start(&["gpus", "--watch", "0.05", "--json"]);
    let out = live.child.stdout.take().unwrap();
    for line in BufReader::new(out).lines().take(2) {
        let told: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(told["gpus"][0]["uuid"], "GPU-a");
    }
    // Nobody reads on, and it ends by itself.
    assert!(live.child.wait().unwrap().success());
}

/// The two ends of a new terminal: ours, and that of a program.
pub fn terminal() -> (OwnedFd, OwnedFd) {
    terminal_of(80)
}

/// The same with so many columns.
pub fn terminal_of(columns: u16) -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the pointers are to living values; name and settings are not asked for.
    let code = unsafe {
        libc::openpty(
            &raw mut ours,
            &raw mut theirs,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(code, 0);
    // SAFETY: both were just opened, and belong to nobody else.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

#[test]
fn watching_on_a_terminal_redraws_and_leaves_the_terminal_as_it_was() {
    let gpus = Gpus::new(&[&h100("GPU-a", 8_156, "util=50 temp=60")]);
    let place = seeing(&gpus);
    let (ours, theirs) = terminal();
    let mut command = place.command(&["gpus", "--watch", "0.05"]);
    command
        .env("NO_COLOR", "1")
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut screen = std::fs::File::from(ours);
    let mut seen = String::new();
    // Three looks at 10 % of the memory, then one at the half.
    until(&mut screen, "▁▁▁   ", &mut seen);
    gpus.are(&[&h100("GPU-a", 40_780, "util=50 temp=60")]);
    until(&mut screen, "▁▄   39.8 of 79.6 GiB  50%  60C", &mut seen);
    let row = seen
        .lines()
        .rfind(|line| line.contains("79.6 GiB"))
        .unwrap();
    assert!(row.contains("0 H100 80GB HBM3 ["), "{row}");
    assert!(!seen.contains("\u{1b}[36m"), "no colours are wanted");
    assert!(seen.starts_with("\u{1b}[?1049h\u{1b}[?25l"), "{seen:?}");
    assert!(!seen.contains("\u{1b}[?1049l"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until(&mut screen, "\u{1b}[?25h\u{1b}[?1049l", &mut seen);
    // What was seen last stays.
    seen.drain(..seen.find("\u{1b}[?1049l").unwrap());
    until(&mut screen, "79.6 GiB", &mut seen);
}

/// Reads on until these words were seen.
fn until(screen: &mut std::fs::File, words: &str, seen: &mut String) {
    let mut bytes = [0; 4096];
    while !seen.contains(words) {
        // A terminal whose programs have all ended answers with an error.
        let Ok(n @ 1..) = screen.read(&mut bytes) else {
            panic!("{words:?} is not in {seen:?}")
        };
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
}

/// Slurm with one job on two nodes, 7, and one that waits, 8; srun runs the program once for each node.
fn slurm(place: &mut Place) {
    let bin = place.root.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let squeue = "#!/bin/bash\n\
        echo '7|7|RUNNING|0|0|0|1700000000|1700000000|1700000000|n[1-2]|None|(null)|train'\n\
        echo '8|8|PENDING|0|0|0|1700000000|0|0||Resources|(null)|train'\n";
    let srun = "#!/bin/bash\n\
        printf '%s\\n' \"$*\" >>srun.calls\n\
        while [[ $1 == --* ]]; do shift; done\n\
        task=0\n\
        for node in n2 n1; do\n\
          [[ ! -e down.$node ]] || { echo 'srun: error: Node failure' >&2; code=1; continue; }\n\
          SLURMD_NODENAME=$node \"$@\" | while IFS= read -r line; do echo \"$task: $line\"; done\n\
          task=$((task + 1))\n\
        done\n\
        exit ${code:-0}\n";
    install(&bin.join("squeue"), squeue);
    install(&bin.join("srun"), srun);
    place.first_on_path = vec![bin];
}

#[test]
fn the_nodes_of_a_job_are_looked_at_and_put_together() {
    let gpus = Gpus::new(&[&h100("GPU-a", 1_024, "util=50 temp=60")]);
    let mut place = seeing(&gpus);
    slurm(&mut place);
    let text = place.run(&["gpus", "--job", "7"]).ends(0).out;
    let names: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(names, ["n1", "n2"]);
    assert_eq!(text.matches("1.0 of 79.6 GiB").count(), 2);
    let calls = place.read("srun.calls");
    assert!(
        calls.contains("--jobid=7 --nodes=2 --ntasks=2 --overlap "),
        "{calls}"
    );
    let json = place.json("gpus --job 7 --json");
    assert_eq!((&json["job"], &json["error"]), (&"7".into(), &Value::Null));
    assert_eq!(json["nodes"][1]["node"], "n2");
    assert_eq!(json["nodes"][1]["gpus"][0]["uuid"], "GPU-a");
    // A node that does not answer takes nothing from the others.
    place.write("down.n2", "");
    let half = place.run(&["gpus", "--job", "7"]).ends(4);
    half.says(&[
        "n1\n",
        "no answer from n2: exit code 1: srun: error: Node failure",
    ]);
}

#[test]
fn a_job_without_nodes_and_an_unknown_one_are_refused() {
    let mut place = Place::bare();
    slurm(&mut place);
    place.says("gpus --job 8", 2, &["job 8 is PENDING"]);
    place.says("gpus --job 9", 2, &["Slurm does not know job 9"]);
    place.run(&["gpus", "--job", "--help"]).ends(2);
    place.first_on_path.clear();
    place.set("PATH", "/nonexistent");
    place.says("gpus --job 7", 4, &["Slurm does not answer"]);
}

#[test]
fn in_a_project_its_job_and_its_last_run_are_looked_at_too() {
    let gpus = Gpus::new(&["gpu uuid=GPU-a name=T4 total_mib=15109 used_mib=0 util=0"]);
    let mut place = Place::example();
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    let small = "GPU 0 has 14.75 GiB at most, and the job that oomctl.yaml describes takes ";
    let told = place.run(&["gpus"]).ends(0);
    assert!(told.out.replace('\n', " ").contains(small), "{}", told.out);
    assert!(told.out.contains("\n  oomctl plan\n"), "{}", told.out);
    // A project that cannot be read hides no GPU.
    place.write("oomctl.yaml", "knobs: [");
    place.says("gpus", 0, &["0.0 of 14.8 GiB"]);
}

/// As PyTorch says it.
const FRAGMENTED: &str = "#!/bin/bash\necho 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. \
    GPU 0 has a total capacity of 79.18 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has \
    78.07 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 6.02 GiB is reserved by \
    PyTorch but unallocated.' >&2\nexit 1\n";

#[test]
fn a_run_that_died_of_fragmentation_is_told_to_who_looks_at_the_gpus() {
    let gpus = Gpus::new(&[&h100("GPU-a", 0, "util=0")]);
    let mut place = weaver::project("knobs: { launcher: [./dies.sh] }");
    install(&place.path("dies.sh"), FRAGMENTED);
    for (name, value) in gpus.variables() {
        place.set(name, &value);
    }
    assert!(!place.run(&["gpus"]).ends(0).out.contains("fragmentation"));
    let submit = ["submit", "--backend", "local", "--watch", "--attempts", "1"];
    place.run(&submit).ends(8);
    let told = place.json("gpus --json");
    let advice = &told["advice"][0];
    assert_eq!(advice["kind"], "fragmentation");
    assert_eq!(advice["command"], "oomctl diagnose weaver-1");
    let asked =
        "run weaver-1 died asking for 2.00 GiB while PyTorch held 6.02 GiB that it did not use";
    assert!(
        advice["text"].as_str().unwrap().starts_with(asked),
        "{advice}"
    );
}
