//! All that a screen is made of.

use jiff::Timestamp;

use super::model::Board;
use super::state::{AttemptFiles, ScreenState};

/// Board, choice, what is shown, and when.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub board: &'a Board,
    pub state: &'a ScreenState,
    pub shown: &'a AttemptFiles,
    pub now: Timestamp,
}
