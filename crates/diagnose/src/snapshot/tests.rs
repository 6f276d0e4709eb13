use super::*;
use crate::{Class, Incident};

/// Values as protocol 2 writes them.
enum Py {
    Int(u64),
    Str(&'static str),
    List(Vec<Py>),
    Dict(Vec<(&'static str, Py)>),
}

fn write(value: &Py, out: &mut Vec<u8>) {
    match value {
        Py::Int(n) => {
            out.extend([0x8a, 8]);
            out.extend(n.to_le_bytes());
        }
        Py::Str(text) => {
            out.push(b'X');
            out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            out.extend(text.bytes());
        }
        Py::List(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| write(item, out));
            out.push(b'e');
        }
        Py::Dict(pairs) => {
            out.extend(b"}(");
            for (name, value) in pairs {
                write(&Py::Str(name), out);
                write(value, out);
            }
            out.push(b'u');
        }
    }
}

fn pickled(value: &Py) -> Vec<u8> {
    let mut out = b"\x80\x02".to_vec();
    write(value, &mut out);
    out.push(b'.');
    out
}

const GIB: u64 = 1 << 30;
const TORCH: &str = "/env/lib/python3.12/site-packages/torch/";

fn frame(file: &'static str, line: u64, name: &'static str) -> Py {
    Py::Dict(vec![
        ("name", Py::Str(name)),
        ("filename", Py::Str(file)),
        ("line", Py::Int(line)),
    ])
}

/// Innermost first, as the allocator gives them.
fn stack(of: &str) -> Py {
    let call = || {
        frame(
            "/env/lib/python3.12/site-packages/torch/nn/modules/module.py",
            1_786,
            "_call_impl",
        )
    };
    Py::List(match of {
        "forward" => vec![
            frame("??", 0, "at::empty_cuda"),
            frame(
                "/env/lib/python3.12/site-packages/torch/nn/functional.py",
                2_400,
                "silu",
            ),
            call(),
            frame("/w/model.py", 40, "forward"),
            frame("/w/train.py", 12, "step"),
        ],
        "loss" => vec![
            frame(
                "/env/lib/python3.12/site-packages/torch/nn/functional.py",
                3_494,
                "cross_entropy",
            ),
            call(),
            frame("/w/train.py", 14, "step"),
        ],
        "optimizer" => vec![
            frame(
                "/env/lib/python3.12/site-packages/torch/optim/adamw.py",
                150,
                "_init_group",
            ),
            frame("/w/train.py", 16, "step"),
        ],
        "accumulate" => vec![frame("??", 0, "torch::autograd::AccumulateGrad::apply")],
        _ => Vec::new(),
    })
}

fn block(size: u64, state: &'static str, of: &str) -> Py {
    Py::Dict(vec![
        ("size", Py::Int(size)),
        ("state", Py::Str(state)),
        ("frames", stack(of)),
    ])
}

fn segment(pool: u64, blocks: Vec<(u64, &'static str, &str)>) -> Py {
    let total = blocks.iter().map(|(size, ..)| size).sum();
    let blocks = blocks
        .into_iter()
        .map(|(size, state, of)| block(size, state, of));
    Py::Dict(vec![
        ("device", Py::Int(0)),
        ("total_size", Py::Int(total)),
        ("stream", Py::Int(0)),
        ("segment_type", Py::Str("large")),
        ("segment_pool_id", Py::List(vec![Py::Int(0), Py::Int(pool)])),
        ("blocks", Py::List(blocks.collect())),
    ])
}

fn event(action: &'static str, size: u64, of: &str) -> Py {
    Py::Dict(vec![
        ("action", Py::Str(action)),
        ("size", Py::Int(size)),
        ("device_free", Py::Int(GIB / 4)),
        ("stream", Py::Int(0)),
        ("frames", stack(of)),
    ])
}

fn file(segments: Vec<Py>, events: Vec<Py>) -> Vec<u8> {
    pickled(&Py::Dict(vec![
        ("segments", Py::List(segments)),
        ("device_traces", Py::List(vec![Py::List(events)])),
    ]))
}

fn incident() -> Incident {
    let mut incident = Incident::bare("cuda_oom", Class::GpuOom);
    incident.total_bytes = Some(Bytes(24 * GIB));
    incident
}

fn seen(segments: Vec<Py>, events: Vec<Py>) -> Snapshot {
    Snapshot::read("s.pickle", &file(segments, events), &incident()).unwrap()
}

#[test]
fn whoever_holds_the_gpu_is_told_by_its_frames() {
    let held = vec![
        (6 * GIB, "active_allocated", "optimizer"),
        (4 * GIB, "active_allocated", "forward"),
        (3 * GIB, "active_allocated", "loss"),
        (2 * GIB, "active_pending_free", "accumulate"),
        (GIB, "active_allocated", ""),
        (GIB / 2, "inactive", ""),
    ];
    let snapshot = seen(
        vec![segment(0, held)],
        vec![event("oom", 2 * GIB, "forward")],
    );
    let owners: Vec<_> = snapshot
        .owners
        .iter()
        .map(|s| (s.owner, s.bytes.0 / GIB))
        .collect();
    let expected = [
        (MemoryOwner::Optimizer, 6),
        (MemoryOwner::Activations, 4),
        (MemoryOwner::Logits, 3),
        (MemoryOwner::Gradients, 2),
        (MemoryOwner::Unnamed, 1),
    ];
    assert_eq!(owners, expected);
    let lines = snapshot.largest.iter().map(|held| {
        let frame = held.frame.as_ref();
        frame
            .map(|frame| frame.to_string().replace(TORCH, ""))
            .unwrap_or_default()
    });
    let expected = [
        "/w/train.py:16 in step",
        "/w/model.py:40 in forward",
        "/w/train.py:14 in step",
        "?? in torch::autograd::AccumulateGrad::apply",
        "",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    assert_eq!(snapshot.active_bytes, Bytes(16 * GIB));
    assert_eq!(snapshot.at_failure, Some(true));
    assert_eq!(snapshot.chief(), Some(MemoryOwner::Optimizer));
}

#[test]
fn what_could_not_get_memory_goes_before_what_has_most() {
    let held = vec![(9 * GIB, "active_allocated", "optimizer")];
    let snapshot = seen(vec![segment(0, held)], vec![event("oom", 2 * GIB, "loss")]);
    assert_eq!(snapshot.chief(), Some(MemoryOwner::Logits));
}

#[test]
fn pieces_are_proven_disproven_or_left_open() {
    let fragmented = |pieces: Vec<u64>, pool: u64, events: Vec<Py>| {
        let mut blocks = vec![(10 * GIB, "active_allocated", "forward")];
        blocks.extend(pieces.into_iter().map(|size| (size, "inactive", "")));
        seen(vec![segment(pool, blocks)], events).fragmented
    };
    let oom = || vec![event("oom", 2 * GIB, "forward")];
    // 3 GiB idle in three pieces; one piece that is large enough; too little in all; with what the driver has left just enough.
    assert_eq!(fragmented(vec![GIB, GIB, GIB], 0, oom()), Some(true));
    assert_eq!(fragmented(vec![3 * GIB], 0, oom()), Some(false));
    assert_eq!(fragmented(vec![GIB], 0, oom()), Some(false));
    assert_eq!(fragmented(vec![GIB, GIB - GIB / 8], 0, oom()), None);
    // Idle memory of CUDA graphs is for nobody else.
    assert_eq!(fragmented(vec![GIB, GIB, GIB], 7, oom()), Some(false));
    // Freed behind the failure, and no history at all.
    let mut later = oom();
    later.push(event("free_completed", 3 * GIB, "forward"));
    assert_eq!(fragmented(vec![GIB, GIB, GIB], 0, later), None);
    assert_eq!(fragmented(vec![GIB, GIB, GIB], 0, Vec::new()), None);
}

#[test]
fn an_incident_takes_in_what_is_proven_and_nothing_else() {
    let pieces = |events| {
        let blocks = vec![
            (10 * GIB, "active_allocated", "loss"),
            (GIB, "inactive", ""),
            (GIB, "inactive", ""),
        ];
        seen(vec![segment(0, blocks)], events)
    };
    let mut proven = incident();
    proven.see(pieces(vec![event("oom", 3 * GIB / 2, "loss")]));
    assert!(proven.fragmentation);
    assert!(
        proven.helps[0].contains("expandable_segments"),
        "{:?}",
        proven.helps
    );
    assert!(proven.helps[1].contains("logits"), "{:?}", proven.helps);
    assert_eq!(proven.notes.len(), 1);
    let mut open = incident();
    open.see(pieces(vec![event("alloc", GIB, "forward")]));
    assert!(!open.fragmentation && open.notes.is_empty());
    assert!(!open.helps[0].contains("snapshot"), "{:?}", open.helps);
    assert_eq!(open.snapshot.unwrap().at_failure, Some(false));
}

#[test]
fn a_snapshot_of_another_moment_decides_nothing() {
    let blocks = vec![
        (10 * GIB, "active_allocated", "loss"),
        (GIB, "inactive", ""),
    ];
    let seen = || {
        seen(
            vec![segment(0, blocks.clone())],
            vec![event("oom", 3 * GIB / 2, "loss")],
        )
    };
    let mut same = incident();
    same.allocated_bytes = Some(Bytes(10 * GIB - GIB / 3));
    same.see(seen());
    assert!(
        same.notes.is_empty() && same.helps[0].contains("logits"),
        "{:?}",
        same.helps
    );
    let mut other = incident();
    other.allocated_bytes = Some(Bytes(17 * GIB));
    other.fragmentation = true;
    other.see(seen());
    assert!(other.fragmentation, "it disproves nothing");
    assert!(
        other.notes[0].contains("another moment or process"),
        "{:?}",
        other.notes
    );
    assert_eq!(other.snapshot.unwrap().chief(), None);
}

#[test]
fn another_pickle_is_no_snapshot() {
    for bytes in [
        pickled(&Py::Dict(vec![("loss", Py::Int(1))])),
        file(Vec::new(), Vec::new()),
    ] {
        let read = Snapshot::read("s.pickle", &bytes, &incident());
        assert_eq!(read, Err(PickleError::NoSnapshot));
    }
}
