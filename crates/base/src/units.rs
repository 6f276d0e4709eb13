//! Units, parsed and printed in one place: bytes, durations and probabilities.
//!
//! Binary and decimal are decided here once: a bare suffix (`40G`, as Slurm writes `--mem`), `GiB`
//! and PyTorch's `GiB` are 2^30; `GB` is 10^9.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An amount of memory in bytes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Bytes of a GiB.
pub const GIB: f64 = 1_073_741_824.0;

impl Bytes {
    /// The amount, for arithmetic.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The amount in GiB (2^30 bytes).
    pub fn gib(self) -> f64 {
        self.as_f64() / GIB
    }

    /// From GiB (2^30 bytes); negative and non-finite amounts become 0.
    pub fn from_gib(gib: f64) -> Self {
        Self((gib.max(0.0) * GIB).round() as u64)
    }

    /// Parses `512 bytes`, `40G`, `79.18 GiB`, `80GB`, `64000M`, `2TiB`, `0`. Any other number without a unit is
    /// refused: which unit is meant, only the field knows that it stands in.
    ///
    /// # Errors
    /// A message that names the accepted forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(split);
        let bad = || format!("`{text}` is not an amount of memory (examples: 64000M, 80GiB, 40GB)");
        let number: f64 = number.parse().map_err(|_| bad())?;
        let factor = match suffix.trim().to_ascii_lowercase().as_str() {
            "" if number > 0.0 => return Err(format!("`{text}` has no unit: {text}GiB?")),
            "" | "b" | "byte" | "bytes" => 1.0,
            "k" | "kib" => 1024.0,
            "m" | "mib" => 1_048_576.0,
            "g" | "gib" => GIB,
            "t" | "tib" => GIB * 1024.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            _ => return Err(bad()),
        };
        let bytes = number * factor;
        if !bytes.is_finite() || bytes >= 1.8e19 {
            return Err(bad());
        }
        Ok(Self::from_gib(bytes / GIB))
    }

    /// Parses an amount where a number alone is MiB, as for sbatch's `--mem`.
    ///
    /// # Errors
    /// A message that names the accepted forms.
    pub fn parse_mib(text: &str) -> Result<Self, String> {
        Self::parse(&with_mib(text))
    }
}

/// An amount with the unit that it has where a number alone is MiB.
pub fn with_mib(text: &str) -> String {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 => format!("{text}M"),
        _ => text.to_owned(),
    }
}

/// The same amount in the unit of another one, where that has a unit and the amount is whole in it.
pub fn in_unit_of(amount: &str, other: &str) -> Option<String> {
    let unit = other.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ' '));
    let one = Bytes::parse(&format!("1{unit}")).ok()?;
    let all = Bytes::parse(amount).ok()?;
    all.0
        .is_multiple_of(one.0)
        .then(|| format!("{}{unit}", all.0 / one.0))
}

/// Bytes as Slurm's `--mem` takes them: whole mebibytes within them, and one at least where there are any, for `0M`
/// is all memory of a node.
pub fn slurm_mem(bytes: f64) -> String {
    let least = if bytes > 0.0 { 1 } else { 0 };
    format!("{}M", ((bytes / 1_048_576.0).floor() as u64).max(least))
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 >= 1 << 30 {
            write!(f, "{:.2} GiB", self.gib())
        } else if self.0 >= 1 << 20 {
            write!(f, "{:.2} MiB", self.gib() * 1024.0)
        } else if self.0 >= 10 << 10 {
            write!(f, "{} KiB", self.0 >> 10)
        } else {
            write!(f, "{} bytes", self.0)
        }
    }
}

/// Parses a duration into seconds: Slurm's `D-HH:MM:SS`, `D-HH`, `HH:MM:SS`, `MM:SS`, and `90s`,
/// `30m`, `12h`, `3d`, `1h30m`. A number alone is minutes, as in `sbatch --time`.
///
/// Source: sbatch(1), `--time`.
///
/// # Errors
/// A message that names the accepted forms.
pub fn parse_duration_s(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is not a duration (examples: 2-12:00:00, 04:00:00, 90m, 12h)");
    if text.is_empty() {
        return Err(bad());
    }
    let number = |t: &str| t.parse::<u64>().ok().filter(|n| *n <= 100_000_000);
    if let Some((days, rest)) = text.split_once('-') {
        let days = number(days).ok_or_else(bad)?;
        let parts: Option<Vec<u64>> = rest.split(':').map(number).collect();
        return match parts.ok_or_else(bad)?.as_slice() {
            [h] => Ok(days * 86_400 + h * 3_600),
            [h, m] => Ok(days * 86_400 + h * 3_600 + m * 60),
            [h, m, s] => Ok(days * 86_400 + h * 3_600 + m * 60 + s),
            _ => Err(bad()),
        };
    }
    if text.contains(':') {
        let parts: Option<Vec<u64>> = text.split(':').map(number).collect();
        return match parts.ok_or_else(bad)?.as_slice() {
            [m, s] => Ok(m * 60 + s),
            [h, m, s] => Ok(h * 3_600 + m * 60 + s),
            _ => Err(bad()),
        };
    }
    if let Some(minutes) = number(text) {
        return Ok(minutes * 60);
    }
    let mut total = 0_u64;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(bad()),
        };
        total += number(&digits).ok_or_else(bad)? * unit;
        digits.clear();
    }
    if digits.is_empty() {
        Ok(total)
    } else {
        Err(bad())
    }
}

/// Seconds as sbatch's `--time` takes them: `D-HH:MM:SS`, or `HH:MM:SS` under a day.
pub fn slurm_time(seconds: u64) -> String {
    let (d, h, m, s) = (
        seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    );
    if d > 0 {
        format!("{d}-{h:02}:{m:02}:{s:02}")
    } else {
        format!("{h:02}:{m:02}:{s:02}")
    }
}

/// `42s`, `3m 05s`, `2h 04m`, `3d 02h`.
pub fn duration(seconds: i64) -> String {
    match seconds {
        s if s < 60 => format!("{s}s"),
        s if s < 3_600 => format!("{}m {:02}s", s / 60, s % 60),
        s if s < 86_400 => format!("{}h {:02}m", s / 3_600, s / 60 % 60),
        s => format!("{}d {:02}h", s / 86_400, s / 3_600 % 24),
    }
}

/// `0.93`. No forecast is certain, so the ends are `>0.99` and `<0.01`.
pub fn chance(probability: f64) -> String {
    match probability {
        p if p >= 0.995 => ">0.99".to_owned(),
        p if p < 0.005 => "<0.01".to_owned(),
        p => format!("{p:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_suffix_is_binary_and_gb_is_decimal() {
        assert_eq!(Bytes::parse("1G").unwrap().0, 1 << 30);
        assert_eq!(Bytes::parse("1 GiB").unwrap().0, 1 << 30);
        assert_eq!(Bytes::parse("1GB").unwrap().0, 1_000_000_000);
        assert!(Bytes::parse("lots").is_err());
        assert!(Bytes::parse("1e400G").is_err());
    }

    #[test]
    fn a_number_alone_is_mib_where_sbatch_reads_it_and_nothing_elsewhere() {
        assert_eq!(Bytes::parse_mib("400"), Bytes::parse("400M"));
        assert_eq!(Bytes::parse_mib("4GiB"), Bytes::parse("4GiB"));
        assert_eq!(Bytes::parse("80"), Err("`80` has no unit: 80GiB?".into()));
        assert_eq!(Bytes::parse("0"), Ok(Bytes(0)));
    }

    #[test]
    fn an_amount_keeps_the_unit_of_another_where_it_is_whole_in_it() {
        let of = |amount, other| in_unit_of(amount, other);
        assert_eq!(of("1030144M", "503G").as_deref(), Some("1006G"));
        assert_eq!(of("1030145M", "503G"), None);
        assert_eq!(of("512000M", "250 GiB").as_deref(), Some("500GiB"));
        assert_eq!(of("512000M", "250"), None);
        assert_eq!(of("512000M", "none"), None);
    }

    proptest::proptest! {
        #[test]
        fn only_nothing_asks_slurm_for_all_memory(
            number in 0.0..1e6_f64,
            whole in proptest::bool::ANY,
            unit in proptest::sample::select(vec![
                "B", "bytes", "k", "KiB", "kB", "M", "MiB", "MB", "G", "GiB", "GB", "T", "TiB", " TB",
            ]),
        ) {
            let number = if whole { number.floor() } else { number };
            let Bytes(bytes) = Bytes::parse(&format!("{number}{unit}")).unwrap();
            let asked = slurm_mem(bytes as f64);
            proptest::prop_assert_eq!(asked == "0M", bytes == 0, "{}{} is asked as {}", number, unit, asked);
            let Bytes(asked) = Bytes::parse(&asked).unwrap();
            proptest::prop_assert!(asked <= bytes.max(1 << 20) && asked + (1 << 20) > bytes);
            proptest::prop_assert!(number == 0.0 || Bytes::parse(&number.to_string()).is_err());
        }
    }

    #[test]
    fn durations_in_slurm_and_in_short_form() {
        assert_eq!(parse_duration_s("90"), Ok(5_400));
        assert_eq!(parse_duration_s("10:30"), Ok(630));
        assert_eq!(parse_duration_s("2-12:00:00"), Ok(216_000));
        assert_eq!(parse_duration_s("1h30m"), Ok(5_400));
        assert!(parse_duration_s("soon").is_err());
        assert!(parse_duration_s("99999999999999999999").is_err());
        assert_eq!(slurm_time(216_000), "2-12:00:00");
    }
}
