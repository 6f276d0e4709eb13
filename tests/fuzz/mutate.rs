//! New inputs from good ones.

use crate::checks::random::Random;
use oomctl_base::word_list;

/// Bytes of an input, at most, after all mutations.
pub const LONGEST: usize = 3 << 19;
/// An input of one case in so many may become longer than [`ORDINARY`].
const GIANT: usize = 200;
/// Bytes that other inputs grow to, about.
const ORDINARY: usize = 16 << 10;

/// Bytes that mean something to a terminal, a decoder or a reader of lines.
const HOSTILE: [&[u8]; 28] = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\t",
    b"\x1b",
    b"\x1b[",
    b"\x1b[31m",
    b"\x1b[2J",
    b"\x1b[1A\x1b[2K",
    b"\x1b]0;title\x07",
    b"\x1b]8;;x\x1b\\",
    b"^[[0m",
    b"\x1bP1$r\x1b\\",
    b"\x7f",
    b"\x08",
    b"\x0c",
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xc2\x9b31m",
    b"\xc2\x85",
    b"\xe2\x80\xae",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\xa7\xa8",
    b"\xe6\x98\xbe\xe5\xad\x98",
];

/// Numbers at the edge of what a field can hold.
const NUMBERS: [&str; 20] = word_list(
    "0 -1 00000000000000000000001 1 65535 65536 2147483648 4294967295 4294967296
     9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616
     99999999999999999999999999 1e308 1e999 0.0000000000000001 1.7976931348623157e309 NaN -inf",
);

/// One input: one or two seeds, changed a few times. `words` are texts that mean something to the
/// target.
pub fn input(random: &mut Random, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = random.pick(seeds).clone();
    if random.once_in(40) {
        return input;
    }
    let most = if random.once_in(GIANT) {
        LONGEST
    } else {
        ORDINARY.max(2 * input.len())
    };
    for _ in 0..=random.below(8) {
        change(random, &mut input, seeds, words);
        if input.len() > most {
            let from = random.below(input.len() - most);
            input.drain(..from);
            input.truncate(most);
        }
    }
    if most == LONGEST {
        giant(random, &mut input);
    }
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    match random.below(13) {
        0 => flip(random, input),
        1 => drop(input.drain(stretch(random, input.len()))),
        2 => {
            let copy = input[stretch(random, input.len())].to_vec();
            insert(random, input, &copy);
        }
        3 => {
            let copy = input[stretch(random, input.len())].to_vec();
            let times = 1 + random.below(40);
            insert(random, input, &copy.repeat(times));
        }
        4 | 5 => {
            let word = *random.pick(words);
            insert(random, input, word.as_bytes());
        }
        6 => {
            let hostile = *random.pick(&HOSTILE);
            insert(random, input, hostile);
        }
        7 => splice(random, input, seeds),
        8 | 9 => number(random, input),
        10 => lines(random, input),
        11 => wrap(random, input),
        _ => input.truncate(random.below(input.len() + 1)),
    }
}

fn insert(random: &mut Random, input: &mut Vec<u8>, bytes: &[u8]) {
    let at = random.below(input.len() + 1);
    input.splice(at..at, bytes.iter().copied());
}

/// A stretch of an input, short or long.
fn stretch(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    let from = random.below(length + 1);
    let longest = *random.pick(&[4, 40, 400, length]);
    from..(from + random.below(longest + 1)).min(length)
}

fn flip(random: &mut Random, input: &mut [u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len());
        if let Some(byte) = input.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
    }
}

/// The beginning of one and the end of another.
fn splice(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let other = random.pick(seeds);
    input.truncate(random.below(input.len() + 1));
    input.extend_from_slice(&other[random.below(other.len() + 1)..]);
}

/// Another number where one stands.
fn number(random: &mut Random, input: &mut Vec<u8>) {
    let from = random.below(input.len() + 1);
    let Some(start) = input[from..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = from + start;
    let digits = input[start..].iter().take_while(|b| b.is_ascii_digit());
    let end = start + digits.count();
    let other = match random.below(4) {
        0 => "7".repeat(random.below(400)),
        1 => random.next().to_string(),
        _ => (*random.pick(&NUMBERS)).to_owned(),
    };
    input.splice(start..end, other.bytes());
}

/// Lines that come in another order, again, or not at all.
fn lines(random: &mut Random, input: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = input.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(5) {
        0 => lines.swap(a, b),
        1 => drop(lines.remove(a)),
        2 => lines.insert(b, lines[a].clone()),
        3 => lines[a..].reverse(),
        _ => lines[a].insert(0, b' '),
    }
    *input = lines.join(&b'\n');
}

/// Broken at a width, as by a narrow terminal, with what stands before each line.
fn wrap(random: &mut Random, input: &mut Vec<u8>) {
    let width = 1 + random.below(120);
    let (end, prefix) = *random.pick(&[
        ("\n", ""),
        ("\r", ""),
        ("\n", "\u{2502} "),
        ("\n", "[rank3]: "),
        ("\n", "\u{1b}[36m(WorkerDict pid=77)\u{1b}[0m "),
    ]);
    let part = stretch(random, input.len());
    let broken: Vec<u8> = input[part.clone()]
        .chunks(width)
        .flat_map(|piece| [prefix.as_bytes(), piece, end.as_bytes()].concat())
        .collect();
    input.splice(part, broken);
}

/// One line, or one stretch again and again, up to [`LONGEST`].
fn giant(random: &mut Random, input: &mut Vec<u8>) {
    let times = 1 + random.below(100_000);
    let copy = input[stretch(random, input.len())].to_vec();
    let times = times.min(LONGEST.saturating_sub(input.len()) / copy.len().max(1));
    insert(random, input, &copy.repeat(times));
    if random.once_in(2) {
        input.retain(|byte| *byte != b'\n');
    }
}
