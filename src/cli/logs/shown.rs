//! What is said of logs: an incident as it is shown, and how a command ends that was asked for it.

use super::{LogGroup, around};
use crate::core::exit::Exit;
use crate::view::IncidentView;
use oomctl_diagnose::{Class, Incident, Tri};

/// What is said of a group that is diagnosed.
pub fn view(group: &LogGroup, incident: &Incident) -> IncidentView {
    let files = group.files.iter().map(|f| f.display().to_string());
    let mut view = IncidentView::new(group.name(), files.collect(), incident);
    view.job.clone_from(&group.status);
    if let Some((run, number)) = &group.attempt {
        view.run = Some(run.clone());
        view.attempt = Some(*number);
    }
    if let Some(root) = incident.evidence.first() {
        view.context = around(root);
    }
    view
}

/// How a command ends, with `--exit-code`.
pub fn exit(incident: &Incident) -> Exit {
    match incident.class {
        Class::GpuOom | Class::EngineMemory if incident.fatal => Exit::GpuOutOfMemory,
        Class::HostOom if incident.is_host_oom == Tri::True && incident.fatal => {
            Exit::HostOutOfMemory
        }
        _ if incident.kind == "no_failure" || !incident.fatal => Exit::Success,
        _ => Exit::OtherFailure,
    }
}
