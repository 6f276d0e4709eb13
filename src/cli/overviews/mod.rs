//! Many runs at once, for reports, lists and histories. Their jobs are asked for, and what nobody watched is judged.

pub mod attempts;
pub mod everybody;
pub mod gathered;
