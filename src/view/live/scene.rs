//! All that a screen is made of.

use jiff::Timestamp;

use super::model::Board;
use super::state::{Shown, State};

/// Board, choice, what is shown, and when.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub board: &'a Board,
    pub state: &'a State,
    pub shown: &'a Shown,
    pub now: Timestamp,
}
