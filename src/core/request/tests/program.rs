//! The shipped preset for programs on commands of several kinds.

use std::collections::BTreeMap;

use super::start::request as toy;
use crate::core::config::{from_flags, parse_knob_set, parse_preset};
use crate::core::ladder::{Decision, OnMachine, Past, Step};
use crate::core::launch::{GpuWish, RunProgram, needed, unknown_batch};
use crate::core::recipe::Layer;
use crate::core::request::{Inputs, NamedText, Request};
use oomctl_base::Refusal;
use oomctl_base::job::{GpuUsed, RunMachine};
use oomctl_base::units::Bytes;
use oomctl_diagnose::{Class, Incident};

const PRESET: &str = include_str!("../../../../presets/robust.yaml");
const SETS: [&str; 2] = [
    include_str!("../../../../presets/sets/run.yaml"),
    include_str!("../../../../presets/sets/pytorch.yaml"),
];

fn named(path: &str, text: &str) -> NamedText {
    NamedText {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

/// The request for a command, and remarks on it.
fn asked(
    command: &str,
    spellings: &[&str],
    set: &[&str],
) -> Result<(Request, Vec<String>), Refusal> {
    let file = parse_preset("robust.yaml", PRESET).unwrap();
    let sets = SETS.map(|text| parse_knob_set("set.yaml", text).unwrap());
    let program = RunProgram {
        command: command.split(' ').map(str::to_owned).collect(),
        spellings: spellings.iter().map(|s| (*s).to_owned()).collect(),
        ..RunProgram::default()
    };
    let preset = program.assemble(file, sets.to_vec())?;
    let (words, mut remarks) = program.layer(&preset, &BTreeMap::new());
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let flags = from_flags(&preset, &set, &[]).unwrap();
    let request = Request::new(Inputs {
        knob_sets: SETS.map(|text| named("set.yaml", text)).to_vec().into(),
        ladder: preset.ladder.clone().into(),
        templates: preset.stand_in_templates().into(),
        program: Some(program),
        layers: vec![words, flags],
        one_rung: true,
        backend: "program".to_owned(),
        preset: named("robust.yaml", PRESET).into(),
        ..toy("run", &[], &[]).inputs().clone()
    })?;
    let shape = request.shape(&[])?;
    remarks.extend(unknown_batch(&preset, &preset.ladder, &shape));
    Ok((request, remarks))
}

fn launch(command: &str, spellings: &[&str], set: &[&str]) -> Request {
    asked(command, spellings, set).unwrap().0
}

/// A machine with so many GPUs; the program has the one of this number.
fn machine(gpu: Option<usize>, gpus: usize) -> RunMachine {
    let uuid = |n: usize| format!("GPU-{n}");
    RunMachine {
        gpu: gpu.map(|n| GpuUsed {
            index: 0,
            uuid: uuid(n),
            name: "H100".to_owned(),
            total_bytes: Bytes(80 << 30),
            free_bytes: Bytes(80 << 30),
        }),
        capacities: (0..gpus).map(|n| (uuid(n), Bytes(80 << 30))).collect(),
    }
}

/// What follows an incident of attempt `number` on a machine.
fn after(
    request: &Request,
    incident: &Incident,
    rungs: &[Layer],
    number: u32,
    machine: &RunMachine,
) -> Option<Vec<Step>> {
    let past = Past {
        machine: Some(OnMachine {
            machine,
            needed: None,
        }),
        ..Past::default()
    };
    match request.ascend(rungs, past, Some(incident), number).unwrap() {
        Decision::Climb { steps, .. } => Some(steps),
        Decision::Exhausted { .. } => None,
    }
}

fn out_of_memory(class: Class) -> Incident {
    Incident::bare("cuda_oom", class)
}

/// One attempt: its words and variables, and what it asks of the GPUs.
struct Attempt {
    words: String,
    environment: BTreeMap<String, String>,
    wish: GpuWish,
}

fn attempt(request: &Request, rungs: &[Layer]) -> Result<Attempt, Refusal> {
    let handed = request.handed(rungs, "")?;
    Ok(Attempt {
        words: handed.arguments.join(" "),
        environment: handed.variables,
        wish: handed.gpu.unwrap(),
    })
}

/// The attempts of a program that runs out of GPU memory each time, on a machine with so many GPUs of which
/// it always gets the first that is left.
fn attempts(request: &Request, gpus: usize) -> Vec<Attempt> {
    let incident = out_of_memory(Class::GpuOom);
    let (mut rungs, mut all): (Vec<Layer>, Vec<Attempt>) = (Vec::new(), Vec::new());
    loop {
        let attempt = attempt(request, &rungs).unwrap();
        let gpu = (!attempt.wish.cpu).then_some(attempt.wish.excluded.len());
        all.push(attempt);
        let number = u32::try_from(all.len()).unwrap();
        assert!(number < 50, "it must end");
        match after(request, &incident, &rungs, number, &machine(gpu, gpus)) {
            Some(steps) => rungs.extend(steps.into_iter().map(|s| s.layer)),
            None => return all,
        }
    }
}

fn commands(request: &Request, gpus: usize) -> Vec<String> {
    let all = attempts(request, gpus);
    all.into_iter().map(|a| a.words).collect()
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
    assert_eq!(all[4].wish.excluded, ["GPU-0"]);
    assert!(all[5].wish.cpu && !all[4].wish.cpu);
    let first = &all[0].wish;
    assert_eq!(
        (first.need.0 >> 20, first.wait_s, first.check_every_s),
        (4_000, 3_600, 30)
    );
    assert_eq!((first.claim, all[0].environment.len()), (None, 0));
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
    let (unknown, remarks) = asked("t.py --lr 1", &[], &[]).unwrap();
    assert_eq!(commands(&unknown, 1), ["t.py --lr 1"]);
    assert!(remarks[0].contains("--knob batch=OPTION"));
    assert_eq!(
        second("t.py --lr 1", &[], &["allow_cpu=true"]),
        "t.py --lr 1 --device cpu --num_workers 0"
    );
}

#[test]
fn a_program_whose_options_are_known_gets_no_other_and_its_own_form_of_those() {
    let command = |text: &str| text.split(' ').map(str::to_owned).collect();
    let launch = |takes: Option<&[&str]>| {
        let (request, _) = asked("t.py --batch_size 8", &[], &["allow_cpu=true"]).unwrap();
        let mut inputs = request.inputs().clone();
        inputs.program = Some(RunProgram {
            command: command("t.py --batch_size 8"),
            takes: takes.map(|t| t.iter().map(|f| (*f).to_owned()).collect()),
            ..RunProgram::default()
        });
        commands(&Request::new(inputs).unwrap(), 1)[1].clone()
    };
    let halved = "t.py --batch_size 4 --gradient_accumulation_steps 2";
    assert_eq!(launch(None), halved);
    assert_eq!(launch(Some(&["--batch_size"])), "t.py --batch_size 4");
    assert_eq!(
        launch(Some(&["--batch_size", "--gradient-accumulation-steps"])),
        "t.py --batch_size 4 --gradient-accumulation-steps 2"
    );
}

#[test]
fn variables_are_knobs_too_and_what_is_set_wins_over_the_command() {
    let launch = launch("t.sh", &["batch=env:BATCH"], &["batch=8"]);
    let all = attempts(&launch, 1);
    assert_eq!(all[0].environment["BATCH"], "8");
    assert_eq!(all[1].environment["BATCH"], "4");
    let set = self::launch("t.py training.batch_size=8", &[], &["batch=6"]);
    assert_eq!(commands(&set, 1)[0], "t.py training.batch_size=6");
}

#[test]
fn rungs_that_must_be_allowed_are_taken_only_then_and_for_what_they_answer() {
    let command = "t.py training.batch_size=4 model.lora_r=16";
    let allowed = launch(command, &[], &["allow=smaller-lora-rank,fewer-workers"]);
    assert!(commands(&allowed, 1)[1].contains("model.lora_r=4"));
    assert_eq!(commands(&launch(command, &[], &[]), 1), [command]);
    let here = machine(Some(0), 1);
    let steps = after(&allowed, &out_of_memory(Class::HostOom), &[], 1, &here).unwrap();
    let command = attempt(&allowed, &[steps[0].layer.clone()]).unwrap().words;
    assert!(command.ends_with("training.num_workers=2"), "{command}");
}

#[test]
fn a_gpu_that_others_fill_is_left_before_the_batch_is_touched() {
    let launch = launch("t.py training.batch_size=64", &[], &[]);
    let mut incident = out_of_memory(Class::GpuOom);
    incident.requested_bytes = Some(Bytes(2 << 30));
    let mut first = |theirs, gpus| {
        incident.co_tenant_bytes = Some(Bytes(theirs));
        let steps = after(&launch, &incident, &[], 1, &machine(Some(0), gpus));
        steps.unwrap()[0].rung.clone()
    };
    assert_eq!(first(40 << 30, 2), "leave-crowded-gpu");
    // There is no other, or what they hold would not have been enough.
    assert_eq!(first(40 << 30, 1), "halve-batch");
    assert_eq!(first(1 << 20, 2), "halve-batch");
}

#[test]
fn what_an_attempt_needed_is_its_own_memory_and_what_it_asked_for() {
    let mut said = out_of_memory(Class::GpuOom);
    assert_eq!(needed(&said), None);
    let gib = |n: u64| Some(Bytes(n << 30));
    said.requested_bytes = gib(4);
    said.reserved_bytes = gib(15);
    assert_eq!(needed(&said), gib(19));
    // Of 24 GiB 1 is free and 4 are the neighbour's.
    (said.total_bytes, said.free_bytes) = (gib(24), gib(1));
    said.co_tenant_bytes = gib(4);
    assert_eq!(needed(&said), gib(23));
    said.free_bytes = gib(30);
    assert_eq!(needed(&said), None);
    said.class = Class::HostOom;
    assert_eq!(needed(&said), None);
}

/// A GPU that is too small for what the program has shown is no other GPU.
#[test]
fn a_gpu_that_is_too_small_for_what_was_seen_is_not_counted() {
    let launch = launch("t.py", &[], &[]);
    let mut incident = out_of_memory(Class::GpuOom);
    let two = machine(Some(0), 2);
    let rung =
        |incident: &Incident| after(&launch, incident, &[], 1, &two).map(|s| s[0].rung.clone());
    assert_eq!(rung(&incident).as_deref(), Some("other-gpu"));
    incident.requested_bytes = Some(Bytes(4 << 30));
    incident.reserved_bytes = Some(Bytes(79 << 30));
    assert_eq!(rung(&incident), None);
}

/// Two commands are compared by their words without the values of knobs, where they are started, and on what.
#[test]
fn commands_that_differ_only_in_values_of_knobs_are_compared() {
    let same = |command: &str| {
        let request = launch(command, &[], &[]);
        request.on_gpu(&machine(Some(0), 1)).job(&[]).unwrap().same
    };
    let first = same("t.py training.batch_size=64 seed=1");
    assert_eq!(first, same("t.py training.batch_size=32 seed=1"));
    assert_ne!(first, same("t.py training.batch_size=64 seed=2"));
    assert_ne!(first, same("u.py training.batch_size=64 seed=1"));
    assert_eq!(first["gpu"], "H100, 80.00 GiB");
}

#[test]
fn the_cpu_is_for_want_of_a_gpu_only_where_it_is_allowed() {
    let cpu = |set: &[&str]| {
        let request = launch("t.py training.batch_size=64", &[], set);
        let steps = request.without_gpu(&[], 1).unwrap();
        steps.map(|steps| {
            request
                .with_steps(&steps)
                .words(&[], "")
                .unwrap()
                .unwrap()
                .join(" ")
        })
    };
    assert_eq!(cpu(&[]), None);
    let command = cpu(&["allow_cpu=true"]).unwrap();
    assert!(command.contains("device=cpu"), "{command}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_place() {
    for (spelling, expected) in [
        ("bach=x", "did you mean batch?"),
        ("batch", "--knob batch=training.batch"),
    ] {
        let refusal = asked("t.py", &[spelling], &[]).unwrap_err();
        let hint = refusal.0[0].hint.clone().unwrap();
        assert!(hint.contains(expected), "{hint}");
    }
    let mut odd = parse_preset("robust.yaml", PRESET).unwrap();
    odd.spellings[0].insert("bacth".to_owned(), "x".to_owned());
    let sets = SETS.map(|text| parse_knob_set("set.yaml", text).unwrap());
    let refusal = RunProgram::default()
        .assemble(odd, sets.to_vec())
        .unwrap_err();
    assert!(refusal.0[0].what.starts_with("spellings: "), "{refusal}");
    let refusal = attempt(&launch("t.py {batch}", &[], &[]), &[])
        .err()
        .unwrap();
    assert!(refusal.0[0].hint.as_ref().unwrap().contains("--set batch="));
    let (odd, remarks) = asked("t.py training.batch_size=8,16", &[], &[]).unwrap();
    assert!(remarks[0].contains("batch"), "{remarks:?}");
    assert_eq!(commands(&odd, 1)[0], "t.py training.batch_size=8,16");
}
