//! What docs/security.md promises of files and scripts, where no other story tells it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::{Done, Place};
use super::weaver;

/// Everything below a folder, links left out.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        if meta.is_dir() {
            found.extend(below(&path));
        }
        if !meta.is_symlink() {
            found.push(path);
        }
    }
    found
}

#[test]
fn nobody_else_can_read_or_write_a_run_whatever_the_umask_says() {
    let place = weaver::project("knobs: { threads: 2 }");
    let oomctl = env!("CARGO_BIN_EXE_oomctl");
    let words = format!("umask 0; exec {oomctl} submit --watch --backend local");
    let mut command = Command::new("sh");
    command.args(["-c", &words]).current_dir(&place.root);
    command.env("HOME", &place.home);
    let done: Done = command.output().unwrap().into();
    done.ends(0);
    let runs = place.path(".oomctl/runs/weaver-1");
    let all = below(&runs);
    assert!(all.len() > 8, "{all:?}");
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&runs), 0o700);
    // What the job itself writes has its umask, behind the folder's mode.
    let by_job = ["slurm.out", "slurm.err", "claim", "sampler.log"];
    let ours = |path: &&PathBuf| !by_job.iter().any(|name| path.ends_with(name));
    for path in all.iter().filter(ours) {
        assert_eq!(
            mode(path) & 0o077,
            0,
            "{} is {:o}",
            path.display(),
            mode(path)
        );
    }
}

#[test]
fn the_run_of_another_user_is_not_trusted() {
    let place = weaver::project("knobs: { threads: 2 }");
    place
        .run(&["submit", "--watch", "--backend", "local"])
        .ends(0);
    let run = place.path(".oomctl/runs/weaver-1");
    if chown(&run, Some(65_534), None).is_err() {
        println!("skipped: only root can give a folder away");
        return;
    }
    for command in ["watch", "cancel"] {
        let done = place.run(&[command, "weaver-1"]).ends(7);
        done.says(&["belongs to another user"]);
    }
    chown(&run, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&run, open).unwrap();
    place.run(&["watch", "weaver-1"]).ends(7);
}

#[test]
fn a_script_whose_secret_is_missing_ends_before_anything_runs() {
    let place = Place::example();
    place.write(
        "oomctl.yaml",
        &place
            .read("oomctl.yaml")
            .replacen("knobs:\n", "knobs:\n  secrets: [MY_TOKEN]\n", 1),
    );
    let rendered = place.run(&["render", "--backend", "local"]).ends(0).out;
    let (_, script) = rendered.split_once("job.sbatch (submitted)\n").unwrap();
    let script = script.split("\n#### ").next().unwrap();
    place.write("job.sh", script);
    std::fs::create_dir_all(place.path(".oomctl/runs/preview/attempt-1")).unwrap();
    let output = Command::new("bash")
        .arg(place.path("job.sh"))
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .output();
    let done: Done = output.unwrap().into();
    assert_ne!(done.code, 0, "{}", done.told());
    done.says(&["MY_TOKEN", "the submission did not have it"]);
}

#[test]
fn a_template_without_end_is_stopped() {
    let place = weaver::project("knobs: { threads: 2 }");
    let name = "templates/weaver/job.sbatch.j2";
    let endless =
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
    let text = format!("{}{endless}", place.read(name));
    place.write(name, &text);
    place.run(&["submit", "--backend", "local"]).ends(5);
    assert!(!place.has(".oomctl/runs/weaver-1/attempt-1/slurm.out"));
}
