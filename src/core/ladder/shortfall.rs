//! The smallest request that would fit, where nothing within reach does.

use super::ascent::Ascent;
use super::decision::Shortfall;
use super::optimiser::{Filled, Optimiser};
use super::posterior::Posterior;
use oomctl_base::units::{Bytes, GIB};
use oomctl_memory::{Rollout, Sharding, Spec};

/// Doublings of the number of GPUs that are looked at.
const MOST_DOUBLINGS: u32 = 6;
/// Memory of a GPU in GiB up to which a larger one is looked for.
const LARGEST_GPU_GIB: u32 = 512;
/// Steps in which it is looked for at first.
const STEP_GIB: u32 = 16;

/// What is missing where `best` is the best within reach, on so many GPUs.
pub(super) fn of(
    optimiser: &mut Optimiser<'_>,
    posterior: &Posterior,
    best: &Filled,
    view: &Ascent<'_>,
    gpus: f64,
) -> Option<Shortfall> {
    let (profile, min_fit_probability) = (view.outlook.profile, view.outlook.min_fit_probability);
    let spec = optimiser.spec(&best.values)?;
    let gpu_bytes = spec.gpu_bytes?;
    let (phase, least) = posterior.expected(&spec, profile)?;
    let fits = |spec: &Spec| posterior.fits(spec, profile).unwrap_or(0.0) >= min_fit_probability;
    let short_of_host = fits(&spec);
    let more = (1..=MOST_DOUBLINGS).map(|k| f64::from(1_u32 << k));
    let enough = more
        .filter(|_| !short_of_host)
        .find(|by| fits(&on_more(&spec, *by)));
    let on = |gib: &u32| Spec {
        gpu_bytes: Some(f64::from(*gib) * GIB),
        ..spec.clone()
    };
    let larger = |gib: &u32| f64::from(*gib) * GIB > gpu_bytes && fits(&on(gib));
    let mut coarse = (STEP_GIB..=LARGEST_GPU_GIB).step_by(STEP_GIB as usize);
    let coarse = coarse.find(|gib| !short_of_host && larger(gib));
    let larger = coarse.and_then(|most| (most - STEP_GIB + 1..=most).find(larger));
    let larger = larger.map(|gib| f64::from(gib) * GIB);
    let sharded = sharded(&spec, gpus).filter(|spec| fits(spec));
    let sharded = sharded.and_then(|spec| posterior.expected(&spec, profile));
    let host = optimiser.host(&best.values).filter(|_| short_of_host);
    Some(Shortfall {
        least_bytes: whole(least),
        phase: phase.word(),
        gpu_bytes: whole(gpu_bytes),
        gpus: whole(gpus).0,
        fits_probability: best.fits,
        enough_gpus: enough.map(|by| whole(gpus * by).0),
        enough_gpu_bytes: larger.map(whole),
        sharded_bytes: sharded.map(|(_, bytes)| whole(bytes)),
        enough_host_bytes: host.map(whole),
    })
}

/// The job with weights, gradients and states sharded over its GPUs, where each has all of them.
fn sharded(spec: &Spec, gpus: f64) -> Option<Spec> {
    let is_whole = matches!(
        spec.sharding,
        Sharding::None | Sharding::Ddp | Sharding::Zero0
    );
    let alone = spec.tensor_parallel <= 1.0 && spec.pipeline_parallel <= 1.0;
    (is_whole && alone && gpus > 1.0).then(|| Spec {
        sharding: Sharding::Zero3,
        data_parallel: gpus,
        ..spec.clone()
    })
}

/// GPUs over which a rollout engine is spread at most: those of a usual node.
const WIDEST_ENGINE: f64 = 8.0;

/// The job on so many times as many GPUs, over which its states are sharded further and its engine is spread.
fn on_more(spec: &Spec, by: f64) -> Spec {
    let rollout = spec.rollout.as_ref().map(|rollout| Rollout {
        tensor_parallel: (rollout.tensor_parallel * by)
            .min(WIDEST_ENGINE)
            .max(rollout.tensor_parallel),
        critic: rollout
            .critic
            .as_ref()
            .map(|critic| Box::new(on_more(critic, by))),
        ..rollout.clone()
    });
    Spec {
        rollout,
        gpus: spec.gpus * by,
        data_parallel: if spec.sharding.gathers() {
            spec.data_parallel * by
        } else {
            spec.data_parallel
        },
        ..spec.clone()
    }
}

fn whole(x: f64) -> Bytes {
    Bytes(x.round() as u64)
}
