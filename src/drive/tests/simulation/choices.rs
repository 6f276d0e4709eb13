//! The adversary's choices, in order. A story is its choices: the same choices give the same story, and where
//! it ends nothing bad happens any more. So a story that fails is made shorter by making its choices shorter.

/// Choices made so far, or to be made again.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    pub values: Vec<u32>,
    at: usize,
    dice: Option<u64>,
}

impl Choices {
    /// New choices from a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Some(seed),
            ..Self::default()
        }
    }

    /// Choices that were made before, and then the harmless one each time.
    pub fn again(values: Vec<u32>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }

    /// A number below `n`. 0 is the harmless choice wherever this is asked.
    pub fn below(&mut self, n: u32) -> u32 {
        let n = n.max(1);
        let value = match (self.values.get(self.at), &mut self.dice) {
            (Some(value), _) => value % n,
            (None, None) => 0,
            (None, Some(dice)) => {
                let value = u32::try_from(splitmix(dice) % u64::from(n)).unwrap();
                self.values.push(value);
                value
            }
        };
        self.at += 1;
        value
    }
}

/// splitmix64: small, seeded, the same everywhere.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The shortest choices that this finds for which `fails` still holds: the end is cut off, then ever smaller
/// chunks are left out or made harmless.
pub fn shrink(
    mut values: Vec<u32>,
    tries: usize,
    mut fails: impl FnMut(&[u32]) -> bool,
) -> Vec<u32> {
    let mut left = tries;
    let mut attempt = |candidate: &[u32]| {
        left = left.saturating_sub(1);
        left > 0 && fails(candidate)
    };
    let mut size = values.len().next_power_of_two();
    while size > 0 {
        let mut at = 0;
        while at < values.len() {
            let end = (at + size).min(values.len());
            let without = [&values[..at], &values[end..]].concat();
            if attempt(&without) {
                values = without;
                continue;
            }
            if values[at..end].iter().any(|v| *v != 0) {
                let mut harmless = values.clone();
                harmless[at..end].fill(0);
                if attempt(&harmless) {
                    values = harmless;
                }
            }
            at = end;
        }
        size /= 2;
    }
    while values.last() == Some(&0) {
        values.pop();
    }
    values
}
