//! Memory over time on a phantom GPU, as a picture.

use super::{Curve, Plot, PlotLevel, scales, stair};
use crate::core::engine::History;
use oomctl_base::units::Bytes;

/// Draws what the program reserved and allocated in the last measurement before an attempt; `None` where nothing was recorded.
pub fn phantom_plot(history: &History, attempt: u32) -> Option<Plot> {
    let measured = history.phantoms(attempt).last().map(|c| &c.measurement)?;
    let curve = measured.summary.over_time.as_ref()?;
    let total_bytes = Bytes(measured.gpu_bytes);
    let bytes = |mib: &u32| Bytes(u64::from(*mib) << 20);
    let last = f64::from(*curve.ms.last()?) / 1_000.0;
    let lines = [&curve.allocated_mib, &curve.reserved_mib];
    let highest = lines.into_iter().flatten().max().map(bytes)?;
    let highest = highest.max(total_bytes);
    let (x, y) = scales(last, highest);
    let line = |name: &str, mib: &[u32], fullest: bool| {
        let mut path = String::new();
        for (ms, mib) in curve.ms.iter().zip(mib) {
            let place = (x.at(f64::from(*ms) / 1_000.0), y.at(bytes(mib).gib()));
            stair(&mut path, place);
        }
        Curve {
            name: name.to_owned(),
            node: String::new(),
            gpu: 0,
            peak_bytes: mib.iter().max().map(bytes).unwrap_or_default(),
            total_bytes,
            path,
            fullest,
        }
    };
    let curves = vec![
        line("reserved", &curve.reserved_mib, false),
        line("allocated", &curve.allocated_mib, true),
    ];
    Some(Plot {
        capacity: Some(PlotLevel {
            y: y.at(total_bytes.gib()),
            bytes: total_bytes,
        }),
        ..Plot::of(&x, &y, curves)
    })
}
