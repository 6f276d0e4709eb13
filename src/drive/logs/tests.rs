//! Two watches of the same logs: one lives, the other is killed and taken up again at random. They must say
//! the same.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, UNIX_EPOCH};

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;

/// What a dying job may print, in pieces that end anywhere.
const SCRAPS: [&str; 16] = [
    "INFO 11-21 05:33:11 worker.py:267] generation throughput 1021 tokens/s\n",
    "Traceback (most recent call last):\n",
    "  File \"/w/train.py\", line 12, in <module>\n    loss.backward()\n",
    "  File \"/x/verl/workers/actor/dp_actor.py\", line 2, in update_policy\n",
    "    loss.backward()\n",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.\n",
    "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0;\n",
    "23.69 GiB total capacity; 256.00 MiB free;\n",
    "skipping batch\n",
    "KeyError: 'x'\n",
    "Capturing CUDA graph shapes:  34%|###  | 12/35 [00:01<00:03]\r",
    "torch.OutOfMemory",
    "Error: CUDA out of memory. Tried to allocate 2.00 GiB",
    "\n",
    "Killed\n",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n",
];

#[derive(Debug, Clone)]
enum Step {
    /// The job prints one of [`SCRAPS`].
    Print(usize),
    /// It prints so much of nothing.
    Noise(usize),
    /// It finishes a step, and says so in the other file.
    Finish,
    /// The log is truncated, as by a requeue.
    Truncate,
    /// Another file has its name.
    Replace,
    /// It is renamed and begun anew.
    Rotate,
    /// Milliseconds pass, and the watches look.
    Pass(i64),
    /// kill -9 of the one.
    Kill,
    /// It is started again, and finds its bookmark in this state.
    Start(Bookmarked),
}

#[derive(Debug, Clone, Copy)]
enum Bookmarked {
    Whole,
    /// The one that was written so many marks earlier, of the same file.
    Stale(usize),
    Lost,
    /// Only so many of 1,000 bytes are there.
    Torn(usize),
    /// One byte is another.
    Damaged(usize),
    /// That of another part of the job.
    Others,
}

fn step() -> impl Strategy<Value = Step> {
    let found = prop_oneof![
        6 => Just(Bookmarked::Whole),
        2 => (1_usize..4).prop_map(Bookmarked::Stale),
        1 => Just(Bookmarked::Lost),
        1 => (0_usize..1_000).prop_map(Bookmarked::Torn),
        1 => (0_usize..1_000).prop_map(Bookmarked::Damaged),
        1 => Just(Bookmarked::Others),
    ];
    prop_oneof![
        12 => (0..SCRAPS.len()).prop_map(Step::Print),
        1 => (60_000_usize..300_000).prop_map(Step::Noise),
        3 => Just(Step::Finish),
        1 => Just(Step::Truncate),
        1 => Just(Step::Replace),
        1 => Just(Step::Rotate),
        10 => (0_i64..2_500).prop_map(Step::Pass),
        3 => Just(Step::Kill),
        4 => found.prop_map(Step::Start),
    ]
}

/// One watch of the two logs.
struct Watch {
    followers: Followers,
    logs: AttemptLogs,
    /// Tenths that were told, as off a terminal.
    told: Vec<u64>,
}

fn part(run: &str) -> JobPart {
    JobPart {
        run: run.to_owned(),
        attempt: 1,
        restarts: 0,
        starts: Vec::new(),
    }
}

fn paths(folder: &Path) -> [PathBuf; 2] {
    ["slurm.err", "slurm.out"].map(|name| folder.join(name))
}

impl Watch {
    fn begin(folder: &Path) -> Self {
        let mut followers = Followers::polling();
        let scanner = Scanner::new(&[]);
        let logs = AttemptLogs::open(&paths(folder), &[], scanner, &mut followers, 0);
        Self {
            followers,
            logs,
            told: Vec::new(),
        }
    }

    fn again(folder: &Path, told: Vec<u64>) -> Self {
        let mut followers = Followers::polling();
        let kept = bookmark::read(&folder.join("follow.jsonl"), &part("r1"));
        let logs = kept.and_then(|kept| {
            AttemptLogs::resume(kept, &paths(folder), Scanner::new(&[]), &mut followers, 0)
        });
        match logs {
            Some(logs) => Self {
                followers,
                logs,
                told,
            },
            None => Self {
                told,
                ..Self::begin(folder)
            },
        }
    }

    fn look(&mut self, now: Timestamp) {
        let before = self.logs.last_look().clone();
        self.logs.read(&mut self.followers, now, LookMode::Now);
        let look = self.logs.last_look();
        let tenth = look.progress.as_ref().map(Progress::tenth);
        if tenth != before.progress.as_ref().map(Progress::tenth) {
            self.told.extend(tenth);
        }
    }
}

struct World {
    folder: tempfile::TempDir,
    log: Option<File>,
    now: Timestamp,
    written: u64,
    steps: u64,
    renamed: u32,
    lived: Watch,
    dying: Option<Watch>,
    told: Vec<u64>,
    /// Bookmarks of the present file.
    marks: Vec<Vec<u8>>,
    /// The one that can die has seen the log.
    seen: bool,
    /// It has read those that were renamed to their end, and is at the present one.
    arrived: bool,
    /// What became of the file since it last looked, dead meanwhile.
    unseen: Option<Step>,
    /// A stale bookmark was found: what was told after it is told again.
    stale: bool,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            log: None,
            now: "2001-01-01T00:00:00Z".parse().unwrap(),
            written: 0,
            steps: 0,
            renamed: 0,
            lived: Watch::begin(folder.path()),
            dying: Some(Watch::begin(folder.path())),
            told: Vec::new(),
            marks: Vec::new(),
            seen: false,
            arrived: false,
            unseen: None,
            stale: false,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn print(&mut self, text: &str) {
        let path = self.path("slurm.err");
        let open = || OpenOptions::new().create(true).append(true).open(&path);
        let log = self.log.get_or_insert_with(|| open().unwrap());
        log.write_all(text.as_bytes()).unwrap();
        self.touch();
    }

    /// Another time for each change: a test is faster than a kernel's tick.
    fn touch(&mut self) {
        self.written += 1;
        let time = UNIX_EPOCH + Duration::from_secs(self.written);
        let log = self.log.as_ref().unwrap();
        log.set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    /// The watches look; what the one that can die knows is written down as it does in a run.
    fn pass(&mut self, milliseconds: i64) {
        self.now += SignedDuration::from_millis(milliseconds);
        self.lived.look(self.now);
        let path = self.path("follow.jsonl");
        if let Some(watch) = &mut self.dying {
            watch.look(self.now);
            self.unseen = None;
            if watch.logs.is_worth_a_mark(self.now) {
                let Watch {
                    followers, logs, ..
                } = watch;
                logs.mark(&path, part("r1"), &[], followers, self.now)
                    .unwrap();
                self.marks.push(fs::read(&path).unwrap());
            }
            let at = watch
                .followers
                .checkpoint(&watch.logs.logs[0].followed)
                .file;
            let log = self.log.as_ref().map(|log| log.metadata().unwrap());
            self.seen |= at.is_some();
            self.arrived = at.is_some() && at == log.map(|log| (log.dev(), log.ino()));
        }
    }

    fn kill(&mut self) {
        if let Some(watch) = self.dying.take() {
            self.told = watch.told;
        }
    }

    fn start(&mut self, found: Bookmarked) {
        let path = self.path("follow.jsonl");
        if self.dying.is_some() || !path.exists() {
            return;
        }
        let mut bytes = fs::read(&path).unwrap();
        let sound: Option<Bookmark<serde_json::Value>> = bookmark::read(&path, &part("r1"));
        match found {
            Bookmarked::Whole => {}
            Bookmarked::Stale(back) => {
                if let Some(mark) = self.marks.iter().rev().nth(back) {
                    bytes.clone_from(mark);
                }
            }
            Bookmarked::Lost => bytes.clear(),
            Bookmarked::Torn(of) => bytes.truncate(bytes.len() * of / 1_000),
            Bookmarked::Damaged(at) => {
                // One that is damaged already must not be mended by it.
                if sound.is_some() {
                    let at = bytes.len() * at / 1_000;
                    bytes[at] ^= 4;
                }
            }
            Bookmarked::Others => {
                if let Some(kept) = sound {
                    let part = part("r2");
                    bookmark::write(&path, &Bookmark { part, ..kept }).unwrap();
                    bytes = fs::read(&path).unwrap();
                }
            }
        }
        fs::write(&path, bytes).unwrap();
        let told = std::mem::take(&mut self.told);
        if matches!(found, Bookmarked::Whole | Bookmarked::Stale(_)) {
            self.dying = Some(Watch::again(self.folder.path(), told));
        } else {
            // Nothing is known: as if the watch began now.
            let again = Watch::again(self.folder.path(), Vec::new());
            assert!(again.logs.resumed().is_none(), "{found:?}");
            self.dying = Some(again);
            self.lived = Watch::begin(self.folder.path());
            self.marks.clear();
            self.seen = false;
        }
        if matches!(found, Bookmarked::Stale(_)) {
            self.stale = true;
            // It may be of a time before the file was seen.
            (self.seen, self.arrived) = (false, false);
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Print(scrap) => self.print(SCRAPS[scrap]),
            Step::Noise(length) => {
                let line = "INFO worker.py:267] nothing to see here\n";
                self.print(&line.repeat(length / line.len()));
            }
            Step::Finish => {
                self.steps += 3;
                let path = self.path("slurm.out");
                let mut log = OpenOptions::new();
                let mut log = log.create(true).append(true).open(path).unwrap();
                writeln!(log, "step:{} - loss:1.5", self.steps).unwrap();
            }
            Step::Truncate | Step::Replace | Step::Rotate if !self.can_be_known(step) => {}
            Step::Truncate => {
                if let Some(log) = &self.log {
                    log.set_len(0).unwrap();
                    self.touch();
                    // The same text again would be no other file.
                    self.print(&format!("begun {}\n", self.written));
                    self.begun();
                }
            }
            Step::Replace => {
                if self.log.take().is_some() {
                    fs::write(self.path("other"), "begun\n").unwrap();
                    fs::rename(self.path("other"), self.path("slurm.err")).unwrap();
                    self.begun();
                }
            }
            Step::Rotate => {
                if self.log.take().is_some() {
                    self.renamed += 1;
                    let to = self.path(&format!("slurm.err.{}", self.renamed));
                    fs::rename(self.path("slurm.err"), to).unwrap();
                    self.print("begun\n");
                    self.begun();
                }
            }
            Step::Pass(milliseconds) => self.pass(milliseconds),
            Step::Kill => self.kill(),
            Step::Start(found) => self.start(found),
        }
    }

    /// Can a watch find out that does not look meanwhile, for it is dead or has only just begun? Not about a file
    /// that it never saw, and not what was in one that came after another and is gone too. A log that was truncated
    /// is still known when it is renamed; one that replaced it is not.
    fn can_be_known(&mut self, step: &Step) -> bool {
        let rotates = matches!(step, Step::Rotate);
        if !self.seen || !(rotates || self.arrived) {
            return false;
        }
        let known = match &self.unseen {
            None => true,
            Some(Step::Truncate) if rotates => true,
            Some(before) => std::mem::discriminant(before) == std::mem::discriminant(step),
        };
        if known {
            self.unseen = Some(step.clone());
        }
        known
    }

    /// Another file, or another text in it. One that nobody looked at is unknown to the living watch too.
    fn begun(&mut self) {
        self.marks.clear();
        self.lived.look(self.now);
        if self.dying.is_some() {
            self.pass(1_500);
        } else {
            self.now += SignedDuration::from_millis(1_500);
            self.lived.look(self.now);
        }
    }
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new();
    for step in steps {
        world.take(step);
    }
    world.pass(10_000);
    world.start(Bookmarked::Whole);
    world.pass(10_000);
    let now = world.now + SignedDuration::from_secs(100);
    let Some(mut dying) = world.dying else {
        return Ok(());
    };
    let lived = &mut world.lived;
    let expected = lived.logs.explain(None, true, &mut lived.followers, now);
    let found = dying.logs.explain(None, true, &mut dying.followers, now);
    prop_assert_eq!(found, expected);
    let told = &dying.told;
    if world.stale {
        return Ok(());
    }
    prop_assert!(told.is_sorted_by(|a, b| a < b), "told twice: {:?}", told);
    prop_assert!(told.last() == lived.told.last() || lived.told.is_empty());
    Ok(())
}

/// A bookmark from before the file had text cannot tell that the text was replaced since.
#[test]
fn what_a_stale_bookmark_never_saw_is_not_held_against_it() {
    let pass = Step::Pass(0);
    let stale = Step::Start(Bookmarked::Stale(1));
    let (finish, print) = (Step::Finish, Step::Print(0));
    let steps = [
        finish,
        pass.clone(),
        print,
        pass,
        Step::Kill,
        stale,
        Step::Truncate,
    ];
    run(&steps).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(128)
    })]

    #[test]
    fn a_watch_that_is_killed_says_what_one_that_lives_says(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        run(&steps)?;
    }
}
