//! Many programs of `oomctl run` on few made-up GPUs.

use super::launch::{gpu, place};
use super::nvml::Gpus;
use super::place::{Place, install};

/// Programs that are run at once; the figures in `docs/run.md` are of 200.
const AT_ONCE: usize = 24;

/// Takes the GPU for itself, and tells when it is not alone there.
const ALONE: &str = r#"#!/bin/bash
[[ -n "$CUDA_VISIBLE_DEVICES" ]] || { echo "no GPU" >>double; exit 1; }
mkdir "on-$CUDA_VISIBLE_DEVICES" || { echo "$CUDA_VISIBLE_DEVICES" >>double; exit 1; }
sleep 0.02
echo "$1" >>done
rmdir "on-$CUDA_VISIBLE_DEVICES"
exit "${2:-0}"
"#;

fn alone(gpus: &Gpus) -> Place {
    let place = place(gpus);
    install(&place.path("alone.sh"), ALONE);
    place
}

fn done(place: &Place) -> usize {
    place.read("done").lines().count()
}

#[test]
fn many_at_once_never_get_one_gpu_twice() {
    let count = std::env::var("OOMCTL_RUNS_AT_ONCE");
    let count = count.map_or(AT_ONCE, |n| n.parse().unwrap());
    let gpus: Vec<String> = (0..4).map(|n| gpu(&format!("GPU-{n}"), n * 100)).collect();
    let gpus = Gpus::new(&gpus.iter().map(String::as_str).collect::<Vec<_>>());
    let place = alone(&gpus);
    let words = ["run", "--check-every", "1s", "--", "./alone.sh", "x"];
    let all: Vec<_> = (0..count).map(|_| place.start(&words)).collect();
    for started in all {
        let done = started.end().ends(0);
        assert!(!done.err.contains("not recorded"), "{}", done.told());
    }
    assert!(!place.has("double"));
    assert_eq!(done(&place), count);
    // Nothing is left that claims a GPU.
    let left = std::fs::read_dir(place.path("runtime/oomctl")).unwrap();
    let names = left.map(|e| e.unwrap().file_name().into_string().unwrap());
    let claims: Vec<String> = names.filter(|n| !n.ends_with(".lock")).collect();
    assert_eq!(claims, Vec::<String>::new());
}

#[test]
fn the_commands_of_a_queue_run_as_gpus_come_free_and_each_has_its_log() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 0), &gpu("GPU-b", 0)]);
    let mut place = alone(&gpus);
    place.write(
        "commands.txt",
        "# six\n./alone.sh 1\n./alone.sh '2 2'\n-- ./alone.sh 3 \\\n  4\n\n./gone.sh\n./train.sh training.batch_size=64\n",
    );
    place.set("TRAINER", "oom 32");
    let ended = place
        .call("run --queue commands.txt --check-every 1s --json")
        .ends(127);
    let json = ended.json();
    let codes: Vec<u64> = json["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["exit_code"].as_u64().unwrap())
        .collect();
    assert_eq!(codes, [0, 0, 4, 127, 0]);
    ended.says(&[
        "3 of 5 succeeded",
        "4: exit code 127 (cannot start ./gone.sh",
    ]);
    assert!(!place.has("double"));
    assert!(place.read("done").contains("2 2"));
    let log = json["programs"][4]["log"].as_str().unwrap();
    let log = place.read(log);
    assert_eq!(log.matches("step 1/2 with batch").count(), 2, "{log}");
    let attempts = &json["programs"][4]["summary"]["attempts"];
    assert_eq!(attempts[0]["rungs"][0]["rung"], "halve-batch");
    assert_eq!(json["exit_code"], 127);
}

#[test]
fn a_queue_may_come_from_standard_input_and_one_that_makes_no_sense_runs_nothing() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 0)]);
    let place = alone(&gpus);
    let feed = |text: &str| {
        place.write("list", text);
        let mut command = place.command(&["run", "--after-gpu"]);
        command.stdin(std::fs::File::open(place.path("list")).unwrap());
        super::place::Done::from(command.output().unwrap())
    };
    feed("./alone.sh a\n./alone.sh 'b\n")
        .ends(2)
        .says(&["line 2", "quote"]);
    feed("# none\n").ends(2).says(&["standard input"]);
    assert!(!place.has("done"));
    feed("./alone.sh a\n./alone.sh b\n")
        .ends(0)
        .says(&["2 of 2 succeeded"]);
    assert_eq!(done(&place), 2);
}

#[test]
fn without_a_gpu_the_programs_of_a_queue_take_turns() {
    let place = Place::bare();
    let turn = "#!/bin/bash\nmkdir turn || { echo two >>double; exit 1; }\nsleep 0.02\necho \"$1\" >>done\nrmdir turn\n";
    install(&place.path("turn.sh"), turn);
    let list: String = (0..6).map(|i| format!("./turn.sh {i}\n")).collect();
    place.write("commands.txt", &list);
    let ended = place
        .run(&["run", "--allow-cpu", "--queue", "commands.txt"])
        .ends(0);
    ended.says(&["6 of 6 succeeded"]);
    assert!(!place.has("double"));
    assert_eq!(done(&place), 6);
}
