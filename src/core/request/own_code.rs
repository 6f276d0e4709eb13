//! Which places of the user's own code can have caused a lack of memory.

use crate::core::adopt::Resources;
use oomctl_diagnose::{Class, CoursePattern, Incident};
use oomctl_scripts::{Adoption, Keeping, KeptMemory};

/// Phases of an incident in which what the steps before left behind can run out.
const OF_STEPS: [&str; 7] = [
    "unknown",
    "forward",
    "backward",
    "optimizer_step",
    "actor_update",
    "eval",
    "dataloader",
];

/// Names those of the places of a program that can have held the memory which ran out.
pub(super) fn blame(
    incident: &mut Incident,
    places: &[KeptMemory],
    own: &Adoption<'_>,
    job: Option<&Resources>,
) {
    let told = |keeps: &dyn Fn(&KeptMemory) -> bool| -> Vec<String> {
        let places = places.iter().filter(|place| keeps(place));
        places.map(KeptMemory::sentence).collect()
    };
    let of_gpu = incident.class == Class::GpuOom;
    let loaded = told(&|place| of_gpu && place.what == Keeping::Checkpoint);
    let resumes = !loaded.is_empty() && resumes(own);
    // A tensor comes back onto the GPU that it was saved from: rank 0's, for every rank.
    let of_ranks = incident.co_tenant_bytes.is_some()
        && incident.device_index == Some(0)
        && job.is_some_and(|job| job.gpus > job.nodes);
    if resumes && of_ranks {
        incident.holds_what_its_ranks_load();
        incident.held_by_code(loaded, true);
        return;
    }
    if !may_be_of_code(incident) {
        return;
    }
    if resumes && incident.first_step != Some(false) {
        incident.held_by_code(loaded, true);
        return;
    }
    let grown = told(&|place| !may_hold(place) && grows(incident, place));
    let evaluated = told(&|place| of_gpu && evaluates(incident, place));
    let suspected = told(&|place| of_gpu && may_hold(place) && grows(incident, place));
    let certain = incident.first_step == Some(false) || !evaluated.is_empty();
    let all = grown.into_iter().chain(evaluated).collect();
    incident.held_by_code(all, certain);
    incident.held_perhaps(suspected);
}

/// Whether how much a place holds is for what others hand it to tell.
fn may_hold(place: &KeptMemory) -> bool {
    matches!(place.what, Keeping::Buffer | Keeping::Outputs)
}

fn may_be_of_code(incident: &Incident) -> bool {
    let of_memory = matches!(incident.class, Class::GpuOom | Class::HostOom);
    let course = incident.course.as_ref().map(|course| course.pattern);
    let of_data = matches!(
        course,
        Some(CoursePattern::Outlier | CoursePattern::GrowingResponses)
    );
    of_memory && incident.fatal && !of_data && incident.co_tenant_bytes.is_none()
}

/// Whether a place leaves something behind at each step, and there were steps.
fn grows(incident: &Incident, place: &KeptMemory) -> bool {
    let each = !matches!(place.what, Keeping::Evaluation | Keeping::Checkpoint);
    let phase = OF_STEPS.contains(&incident.phase.as_str());
    // Losses lie on the GPU: no worker that loads data dies of them.
    let loads = incident.class == Class::HostOom && incident.phase == "dataloader";
    let elsewhere = loads && place.what == Keeping::Sum;
    each && phase && !elsewhere && was_reached(incident, place)
}

/// Whether steps left something behind at a place. The traceback of what runs there comes through its file, but for what others
/// call and for an evaluation.
fn was_reached(incident: &Incident, place: &KeptMemory) -> bool {
    let mut frames = incident.own_frames.iter();
    let called = may_hold(place) || incident.phase == "eval" && incident.first_step.is_some();
    let unknown = incident.own_frames.is_empty() || called;
    let here = unknown || frames.any(|frame| place.stands_in(&frame.file));
    here && incident.first_step != Some(true)
}

/// Whether a place computes graphs in the evaluation that ran out.
fn evaluates(incident: &Incident, place: &KeptMemory) -> bool {
    let here = incident.frame.as_ref().is_some_and(|frame| {
        let outside = place.function.is_empty() && frame.function == "<module>";
        let same = outside || frame.function == place.function;
        same && frame.file.ends_with(place.path.trim_start_matches("./"))
    });
    place.what == Keeping::Evaluation && (incident.phase == "eval" || here)
}

/// Whether the command says that the program goes on from a checkpoint: `--resume ckpt.pt`, `init_from=resume`, `--ckpt model.pt`.
fn resumes(own: &Adoption<'_>) -> bool {
    const OFF: [&str; 5] = ["false", "none", "null", "no", "0"];
    const CHECKPOINTS: [&str; 4] = [".pt", ".pth", ".ckpt", ".tar"];
    let Some(call) = own.calls().next().or(own.reading.calls.last()) else {
        return false;
    };
    let words = call.own_texts();
    let mut words = words.iter().map(|word| word.to_lowercase());
    words.any(|word| {
        let value = word.rsplit('=').next().unwrap_or_default();
        let file = CHECKPOINTS.iter().any(|end| value.ends_with(end));
        file || word.contains("resum") && !OFF.contains(&value)
    })
}
