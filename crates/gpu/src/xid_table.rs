//! What the numbers of Xids mean.
//!
//! Source: NVIDIA, "XID Errors" and its catalogue, releases 550 to 580. What is not in the table is not common.

use serde::{Deserialize, Serialize};

/// Whose fault an Xid mostly is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A program's; the GPU is as good as before.
    Program,
    /// The driver's or its firmware's: a reset of the GPU helps, an update perhaps.
    Driver,
    /// The GPU's, its memory's or its links'.
    Hardware,
    /// It follows from another one.
    Follows,
    /// Not in the table.
    Unknown,
}

/// A number, what it means, and whose fault it mostly is.
type Row = (u32, &'static str, Origin);

const TABLE: &[Row] = &[
    (8, "the GPU stopped processing", Origin::Program),
    (
        13,
        "a kernel of a program failed, mostly by an access outside its arrays",
        Origin::Program,
    ),
    (
        31,
        "a program touched GPU memory that is not its own",
        Origin::Program,
    ),
    (32, "corrupted commands reached the GPU", Origin::Driver),
    (38, "error of the driver's firmware", Origin::Driver),
    (
        43,
        "a program's error stopped its work; the GPU is healthy",
        Origin::Program,
    ),
    (44, "fault while switching between programs", Origin::Driver),
    (
        45,
        "clean-up of a program after an earlier error, or because it was killed",
        Origin::Follows,
    ),
    (
        48,
        "memory error that could not be corrected",
        Origin::Hardware,
    ),
    (61, "the GPU's micro-controller halted", Origin::Driver),
    (62, "the GPU's micro-controller halted", Origin::Hardware),
    (
        63,
        "a faulty row of memory is replaced when the GPU is reset",
        Origin::Hardware,
    ),
    (
        64,
        "a faulty row of memory could not be noted for replacement",
        Origin::Hardware,
    ),
    (
        69,
        "a program gave a command that the GPU does not know",
        Origin::Program,
    ),
    (74, "error of an NVLink", Origin::Hardware),
    (79, "the GPU has fallen off the bus", Origin::Hardware),
    (92, "many memory errors, corrected so far", Origin::Hardware),
    (
        94,
        "memory error that ended one program; others are safe",
        Origin::Hardware,
    ),
    (
        95,
        "memory error that may have reached all programs of the GPU",
        Origin::Hardware,
    ),
    (
        109,
        "a switch between programs took too long",
        Origin::Driver,
    ),
    (
        119,
        "the GPU's system processor (GSP) did not answer",
        Origin::Driver,
    ),
    (
        120,
        "error of the GPU's system processor (GSP)",
        Origin::Driver,
    ),
    (
        121,
        "error of the link between CPU and GPU, corrected",
        Origin::Hardware,
    ),
    (
        137,
        "a program's access over NVLink was refused",
        Origin::Program,
    ),
    (
        140,
        "memory error that was not recovered from",
        Origin::Hardware,
    ),
    (143, "the GPU could not be initialised", Origin::Hardware),
    (
        154,
        "the action that recovers the GPU has changed",
        Origin::Follows,
    ),
];

/// NVLink's errors since the fifth generation.
const NVLINK: std::ops::RangeInclusive<u32> = 144..=150;

/// What a number means.
#[must_use]
pub fn about(code: u32) -> (&'static str, Origin) {
    if NVLINK.contains(&code) {
        return ("error of an NVLink", Origin::Hardware);
    }
    let row = TABLE.iter().find(|(number, ..)| *number == code);
    row.map_or(
        ("not in the table of this program", Origin::Unknown),
        |(_, means, origin)| (means, *origin),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_stand_once() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(about(147), ("error of an NVLink", Origin::Hardware));
        assert_eq!(about(1).1, Origin::Unknown);
    }
}
