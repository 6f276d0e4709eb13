//! What a job sees: the same environment and working directory at every attempt, and no secret on disk.

use std::path::Path;

use super::weaver;

const SECRET: &str = "hunter2-very-secret-value";

fn holds(folder: &Path, what: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holds(&path, what));
        } else if let Ok(bytes) = std::fs::read(&path)
            && String::from_utf8_lossy(&bytes).contains(what)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

fn variables(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = text
        .split('\0')
        .filter(|v| !v.is_empty())
        // What names the attempt or the job differs by right; bash counts its depth.
        .filter(|v| !v.starts_with("OOMCTL_") && !v.starts_with("SLURM_") && !v.starts_with('_'))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_resubmission_has_the_environment_and_folder_of_the_first_submission() {
    let mut place = weaver::project("knobs: { environment: { FROM_PROFILE: 'a b $HOME' } }");
    place.set(
        "MY_SETTING",
        "as it was 'quoted' $(touch pwned)\nsecond line",
    );
    place.run(&["submit", "--backend", "local"]).ends(0);
    // The watch that resubmits is another shell, in another folder.
    place.set("MY_SETTING", "something else");
    place.set("NEWCOMER", "1");
    let mut watch = place.command(&["watch", "weaver-1", "--config"]);
    watch
        .arg(place.path("oomctl.yaml"))
        .current_dir(&place.home);
    let done: super::place::Done = watch.output().unwrap().into();
    done.ends(0);
    let (first, third) = (place.read("env.1"), place.read("env.3"));
    // All but its name in W&B, which is that of the attempt.
    let named = |n: u32| format!("WANDB_NAME=weaver-1-attempt-{n}");
    let (mut of_first, mut of_third) = (variables(&first), variables(&third));
    for (variables, attempt) in [(&mut of_first, 1), (&mut of_third, 3)] {
        let before = variables.len();
        variables.retain(|v| *v != named(attempt));
        assert_eq!(variables.len(), before - 1, "{variables:?}");
    }
    assert_eq!(of_first, of_third);
    assert!(first.contains("MY_SETTING=as it was 'quoted' $(touch pwned)\nsecond line\0"));
    assert!(first.contains("FROM_PROFILE=a b $HOME\0"));
    assert!(!third.contains("NEWCOMER"));
    assert_eq!(place.read("pwd.1"), place.read("pwd.3"));
    assert!(!place.has("pwned"));
}

#[test]
fn a_secret_reaches_every_attempt_and_is_nowhere_on_disk() {
    let mut place = weaver::project("knobs: { secrets: [LOOM_PASS] }");
    for name in ["LOOM_PASS", "WANDB_API_KEY", "HF_TOKEN"] {
        place.set(name, SECRET);
    }
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    for attempt in [1, 3] {
        let name = format!("env.{attempt}");
        for variable in ["LOOM_PASS", "WANDB_API_KEY", "HF_TOKEN"] {
            assert!(
                place
                    .read(&name)
                    .contains(&format!("{variable}={SECRET}\0")),
                "{variable}"
            );
        }
        std::fs::remove_file(place.path(&name)).unwrap();
    }
    std::fs::remove_file(place.path("env.2")).unwrap();
    assert_eq!(holds(&place.root, SECRET), Vec::<String>::new());
}

#[test]
fn a_watch_without_the_secret_refuses_by_name_and_goes_on_when_it_is_there() {
    let mut place = weaver::project("");
    place.set("WEAVER_TOKEN", SECRET);
    place.run(&["submit", "--backend", "local"]).ends(0);
    place.variables.retain(|(n, _)| n != "WEAVER_TOKEN");
    let done = place.run(&["watch", "weaver-1"]).ends(5);
    done.says(&["WEAVER_TOKEN", "export"]);
    assert!(!place.has("argv.2"), "nothing was submitted without it");
    place.set("WEAVER_TOKEN", SECRET);
    place.run(&["watch", "weaver-1"]).ends(0);
    assert!(
        place
            .read("env.2")
            .contains(&format!("WEAVER_TOKEN={SECRET}\0"))
    );
}

#[test]
fn a_declared_secret_that_is_missing_is_refused_before_anything_is_written() {
    let place = weaver::project("knobs: { secrets: [LOOM_PASS] }");
    place.says("submit --backend local", 5, &["LOOM_PASS"]);
    assert!(!place.has(".oomctl"));
}

#[test]
fn variables_of_an_outer_job_do_not_reach_the_inner_one() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("SLURM_JOB_ID", "999");
    place.set("SBATCH_PARTITION", "elsewhere");
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    let seen = place.read("env.1");
    assert!(
        !seen.contains("SLURM_JOB_ID=") && !seen.contains("SBATCH_PARTITION="),
        "{seen}"
    );
}

#[test]
fn the_environment_of_a_run_can_be_entered_outside_of_its_job() {
    let place = super::place::Place::example();
    place.run(&["render", "--to", "files"]).ends(0);
    let done = place.shell("bash files/environment.sh bash -c 'echo in $RAY_TMPDIR'");
    done.ends(0).says(&["in /"]);
}
