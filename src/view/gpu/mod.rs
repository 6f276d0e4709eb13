//! The GPUs of this machine, and made-up ones.
//!
//! The room stands behind `view`, which names its modules as its own; `super::` finds what they share.

pub mod closed_form_view;
pub mod gpus_view;
pub(crate) mod memory_bar;
pub mod phantom_view;

use super::{bars, estimate_view, figures, launch_view, style};
