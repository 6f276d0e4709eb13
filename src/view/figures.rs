//! Figures, as people read them and as JSON has them.

use std::time::Duration;

pub use oomctl_base::units::duration;
use oomctl_base::units::{GIB, chance};

/// Rounded to so many digits behind the point.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// Bytes as GiB, with so many digits behind the point.
pub fn gib(bytes: f64, digits: i32) -> f64 {
    rounded(bytes / GIB, digits)
}

/// How many times the memory of a GPU is far too much.
const FAR: f64 = 2.0;

/// Whether a job is expected to need so much more than a GPU holds that a rough estimate decides too.
pub fn is_far(peak_gib: f64, gpu_gib: Option<f64>) -> bool {
    gpu_gib.is_some_and(|gpu| peak_gib > FAR * gpu)
}

/// `71.2 GiB`.
pub fn in_gib(gib: f64) -> String {
    format!("{gib:.1} GiB")
}

/// `71.2 of 79.2 GiB`.
pub fn of_gib(gib: f64, total: f64) -> String {
    format!("{gib:.1} of {}", in_gib(total))
}

/// A probability, or that there is none.
pub fn odds(probability: Option<f64>, none: &str) -> String {
    probability.map_or_else(|| none.to_owned(), chance)
}

/// `12 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// GPU-seconds as hours, to the hundredth.
pub fn gpu_hours(gpu_seconds: f64) -> f64 {
    (gpu_seconds / 36.0).round() / 100.0
}

/// `12 s`, `3 min`, `1 h 5 min`: beside lines of a program, which may have figures of their own.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}
