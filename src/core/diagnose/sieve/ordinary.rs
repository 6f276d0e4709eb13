//! How ordinary text looks: what is rare in it is cheap to look for.

/// How often a byte stands in logs of training, in thousandths or so.
pub(super) fn commonness(byte: u8) -> u32 {
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
    "memory allocated (GB): memory reserved device memory used/total (GB): utilization output tokens prompt response",
    "processing processed processes generation generating training validation information operation configuration ",
    "return returns returned number should because before after which would will with that this the of the and the in the",
    "to the for the from the is the each other than number of total expected required available maximum minimum ",
    "worker workers process rank error errors warning failed message received running started starting loading ",
];

/// Does an ordinary word hold it?
pub(super) fn is_ordinary(gram: &[u8]) -> bool {
    ORDINARY
        .iter()
        .any(|words| memchr::memmem::find(words.as_bytes(), gram).is_some())
}
