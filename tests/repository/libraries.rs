//! The libraries beside the program: what each is built on, and that its example does what its README says.

use std::fs;
use std::process::Command;

use crate::source::root;

/// Which of our libraries each of them is built on; the program is built on all.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("base", &[]),
    ("diagnose", &["base"]),
    ("follow", &[]),
    ("gpu", &["base"]),
    ("memory", &["base"]),
    ("phantom", &[]),
    ("scripts", &["base"]),
];

#[test]
fn each_library_needs_only_what_it_says() {
    let folder = root().join("crates");
    let mut found: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, LIBRARIES.map(|(name, _)| name));
    for (name, wanted) in LIBRARIES {
        let text = fs::read_to_string(folder.join(name).join("Cargo.toml")).unwrap();
        let file: toml_edit::Document<String> = text.parse().unwrap();
        let table = file["dependencies"].as_table().unwrap();
        let ours = table
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("oomctl-"));
        assert_eq!(ours.collect::<Vec<_>>(), wanted, "{name}");
    }
}

/// Each example with its words, and what it prints.
const EXAMPLES: [(&str, &str, &[&str], &str); 5] = [
    (
        "base",
        "units",
        &["40G"],
        "40G is 42949672960 bytes, 40.00 GiB\n",
    ),
    (
        "diagnose",
        "why",
        &["slurm.err"],
        "cuda_oom in unknown (GpuOom)\n",
    ),
    (
        "memory",
        "need",
        &[
            r#"{"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100, "micro_batch": 1, "seq_len": 8}"#,
        ],
        "whether it fits is unknown: gpu_total_gib is not given\n",
    ),
    (
        "phantom",
        "start",
        &["lib"],
        "export LD_PRELOAD='lib/libcuda.so.1'\n",
    ),
    (
        "scripts",
        "halve",
        &["train.sbatch"],
        "-BATCH=32\n+BATCH=16\n",
    ),
];

#[test]
fn each_example_does_what_its_readme_says() {
    let folder = tempfile::tempdir().unwrap();
    let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
    fs::write(folder.path().join("slurm.err"), oom).unwrap();
    let script = "#!/bin/bash\nBATCH=32\npython train.py --batch_size $BATCH\n";
    fs::write(folder.path().join("train.sbatch"), script).unwrap();
    // All at once: for one package cargo would choose other features of what it needs, and build that anew.
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tests = std::env::current_exe().unwrap();
    let target = tests.ancestors().nth(2).unwrap();
    let profile = match target.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let built = Command::new(&cargo)
        .args(["build", "--quiet", "--locked", "--workspace", "--examples"])
        .args(["--profile", profile])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    let examples = target.join("examples");
    for (library, example, words, wanted) in EXAMPLES {
        let done = Command::new(examples.join(example))
            .args(words)
            .current_dir(&folder)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&done.stdout);
        assert!(printed.contains(wanted), "{library}: {done:?}");
        let readme =
            fs::read_to_string(root().join(format!("crates/{library}/README.md"))).unwrap();
        let command = format!("cargo run -p oomctl-{library} --example {example} -- ");
        assert!(readme.contains(&command), "{command}");
    }
}
