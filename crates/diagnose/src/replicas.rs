//! One process that drives several GPUs, each with a copy of the model (`nn.DataParallel`): how a log shows it.
//!
//! Sources: PyTorch 1.0 to 2.9 `nn/parallel/data_parallel.py`, `replicate.py`, `scatter_gather.py`,
//! `parallel_apply.py`, `_functions.py`, `comm.py`.

use super::events::LogEvent;
use super::frame::Frame;

/// Files that nothing else uses.
const FILES: [&str; 3] = ["data_parallel.py", "parallel_apply.py", "replicate.py"];
/// Functions of files that `DistributedDataParallel` and others use too.
const FUNCTIONS: [(&str, &str); 4] = [
    ("scatter_gather.py", "gather"),
    ("scatter_gather.py", "gather_map"),
    ("comm.py", "gather"),
    ("comm.py", "reduce_add_coalesced"),
];
/// Where they lie.
const FOLDER: &str = "torch/nn/parallel/";

/// The row of [`super::advice`] for a lack of memory in such a process.
pub(super) const ADVICE: &str = "torch_replica";
/// Signatures of lines that only such a process prints.
const SIGNATURES: [&str; 3] = [ADVICE, "torch_replica_scalars", "torch_replica_imbalance"];

/// Is it a frame of such a process?
pub(super) fn in_frame(frame: &Frame) -> bool {
    let file = frame.file.replace('\\', "/");
    let Some((_, name)) = file.rsplit_once(FOLDER) else {
        return false;
    };
    let function = |(file, function): &(&str, &str)| *file == name && *function == frame.function;
    FILES.contains(&name) || FUNCTIONS.iter().any(function)
}

/// Does the source line of a frame show that the process drives one GPU alone? Then nothing is copied nor gathered.
pub(super) fn has_one_gpu(code: &str) -> bool {
    code.contains("return self.module(*inputs[0]")
}

/// Does an event tell of such a process?
pub(super) fn tells(event: &LogEvent) -> bool {
    event.marks.replicas || SIGNATURES.contains(&event.signature.id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tells(line: &str) -> bool {
        in_frame(&Frame::read(line).unwrap().0)
    }

    #[test]
    fn frames_of_one_process_are_told_from_those_of_many() {
        let file = |name: &str| {
            format!("  File \"/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/{name}")
        };
        for line in [
            "data_parallel.py\", line 185, in forward",
            "parallel_apply.py\", line 96, in _worker",
            "scatter_gather.py\", line 104, in gather",
            "comm.py\", line 235, in gather",
            "replicate.py\", line 110, in replicate",
        ] {
            assert!(tells(&file(line)), "{line}");
        }
        for line in [
            "distributed.py\", line 1643, in forward",
            "scatter_gather.py\", line 60, in scatter_kwargs",
            "comm.py\", line 57, in broadcast_coalesced",
        ] {
            assert!(!tells(&file(line)), "{line}");
        }
        assert!(has_one_gpu(
            "    return self.module(*inputs[0], **kwargs[0])"
        ));
        assert!(!has_one_gpu(
            "    outputs = self.parallel_apply(replicas, inputs, kwargs)"
        ));
        for other in ["/home/me/", "/opt/colossalai/nn/parallel/"] {
            assert!(!tells(&format!(
                "  File \"{other}data_parallel.py\", line 3, in forward"
            )));
        }
    }
}
