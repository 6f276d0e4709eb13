//! Random writing, rotating, truncating, replacing, looking and dying, against a model of what was written:
//! no byte missed, none told twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// The job writes so many bytes.
    Write(usize),
    /// It writes to the log that was renamed last.
    WriteLate(usize),
    /// It seeks over so many bytes.
    Seek(u64),
    /// Truncated, and so many bytes written.
    Truncate(usize),
    /// Another file with so many bytes is moved over it.
    Replace(usize),
    /// Renamed, and a new one made with so many bytes.
    Rotate(usize),
    /// Removed, and perhaps made anew.
    Remove(Option<usize>),
    /// Milliseconds pass, and what is due is looked at.
    Pass(i64),
    /// The follower is killed, and started again from its last checkpoint.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let size = || {
        prop_oneof![
            0_usize..50,
            0_usize..50,
            4_000_usize..5_000,
            250_000_usize..300_000
        ]
    };
    prop_oneof![
        6 => size().prop_map(Step::Write),
        2 => (1_usize..50).prop_map(Step::WriteLate),
        1 => (1_u64..400_000).prop_map(Step::Seek),
        1 => size().prop_map(Step::Truncate),
        1 => size().prop_map(Step::Replace),
        2 => size().prop_map(Step::Rotate),
        1 => proptest::option::of(size()).prop_map(Step::Remove),
        8 => (0_i64..2_500).prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ]
}

/// One file that was there under the followed name.
#[derive(Debug, Default)]
struct Generation {
    content: Vec<u8>,
    /// The follower was to tell all of it: it was there at a look, and nothing took its bytes away.
    whole: bool,
    seen: bool,
}

struct World {
    rig: Rig,
    generations: Vec<Generation>,
    /// The file under the followed name, if there is one.
    present: Option<File>,
    /// The file that was renamed last, its generation, and when.
    late: Option<(File, usize, Timestamp)>,
    renamed: u32,
    written: u32,
}

impl World {
    fn new(mode: Mode) -> Self {
        let mut world = Self {
            rig: Rig::new(mode),
            generations: Vec::new(),
            present: None,
            late: None,
            renamed: 0,
            written: 0,
        };
        world.rig.follow("log");
        world
    }

    /// Bytes that occur nowhere else; the first of a generation names it.
    fn fresh(&mut self, generation: usize, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.generations[generation].content.is_empty() {
            bytes.push(u8::try_from(generation + 1).unwrap());
        }
        while bytes.len() < length {
            self.written += 1;
            bytes.extend_from_slice(format!("{generation}:{},", self.written).as_bytes());
        }
        bytes
    }

    fn write(&mut self, file: &File, generation: usize, length: usize) {
        if length == 0 {
            return;
        }
        let bytes = self.fresh(generation, length);
        let content = &mut self.generations[generation].content;
        std::os::unix::fs::FileExt::write_all_at(file, &bytes, content.len() as u64).unwrap();
        content.extend_from_slice(&bytes);
        self.touch(file);
    }

    /// Another modification time for each change, as a slow clock would give: a test is faster than a
    /// kernel's tick.
    fn touch(&mut self, file: &File) {
        self.written += 1;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(self.written.into());
        file.set_times(fs::FileTimes::new().set_modified(time))
            .unwrap();
    }

    fn begin(&mut self, path: &str, length: usize) -> File {
        // Not for appending: a seek is to be possible.
        let file = File::create_new(self.rig.path(path)).unwrap();
        self.generations.push(Generation::default());
        self.write(&file, self.generations.len() - 1, length);
        file
    }

    fn current(&mut self) -> Option<&mut Generation> {
        let present = self.present.is_some();
        self.generations.last_mut().filter(|_| present)
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Write(length) => {
                let file = match self.present.take() {
                    Some(file) => file,
                    None => self.begin("log", 0),
                };
                self.write(&file, self.generations.len() - 1, length);
                self.present = Some(file);
            }
            Step::WriteLate(length) => {
                if let Some((file, generation, since)) = self.late.take() {
                    if self.rig.now.duration_since(since).as_millis() < 4_000 {
                        self.write(&file, generation, length);
                    }
                    self.late = Some((file, generation, since));
                }
            }
            Step::Seek(length) => {
                if let Some(file) = self.present.take() {
                    let generation = self.generations.len() - 1;
                    self.write(&file, generation, 1);
                    let content = &mut self.generations[generation].content;
                    content.resize(content.len() + usize::try_from(length).unwrap(), 0);
                    file.set_len(content.len() as u64).unwrap();
                    self.write(&file, generation, 1);
                    self.present = Some(file);
                }
            }
            Step::Truncate(length) => {
                if let Some(file) = self.present.take() {
                    file.set_len(0).unwrap();
                    self.touch(&file);
                    // It is still the file that a follower knows: also when it is renamed before the next look.
                    self.generations.push(Generation {
                        seen: self.current_is_seen(),
                        ..Generation::default()
                    });
                    self.write(&file, self.generations.len() - 1, length);
                    self.present = Some(file);
                }
            }
            Step::Replace(length) => {
                let file = self.begin("other", length);
                self.rig.rename("other", "log");
                self.present = Some(file);
            }
            Step::Rotate(length) => {
                if let Some(file) = self.present.take() {
                    let seen = self.current_is_seen();
                    let generation = self.generations.len() - 1;
                    self.generations[generation].whole = seen;
                    self.renamed += 1;
                    self.rig.rename("log", &format!("log.{}", self.renamed));
                    self.late = Some((file, generation, self.rig.now));
                    self.present = Some(self.begin("log", length));
                }
            }
            Step::Remove(again) => {
                if self.present.take().is_some() {
                    self.rig.remove("log");
                }
                if let Some(length) = again {
                    self.present = Some(self.begin("log", length));
                }
            }
            Step::Pass(milliseconds) => {
                self.rig.pass(milliseconds);
                if milliseconds >= 1_100
                    && let Some(generation) = self.current()
                {
                    generation.seen = true;
                }
            }
            Step::Restart => {
                // Logs that were renamed while they waited for their predecessor are in no checkpoint.
                let told = self.told(&self.rig.told[0].pieces).unwrap_or_default();
                for (number, generation) in self.generations.iter_mut().enumerate() {
                    generation.whole &= told.contains_key(&number);
                    generation.seen &= told.contains_key(&number);
                }
                self.rig.restart();
            }
        }
    }

    fn current_is_seen(&self) -> bool {
        self.generations.last().is_some_and(|g| g.seen)
    }

    /// What was told, by generation: (offset, bytes) in the order in which they came.
    fn told(&self, pieces: &[Piece]) -> Result<BTreeMap<usize, Vec<u8>>, String> {
        let mut told: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut at = None;
        for piece in pieces {
            let Piece::Bytes(offset, bytes) = piece else {
                at = None;
                continue;
            };
            let offset = usize::try_from(*offset).unwrap();
            let generation = match at {
                Some(generation) => generation,
                None if offset == 0 => usize::from(bytes[0])
                    .checked_sub(1)
                    .ok_or("begins with NUL")?,
                None => return Err(format!("begins at {offset}")),
            };
            at = Some(generation);
            let text = told.entry(generation).or_default();
            if offset < text.len() {
                return Err(format!("generation {generation}: {offset} told twice"));
            }
            text.resize(offset, 0);
            text.extend_from_slice(bytes);
        }
        Ok(told)
    }

    fn check(&self, pieces: &[Piece]) -> Result<(), String> {
        let told = self.told(pieces)?;
        for (generation, text) in &told {
            let written = &self.generations[*generation].content;
            if !written.starts_with(text) {
                return Err(format!(
                    "generation {generation}: other bytes than were written"
                ));
            }
        }
        for (number, generation) in self.generations.iter().enumerate() {
            let last = number + 1 == self.generations.len() && self.present.is_some();
            let text = told.get(&number).map_or(&[][..], |t| t);
            if (generation.whole || last) && text != generation.content {
                let (told, of) = (text.len(), generation.content.len());
                return Err(format!("generation {number}: {told} bytes told of {of}"));
            }
        }
        Ok(())
    }
}

fn run(mode: Mode, steps: &[Step]) -> Result<(), String> {
    let mut world = World::new(mode);
    for step in steps {
        world.take(step);
    }
    world.rig.settle();
    let pieces = std::mem::take(&mut world.rig.told[0].pieces);
    world.check(&pieces)
}

/// Cases of one runner: after so many the clock is looked at.
const CASES: u32 = 16;

fn modes() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Hints, Mode::Polling, Mode::Network])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..30)
}

/// Some cases, which follow from the seed.
fn some_cases(seed: u64) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(CASES)
    };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let outcome =
        TestRunner::new_with_rng(config, random).run(&(modes(), steps()), |(mode, steps)| {
            run(mode, &steps).map_err(|why| TestCaseError::fail(format!("{mode:?}: {why}")))
        });
    assert!(
        outcome.is_ok(),
        "OOMCTL_FUZZ_TARGET=follower OOMCTL_FUZZ_SEED={seed}: {}",
        outcome.unwrap_err()
    );
}

#[test]
fn no_byte_is_missed_or_told_twice() {
    (0..4).for_each(some_cases);
}

/// The same from another seed each time, for as long as `OOMCTL_FUZZ_SECONDS` says; or the cases of the
/// one seed that `OOMCTL_FUZZ_SEED` names. CONTRIBUTING.md has the commands.
#[test]
fn no_byte_is_missed_or_told_twice_for_as_long_as_is_asked() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    if std::env::var("OOMCTL_FUZZ_TARGET").is_ok_and(|target| target != "follower") {
        return;
    }
    if let Some(seed) = number("OOMCTL_FUZZ_SEED") {
        return some_cases(seed);
    }
    let end = Instant::now() + Duration::from_secs(number("OOMCTL_FUZZ_SECONDS").unwrap_or(0));
    let first = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() << 20;
    let mut seeds = 0;
    while Instant::now() < end {
        some_cases(first + seeds);
        seeds += 1;
    }
    println!(
        "follower: {} cases, from seed {first}",
        seeds * u64::from(CASES)
    );
}

#[test]
fn the_model_notices_a_byte_that_is_missed_or_told_twice() {
    let mut world = World::new(Mode::Polling);
    world.take(&Step::Write(20));
    world.rig.settle();
    let whole = world.rig.told[0].pieces.clone();
    assert_eq!(world.check(&whole), Ok(()));
    let Piece::Bytes(_, bytes) = whole[0].clone() else {
        panic!("no bytes");
    };
    let again = Piece::Bytes(10, bytes[10..].to_vec());
    assert!(world.check(&[whole[0].clone(), again.clone()]).is_err());
    assert!(
        world
            .check(&[Piece::Bytes(0, bytes[..19].to_vec())])
            .is_err()
    );
    assert!(
        world
            .check(&[Piece::Bytes(0, bytes[..5].to_vec()), again])
            .is_err()
    );
}
