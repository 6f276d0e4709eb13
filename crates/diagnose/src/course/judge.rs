//! Which pattern the memory of an attempt shows.

use super::records::{FigureMetric, Records};
use super::trend::{TrendPoint, is_outlier, never_falls, partial, rising};
use super::{CoursePattern, MemoryCourse, Pool, StepSpan};
use crate::class::Class;
use crate::incident::Incident;
use oomctl_base::units::Bytes;
use oomctl_base::word_list;

/// An attempt that dies in this step or before died of what every step needs.
const FIRST_STEPS: u64 = 2;

/// Least growth over the steps that were seen, as a share of what was there: of memory, and of lengths.
const GROWTH: f64 = 0.02;

const GROWTH_OF_LENGTHS: f64 = 0.2;

/// Partial rank correlation from which on memory goes with the responses.
const TOGETHER: f64 = 0.25;

/// How far a batch that is out of line stands above the highest step, as a share of that.
pub(super) const ABOVE: f64 = 0.1;

/// Phases that run in the process whose allocator prints the figures; in the others an engine of its own may have failed.
const OF_TRAINER: [&str; 9] = word_list(
    "old_logprob ref_logprob critic actor_update optimizer_step forward backward checkpoint
     unknown",
);

/// The course of an attempt that died of memory.
pub(crate) fn judge(records: &Records, incident: &Incident) -> Option<MemoryCourse> {
    let pool = match incident.class {
        Class::GpuOom | Class::EngineMemory => Pool::Gpu,
        Class::HostOom => Pool::Host,
        Class::Shm | Class::NotOom => return None,
    };
    if !incident.fatal {
        return None;
    }
    let early = incident.step.is_some_and(|step| step <= FIRST_STEPS);
    if incident.first_step == Some(true) || early {
        return Some(MemoryCourse::new(CoursePattern::Lack, pool));
    }
    if pool == Pool::Gpu && !is_of_trainer(incident) {
        return None;
    }
    of_rise(records, pool).or_else(|| match pool {
        Pool::Gpu => of_lengths(records).or_else(|| of_outlier(records, incident)),
        Pool::Host => None,
    })
}

fn is_of_trainer(incident: &Incident) -> bool {
    incident.class == Class::GpuOom && OF_TRAINER.contains(&incident.phase.as_str())
}

/// The same where no figures of the steps are there: many steps went well, and what was asked for last is small beside what is
/// held. Nothing else may explain it: responses or sequences that vary, other processes, memory in pieces.
pub(crate) fn growth(records: &Records, incident: &Incident) -> Option<MemoryCourse> {
    /// Steps after which all that a step needs was needed. What the host needs varies less.
    const MANY: u64 = 50;
    const MANY_OF_HOST: u64 = 20;
    /// Checkpoints and evaluations come at such steps.
    const ROUND: u64 = 50;
    const TRAINING: [&str; 5] = word_list("unknown forward backward optimizer_step actor_update");
    let before = incident.step?.checked_sub(1)?;
    let figures = [
        FigureMetric::Length,
        FigureMetric::Allocated,
        FigureMetric::Reserved,
        FigureMetric::Host,
    ];
    let told = |meter: &FigureMetric| !records.series(&[*meter])[0].is_empty();
    let varies = incident.engine || figures.iter().any(told);
    let possible = incident.fatal && incident.course.is_none() && !varies;
    if !possible || !TRAINING.contains(&incident.phase.as_str()) {
        return None;
    }
    let pool = match incident.class {
        Class::HostOom if before >= MANY_OF_HOST && before % ROUND != 0 => Pool::Host,
        Class::GpuOom if before >= MANY && is_small(incident)? => Pool::Gpu,
        _ => return None,
    };
    Some(MemoryCourse {
        steps_before: Some(before),
        needed_bytes: incident.requested_bytes.filter(|_| pool == Pool::Gpu),
        ..MemoryCourse::new(CoursePattern::Growth, pool)
    })
}

/// Whether what was asked for is small, and this process holds most of the GPU in one piece with what it uses.
fn is_small(incident: &Incident) -> Option<bool> {
    let (all, held) = (incident.total_bytes?.0, incident.allocated_bytes?.0);
    let pieces = incident.fragmentation || incident.co_tenant_bytes.is_some();
    let large = incident.asks_for(1, 32) || incident.requested_bytes.is_none();
    let scores = incident.logits || incident.attention_scores;
    Some(!pieces && !large && !scores && held > all / 2)
}

/// What rises while an attempt is alive.
pub(crate) fn ahead(records: &Records) -> Vec<MemoryCourse> {
    let pools = [Pool::Host, Pool::Gpu];
    pools.iter().filter_map(|p| of_rise(records, *p)).collect()
}

/// Memory that rises: with the responses, or by itself.
fn of_rise(records: &Records, pool: Pool) -> Option<MemoryCourse> {
    let meters: &[FigureMetric] = match pool {
        Pool::Gpu => &[FigureMetric::Allocated, FigureMetric::Reserved],
        Pool::Host => &[FigureMetric::Host],
    };
    // Where tensors are counted, what the allocator holds beyond them is fragments.
    let series = |meter: &FigureMetric| records.series(&[*meter]).remove(0);
    let mut all = meters.iter().map(|meter| (*meter, series(meter)));
    let (meter, points) = all.find(|(_, points)| !points.is_empty())?;
    let slope = rising(&points)?;
    let span = StepSpan::of(&points).filter(|span| span.grew(GROWTH))?;
    let lengths = with_responses(records, meter);
    let pattern = match lengths {
        Some(_) => CoursePattern::GrowingResponses,
        None => CoursePattern::Leak,
    };
    Some(MemoryCourse {
        bytes_per_step: Some(whole(slope)),
        bytes: Some(span),
        lengths,
        ..MemoryCourse::new(pattern, pool)
    })
}

/// The lengths of the responses, where they grow and the memory goes with them.
fn with_responses(records: &Records, meter: FigureMetric) -> Option<StepSpan> {
    let both = records.series(&[meter, FigureMetric::Length]);
    let [memory, lengths] = both.as_slice() else {
        return None;
    };
    let grown = grown(lengths)?;
    // A running maximum follows only the longest, so it says little of the steps between.
    let together = never_falls(memory) || partial(memory, lengths) >= TOGETHER;
    together.then_some(grown)
}

fn grown(lengths: &[TrendPoint]) -> Option<StepSpan> {
    rising(lengths)?;
    StepSpan::of(lengths).filter(|span| span.grew(GROWTH_OF_LENGTHS))
}

/// Responses that grow where the log prints no memory.
fn of_lengths(records: &Records) -> Option<MemoryCourse> {
    let silent = |meter| records.series(&[meter]).iter().all(Vec::is_empty);
    if !silent(FigureMetric::Allocated) || !silent(FigureMetric::Reserved) {
        return None;
    }
    let lengths = grown(&records.series(&[FigureMetric::Length]).remove(0))?;
    Some(MemoryCourse {
        lengths: Some(lengths),
        ..MemoryCourse::new(CoursePattern::GrowingResponses, Pool::Gpu)
    })
}

/// One batch that asked for far more than any before it.
fn of_outlier(records: &Records, incident: &Incident) -> Option<MemoryCourse> {
    let needed = incident
        .allocated_bytes?
        .0
        .checked_add(incident.requested_bytes?.0)?;
    let points = records.series(&[FigureMetric::Allocated]).remove(0);
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let value = needed as f64;
    let out = is_outlier(&points, value) && value > most * (1.0 + ABOVE);
    out.then(|| MemoryCourse {
        bytes: StepSpan::of(&points),
        needed_bytes: Some(Bytes(needed)),
        ..MemoryCourse::new(CoursePattern::Outlier, Pool::Gpu)
    })
}

fn whole(bytes: f64) -> Bytes {
    Bytes(bytes.round() as u64)
}
