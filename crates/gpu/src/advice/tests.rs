use super::super::gpu::{
    DeviceMemory, Gpu, Health, Machine, MigDevice, Process, ProcessLife, Throttle, Unavailable,
};
use super::{Trouble, advise, fragmented, too_small};
use oomctl_base::units::Bytes;

const GIB: u64 = 1 << 30;

fn gpu(index: u32, used_gib: u64, processes: Vec<Process>) -> Gpu {
    let memory = DeviceMemory {
        total: Bytes(80 * GIB),
        used: Bytes(used_gib * GIB),
        free: Bytes((80 - used_gib) * GIB),
    };
    Gpu {
        utilization_percent: Some(90),
        processes,
        processes_known: true,
        ..Gpu::bare(index, &format!("GPU-{index}"), "H100", memory)
    }
}

fn process(pid: u32, gib: u64) -> Process {
    Process {
        user: Some("anna".to_owned()),
        command: Some("python train.py lr=1e-4".to_owned()),
        parent: Some(pid + 10_000),
        life: ProcessLife::Runs,
        ..Process::bare(pid, Some(Bytes(gib * GIB)))
    }
}

/// What is said of these GPUs to anna: kind, sentence, command.
fn said(gpus: Vec<Gpu>) -> Vec<(Trouble, String, String)> {
    let machine = Machine {
        gpus,
        ..Machine::default()
    };
    let all = advise(&machine, Some("anna")).into_iter();
    all.map(|a| (a.kind, a.text, a.command)).collect()
}

fn one(gpus: Vec<Gpu>) -> (Trouble, String, String) {
    let mut all = said(gpus);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn ordinary_work_needs_no_advice() {
    let ranks = (0..4).map(|i| gpu(i, 61, vec![process(i, 60)])).collect();
    assert_eq!(said(ranks), []);
    assert_eq!(said(vec![gpu(0, 0, vec![])]), []);
    assert_eq!(said(vec![]), []);
}

#[test]
fn faulty_memory_is_told_with_what_it_needs() {
    let faulty = |health: Health| {
        let gpu = Gpu {
            health,
            ..gpu(2, 0, vec![])
        };
        let (kind, text, command) = one(vec![gpu]);
        assert_eq!(kind, Trouble::Ecc);
        format!("{text}\n{command}")
    };
    let ok = Health::default();
    assert_eq!(
        faulty(Health {
            ecc_uncorrected: Some(1),
            ..ok.clone()
        }),
        "GPU 2 had 1 uncorrectable memory error since the driver was loaded\nnvidia-smi -q -d ECC,ROW_REMAPPER -i GPU-2"
    );
    let pending = Health {
        ecc_uncorrected: Some(1),
        replacement_pending: true,
        ..ok.clone()
    };
    assert!(faulty(pending.clone()).ends_with("nvidia-smi --gpu-reset -i GPU-2"));
    let failed = Health {
        replacement_failed: true,
        ..pending
    };
    assert!(faulty(failed).contains("replace the GPU"));
    // Errors of earlier days that were mended are none.
    let mended = Health {
        ecc_uncorrected: Some(0),
        ecc_uncorrected_lifetime: Some(9),
        rows_replaced: Some(2),
        ..ok
    };
    assert_eq!(
        said(vec![Gpu {
            health: mended,
            ..gpu(0, 0, vec![])
        }]),
        []
    );
}

#[test]
fn heat_and_lost_gpus_are_told() {
    let hot = Gpu {
        temperature_c: Some(91),
        health: Health {
            throttled: vec![Throttle::Thermal],
            ..Health::default()
        },
        ..gpu(0, 0, vec![])
    };
    let (kind, text, _) = one(vec![hot]);
    assert_eq!(kind, Trouble::Throttled);
    assert_eq!(text, "GPU 0 is throttled: it is too hot (91 C)");
    let closed = |lost| Unavailable {
        index: 3,
        error: "fell off the bus".to_owned(),
        lost,
    };
    let machine = Machine {
        unavailable: vec![closed(true), closed(false)],
        ..Machine::default()
    };
    let all = advise(&machine, None);
    assert_eq!(all.len(), 1, "one of another job is no trouble");
    assert_eq!(all[0].text, "GPU 3 does not answer: fell off the bus");
    assert_eq!(all[0].command, "dmesg | grep -i xid");
}

#[test]
fn memory_of_processes_that_do_not_run_is_told() {
    let held = |life, user: &str| {
        let process = Process {
            life,
            user: Some(user.to_owned()),
            ..process(7, 40)
        };
        one(vec![gpu(1, 41, vec![process])])
    };
    let (kind, text, command) = held(ProcessLife::Gone, "anna");
    assert_eq!(kind, Trouble::Zombie);
    assert_eq!(
        text,
        "GPU 1: 40.00 GiB are held by process 7, which no longer exists"
    );
    assert_eq!(command, "fuser -v /dev/nvidia*");
    let (kind, text, command) = held(ProcessLife::Stopped, "anna");
    assert_eq!(kind, Trouble::Stopped);
    assert_eq!(
        text,
        "GPU 1: 40.00 GiB are held by process 7 (anna, python train.py lr=1e-4), which is stopped"
    );
    assert_eq!(command, "kill -CONT 7");
    // What is not ours cannot be ended by us.
    assert_eq!(held(ProcessLife::Stopped, "ben").2, "ps -fp 7    # ask ben");
    assert!(
        held(ProcessLife::Ending, "ben")
            .1
            .ends_with("which has ended but still holds memory")
    );
}

#[test]
fn memory_that_nobody_accounts_for_is_told_from_two_gib_on() {
    let (kind, text, _) = one(vec![gpu(1, 50, vec![process(7, 40)])]);
    assert_eq!(kind, Trouble::Zombie);
    assert!(
        text.starts_with("GPU 1: 10.00 GiB held by no process that can be seen"),
        "{text}"
    );
    assert_eq!(said(vec![gpu(1, 42, vec![process(7, 40)])]), []);
    // A driver that does not tell who holds what leaves nothing to conclude.
    let unasked = Gpu {
        processes_known: false,
        ..gpu(1, 50, vec![])
    };
    assert_eq!(said(vec![unasked]), []);
    let silent = Process {
        used_bytes: None,
        ..process(7, 0)
    };
    assert_eq!(said(vec![gpu(1, 50, vec![silent])]), []);
}

#[test]
fn much_memory_under_an_idle_gpu_is_told() {
    let idle = |process| Gpu {
        utilization_percent: Some(0),
        ..gpu(1, 41, vec![process])
    };
    let (kind, text, command) = one(vec![idle(process(7, 40))]);
    assert_eq!(kind, Trouble::Idle);
    assert_eq!(
        text,
        "GPU 1: nothing runs, and 40.00 GiB are held by process 7 (anna, python train.py lr=1e-4)"
    );
    assert_eq!(command, "oomctl gpus --watch");
    let orphan = Process {
        parent: Some(1),
        ..process(7, 40)
    };
    let (_, text, command) = one(vec![idle(orphan)]);
    assert!(
        text.ends_with(", and the process that started it is gone"),
        "{text}"
    );
    assert_eq!(command, "kill 7");
    let small = Gpu {
        utilization_percent: Some(0),
        ..gpu(1, 5, vec![process(7, 4)])
    };
    assert_eq!(said(vec![small]), []);
}

#[test]
fn tenants_of_one_memory_are_told() {
    let ben = Process {
        user: Some("ben".to_owned()),
        job: Some("4712".to_owned()),
        ..process(8, 20)
    };
    let (kind, text, command) = one(vec![gpu(0, 60, vec![process(7, 40), ben.clone()])]);
    assert_eq!(kind, Trouble::CoTenant);
    assert_eq!(
        text,
        "GPU 0 is shared: anna with 40.00 GiB, job 4712 of ben with 20.00 GiB"
    );
    assert_eq!(command, "oomctl gpus --wait 20480");
    // A bare context is no tenant, and two processes of one job are one.
    let context = Process {
        used_bytes: Some(Bytes(GIB / 2)),
        ..ben
    };
    assert_eq!(said(vec![gpu(0, 41, vec![process(7, 40), context])]), []);
    let of_job = |pid| Process {
        job: Some("4711".to_owned()),
        ..process(pid, 20)
    };
    assert_eq!(said(vec![gpu(0, 41, vec![of_job(1), of_job(2)])]), []);
    // Each part of a split GPU has a memory of its own.
    let part = |process| MigDevice {
        uuid: "MIG".to_owned(),
        name: "1g".to_owned(),
        memory: DeviceMemory::default(),
        processes: vec![process],
    };
    let other = Process {
        user: Some("ben".to_owned()),
        ..process(8, 9)
    };
    let split = Gpu {
        mig: Some(vec![part(process(7, 9)), part(other)]),
        ..gpu(0, 18, vec![])
    };
    assert_eq!(said(vec![split]), []);
}

#[test]
fn one_process_for_several_gpus_is_told_from_ranks() {
    let gpus = vec![
        gpu(0, 71, vec![process(7, 70)]),
        gpu(1, 21, vec![process(7, 20)]),
        gpu(2, 21, vec![process(7, 20)]),
    ];
    let (kind, text, command) = one(gpus);
    assert_eq!(kind, Trouble::Imbalance);
    assert_eq!(
        text,
        "GPU 0 holds 70.00 GiB of a program that holds at most 20.00 GiB on its other 2 GPUs: process 7 (anna, python \
         train.py lr=1e-4) serves all of them, as DataParallel does, which gathers outputs on the first"
    );
    assert_eq!(
        command,
        "torchrun --nproc_per_node=3 SCRIPT    # one written for DistributedDataParallel"
    );
}

#[test]
fn ranks_that_touch_the_first_gpu_are_counted() {
    let rank = |pid, gib| Process {
        job: Some("4711".to_owned()),
        ..process(pid, gib)
    };
    let gpus = vec![
        gpu(
            0,
            66,
            vec![rank(1, 30), rank(2, 12), rank(3, 12), rank(4, 12)],
        ),
        gpu(1, 31, vec![rank(2, 30)]),
        gpu(2, 31, vec![rank(3, 30)]),
        gpu(3, 31, vec![rank(4, 30)]),
    ];
    let (_, text, command) = one(gpus);
    assert!(
        text.ends_with(": 3 processes of the other GPUs hold memory of this one too"),
        "{text}"
    );
    assert!(command.starts_with("torch.cuda.set_device("), "{command}");
}

#[test]
fn ranks_of_one_launcher_are_one_program_and_other_programs_are_not() {
    let rank = |pid, gib, parent| Process {
        parent: Some(parent),
        ..process(pid, gib)
    };
    let pair = |parent| {
        vec![
            gpu(0, 71, vec![rank(1, 70, 500)]),
            gpu(1, 31, vec![rank(2, 30, parent)]),
        ]
    };
    let (_, text, _) = one(pair(500));
    assert!(
        text.ends_with("on its other GPU: its process does more than the others"),
        "{text}"
    );
    assert_eq!(said(pair(501)), []);
}

#[test]
fn there_is_never_more_advice_than_can_be_read() {
    let stopped = |pid| Process {
        life: ProcessLife::Stopped,
        ..process(pid, 1)
    };
    let crowd = gpu(0, 60, (0..60).map(stopped).collect());
    assert_eq!(said(vec![crowd]).len(), super::MOST);
}

#[test]
fn a_job_that_is_larger_than_the_gpus_is_told() {
    let machine = Machine {
        gpus: vec![gpu(0, 0, vec![]), gpu(1, 0, vec![])],
        ..Machine::default()
    };
    let advice = too_small(&machine, Bytes(92 * GIB)).unwrap();
    assert_eq!(
        advice.text,
        "GPUs 0, 1 have 80.00 GiB at most, and the job that oomctl.yaml describes takes 92.00 GiB or more on one"
    );
    assert_eq!(
        (advice.gpus, advice.command.as_str()),
        (vec![0, 1], "oomctl plan")
    );
    assert_eq!(too_small(&machine, Bytes(80 * GIB)), None);
    assert_eq!(too_small(&Machine::default(), Bytes(1)), None);
}

#[test]
fn an_allocator_that_held_enough_was_fragmented() {
    let advice = fragmented("weaver-1", Bytes(2 * GIB), Bytes(6 * GIB)).unwrap();
    assert!(
        advice
            .text
            .starts_with("run weaver-1 died asking for 2.00 GiB"),
        "{}",
        advice.text
    );
    assert_eq!(advice.command, "oomctl diagnose weaver-1");
    assert_eq!(fragmented("weaver-1", Bytes(7 * GIB), Bytes(6 * GIB)), None);
}
