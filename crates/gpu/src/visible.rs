//! `CUDA_VISIBLE_DEVICES`: which GPUs a program may see.
//!
//! Source: CUDA C++ Programming Guide, "CUDA Environment Variables", and NVIDIA's Multi-Instance GPU User
//! Guide, "CUDA Visible Devices".

use super::choice::Card;

/// What a list lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// GPUs that may be used, in the order of the list.
    pub cards: Vec<Card>,
    /// The first word of the list that is no GPU here. CUDA ignores it and all that follow.
    pub unknown: Option<String>,
}

/// The GPUs that a program with this list sees, as CUDA reads it: indices, beginnings of UUIDs
/// (`GPU-8932f937`, `MIG-…`), in order, up to the first that is none. No list, or what containers write for
/// one (`all`), lets everything through; an empty one nothing.
///
/// An index counts the GPUs that can be opened: in the device cgroup of a job the first of them is 0. That
/// CUDA may order unlike GPUs by speed (`CUDA_DEVICE_ORDER`) is not known here.
pub fn visible(list: Option<&str>, cards: &[Card]) -> Visible {
    let words: Vec<&str> = match list.map(str::trim) {
        None | Some("all") => {
            return Visible {
                cards: cards.to_vec(),
                unknown: None,
            };
        }
        Some(list) => list.split(',').map(str::trim).collect(),
    };
    let mut seen: Vec<Card> = Vec::new();
    for word in words {
        let named = named(word, cards);
        if named.is_empty() {
            // What is written for "none": nothing is wrong with it.
            let none = matches!(word, "" | "-1" | "none" | "void" | "NoDevFiles");
            return Visible {
                cards: seen,
                unknown: (!none).then(|| word.to_owned()),
            };
        }
        for card in named {
            if !seen.contains(card) {
                seen.push(card.clone());
            }
        }
    }
    Visible {
        cards: seen,
        unknown: None,
    }
}

/// The GPU that a word names; of one that is split all of its MIG devices.
fn named<'a>(word: &str, cards: &'a [Card]) -> Vec<&'a Card> {
    /// Of the UUID itself some characters must be there.
    const PREFIX: usize = "GPU-".len();
    if let Ok(index) = word.parse::<usize>() {
        let mut gpus: Vec<u32> = cards.iter().map(|c| c.gpu).collect();
        gpus.dedup();
        let gpu = gpus.get(index);
        return cards.iter().filter(|c| Some(&c.gpu) == gpu).collect();
    }
    if word.len() <= PREFIX {
        return Vec::new();
    }
    let begins: Vec<&Card> = cards.iter().filter(|c| c.uuid.starts_with(word)).collect();
    match begins.as_slice() {
        [_] => begins,
        // Ambiguous, unless it is the whole of one.
        _ => begins.into_iter().filter(|c| c.uuid == word).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::units::Bytes;

    fn card(gpu: u32, uuid: &str) -> Card {
        Card {
            gpu,
            uuid: uuid.to_owned(),
            name: "A100".to_owned(),
            total_bytes: Bytes(80),
            used_bytes: Bytes(0),
            claimed_bytes: Bytes(0),
            claimants_bytes: Bytes(0),
        }
    }

    #[test]
    fn a_list_is_read_as_cuda_reads_it() {
        let cards = [
            card(0, "GPU-aaaa1"),
            card(2, "GPU-aabb2"),
            card(3, "MIG-cccc3"),
            card(3, "MIG-dddd4"),
        ];
        let check = |list: Option<&str>, expected: &str, unknown: Option<&str>| {
            let seen = visible(list, &cards);
            let uuids: Vec<&str> = seen.cards.iter().map(|c| c.uuid.as_str()).collect();
            assert_eq!(uuids.join(" "), expected, "{list:?}");
            assert_eq!(seen.unknown.as_deref(), unknown, "{list:?}");
        };
        let all = "GPU-aaaa1 GPU-aabb2 MIG-cccc3 MIG-dddd4";
        check(None, all, None);
        check(Some("all"), all, None);
        // The second GPU that can be opened, whatever NVML's number for it is.
        check(Some("1"), "GPU-aabb2", None);
        check(Some("1, 0"), "GPU-aabb2 GPU-aaaa1", None);
        check(Some("2"), "MIG-cccc3 MIG-dddd4", None);
        check(Some("GPU-aab"), "GPU-aabb2", None);
        check(Some("MIG-dddd4,0"), "MIG-dddd4 GPU-aaaa1", None);
        for nothing in ["", "-1", "NoDevFiles", "void"] {
            check(Some(nothing), "", None);
        }
        // What follows a word that names nothing is not seen; one that could be two names none.
        check(Some("0,7,1"), "GPU-aaaa1", Some("7"));
        check(Some("GPU-aa"), "", Some("GPU-aa"));
        check(Some("GPU-"), "", Some("GPU-"));
        check(Some("MIG-GPU-aaaa1/1/0"), "", Some("MIG-GPU-aaaa1/1/0"));
    }
}
