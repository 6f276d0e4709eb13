//! `kill -9` of oomctl at random moments: nothing is lost and nothing is submitted twice.

use std::time::Duration;

use super::cluster::{Cluster, cluster_name, program};
use super::place::{LARGE_CARD, Place};

/// Kills in all, over both stories, unless `OOMCTL_TEST_KILLS` says more.
const KILLS: usize = 50;
/// Longest life of a process that is killed, in milliseconds: about as long as an attempt.
const LONGEST_LIFE_MS: u64 = 1_500;

/// A small generator (xorshift64*), so that a failure can be told by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// The seed in `OOMCTL_TEST_SEED`, or one of the clock's.
fn seed() -> u64 {
    match std::env::var("OOMCTL_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(1, |d| d.as_secs() | 1),
    }
}

/// Kills whoever supervises, at random moments, run after run, until there were `kills`.
fn kill_at_random_moments(story: &str, kills: usize, seed: u64) {
    let Some(place) = Place::on(Cluster::Full, story) else {
        return;
    };
    eprintln!("{story}: OOMCTL_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let mut killed = 0;
    let mut runs = Vec::new();
    while killed < kills {
        let run = format!("{}-{}", place.run(), runs.len());
        let mut begun = false;
        loop {
            let words: &[&str] = if begun {
                &["watch", &run]
            } else {
                &["submit", "--run", &run, "--watch", "--fresh"]
            };
            let process = place.start(words);
            std::thread::sleep(Duration::from_millis(dice.below(LONGEST_LIFE_MS)));
            // Killed before the run was made: the same submission is still right.
            begun |= place
                .file(&format!(".oomctl/runs/{run}/inputs.json"))
                .exists();
            if process.kill() {
                killed += 1;
            }
            if killed >= kills || over(&place, &run) {
                break;
            }
        }
        if begun {
            runs.push(run);
        }
    }
    for run in &runs {
        place.oomctl(&["watch", run]).expect_code(0);
        let jobs = place.one_job_per_attempt(run);
        assert!(jobs.len() >= 3, "OOMCTL_TEST_SEED={seed}: {jobs:?}");
        assert_eq!(jobs.last().unwrap().state, "COMPLETED");
    }
    eprintln!("{story}: {killed} kills over {} runs", runs.len());
}

fn over(place: &Place, run: &str) -> bool {
    let told = place.oomctl(&["status", run, "--json"]);
    let Ok(document) = serde_json::from_str::<serde_json::Value>(&told.stdout) else {
        return false;
    };
    !document["runs"][0]["exit_code"].is_null()
}

#[test]
fn runs_whose_supervisor_is_killed_at_random_moments_lose_nothing_and_submit_nothing_twice() {
    let seed = seed();
    let asked = std::env::var("OOMCTL_TEST_KILLS").ok();
    let kills = asked.map_or(KILLS, |kills| kills.parse().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| kill_at_random_moments("killed-a", kills / 2, seed));
        scope.spawn(|| kill_at_random_moments("killed-b", kills - kills / 2, seed ^ 0x9e37_79b9));
    });
}

/// This cluster knows of no job: only who names the other one is told. Both are one here.
#[test]
fn a_job_whose_submitter_is_killed_before_the_answer_is_found_on_the_cluster_that_it_was_sent_to() {
    let Some(place) = Place::on(Cluster::Full, "killed-elsewhere") else {
        return;
    };
    let name = cluster_name(&Cluster::Full.conf().unwrap());
    let elsewhere = format!("--sbatch=--clusters={name}");
    let sent = place.file("sent");
    let deadly = format!(
        "#!/bin/sh\n[ -e {sent} ] && exec {sbatch} \"$@\"\n: >{sent}\n{sbatch} \"$@\" >{sent}\nkill -9 $PPID\n",
        sent = sent.display(),
        sbatch = program("sbatch").display()
    );
    let silent = |name: &str| {
        let real = program(name);
        let real = real.display();
        format!("#!/bin/sh\ncase \"$*\" in *--clusters*) exec {real} \"$@\";; esac\n")
    };
    let place = place
        .wrapping("sbatch", &deadly)
        .wrapping("squeue", &silent("squeue"))
        .wrapping("sacct", &silent("sacct"))
        .with(&[LARGE_CARD]);
    let killed = place.submit(&["--watch", &elsewhere]);
    assert_ne!(killed.code, 0, "{}", killed.stderr);
    place
        .watch()
        .expect_code(0)
        .says("found again by its token");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert!(place.text("sent").contains(&jobs[0].id));
}
