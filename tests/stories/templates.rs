//! Templates: what is wrong with one is said with its line; what comes out is good shell.

use std::process::Command;

use super::place::Place;
use super::weaver;
use oomctl_base::word_list;

#[test]
fn a_broken_template_is_refused_with_its_name_and_line() {
    let mut text = String::new();
    for (what, line) in [
        ("undefined name", "echo {{ treads }}"),
        ("unset value", "echo {{ motto }}"),
        ("unclosed block", "{% if threads > 2 %}"),
        ("unknown filter", "echo {{ threads|shellquote }}"),
        ("unknown include", "{% include \"weaver/nothing.j2\" %}"),
        ("undefined attribute", "echo {{ attempt.nummer }}"),
        ("wrong type", "echo {{ threads + motto }}"),
        (
            "endless",
            "{% for i in range(100000000) %}{{ i }}{% endfor %}",
        ),
        ("unclosed expression", "echo {{ threads"),
    ] {
        let place = weaver::project("knobs: { threads: 2 }");
        let name = "templates/weaver/job.sbatch.j2";
        let whole = place.read(name);
        place.write(name, &whole.replace("cd {{ attempt.workdir }}", line));
        let done = place.run(&["submit", "--backend", "local"]);
        assert_eq!(done.code, 5, "{what}: {}", done.told());
        assert!(!place.has(".oomctl"), "{what}: something is left behind");
        assert!(
            done.err.contains("weaver/job.sbatch.j2"),
            "{what}: {}",
            done.told()
        );
        text.push_str(&format!("## {what}\n{}\n", place.steady(&done.err)));
    }
    insta::assert_snapshot!(text);
}

/// Configurations that together reach every branch of the built-in templates.
const SHAPES: [&[&str]; 10] = [
    &[],
    &["--cluster", "example-h100"],
    &["--cluster", "example-a100"],
    &["--set", "nnodes=2", "--set", "cpus_per_task=8"],
    &[
        "--set",
        "container_image=verl.sif",
        "--set",
        "container_mounts=[\"/data:/data\"]",
    ],
    &[
        "--set",
        "container_image=verl.sqsh",
        "--set",
        "container_runtime=pyxis",
        "--set",
        "container_args=[\"--container-writable\"]",
    ],
    &word_list::<6>("--set nnodes=2 --set container_image=verl.sqsh --set container_runtime=pyxis"),
    &[
        "--set",
        "nnodes=2",
        "--set",
        "container_image=my image's.sif",
    ],
    &[
        "--set",
        "secrets=[\"WANDB_API_KEY\"]",
        "--set",
        "modules=[\"cuda/12.4\"]",
        "--set",
        "setup=[\"source venv/bin/activate\"]",
    ],
    &[
        "--set",
        "experiment_name=it's $(x)",
        "--set",
        "environment={\"A\": \"b c\"}",
    ],
];

#[test]
fn what_is_rendered_is_good_shell() {
    let shellcheck = Command::new("shellcheck").arg("--version").output().is_ok();
    if !shellcheck {
        assert!(
            std::env::var_os("CI").is_none(),
            "shellcheck is needed in CI"
        );
        println!("skipped in part: shellcheck is not installed");
    }
    let place = Place::example();
    let mut all = Vec::new();
    for (n, shape) in SHAPES.iter().enumerate() {
        let to = format!("out{n}");
        let mut arguments = vec!["render", "--backend", "slurm", "--to", &to];
        arguments.extend(*shape);
        place.run(&arguments).ends(0);
        all.extend(scripts(&place, &to));
    }
    for (n, shape) in [
        &[][..],
        &["--set", "nnodes=2"],
        &["--set", "gradient_accumulation_steps=2"],
    ]
    .iter()
    .enumerate()
    {
        let to = format!("torchrun{n}");
        let mut arguments = vec![
            "render",
            "--backend",
            "slurm",
            "--to",
            &to,
            "--config",
            "torchrun.yaml",
        ];
        place.write(
            "torchrun.yaml",
            "preset: torchrun\nknobs: { script: my train.py, batch_size: 8 }\n",
        );
        arguments.extend(*shape);
        place.run(&arguments).ends(0);
        all.extend(scripts(&place, &to));
    }
    let swarm = Place::example_named("swarm");
    for (n, shape) in [
        &[][..],
        &[
            "--set",
            "allocator_conf=max_split_size_mb:512",
            "--set",
            "args=[a b, $c]",
        ],
    ]
    .iter()
    .enumerate()
    {
        let to = format!("swarm{n}");
        let mut arguments = vec!["render", "--backend", "slurm", "--to", &to];
        arguments.extend(*shape);
        swarm.run(&arguments).ends(0);
        all.extend(scripts(&swarm, &to));
    }
    assert!(all.len() > 30, "{}", all.len());
    for script in &all {
        let done = Command::new("bash").arg("-n").arg(script).output().unwrap();
        assert!(done.status.success(), "{}: {done:?}", script.display());
    }
    if shellcheck {
        // A setup line of the user's own names a file that is not here (SC1091), and a `$` in single
        // quotes is what is wanted (SC2016).
        let done = Command::new("shellcheck")
            .args(["-s", "bash", "-e", "SC1091,SC2016"])
            .args(&all)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stdout)
        );
    }
}

fn scripts(place: &Place, folder: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(place.path(folder)).unwrap();
    let files = entries.map(|e| e.unwrap().path());
    files
        .filter(|f| f.extension().is_none_or(|e| e != "yaml"))
        .collect()
}
