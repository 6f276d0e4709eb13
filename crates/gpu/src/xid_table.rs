//! What the numbers of Xids mean.
//!
//! Source: NVIDIA, "XID Errors" and its catalogue, releases 550 to 580. What is not in the table is not common.

use oomctl_base::table;
use schemars::JsonSchema;
use serde::de::value::{Error as ValueError, StrDeserializer};
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

/// A number, whose fault it mostly is, and what it means.
const TABLE: [[&str; 3]; 27] = table(
    "
    8 | program | the GPU stopped processing
    13 | program | a kernel of a program failed, mostly by an access outside its arrays
    31 | program | a program touched GPU memory that is not its own
    32 | driver | corrupted commands reached the GPU
    38 | driver | error of the driver's firmware
    43 | program | a program's error stopped its work; the GPU is healthy
    44 | driver | fault while switching between programs
    45 | follows | clean-up of a program after an earlier error, or because it was killed
    48 | hardware | memory error that could not be corrected
    61 | driver | the GPU's micro-controller halted
    62 | hardware | the GPU's micro-controller halted
    63 | hardware | a faulty row of memory is replaced when the GPU is reset
    64 | hardware | a faulty row of memory could not be noted for replacement
    69 | program | a program gave a command that the GPU does not know
    74 | hardware | error of an NVLink
    79 | hardware | the GPU has fallen off the bus
    92 | hardware | many memory errors, corrected so far
    94 | hardware | memory error that ended one program; others are safe
    95 | hardware | memory error that may have reached all programs of the GPU
    109 | driver | a switch between programs took too long
    119 | driver | the GPU's system processor (GSP) did not answer
    120 | driver | error of the GPU's system processor (GSP)
    121 | hardware | error of the link between CPU and GPU, corrected
    137 | program | a program's access over NVLink was refused
    140 | hardware | memory error that was not recovered from
    143 | hardware | the GPU could not be initialised
    154 | follows | the action that recovers the GPU has changed
    ",
);

/// NVLink's errors since the fifth generation.
const NVLINK: std::ops::RangeInclusive<u32> = 144..=150;

/// What a number means.
pub fn about(code: u32) -> (&'static str, XidOrigin) {
    if NVLINK.contains(&code) {
        return ("error of an NVLink", XidOrigin::Hardware);
    }
    let code = code.to_string();
    let row = TABLE.iter().find(|[number, ..]| *number == code);
    row.map_or(
        ("not in the table of this program", XidOrigin::Unknown),
        |[_, origin, means]| {
            let origin = XidOrigin::deserialize(StrDeserializer::<ValueError>::new(origin));
            (means, origin.unwrap_or(XidOrigin::Unknown))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_stand_once() {
        let codes = TABLE.map(|[code, ..]| code.parse().expect("a number"));
        assert!(codes.is_sorted_by(|a, b| a < b));
        assert!(
            codes
                .iter()
                .all(|code| about(*code).1 != XidOrigin::Unknown)
        );
        assert_eq!(about(147), ("error of an NVLink", XidOrigin::Hardware));
        assert_eq!(about(1).1, XidOrigin::Unknown);
    }
}
