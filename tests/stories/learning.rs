//! What one run found out is where the next one starts.

use super::place::{Done, Place};
use super::slurm::Slurm;
use super::weaver;

/// A loom on which 2 threads fit, and nothing above.
fn loom() -> (Place, Slurm) {
    let mut place = weaver::project("");
    let slurm = Slurm::before(&mut place);
    (place, slurm)
}

fn submit(place: &Place, more: &[&str]) -> Done {
    place.run(&[&["submit", "--watch"], more].concat())
}

#[test]
fn the_second_run_starts_where_the_first_one_fitted() {
    let (place, slurm) = loom();
    submit(&place, &[]).ends(0);
    assert_eq!(place.count("weaver-1", "submitted"), 3);
    let second = submit(&place, &[]).ends(0);
    second.says(&[
        "start      as in run weaver-1, attempt 3, which fitted",
        "threads 8 -> 2, bundles 1 -> 4 (same math); --fresh starts unchanged",
    ]);
    assert_eq!(slurm.accepted(), [1, 2, 3, 1]);
    let words = ["--threads", "2", "--bundles", "4", "--cloth", "64"];
    assert_eq!(weaver::words(&place, 1), words);
    // The run itself knows it, whoever goes on with it.
    let explained = place
        .run(&["explain", "threads", "--run", "weaver-2"])
        .ends(0);
    explained.says(&[
        "threads = 2",
        "learned from run weaver-1, attempt 3 (rung thin)",
        "overrides",
    ]);
    // The third learns it from the second.
    submit(&place, &[])
        .ends(0)
        .says(&["as in run weaver-2, attempt 1"]);
}

#[test]
fn fresh_starts_as_asked_and_so_does_what_the_user_sets() {
    let (place, _slurm) = loom();
    submit(&place, &[]).ends(0);
    let fresh = submit(&place, &["--fresh"]).ends(0);
    assert!(!fresh.err.contains("start  "), "{}", fresh.told());
    assert_eq!(place.count("weaver-2", "submitted"), 3);
    let set = place
        .run(&["submit", "--dry-run", "--set", "threads=8"])
        .ends(0);
    set.says(&["start      unchanged, although run weaver-", "--threads 8"]);
    // Another value in the project file is another question.
    let yaml = place.read("oomctl.yaml");
    place.write(
        "oomctl.yaml",
        &format!("{yaml}knobs: {{ threads: 4, cloth: 32 }}\n"),
    );
    let changed = place.run(&["submit", "--dry-run"]).ends(0);
    changed.says(&["--threads 4", "--cloth 32"]);
    assert!(!changed.err.contains("start  "), "{}", changed.told());
}

#[test]
fn plan_render_and_a_dry_run_show_the_start_that_submit_would_take() {
    let (place, _slurm) = loom();
    let before = place.json("plan --json");
    assert!(before.get("start").is_none());
    submit(&place, &[]).ends(0);
    let plan = place.run(&["plan"]).ends(0);
    plan.says(&[
        "start      as in run weaver-1, attempt 3, which fitted",
        "threads 2 -> 1",
    ]);
    let plan = place.json("plan --json");
    assert_eq!(plan["start"]["ground"], "fits");
    assert_eq!(plan["start"]["because"]["run"], "weaver-1");
    assert_eq!(plan["start"]["changes"][0]["to"], 2);
    for words in [&["render"][..], &["submit", "--dry-run"]] {
        let done = place.run(words).ends(0);
        done.says(&["start      as in run weaver-1", "--threads 2 --bundles 4"]);
    }
    place.says("render --fresh", 0, &["--threads 8"]);
}

#[test]
fn a_larger_job_starts_behind_what_is_known_to_fail_and_a_smaller_one_as_asked() {
    let (place, _slurm) = loom();
    submit(&place, &["--set", "cloth=64"]).ends(0);
    // Twice the cloth: 8 and 4 threads are known to fail with less; of 2 nothing is known.
    let larger = place
        .run(&["submit", "--dry-run", "--set", "cloth=128"])
        .ends(0);
    larger.says(&[
        "run weaver-1, attempt 1, ran out of GPU memory",
        "so it starts with less",
        "--threads 2",
    ]);
    let smaller = place
        .run(&["submit", "--dry-run", "--set", "cloth=32"])
        .ends(0);
    assert!(!smaller.err.contains("start  "), "{}", smaller.told());
}

#[test]
fn a_run_that_starts_too_high_after_all_climbs_on_and_is_believed_later() {
    let (mut place, _slurm) = loom();
    submit(&place, &[]).ends(0);
    // Somebody else's data, say: now only one thread fits.
    place.set("WEAVER", "fits 1");
    submit(&place, &[]).ends(0).says(&["threads  2 -> 1"]);
    assert_eq!(place.count("weaver-2", "submitted"), 2);
    submit(&place, &[])
        .ends(0)
        .says(&["start      as in run weaver-2, attempt 2, which fitted"]);
    assert_eq!(place.count("weaver-3", "submitted"), 1);
}

#[test]
fn a_memory_that_cannot_be_read_is_said_and_stops_nothing() {
    let (place, _slurm) = loom();
    submit(&place, &[]).ends(0);
    place.write(
        ".oomctl/fits.jsonl",
        "{\"v\":1,\"sum\":\"\n\0\u{7f}\nnothing that was written here\n",
    );
    submit(&place, &[]).ends(0);
    assert_eq!(place.count("weaver-2", "submitted"), 3);
    std::fs::remove_file(place.path(".oomctl/fits.jsonl")).unwrap();
    std::fs::create_dir(place.path(".oomctl/fits.jsonl")).unwrap();
    let done = submit(&place, &[]).ends(0);
    done.says(&["starting without what earlier runs needed"]);
    assert_eq!(place.count("weaver-3", "submitted"), 3);
}

/// A folder of a site with what the project in `place` shared, by the command that its owner gives.
fn site_of(place: &Place) -> tempfile::TempDir {
    let site = tempfile::tempdir().unwrap();
    let file = site.path().join("fits.jsonl");
    let words = ["history", "--export-fits", file.to_str().unwrap()];
    place.says(&words, 0, &["3 entries, 1 of them fitted; 1 projects read"]);
    site
}

#[test]
fn a_new_project_starts_where_another_one_of_the_site_fitted() {
    let (first, _slurm) = loom();
    submit(&first, &[]).ends(0);
    let site = site_of(&first);
    let file = site.path().join("fits.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    for hidden in ["weaver-1", "oomctl-", first.path("").to_str().unwrap()] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    // Twice is once.
    site_of(&first);
    let (mut second, _slurm) = loom();
    second.set("OOMCTL_SITE", site.path().to_str().unwrap());
    let told = format!("another project (by {})", file.display());
    let started = submit(&second, &[]).ends(0);
    started.says(&[&format!("start      as in {told}, which fitted")]);
    assert_eq!(second.count("weaver-1", "submitted"), 1);
    let explained = second
        .run(&["explain", "threads", "--run", "weaver-1"])
        .ends(0);
    explained.says(&[&format!("learned from {told} (rung thin)")]);
    // It can be left out, at once or for good.
    let fresh = submit(&second, &["--fresh"]).ends(0);
    assert!(!fresh.err.contains("start  "), "{}", fresh.told());
    std::fs::remove_file(second.path(".oomctl/fits.jsonl")).unwrap();
    second.set("OOMCTL_SITE", "");
    let without = submit(&second, &[]).ends(0);
    assert!(!without.err.contains("start  "), "{}", without.told());
}

#[test]
fn a_broken_file_of_the_site_is_named_with_its_line_and_stops_nothing() {
    let (first, _slurm) = loom();
    submit(&first, &[]).ends(0);
    let site = site_of(&first);
    let file = site.path().join("fits.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("half a li\n{text}")).unwrap();
    let (mut second, _slurm) = loom();
    second.set("OOMCTL_SITE", site.path().to_str().unwrap());
    let started = submit(&second, &[]).ends(0);
    started.says(&[
        &format!("{}:1 is damaged", file.display()),
        "start      as in another project",
    ]);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let (mut third, _slurm) = loom();
    third.set("OOMCTL_SITE", site.path().to_str().unwrap());
    submit(&third, &[])
        .ends(0)
        .says(&["starting without what other projects of the site shared"]);
    assert_eq!(third.count("weaver-1", "submitted"), 3);
}

#[test]
fn the_example_fits_at_once_the_second_time() {
    let place = Place::example();
    let words = "submit --dataset diamonds-seed0 --watch --backend local";
    place.run(words).ends(0);
    place.says(
        words,
        0,
        &[
            "as in run diamonds-seed0-1, attempt 3, which fitted (peak 65.9 GiB reserved)",
            "(changes training)",
        ],
    );
    assert_eq!(place.count("diamonds-seed0-2", "submitted"), 1);
}
