//! How ordinary text looks: what is rare in it is cheap to look for.

use std::collections::HashSet;
use std::sync::LazyLock;

/// How often a byte stands in logs of training, in thousandths or so.
pub(super) fn commonness(byte: u8) -> u64 {
    COMMONNESS[usize::from(byte)]
}

static COMMONNESS: [u64; 256] = {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = common(byte as u8);
        byte += 1;
    }
    all
};

const fn common(byte: u8) -> u64 {
    match byte {
        b' ' => 300,
        b'e' => 80,
        b'a' | b'i' | b'n' | b'o' | b'r' | b's' | b't' => 55,
        b'c' | b'd' | b'h' | b'l' | b'm' | b'p' | b'u' => 28,
        b'0' | b'1' => 25,
        b'2'..=b'9' => 14,
        b'b' | b'f' | b'g' | b'k' | b'v' | b'w' | b'y' => 12,
        b'.' | b',' | b'_' | b'-' | b'/' | b':' | b'[' | b']' | b'(' | b')' | 0x1b => 10,
        b'A'..=b'Z' | b'"' | b'\'' | b'=' | b'\n' | b'\r' => 4,
        0x80.. => 2,
        _ => 1,
    }
}

/// Words that logs are full of: a window that avoids them is asked for less often.
const ORDINARY: &[&str] = &[
    " memory allocated (GB): memory reserved device memory used/total (GB): memory available cache memory usage utilization ",
    " processing processed processes generation generating training trainer train validation information operation ",
    " return returns returned number should because before after which would will with that this the of the and the in the ",
    " to the for the from the is the each other than number of total expected required available maximum minimum value of ",
    " worker workers process rank error errors warning failed message received running started starting loading loaded ",
    " prompt prompts response output input token tokens sequence length batch size model models engine actor critic reward ",
    " import class object function functions argument arguments result results string index list value values key count ",
    " there they them then when where what while since first second third last next only also same different more most less ",
    " their between into over under about have has had been being not any all some such both does could might must may can ",
    " answer question problem example equation solution therefore however finally following step steps time times minutes ",
    " hours left right back part parts given using used need needs find check again original substitute multiply divide sum ",
    " checkpoint checkpoints state support version deprecated connection request requests process group node gradient update ",
    " FutureWarning: UserWarning: DeprecationWarning: WARNING: INFO: GPU GPUs Note: meaning: reasoning: following: ",
    " policy score mean sampling temperature profiling profile throughput supported configuration insufficient sufficient ",
];

/// How much more often a gram of six bytes stands in ordinary text than its bytes alone let expect.
pub(super) fn likeness(gram: &[u8]) -> u64 {
    static WHOLE: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| windows(6));
    static PARTS: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| windows(5));
    if WHOLE.contains(gram) {
        100
    } else if gram.windows(5).any(|part| PARTS.contains(part)) {
        10
    } else {
        1
    }
}

/// Does an ordinary word hold these four bytes?
fn is_ordinary(quad: &[u8]) -> bool {
    static WINDOWS: LazyLock<HashSet<&[u8]>> = LazyLock::new(|| windows(4));
    WINDOWS.contains(quad)
}

/// Where in a needle the four bytes stand that ordinary text holds least often; 0 in a shorter one.
pub(crate) fn rarest_quad(needle: &[u8]) -> usize {
    let frequency = |at: &usize| -> u64 {
        let bytes = needle[*at..].iter().take(4);
        let product: u64 = bytes.map(|b| commonness(*b)).product();
        let bytes = needle.get(*at..at + 4).unwrap_or_default();
        product * if is_ordinary(bytes) { 20 } else { 1 }
    };
    let places = 0..needle.len().saturating_sub(3).max(1);
    places.min_by_key(frequency).unwrap_or(0)
}

fn windows(length: usize) -> HashSet<&'static [u8]> {
    let texts = ORDINARY.iter().map(|words| words.as_bytes());
    texts.flat_map(|text| text.windows(length)).collect()
}
