//! Snapshots of PyTorch's allocator, as Python writes them, in what is said and what is decided.

use std::process::Command;

use super::place::Place;

/// Writes `oom.pickle` and `evil.pickle`: frames and structure as `torch/csrc/cuda/memory_snapshot.cpp` gives them.
const WRITER: &str = r#"
import os, pickle, sys
G = 1 << 30
def frame(file, line, name): return {"name": name, "filename": file, "line": line}
torch = "/env/lib/python3.12/site-packages/torch/"
loss = [frame("??", 0, "at::empty_cuda"), frame(torch + "nn/functional.py", 3494, "cross_entropy"), frame("/w/train.py", 14, "step")]
forward = [frame(torch + "nn/modules/module.py", 1786, "_call_impl"), frame("/w/model.py", 40, "forward")]
def block(size, state, frames): return {"address": 1 << 46, "size": size, "requested_size": size, "state": state, "frames": frames}
blocks = [block(46 * G, "active_allocated", forward), block(30 * G, "active_allocated", loss), block(G, "inactive", [])]
segment = {"device": 0, "address": 1 << 46, "total_size": 77 * G, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
           "is_expandable": False, "frames": [], "blocks": blocks}
oom = {"action": "oom", "device_free": G // 2, "size": 2 * G, "stream": 0, "time_us": 7, "frames": loss}
for protocol in (2, 3, 4, 5):
    pickle.dump({"segments": [segment], "device_traces": [[oom], []], "allocator_settings": {"max_split_size": -1, "garbage_collection_threshold": 0.0}},
                open(f"oom{protocol}.pickle", "wb"), protocol=protocol)
class Evil:
    def __reduce__(self): return (os.mkdir, ("ran",))
pickle.dump({"segments": [Evil()]}, open("evil.pickle", "wb"))
"#;

const LOG: &str = "Traceback (most recent call last):\n  File \"/w/train.py\", line 14, in step\n    loss = criterion(model(x), y)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n";

/// A place with the snapshots and the log; `None` without Python.
fn place() -> Option<Place> {
    let place = Place::bare();
    place.write("job.log", LOG);
    let mut python = Command::new("python3");
    let done = python
        .args(["-c", WRITER])
        .current_dir(&place.root)
        .status();
    if done.is_ok_and(|status| status.success()) {
        return Some(place);
    }
    eprintln!("skipped: no python3");
    assert!(std::env::var_os("CI").is_none(), "python3 is needed");
    None
}

#[test]
fn what_filled_the_gpu_is_told_and_put_first() {
    let Some(place) = place() else { return };
    let done = place.run(&["diagnose", "--snapshot", "oom4.pickle", "job.log"]);
    insta::assert_snapshot!(done.ends(0).out);
    for protocol in 2..=5 {
        let file = format!("oom{protocol}.pickle");
        let view = place.run(&["diagnose", "--json", "--snapshot", &file, "job.log"]);
        let snapshot = view.ends(0).json()["files"][0]["snapshot"].clone();
        assert_eq!(snapshot["fragmented"], false, "{file}");
        assert_eq!(snapshot["requested_by"], "logits", "{file}");
        assert_eq!(snapshot["owners"][0]["owner"], "activations", "{file}");
    }
    // The same log with and without it.
    let script = "#!/bin/bash\n#SBATCH --gpus-per-node=1\npython run_clm.py --model_name_or_path m --output_dir o --per_device_train_batch_size 8 --use_liger_kernel false\n";
    place.write("job.slurm", script);
    let first = |more: &[&str]| {
        let words = ["fix", "--json", "--preset", "hf-trainer"];
        let words = [&words[..], more, &["job.log", "job.slurm"]].concat();
        let view = place.json(&words);
        view["steps"][0]["rung"].clone()
    };
    assert_ne!(first(&[]), "fused-loss");
    assert_eq!(first(&["--snapshot", "oom4.pickle"]), "fused-loss");
}

#[test]
fn one_that_the_log_names_is_found() {
    let Some(place) = place() else { return };
    let named = format!("[memory_visualize] dumped: oom5.pickle\n{LOG}");
    place.write("job.log", &named);
    let view = place.json("diagnose --json job.log");
    assert_eq!(view["files"][0]["snapshot"]["at_failure"], true);
}

#[test]
fn one_that_would_run_code_is_refused() {
    let Some(place) = place() else { return };
    let done = place.run(&["diagnose", "--snapshot", "evil.pickle", "job.log"]);
    let done = done.ends(2);
    assert!(done.err.contains("asks Python to run code"), "{}", done.err);
    assert!(!place.root.join("ran").exists());
}
