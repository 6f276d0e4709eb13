//! Runs through slurmrestd, on a search path without a single command of Slurm's.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::spawn;

use super::cluster::{Cluster, answer, path, wait_for};
use super::place::{LARGE_CARD, LATE_OOM, Place};

/// Slurm's programs, which these stories must not find.
const COMMANDS: [&str; 9] = [
    "sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "srun", "salloc", "sacctmgr",
];
/// Where a place's token lies.
const TOKEN: &str = "token";

/// A place that reaches the cluster through slurmrestd alone, with a token in a file.
fn place_at(story: &str, address: &str) -> Option<Place> {
    let place = Place::on(Cluster::Full, story)?;
    // Another Slurm may have been built without it.
    if !socket(&place).exists() {
        eprintln!("skipped: this cluster has no slurmrestd");
        return None;
    }
    let address = match address {
        "" => format!("unix:{}", socket(&place).display()),
        address => address.to_owned(),
    };
    place.configure(&format!(
        "slurm: {{ rest: '{address}', token_file: {TOKEN} }}"
    ));
    give_token(&place, &["lifespan=3600"]);
    let bin = place.file("programs");
    link_all_but_slurm(&bin);
    Some(place.set("PATH", &bin.display().to_string()))
}

/// Beside `etc/slurm.conf` of the cluster.
fn socket(place: &Place) -> PathBuf {
    let state = place.conf.parent().and_then(Path::parent).unwrap();
    state.join("run/rest/socket")
}

/// A new token, as `scontrol token` prints it.
fn give_token(place: &Place, words: &[&str]) {
    let token = answer(&place.conf, "scontrol", &[&["token"], words].concat());
    // Replaced as a whole: a half is no token.
    fs::write(place.file("token.new"), token).unwrap();
    fs::rename(place.file("token.new"), place.file(TOKEN)).unwrap();
}

fn link_all_but_slurm(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for from in std::env::split_paths(&path()).filter(|from| from.is_dir()) {
        for program in fs::read_dir(from).unwrap().flatten() {
            let name = program.file_name();
            if !COMMANDS.contains(&name.to_string_lossy().as_ref()) {
                // The first on the search path wins, as for a shell.
                let _ = symlink(program.path(), folder.join(name));
            }
        }
    }
}

#[test]
fn a_run_goes_from_out_of_memory_to_success_without_slurms_commands() {
    let Some(place) = place_at("rest", "") else {
        return;
    };
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("ran out of memory in actor_update");
    let jobs = place.one_job_per_attempt(place.run());
    assert!(jobs.len() >= 3, "{jobs:?}");
    let attempts = place.attempts();
    assert_eq!(attempts[0]["exit"], "1:0");
    assert_eq!(attempts.last().unwrap()["state"], "COMPLETED");
    let asked = &jobs[0].asked;
    assert!(
        asked.contains("gres/gpu=4"),
        "its #SBATCH lines count: {asked}"
    );
    // The token is in its file, and in none of ours.
    let token = place.text(TOKEN);
    let token = token.trim().rsplit('.').next().unwrap();
    assert!(!contains(&place.file(".oomctl"), token));
}

/// Does any file below a folder contain a text?
fn contains(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => contains(&path, text),
            false => fs::read(&path).is_ok_and(|b| String::from_utf8_lossy(&b).contains(text)),
        }
    })
}

#[test]
fn a_job_is_cancelled_and_one_whose_option_has_no_field_is_refused() {
    let Some(place) = place_at("rest-cancel", "") else {
        return;
    };
    let place = place.with(&[LARGE_CARD, ("SIM_STEP_S", "60")]);
    let refused = place.oomctl(&["submit", "--run", "early", "--sbatch=--begin=now+1hour"]);
    refused
        .expect_code(4)
        .says("--begin=now+1hour has no field in slurmrestd");
    place.submit(&[]).expect_code(0);
    let job = place.until("RUNNING");
    place.oomctl(&["cancel", place.run()]).expect_code(0);
    wait_for("the job is cancelled", || {
        let words = ["-X", "-n", "-P", "-j", &job, "-o", "State"];
        let state = answer(&place.conf, "sacct", &words);
        state.starts_with("CANCELLED").then_some(())
    });
    assert_eq!(place.view()["state"], "cancelled");
}

#[test]
fn a_token_that_expires_stops_nothing() {
    let Some(place) = place_at("rest-token", "") else {
        return;
    };
    let place = place.with(&LATE_OOM);
    let watching = place.start(&["submit", "--run", place.run(), "--watch"]);
    place.until("RUNNING");
    give_token(&place, &["lifespan=1"]);
    watching.until_it_says("trouble:");
    watching.until_it_says("expired at");
    give_token(&place, &["lifespan=3600"]);
    watching.until_it_says("the scheduler answers again");
    watching.end().expect_code(0).says("ran out of memory");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 2, "{jobs:?}");
}

#[test]
fn without_a_token_nothing_is_submitted() {
    let Some(place) = place_at("rest-no-token", "") else {
        return;
    };
    fs::write(place.file(TOKEN), "\n").unwrap();
    let told = place.submit(&[]).expect_code(5);
    told.says("no token in");
    told.says("`scontrol token >");
    assert!(!place.file(".oomctl/runs").exists());
}

#[test]
fn a_submission_whose_answer_is_lost_is_found_by_its_token_and_not_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let Some(place) = place_at("rest-lost", &address) else {
        return;
    };
    let place = place.with(&[LARGE_CARD]);
    let socket = socket(&place);
    spawn(move || {
        for client in listener.incoming().flatten() {
            pass_on(client, &socket);
        }
    });
    let told = place.submit_and_watch(&[]).expect_code(0);
    told.says("unclear:");
    told.says("found again by its token");
    let jobs = place.one_job_per_attempt(place.run());
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(place.attempts()[0]["adopted"], true);
}

/// Hands a question to slurmrestd, and its answer back; that to a submission it loses.
fn pass_on(mut client: TcpStream, socket: &Path) {
    let asked = question(&mut client);
    let mut server = UnixStream::connect(socket).unwrap();
    server.write_all(&asked).unwrap();
    let mut answer = Vec::new();
    let end = server.read_to_end(&mut answer);
    if !asked.starts_with(b"POST ") && end.is_ok() {
        let _ = client.write_all(&answer);
    }
}

/// The head, and as many bytes as it says that follow.
fn question(client: &mut TcpStream) -> Vec<u8> {
    let mut asked = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = client.read(&mut part).unwrap();
        asked.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&asked).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(read > 0, "a cut question: {text}");
            continue;
        };
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        if body.len() >= length {
            return asked;
        }
    }
}
