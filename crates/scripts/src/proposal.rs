//! Changes of a script that could help, as unified diffs for its author.

use super::devices::{DataParallel, DeviceScript, Literal};

/// A change that could help.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Proposal {
    /// What it does, as a sentence.
    pub title: String,
    /// What it does not do and the author has to.
    pub left: Vec<String>,
    /// A unified diff against the script.
    pub patch: String,
}

/// What could be changed in a script that spreads one process over several GPUs, the change of most worth first. Empty
/// for others, and where the call is written in a way that is not understood.
pub fn propose(path: &str, text: &str, script: &DeviceScript) -> Vec<Proposal> {
    if !script.is_one_process() {
        return Vec::new();
    }
    let mut all = Vec::new();
    if let [call] = script.data_parallel.as_slice() {
        all.extend(distributed(path, text, call));
        all.extend(output_device(path, text, call));
    }
    all
}

fn diff(path: &str, text: &str, changed: &str) -> String {
    let diff = similar::TextDiff::from_lines(text, changed);
    let header = (format!("a/{path}"), format!("b/{path}"));
    diff.unified_diff().header(&header.0, &header.1).to_string()
}

/// The text with the call replaced.
fn replaced(text: &str, call: &DataParallel, by: &str) -> Option<String> {
    let (before, after) = (text.get(..call.from)?, text.get(call.to..)?);
    Some(format!("{before}{by}{after}"))
}

/// One process a GPU. Only where the call is the value of an assignment that stands alone on its line: the lines that
/// go before it have to be statements.
fn distributed(path: &str, text: &str, call: &DataParallel) -> Option<Proposal> {
    let start = text
        .get(..call.from)?
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let head = text.get(start..call.from)?;
    let target = head.trim().strip_suffix('=')?.trim_end();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    if target.is_empty() || !target.chars().all(plain) {
        return None;
    }
    let indent = &head[..head.len() - head.trim_start().len()];
    let module = &call.module;
    let lines = [
        format!(
            "import os\n{indent}import torch\n{indent}local_rank = int(os.environ[\"LOCAL_RANK\"])"
        ),
        "torch.cuda.set_device(local_rank)".to_owned(),
        "torch.distributed.init_process_group(\"nccl\")".to_owned(),
        format!(
            "{target} = torch.nn.parallel.DistributedDataParallel({module}.to(local_rank), device_ids=[local_rank])"
        ),
    ];
    let before = text.get(..start)?;
    let after = text.get(call.to..)?;
    let lines = lines.map(|line| format!("{indent}{line}")).join("\n");
    Some(Proposal {
        title: format!(
            "one process per GPU instead of {} on line {}",
            call.name, call.line
        ),
        left: [
            "make it a copy of the script and name that as the one for torchrun",
            "give the DataLoader a DistributedSampler, and each process its share of the batch",
            "put inputs on local_rank instead of a fixed GPU; print and save on rank 0 only",
        ]
        .map(str::to_owned)
        .to_vec(),
        patch: diff(path, text, &format!("{before}{lines}{after}")),
    })
}

/// The outputs on the last of the GPUs, where they are known to be gathered on the first.
fn output_device(path: &str, text: &str, call: &DataParallel) -> Option<Proposal> {
    let Literal::Known(devices) = &call.device_ids else {
        return None;
    };
    let (first, last) = (devices.first()?, devices.last()?);
    if call.output_device != Literal::Absent || first == last {
        return None;
    }
    let whole = text.get(call.from..call.to)?;
    let inner = whole.strip_suffix(')')?.trim_end();
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    let by = format!("{inner}, output_device={last})");
    Some(Proposal {
        title: format!(
            "gather the outputs on GPU {last} instead of GPU {first}, line {}",
            call.line
        ),
        left: vec![format!("put the targets of the loss on GPU {last} too")],
        patch: diff(path, text, &replaced(text, call, &by)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "import torch.nn as nn\n\n\ndef main():\n    net = build()\n    \
                        net = nn.DataParallel(net, device_ids=[0, 1, 2, 3])\n    train(net)\n";

    fn proposals(text: &str) -> Vec<Proposal> {
        propose("train.py", text, &DeviceScript::read(text))
    }

    #[test]
    fn both_changes_are_diffs_against_the_script() {
        let all = proposals(TEXT);
        assert_eq!(all.len(), 2);
        for line in [
            "--- a/train.py\n+++ b/train.py\n",
            "-    net = nn.DataParallel(net, device_ids=[0, 1, 2, 3])\n",
            "+    torch.distributed.init_process_group(\"nccl\")\n",
            "+    net = torch.nn.parallel.DistributedDataParallel(net.to(local_rank), device_ids=[local_rank])\n",
            "     train(net)\n",
        ] {
            assert!(all[0].patch.contains(line), "{line}\n{}", all[0].patch);
        }
        let line = "+    net = nn.DataParallel(net, device_ids=[0, 1, 2, 3], output_device=3)\n";
        assert!(all[1].patch.contains(line), "{}", all[1].patch);
    }

    #[test]
    fn nothing_is_proposed_for_what_is_not_understood_or_not_so() {
        assert!(proposals("m = nn.parallel.DistributedDataParallel(m)\n").is_empty());
        assert!(proposals("train(nn.DataParallel(m, args.gpus))\n").is_empty());
        assert!(
            proposals("m = nn.DataParallel(m) if many else m\nn = nn.DataParallel(n)\n").is_empty()
        );
        let given = proposals("train(nn.DataParallel(m, [0, 1], output_device=0))\n");
        assert!(given.is_empty(), "a choice of the author is left alone");
    }
}
