//! Why one GPU of a process that drives several is full (`nn.DataParallel`), and what its author can do.

use crate::core::measure::Measured;
use crate::core::recipe::Layer;
use oomctl_base::Value;
use oomctl_diagnose::{Class, Incident};
use oomctl_memory::{Replicas, replicas};
use oomctl_scripts::{DeviceScript, Literal};

use super::request::Request;

/// Most scripts of a configuration that are looked at.
const SCRIPTS: usize = 8;

/// A script that the configuration names, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptText {
    /// Path, as the configuration names it.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Why, and what helps.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// Sentences for people.
    pub lines: Vec<String>,
}

impl Request {
    /// What one process that drives several GPUs takes of the first and of the others, with these rungs; `None` for
    /// other jobs, and where the memory model does not know enough.
    pub fn replicas(&self, rungs: &[Layer]) -> Option<Replicas> {
        replicas(&self.spec(rungs)?, self.profile()?)
    }

    /// Python files that the configuration with these rungs names, as it names them.
    pub fn scripts(&self, rungs: &[Layer]) -> Vec<String> {
        let Ok(shape) = self.shape(rungs) else {
            return Vec::new();
        };
        let mut found: Vec<String> = Vec::new();
        for resolved in shape.recipe().values.values() {
            let words = match &resolved.value {
                Value::Text(text) => std::slice::from_ref(text),
                Value::List(list) => list.as_slice(),
                _ => &[],
            };
            let scripts = words.iter().filter(|word| word.ends_with(".py"));
            found.extend(scripts.cloned());
        }
        let own = self.adoption();
        let programs = own.iter().flat_map(|own| own.calls());
        found.extend(programs.filter_map(|call| call.program.clone()));
        found.sort();
        found.dedup();
        found.truncate(SCRIPTS);
        found
    }
}

/// Explains a lack of GPU memory by what log, samples and scripts show of one process on several GPUs; `None` where
/// none of them shows it.
pub fn explain(
    incident: &Incident,
    measured: &Measured,
    model: Option<&Replicas>,
    scripts: &[ScriptText],
) -> Option<Explanation> {
    let read: Vec<(&ScriptText, DeviceScript)> = scripts
        .iter()
        .map(|s| (s, DeviceScript::read(&s.text)))
        .collect();
    let one_process = read.iter().find(|(_, script)| script.is_one_process());
    let crowded = measured.crowded();
    let of_replicas =
        incident.data_parallel || crowded.is_some() || one_process.is_some() && model.is_some();
    if incident.class != Class::GpuOom || !of_replicas {
        return None;
    }
    let mut lines = vec![cause(incident, one_process)];
    if let Some(crowded) = crowded {
        let others = match crowded.others {
            1 => "the other one".to_owned(),
            n => format!("the other {n}"),
        };
        lines.push(format!(
            "measured: GPU {} at {} of {}, {others} at most at {}, all held by one process",
            crowded.gpu, crowded.peak_bytes, crowded.total_bytes, crowded.next_bytes
        ));
    }
    // The model takes the outputs to be gathered on the first GPU.
    let on_the_first = incident.device_index.unwrap_or(0) == 0;
    lines.extend(model.filter(|_| on_the_first).map(numbers));
    lines.extend(
        read.iter()
            .filter_map(|(named, script)| devices(named, script)),
    );
    if let Some((_, script)) = one_process {
        lines.push(
            "in the script: use DistributedDataParallel under torchrun, with one process per GPU"
                .to_owned(),
        );
        lines.extend(output_device(script));
    }
    Some(Explanation { lines })
}

/// Where else the outputs could be gathered; nothing where the author has chosen.
fn output_device(script: &DeviceScript) -> Option<String> {
    let [call] = script.data_parallel.as_slice() else {
        return None;
    };
    let last = match (&call.device_ids, &script.visible) {
        (Literal::Known(ids), _) => {
            let last = ids.last().filter(|last| ids.first() != Some(last))?;
            format!("={last}")
        }
        (Literal::Absent, Literal::Known(count)) if *count > 1 => format!("={}", count - 1),
        (Literal::Absent, Literal::Known(_)) | (Literal::Unknown, _) => return None,
        (Literal::Absent, _) => " of the last GPU".to_owned(),
    };
    let chosen = call.output_device != Literal::Absent;
    let line = format!(
        "or gather the outputs elsewhere: output_device{last} in DataParallel, with the targets of the loss there"
    );
    (!chosen).then_some(line)
}

fn cause(incident: &Incident, one_process: Option<&(&ScriptText, DeviceScript)>) -> String {
    let place = one_process.and_then(|(named, script)| {
        let call = script.data_parallel.first()?;
        Some(format!(
            " ({}:{}:{}, {})",
            named.path, call.line, call.column, call.name
        ))
    });
    let place = place.unwrap_or_default();
    match incident.device_index {
        Some(gpu) if gpu > 0 => format!(
            "one process drives all GPUs{place}. It gathers their outputs on one GPU, and the optimizer runs on the first: here GPU {gpu} is full"
        ),
        _ => format!(
            "one process drives all GPUs{place}. It gathers their outputs on the first GPU and runs the optimizer there, so that GPU fills up first"
        ),
    }
}

/// The model's word on the first GPU and the others.
fn numbers(model: &Replicas) -> String {
    /// Terms that are named.
    const NAMED: usize = 3;
    let gib = |bytes: f64| format!("{:.1} GiB", bytes / oomctl_base::units::GIB);
    let only = model.only_first.iter().take(NAMED);
    let only: Vec<String> = only
        .map(|t| format!("{} {}", t.name, gib(t.bytes)))
        .collect();
    format!(
        "by the memory model the first GPU takes {} ({}), each of the others {}; only the first holds {}",
        gib(model.first_bytes),
        model.phase.word().replace('_', " "),
        gib(model.other_bytes),
        only.join(", ")
    )
}

/// What the script says of its devices, where it says it literally.
fn devices(named: &ScriptText, script: &DeviceScript) -> Option<String> {
    let [call] = script.data_parallel.as_slice() else {
        return None;
    };
    let ids = match (&call.device_ids, &script.visible) {
        (Literal::Known(ids), _) => format!("{} GPUs (device_ids)", ids.len()),
        (Literal::Absent, Literal::Known(count)) => format!("{count} GPUs (CUDA_VISIBLE_DEVICES)"),
        (Literal::Absent, _) => "all GPUs that it sees".to_owned(),
        (Literal::Unknown, _) => return None,
    };
    let output = match &call.output_device {
        Literal::Known(gpu) => format!("on GPU {gpu}"),
        Literal::Absent => "on the first".to_owned(),
        Literal::Unknown => "where only a run would tell".to_owned(),
    };
    Some(format!(
        "{} uses {ids} and gathers outputs {output}",
        named.path
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(data_parallel: bool) -> Incident {
        Incident {
            data_parallel,
            device_index: Some(0),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        }
    }

    fn script(text: &str) -> ScriptText {
        ScriptText {
            path: "run.py".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn log_and_script_together_name_the_line_and_what_helps() {
        let one = script("m = nn.DataParallel(m, device_ids=[0, 1])\n");
        let told = explain(&incident(true), &Measured::default(), None, &[one]).unwrap();
        assert!(
            told.lines[0].contains("(run.py:1:5, nn.DataParallel)"),
            "{told:?}"
        );
        assert!(
            told.lines[1].contains("2 GPUs (device_ids) and gathers outputs on the first"),
            "{told:?}"
        );
        assert!(
            told.lines[2].contains("DistributedDataParallel under torchrun")
                && told.lines[3].contains("output_device=1 in DataParallel"),
            "{told:?}"
        );
        let helps = |text| {
            let told = explain(&incident(true), &Measured::default(), None, &[script(text)]);
            told.unwrap().lines.concat()
        };
        // A choice of the author is left alone, and so is what is not understood.
        for text in [
            "train(nn.DataParallel(m, [0, 1], output_device=0))\n",
            "train(nn.DataParallel(m, args.gpus))\n",
            "m = nn.DataParallel(m) if many else m\nn = nn.DataParallel(n)\n",
        ] {
            let told = helps(text);
            assert!(
                told.contains("torchrun") && !told.contains("output_device"),
                "{told}"
            );
        }
        assert!(helps("m = nn.DataParallel(m)\n").contains("output_device of the last GPU"));
        assert!(!helps("m = nn.parallel.DistributedDataParallel(m)\n").contains("torchrun"));
    }

    #[test]
    fn without_a_sign_of_one_process_nothing_is_said() {
        let many = script("m = DistributedDataParallel(m)\n");
        let told = explain(&incident(false), &Measured::default(), None, &[many]);
        assert_eq!(told, None);
        let host = Incident::bare("host_oom", Class::HostOom);
        assert_eq!(explain(&host, &Measured::default(), None, &[]), None);
    }
}
