//! How much memory a job needs on each GPU:
//! `cargo run -p oomctl-memory --example need -- '{"layers": 32, "hidden": 4096, "heads": 32, "ffn": 14336,
//! "vocab": 128256, "gpus": 8, "gpu_total_gib": 80, "sharding": "fsdp", "micro_batch": 1, "seq_len": 4096}'`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and files"
)]

use oomctl_memory::{MeasurementRow, Profile, Profiles, estimate};

fn main() {
    let text = std::env::args().nth(1).unwrap_or_default();
    let profiles = Profiles::new(vec![Profile::default()]);
    let read = MeasurementRow::read(&text, &profiles).and_then(|(row, p)| Ok((row.spec(p)?, p)));
    let estimate = match read {
        Ok((spec, profile)) => estimate(&spec, profile),
        Err(unknown) => return println!("{unknown}"),
    };
    let gib = |bytes: f64| bytes / oomctl_base::units::GIB;
    for phase in &estimate.phases {
        let (middle, low, high) = (
            gib(phase.bytes),
            gib(phase.low_bytes),
            gib(phase.high_bytes),
        );
        println!("{:?}: {middle:.1} GiB ({low:.1} to {high:.1})", phase.phase);
    }
    match estimate.fits_probability {
        Some(p) => println!("fits with probability {p:.2}"),
        None => println!("whether it fits is unknown: gpu_total_gib is not given"),
    }
}
