//! What the numbers of Xids mean.
//!
//! Source: NVIDIA, "XID Errors" and its catalogue, releases 550 to 580. What is not in the table is not common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose fault an Xid mostly is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum XidOrigin {
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
type XidRow = (u32, &'static str, XidOrigin);

const TABLE: &[XidRow] = &[
    (8, "the GPU stopped processing", XidOrigin::Program),
    (
        13,
        "a kernel of a program failed, mostly by an access outside its arrays",
        XidOrigin::Program,
    ),
    (
        31,
        "a program touched GPU memory that is not its own",
        XidOrigin::Program,
    ),
    (32, "corrupted commands reached the GPU", XidOrigin::Driver),
    (38, "error of the driver's firmware", XidOrigin::Driver),
    (
        43,
        "a program's error stopped its work; the GPU is healthy",
        XidOrigin::Program,
    ),
    (
        44,
        "fault while switching between programs",
        XidOrigin::Driver,
    ),
    (
        45,
        "clean-up of a program after an earlier error, or because it was killed",
        XidOrigin::Follows,
    ),
    (
        48,
        "memory error that could not be corrected",
        XidOrigin::Hardware,
    ),
    (61, "the GPU's micro-controller halted", XidOrigin::Driver),
    (62, "the GPU's micro-controller halted", XidOrigin::Hardware),
    (
        63,
        "a faulty row of memory is replaced when the GPU is reset",
        XidOrigin::Hardware,
    ),
    (
        64,
        "a faulty row of memory could not be noted for replacement",
        XidOrigin::Hardware,
    ),
    (
        69,
        "a program gave a command that the GPU does not know",
        XidOrigin::Program,
    ),
    (74, "error of an NVLink", XidOrigin::Hardware),
    (79, "the GPU has fallen off the bus", XidOrigin::Hardware),
    (
        92,
        "many memory errors, corrected so far",
        XidOrigin::Hardware,
    ),
    (
        94,
        "memory error that ended one program; others are safe",
        XidOrigin::Hardware,
    ),
    (
        95,
        "memory error that may have reached all programs of the GPU",
        XidOrigin::Hardware,
    ),
    (
        109,
        "a switch between programs took too long",
        XidOrigin::Driver,
    ),
    (
        119,
        "the GPU's system processor (GSP) did not answer",
        XidOrigin::Driver,
    ),
    (
        120,
        "error of the GPU's system processor (GSP)",
        XidOrigin::Driver,
    ),
    (
        121,
        "error of the link between CPU and GPU, corrected",
        XidOrigin::Hardware,
    ),
    (
        137,
        "a program's access over NVLink was refused",
        XidOrigin::Program,
    ),
    (
        140,
        "memory error that was not recovered from",
        XidOrigin::Hardware,
    ),
    (143, "the GPU could not be initialised", XidOrigin::Hardware),
    (
        154,
        "the action that recovers the GPU has changed",
        XidOrigin::Follows,
    ),
];

/// NVLink's errors since the fifth generation.
const NVLINK: std::ops::RangeInclusive<u32> = 144..=150;

/// What a number means.
pub fn about(code: u32) -> (&'static str, XidOrigin) {
    if NVLINK.contains(&code) {
        return ("error of an NVLink", XidOrigin::Hardware);
    }
    let row = TABLE.iter().find(|(number, ..)| *number == code);
    row.map_or(
        ("not in the table of this program", XidOrigin::Unknown),
        |(_, means, origin)| (means, *origin),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_stand_once() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(about(147), ("error of an NVLink", XidOrigin::Hardware));
        assert_eq!(about(1).1, XidOrigin::Unknown);
    }
}
