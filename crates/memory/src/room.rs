//! How surely a job fits, in three words.

use serde::Serialize;

/// Probability to fit from which a job is said to fit; below one minus this it is said not to.
pub const SAFE: f64 = 0.9;

/// How surely a job fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// It most likely fits.
    Fits,
    /// It may or may not.
    Tight,
    /// It most likely does not.
    TooLarge,
}

impl Room {
    /// What a probability to fit means.
    pub fn of(fits_probability: f64) -> Self {
        match fits_probability {
            p if p >= SAFE => Self::Fits,
            p if p > 1.0 - SAFE => Self::Tight,
            _ => Self::TooLarge,
        }
    }

    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Tight => "tight",
            Self::TooLarge => "does not fit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn the_words_follow_from_the_probability() {
        let words = [1.0, 0.9, 0.89, 0.11, 0.09, 0.0].map(|p| Room::of(p).describe());
        let expected = [
            "fits",
            "fits",
            "tight",
            "tight",
            "does not fit",
            "does not fit",
        ];
        assert_eq!(words, expected);
    }
}
