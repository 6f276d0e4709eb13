//! The shipped preset on commands of several kinds.

use super::{Ended, Launch, NextLaunch, ProgramAttempt, RunArguments};
use crate::core::config::{from_flags, parse_knob_set, parse_preset};
use crate::core::recipe::Layer;
use oomctl_base::job::ExitStatus;
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};

const PRESET: &str = include_str!("../../../presets/robust.yaml");
const SET: &str = include_str!("../../../presets/sets/run.yaml");

fn launch(command: &str, spellings: &[&str], set: &[&str]) -> Launch {
    let file = parse_preset("robust.yaml", PRESET).unwrap();
    let sets = vec![parse_knob_set("run.yaml", SET).unwrap()];
    let given = RunArguments {
        command: command.split(' ').map(str::to_owned).collect(),
        spellings: spellings.iter().map(|s| (*s).to_owned()).collect(),
        ..RunArguments::default()
    };
    let launch = Launch::new(file, sets, given).unwrap();
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let flags = from_flags(launch.preset(), &set, &[]).unwrap();
    launch.with(vec![flags])
}

fn out_of_memory(class: Class) -> Ended {
    Ended {
        exit: ExitStatus { code: 1, signal: 0 },
        incident: Incident::bare("cuda_oom", class),
        told: false,
    }
}

/// The attempts of a program that runs out of GPU memory each time, on a machine with so many GPUs of which
/// it always gets the first that is left.
fn attempts(launch: &Launch, gpus: usize) -> Vec<ProgramAttempt> {
    let ended = out_of_memory(Class::GpuOom);
    let (mut rungs, mut all): (Vec<Layer>, Vec<ProgramAttempt>) = (Vec::new(), Vec::new());
    loop {
        let attempt = launch.attempt(&rungs).unwrap();
        let gpu = format!("GPU-{}", attempt.excluded_gpus.len());
        let gpu = (!attempt.cpu).then_some(gpu.as_str());
        all.push(attempt);
        let number = u32::try_from(all.len()).unwrap();
        assert!(number < 50, "it must end");
        match launch.after(&ended, &rungs, number, (gpu, gpus)).unwrap() {
            NextLaunch::Again { steps } => rungs.extend(steps.into_iter().map(|s| s.layer)),
            NextLaunch::Exhausted { .. } => return all,
            NextLaunch::Over => panic!("an out-of-memory is not over"),
        }
    }
}

fn commands(launch: &Launch, gpus: usize) -> Vec<String> {
    let all = attempts(launch, gpus);
    all.iter().map(|a| a.command("").join(" ")).collect()
}

#[test]
fn the_batch_is_halved_and_the_effective_batch_stays_then_another_gpu_then_the_cpu() {
    let launch = launch(
        "python train.py model=lora training.batch_size=64",
        &[],
        &["allow_cpu=true"],
    );
    let start = "python train.py model=lora training.batch_size";
    let accum = "training.gradient_accumulation_steps";
    assert_eq!(
        commands(&launch, 2),
        [
            format!("{start}=64"),
            format!("{start}=32 {accum}=2"),
            format!("{start}=16 {accum}=4"),
            format!("{start}=8 {accum}=8"),
            format!("{start}=8 {accum}=8"),
            format!("{start}=8 device=cpu {accum}=8 num_workers=0"),
        ]
    );
    let all = attempts(&launch, 2);
    assert_eq!(all[4].excluded_gpus, ["GPU-0"]);
    assert!(all[5].cpu && !all[4].cpu);
    let first = &all[0];
    assert_eq!(
        (first.need.0 >> 20, first.wait_s, first.check_every_s),
        (4_000, 3_600, 30)
    );
    assert_eq!((first.claim, first.environment.len()), (None, 0));
}

#[test]
fn the_batch_stops_at_its_minimum_and_the_cpu_must_be_allowed() {
    let set = ["min_batch_size=16", "max_retries=9"];
    let launch = launch(
        "t.py --batch-size 40 --gradient_accumulation_steps=3",
        &[],
        &set,
    );
    assert_eq!(
        commands(&launch, 1),
        [
            "t.py --batch-size 40 --gradient_accumulation_steps=3",
            "t.py --batch-size 20 --gradient_accumulation_steps=6",
            // A half of 20 is below the minimum: what is left keeps the effective batch nearly.
            "t.py --batch-size 16 --gradient_accumulation_steps=8",
        ]
    );
}

#[test]
fn knobs_are_spelled_as_the_command_or_the_user_says() {
    let second = |command: &str, spellings: &[&str], set: &[&str]| {
        commands(&launch(command, spellings, set), 1)[1].clone()
    };
    assert_eq!(
        second("t.py batch_size=8 seed=1", &[], &[]),
        "t.py batch_size=4 seed=1 gradient_accumulation_steps=2"
    );
    assert_eq!(
        second("t.py --per_device_train_batch_size 8", &[], &[]),
        "t.py --per_device_train_batch_size 4 --gradient_accumulation_steps 2"
    );
    assert_eq!(
        second("t.py -b 8", &["batch=-b", "accum=--every"], &[]),
        "t.py -b 4 --every 2"
    );
    // A program that cannot accumulate gets a smaller effective batch.
    assert_eq!(
        second("t.py -b 8", &["batch=-b", "accum="], &[]),
        "t.py -b 4"
    );
    assert_eq!(
        second("sh -c x={batch},{accum}", &[], &["batch=8"]),
        "sh -c x=4,2"
    );
    // Without a word of either kind nothing is added: half a batch is half a batch.
    assert_eq!(second("sh -c {batch}", &[], &["batch=8"]), "sh -c 4");
    let cpu = &["allow_cpu=true"];
    assert_eq!(second("./x.sh", &[], cpu), "./x.sh");
    assert_eq!(second("sh -c A=1 --x", &[], cpu), "sh -c A=1 --x");
    // Nothing is known of the batch: only the CPU is left, in the words of flags.
    let unknown = launch("t.py --lr 1", &[], &[]);
    assert_eq!(commands(&unknown, 1), ["t.py --lr 1"]);
    let remarks = unknown.remarking_an_unknown_batch().unwrap();
    assert!(remarks.remarks()[0].contains("--knob batch=OPTION"));
    assert_eq!(
        second("t.py --lr 1", &[], &["allow_cpu=true"]),
        "t.py --lr 1 --device cpu --num_workers 0"
    );
}

#[test]
fn variables_are_knobs_too_and_what_is_set_wins_over_the_command() {
    let launch = launch("t.sh", &["batch=env:BATCH"], &["batch=8"]);
    let all = attempts(&launch, 1);
    assert_eq!(all[0].environment, [("BATCH".to_owned(), "8".to_owned())]);
    assert_eq!(all[1].environment[0].1, "4");
    let set = self::launch("t.py training.batch_size=8", &[], &["batch=6"]);
    assert_eq!(commands(&set, 1)[0], "t.py training.batch_size=6");
}

#[test]
fn rungs_that_must_be_allowed_are_taken_only_then_and_for_what_they_answer() {
    let command = "t.py training.batch_size=4 model.lora_r=16";
    let allowed = launch(command, &[], &["allow=smaller-lora-rank,fewer-workers"]);
    assert!(commands(&allowed, 1)[1].contains("model.lora_r=4"));
    assert_eq!(commands(&launch(command, &[], &[]), 1), [command]);
    let after = |class| allowed.after(&out_of_memory(class), &[], 1, (Some("GPU-0"), 1));
    match after(Class::HostOom).unwrap() {
        NextLaunch::Again { steps } => {
            let layers = [steps[0].layer.clone()];
            let command = allowed.attempt(&layers).unwrap().command("").join(" ");
            assert!(command.ends_with("training.num_workers=2"), "{command}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gpu_that_others_fill_is_left_before_the_batch_is_touched() {
    let launch = launch("t.py training.batch_size=64", &[], &[]);
    let mut ended = out_of_memory(Class::GpuOom);
    ended.incident.requested_bytes = Some(Bytes(2 << 30));
    let mut first = |theirs, gpus| {
        ended.incident.co_tenant_bytes = Some(Bytes(theirs));
        match launch.after(&ended, &[], 1, (Some("GPU-0"), gpus)).unwrap() {
            NextLaunch::Again { steps } => steps[0].rung.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(first(40 << 30, 2), "leave-crowded-gpu");
    // There is no other, or what they hold would not have been enough.
    assert_eq!(first(40 << 30, 1), "halve-batch");
    assert_eq!(first(1 << 20, 2), "halve-batch");
}

#[test]
fn what_an_attempt_needed_is_its_own_memory_and_what_it_asked_for() {
    let mut ended = out_of_memory(Class::GpuOom);
    assert_eq!(ended.needed(), None);
    let gib = |n: u64| Some(Bytes(n << 30));
    ended.incident.requested_bytes = gib(4);
    ended.incident.reserved_bytes = gib(15);
    assert_eq!(ended.needed(), gib(19));
    // Of 24 GiB 1 is free and 4 are the neighbour's.
    (ended.incident.total_bytes, ended.incident.free_bytes) = (gib(24), gib(1));
    ended.incident.co_tenant_bytes = gib(4);
    assert_eq!(ended.needed(), gib(23));
    ended.incident.free_bytes = gib(30);
    assert_eq!(ended.needed(), None);
    ended.incident.class = Class::HostOom;
    assert_eq!(ended.needed(), None);
}

#[test]
fn only_memory_is_answered() {
    let launch = launch("t.py training.batch_size=64", &[], &[]);
    let after = |ended: &Ended| launch.after(ended, &[], 1, (Some("GPU-0"), 2)).unwrap();
    let failed = Ended {
        incident: Incident::bare("code_bug", Class::NotOom),
        ..out_of_memory(Class::GpuOom)
    };
    assert_eq!(after(&failed), NextLaunch::Over);
    // It says that memory ran out, and ends in success; or somebody ended it.
    let mut survived = out_of_memory(Class::GpuOom);
    survived.exit = ExitStatus::default();
    assert_eq!(after(&survived), NextLaunch::Over);
    let mut told = out_of_memory(Class::GpuOom);
    told.told = true;
    assert_eq!(after(&told), NextLaunch::Over);
    let ended = |code, signal| Ended {
        exit: ExitStatus { code, signal },
        ..failed.clone()
    };
    assert_eq!((ended(3, 0).code(), ended(0, 15).code()), (3, 143));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_place() {
    let file = || parse_preset("robust.yaml", PRESET).unwrap();
    let sets = || vec![parse_knob_set("run.yaml", SET).unwrap()];
    let given = |spelling: &str| RunArguments {
        command: vec!["t.py".to_owned()],
        spellings: vec![spelling.to_owned()],
        ..RunArguments::default()
    };
    for (spelling, expected) in [
        ("bach=x", "did you mean batch?"),
        ("batch", "--knob batch=training.batch"),
    ] {
        let refusal = Launch::new(file(), sets(), given(spelling)).unwrap_err();
        let hint = refusal.0[0].hint.clone().unwrap();
        assert!(hint.contains(expected), "{hint}");
    }
    let mut odd = file();
    odd.spellings[0].insert("bacth".to_owned(), "x".to_owned());
    let refusal = Launch::new(odd, sets(), given("batch=x")).unwrap_err();
    assert!(refusal.0[0].what.starts_with("spellings: "), "{refusal}");
    let refusal = launch("t.py {batch}", &[], &[]).attempt(&[]).unwrap_err();
    assert!(refusal.0[0].hint.as_ref().unwrap().contains("--set batch="));
    let odd = launch("t.py training.batch_size=8,16", &[], &[]);
    assert!(odd.remarks()[0].contains("batch"), "{:?}", odd.remarks());
    assert_eq!(commands(&odd, 1)[0], "t.py training.batch_size=8,16");
}
