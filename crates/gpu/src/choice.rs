//! Which GPU a program gets.

use oomctl_base::units::Bytes;

/// A GPU, or a MIG device of one, as it was at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// NVML's index; of a MIG device that of its GPU.
    pub gpu: u32,
    /// UUID, which `CUDA_VISIBLE_DEVICES` takes.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Capacity in bytes.
    pub total_bytes: Bytes,
    /// Bytes in use, everybody's.
    pub used_bytes: Bytes,
    /// Bytes that living claims promise to somebody.
    pub claimed_bytes: Bytes,
    /// Bytes in use by those whose claims these are, where the driver tells: they are used and claimed.
    pub claimants_bytes: Bytes,
}

impl Card {
    /// Bytes that nobody uses.
    pub fn free(&self) -> Bytes {
        Bytes(self.total_bytes.0.saturating_sub(self.used_bytes.0))
    }

    /// Bytes that are free and not promised.
    pub fn available(&self) -> Bytes {
        let promised = self.claimed_bytes.0.saturating_sub(self.claimants_bytes.0);
        Bytes(self.free().0.saturating_sub(promised))
    }
}

/// What came of looking for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuChoice {
    /// These would do, by UUID, the one with the most available memory first.
    Take(Vec<String>),
    /// None for now.
    Wait {
        /// The one with the most available memory, by UUID, and how much that is.
        best: (String, Bytes),
    },
    /// Waiting cannot help: no GPU that may be used is that large.
    Never {
        /// Capacity of the largest, where there is one.
        largest: Option<Bytes>,
    },
}

/// The GPUs on which `need` bytes are available, without those that are `excluded`; for a program that wants
/// its GPU `alone`, only those of which nothing is promised.
pub fn choose(cards: &[Card], need: Bytes, excluded: &[String], alone: bool) -> GpuChoice {
    let mut usable: Vec<&Card> = cards
        .iter()
        .filter(|c| !excluded.contains(&c.uuid))
        .collect();
    // Among equals the first: several programs then agree about the order in which GPUs are filled.
    usable.sort_by_key(|c| std::cmp::Reverse(c.available()));
    let taken = |card: &Card| alone && card.claimed_bytes.0 > 0;
    let takes = usable.iter().filter(|c| c.available() >= need && !taken(c));
    let takes: Vec<String> = takes.map(|c| c.uuid.clone()).collect();
    if !takes.is_empty() {
        return GpuChoice::Take(takes);
    }
    let largest = usable.iter().map(|c| c.total_bytes).max();
    match usable.first() {
        Some(best) if largest.is_some_and(|l| l >= need) => GpuChoice::Wait {
            best: (best.uuid.clone(), best.available()),
        },
        _ => GpuChoice::Never { largest },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(uuid: &str, used: u64, claimed: u64, claimants: u64) -> Card {
        Card {
            gpu: 0,
            uuid: uuid.to_owned(),
            name: "H100".to_owned(),
            total_bytes: Bytes(80),
            used_bytes: Bytes(used),
            claimed_bytes: Bytes(claimed),
            claimants_bytes: Bytes(claimants),
        }
    }

    fn taken(cards: &[Card], need: u64, excluded: &[&str]) -> GpuChoice {
        let excluded: Vec<String> = excluded.iter().map(|e| (*e).to_owned()).collect();
        choose(cards, Bytes(need), &excluded, true)
    }

    #[test]
    fn the_freest_comes_first_and_those_that_are_too_full_not_at_all() {
        let cards = [
            card("a", 70, 0, 0),
            card("b", 10, 0, 0),
            card("c", 30, 0, 0),
        ];
        let take =
            |uuids: &[&str]| GpuChoice::Take(uuids.iter().map(|u| (*u).to_owned()).collect());
        assert_eq!(taken(&cards, 20, &[]), take(&["b", "c"]));
        assert_eq!(taken(&cards, 20, &["b"]), take(&["c"]));
        let best = ("a".to_owned(), Bytes(10));
        assert_eq!(taken(&cards, 20, &["b", "c"]), GpuChoice::Wait { best });
    }

    #[test]
    fn a_promise_counts_until_it_is_kept() {
        // 40 promised, none of it used yet: of 60 free bytes 20 are left.
        assert_eq!(card("a", 20, 40, 0).available(), Bytes(20));
        // 30 of the 40 are in use by those who were promised them: 10 are still to come.
        assert_eq!(card("a", 50, 40, 30).available(), Bytes(20));
        // A claim of the whole leaves nothing, whatever its owner uses of it.
        for used in [0, 10, 80] {
            assert_eq!(card("a", used, 80, used).available(), Bytes(0));
        }
    }

    #[test]
    fn who_wants_a_gpu_alone_gets_none_that_is_promised_in_part() {
        let cards = [card("a", 10, 20, 0)];
        let best = ("a".to_owned(), Bytes(50));
        assert_eq!(taken(&cards, 0, &[]), GpuChoice::Wait { best });
        let shared = choose(&cards, Bytes(50), &[], false);
        assert_eq!(shared, GpuChoice::Take(vec!["a".to_owned()]));
    }

    #[test]
    fn waiting_for_what_no_gpu_has_is_refused() {
        let cards = [card("a", 0, 0, 0)];
        let largest = Some(Bytes(80));
        assert_eq!(taken(&cards, 81, &[]), GpuChoice::Never { largest });
        assert_eq!(taken(&cards, 1, &["a"]), GpuChoice::Never { largest: None });
        assert_eq!(taken(&[], 1, &[]), GpuChoice::Never { largest: None });
    }
}
