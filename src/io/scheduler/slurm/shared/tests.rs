//! Processes are threads here, each with what a process has of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn question() -> Vec<String> {
    ["/etc/slurm.conf", "/usr/bin/squeue", "--me"]
        .map(str::to_owned)
        .into()
}

fn answers() -> (tempfile::TempDir, SharedAnswers) {
    let folder = tempfile::tempdir().unwrap();
    let shared = SharedAnswers::open_in(&folder.path().join("oomctl")).unwrap();
    (folder, shared)
}

/// Another process, which has watched for a while.
fn watching(shared: &SharedAnswers) -> SharedAnswers {
    let mut other = SharedAnswers::open_in(&shared.folder).unwrap();
    let long_ago = now().saturating_sub(Duration::from_secs(60));
    other.last.insert(question(), long_ago);
    other
}

fn hear(shared: &mut SharedAnswers, age: Age, said: &str) -> SharedAnswer {
    shared.hear(&question(), age, PATIENCE, || Ok(said.to_owned()))
}

/// Keeps an answer as if it had been asked for so long ago.
fn keep(shared: &SharedAnswers, ago: Duration, said: Result<&str, &str>) {
    let kept = StoredAnswer {
        asked: now().saturating_sub(ago),
        said: said.map(str::to_owned).map_err(str::to_owned),
    };
    write(&shared.folder.join(name(&question())), &question(), &kept).unwrap();
}

#[test]
fn what_another_process_heard_lately_is_not_asked_again_and_is_not_new() {
    let (_folder, mut first) = answers();
    let own = hear(&mut first, Age::Recent, "one");
    assert_eq!((own.said.as_deref(), own.new), (Ok("one"), true));
    let borrowed = hear(&mut watching(&first), Age::Recent, "two");
    assert_eq!((borrowed.said.as_deref(), borrowed.new), (Ok("one"), false));
    // Whoever has just been started wants to see how things are.
    let mut started = SharedAnswers::open_in(&first.folder).unwrap();
    assert_eq!(
        hear(&mut started, Age::Recent, "three").said.as_deref(),
        Ok("three")
    );
}

#[test]
fn an_answer_that_was_had_or_is_old_or_must_be_new_is_asked_for() {
    let (_folder, mut shared) = answers();
    hear(&mut shared, Age::Recent, "one");
    assert_eq!(
        hear(&mut shared, Age::Recent, "two").said.as_deref(),
        Ok("two")
    );
    let own = hear(&mut watching(&shared), Age::New, "three");
    assert_eq!((own.said.as_deref(), own.new), (Ok("three"), true));
    keep(&shared, OLDEST + Duration::from_secs(1), Ok("old"));
    assert_eq!(
        hear(&mut watching(&shared), Age::Recent, "four")
            .said
            .as_deref(),
        Ok("four")
    );
}

#[test]
fn who_asks_again_soon_wants_a_newer_answer() {
    let (now, second) = (Duration::from_secs(1_000), Duration::from_secs(1));
    assert_eq!(oldest(Age::Recent, None, now), now);
    assert_eq!(
        oldest(Age::Recent, Some(now - 15 * second), now),
        now - 12 * second
    );
    assert_eq!(
        oldest(Age::Recent, Some(now - 5 * second), now),
        now - 4 * second
    );
    assert_eq!(oldest(Age::Recent, Some(now), now), now);
    assert_eq!(oldest(Age::New, Some(now - 15 * second), now), now);
}

#[test]
fn that_there_is_no_answer_is_shared_too() {
    let (_folder, shared) = answers();
    keep(
        &shared,
        Duration::from_secs(2),
        Err("Socket timed out on send/recv operation"),
    );
    let heard = hear(&mut watching(&shared), Age::Recent, "never asked");
    assert_eq!(
        heard.said.unwrap_err(),
        "Socket timed out on send/recv operation"
    );
}

#[test]
fn ten_that_want_to_know_at_once_ask_once() {
    let (_folder, shared) = answers();
    let asked = AtomicU32::new(0);
    let start = std::sync::Barrier::new(10);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            let mut process = watching(&shared);
            let (asked, start) = (&asked, &start);
            scope.spawn(move || {
                start.wait();
                let heard = process.hear(&question(), Age::Recent, PATIENCE, || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    Ok("x".repeat(3 << 20))
                });
                assert_eq!(heard.said.unwrap().len(), 3 << 20);
            });
        }
    });
    assert_eq!(asked.into_inner(), 1);
}

#[test]
fn a_process_that_stands_still_with_the_lock_is_waited_for_once() {
    let (_folder, mut shared) = answers();
    let lock = shared.folder.join(name(&question())).with_extension("lock");
    let held = open_lock(&lock).unwrap();
    held.lock().unwrap();
    let short = Duration::from_millis(1);
    let said = |text: &str| Ok(text.to_owned());
    assert_eq!(
        shared
            .hear(&question(), Age::New, short, || said("one"))
            .said,
        said("one")
    );
    // Not waited for again, however much patience there is.
    assert_eq!(hear(&mut shared, Age::New, "two").said, said("two"));
    drop(held);
    hear(&mut shared, Age::New, "three");
    assert_eq!(
        read(&shared.folder.join(name(&question())), &question())
            .unwrap()
            .said,
        said("three")
    );
}

#[test]
fn what_is_torn_foreign_or_of_another_question_is_no_answer() {
    let (_folder, shared) = answers();
    let path = shared.folder.join(name(&question()));
    keep(&shared, Duration::ZERO, Ok("jobs of another cluster"));
    let other = vec!["squeue".to_owned()];
    assert!(read(&path, &other).is_none() && read(&path, &question()).is_some());
    let whole = fs::read(&path).unwrap();
    for end in 0..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        assert!(read(&path, &question()).is_none(), "{end} bytes");
    }
    fs::remove_file(&path).unwrap();
    let elsewhere = shared.folder.join("elsewhere");
    fs::write(&elsewhere, &whole).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(read(&path, &question()).is_none(), "a link is not followed");
    assert_eq!(
        hear(&mut watching(&shared), Age::Recent, "own")
            .said
            .as_deref(),
        Ok("own")
    );
}

#[test]
fn only_its_user_can_read_an_answer_and_a_folder_of_others_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, mut shared) = answers();
    hear(&mut shared, Age::New, "one");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&shared.folder), 0o700);
    for entry in fs::read_dir(&shared.folder).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    fs::set_permissions(&shared.folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(SharedAnswers::open_in(&shared.folder).is_err());
}

#[test]
fn without_a_folder_each_asks_for_itself() {
    let (folder, mut shared) = answers();
    drop(folder);
    for said in ["one", "two"] {
        let heard = hear(&mut shared, Age::Recent, said);
        assert_eq!((heard.said.as_deref(), heard.new), (Ok(said), true));
    }
}

#[test]
fn whoever_waits_reads_an_answer_only_when_it_is_another() {
    let (_folder, mut shared) = answers();
    keep(&shared, Duration::from_secs(60), Ok("old"));
    let path = shared.folder.join(name(&question()));
    let busy = open_lock(&path.with_extension("lock")).unwrap();
    busy.try_lock().unwrap();
    let reads = AtomicU32::new(0);
    let new = || {
        // The first look finds the old one, and it is replaced before the second.
        if reads.fetch_add(1, Ordering::Relaxed) == 0 {
            let other = SharedAnswers::open_in(path.parent().unwrap()).unwrap();
            keep(&other, Duration::ZERO, Ok("new"));
        }
        read(&path, &question()).filter(|kept| kept.said.as_deref() == Ok("new"))
    };
    let (_, kept) = shared.wait(&path, PATIENCE, new);
    assert!(kept.is_some());
    reads.store(1, Ordering::Relaxed);
    let never = || {
        reads.fetch_add(1, Ordering::Relaxed);
        None
    };
    let (lock, kept) = shared.wait(&path, PAUSE * 5, never);
    assert!(lock.is_none() && kept.is_none());
    assert_eq!(reads.into_inner(), 2, "it was read once");
}
