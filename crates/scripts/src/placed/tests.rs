//! Copies that call each other, in the ways in which scripts name files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::{
    Launchers, Recognise, SettingsReader, Spelling, Stack, StackKnob, SubmissionContext, is_shell,
};
use oomctl_base::{Effect, Role, Value, ValueKind};

/// The line that a copy gets.
const HEAD: &str = "export SLURM_JOB_NAME=g; true # ours";

/// Any program that torchrun starts, its batch and the name of its experiment.
fn stack() -> Stack {
    let knob = |name: &str, role, kind, effect| StackKnob {
        name: name.to_owned(),
        role,
        kind,
        effect,
        reader: SettingsReader::Any,
        spellings: vec![Spelling::Flag(format!("--{name}"))],
        styles: vec![0],
        endings: Vec::new(),
    };
    Stack {
        name: "any".to_owned(),
        recognise: Recognise {
            launchers: vec!["torchrun".to_owned()],
            ..Recognise::default()
        },
        knobs: vec![
            knob(
                "batch_size",
                Some(Role::MicroBatch),
                ValueKind::Int,
                Effect::ChangesTraining,
            ),
            knob("name", None, ValueKind::Text, Effect::Resources),
        ],
    }
}

/// The copies with a batch of half the size, by name; or why there are none.
fn placed(files: &[(&str, &str)], folder: &str) -> Result<BTreeMap<String, String>, String> {
    copied(files, folder, true)
}

fn copied(
    files: &[(&str, &str)],
    folder: &str,
    halved: bool,
) -> Result<BTreeMap<String, String>, String> {
    let launchers: Launchers =
        serde_yaml::from_str(include_str!("../../../../presets/launchers/known.yaml")).unwrap();
    let stacks = Arc::new(vec![stack()]);
    let submission = Submission {
        script: "job.sh".to_owned(),
        ..Submission::default()
    };
    let files: BTreeMap<String, String> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let adoption = Adoption::read(SubmissionContext {
        submission: &submission,
        files: &files,
        launchers: &launchers,
        stacks: &stacks,
    });
    let why = |refused: Vec<PatchError>| refused.iter().map(|r| r.why.clone()).collect::<String>();
    let patch = match halved {
        true => adoption.change(&[("batch_size", Value::Int(16))], &[]),
        false => Ok(adoption.unchanged()),
    };
    let place = CopyPlace {
        folder,
        workdir: "/w",
        taken: &["claim"],
        head: Some(HEAD),
        runs_in_place: false,
    };
    let placed = adoption.placed(&patch.map_err(why)?, &place).map_err(why)?;
    let copies = placed.files.into_iter();
    Ok(copies.map(|copy| (copy.name, copy.text)).collect())
}

const RUN: &str = "#!/bin/bash\ntorchrun t.py --batch_size 32 --epochs 1\n";

fn called(by: &str) -> Result<String, String> {
    let job = format!("#!/bin/bash\n#SBATCH --mem=1G\n{by}\necho end\n");
    let copies = placed(&[("job.sh", &job), ("sub/run.sh", RUN)], "/a/attempt-2")?;
    assert_eq!(copies["run.sh"], RUN.replace("32", "16"));
    let text = &copies["job.sh"];
    let (head, rest) = text.split_once(&format!("{HEAD}\n")).unwrap();
    assert_eq!(head, "#!/bin/bash\n#SBATCH --mem=1G\n");
    Ok(rest.strip_suffix("\necho end\n").unwrap().to_owned())
}

#[test]
fn what_the_line_of_a_copy_exports_makes_no_value_another() {
    let job = "#!/bin/bash\ntorchrun t.py --batch_size 32 --name $SLURM_JOB_NAME-1\n";
    let copies = placed(&[("job.sh", job)], "/a/attempt-2").unwrap();
    assert!(copies["job.sh"].contains("--batch_size 16 --name $SLURM_JOB_NAME-1"));
}

#[test]
fn a_copy_is_called_however_the_original_was_named() {
    let cases = [
        ("bash sub/run.sh a", "bash /a/attempt-2/run.sh a"),
        ("bash \"sub/run.sh\" a", "bash \"/a/attempt-2/run.sh\" a"),
        ("D=sub; bash $D/run.sh", "D=sub; bash /a/attempt-2/run.sh"),
        (
            "D=sub; bash \"${D}/run.sh\"",
            "D=sub; bash \"/a/attempt-2/run.sh\"",
        ),
        (
            "D=sub; bash \"$D\"/run.sh",
            "D=sub; bash /a/attempt-2/run.sh",
        ),
        (
            "S=sub/run.sh; srun bash $S",
            "S=sub/run.sh; srun bash /a/attempt-2/run.sh",
        ),
        ("cd sub; bash run.sh", "cd sub; bash /a/attempt-2/run.sh"),
        ("source ./sub/run.sh", "source /a/attempt-2/run.sh"),
        (
            "bash $SLURM_SUBMIT_DIR/sub/run.sh",
            "bash /a/attempt-2/run.sh",
        ),
    ];
    for (by, wanted) in cases {
        assert_eq!(called(by).as_deref(), Ok(wanted), "{by}");
    }
}

#[test]
fn a_call_that_serves_two_files_is_not_turned_to_one_of_them() {
    let job = "#!/bin/bash\ngo() { bash \"$1\"; }\ngo a.sh\ngo b.sh\n";
    let other = "#!/bin/bash\ntorchrun t.py --epochs 2\n";
    let files = [("job.sh", job), ("a.sh", RUN), ("b.sh", other)];
    match placed(&files, "/a") {
        Err(why) => assert!(why.contains("a copy would"), "{why}"),
        Ok(copies) => assert!(copies["job.sh"].contains("go b.sh"), "{copies:?}"),
    }
}

#[test]
fn a_chain_of_scripts_is_copied_up_to_the_submitted_one_and_names_do_not_collide() {
    let job = "#!/bin/bash\nbash claim\nbash x/run.sh\n";
    let middle = "#!/bin/bash\ncd \"$(dirname \"$0\")\"\nbash ../run.sh\n";
    let files = [("job.sh", job), ("x/run.sh", middle), ("run.sh", RUN)];
    let copies = placed(&files, "/a").unwrap();
    let names: Vec<&String> = copies.keys().collect();
    assert_eq!(names, ["2-run.sh", "job.sh", "run.sh"]);
    let (a, b) = (&copies["run.sh"], &copies["2-run.sh"]);
    let (middle, last) = if a.contains("dirname") {
        (a, b)
    } else {
        (b, a)
    };
    assert!(last.contains("--batch_size 16"));
    assert!(middle.contains("oomctl_self='/w/x/run.sh'"), "{middle}");
    assert!(
        middle.contains("cd \"$(dirname \"${oomctl_self}\")\"\n"),
        "{middle}"
    );
}

#[test]
fn a_folder_that_cannot_be_named_in_a_script_is_refused_or_quoted() {
    let job = "#!/bin/bash\nbash run.sh\n";
    let files = [("job.sh", job), ("run.sh", RUN)];
    let copies = placed(&files, "/my runs/a").unwrap();
    assert!(
        copies["job.sh"].contains("bash '/my runs/a/run.sh'\n"),
        "{copies:?}"
    );
    assert!(
        placed(&files, "/it's/a")
            .unwrap_err()
            .contains("quotes in its name")
    );
}

#[test]
fn only_scripts_of_a_shell_get_lines_of_a_shell() {
    for shell in [
        "#!/bin/bash",
        "#!/usr/bin/env bash",
        "#! /bin/sh -e",
        "#!/usr/bin/env -S zsh -f",
        "echo",
    ] {
        assert!(is_shell(shell), "{shell}");
    }
    for other in ["#!/usr/bin/env python3", "#!/bin/tcsh"] {
        assert!(!is_shell(other), "{other}");
    }
}

/// Lines of scripts, good and bad.
fn line() -> impl proptest::strategy::Strategy<Value = String> {
    let known = [
        "#SBATCH --mem=4G",
        "# a comment",
        "",
        "bash run.sh $1",
        "cd \"$(dirname \"$0\")\"",
        "source run.sh",
        "X=\"it's $0\" # '",
        "cat <<EOF",
        "EOF",
        "if [ -n \"$X\" ]; then",
        "fi",
        "torchrun t.py --batch_size 32 \\",
        "  --epochs 3",
    ];
    let known = proptest::sample::select(known.map(str::to_owned).to_vec());
    proptest::prop_oneof![4 => known, 1 => "[ -~é]{0,30}"]
}

/// What a script may have been before it got the line.
fn without_ours(copy: &str) -> [String; 2] {
    ["", "\n"].map(|before| copy.replacen(&format!("{HEAD}\n"), before, 1))
}

proptest::proptest! {
    /// Whatever a script holds: its first attempt is the same script with one line, before a command or in place of an
    /// empty line, and one that takes that away has it back byte for byte.
    #[test]
    fn an_unchanged_script_has_one_line_of_ours(lines in proptest::collection::vec(line(), 0..12)) {
        let job = format!("#!/bin/bash\n{}\n", lines.join("\n"));
        let files = [("job.sh", job.as_str()), ("run.sh", RUN)];
        let copies = copied(&files, "/a", false).unwrap();
        proptest::prop_assert_eq!(copies.len(), 1);
        proptest::prop_assert!(without_ours(&copies["job.sh"]).contains(&job));
    }

    /// A patched script differs from the user's in what was wished, in calls of copies, and in nothing else.
    #[test]
    fn a_patched_script_keeps_every_other_line(lines in proptest::collection::vec(line(), 0..12)) {
        let job = format!("#!/bin/bash\n{}\nbash run.sh\n", lines.join("\n"));
        let files = [("job.sh", job.as_str()), ("run.sh", RUN)];
        if let Ok(copies) = placed(&files, "/a") {
            let back = copies["job.sh"].replace("/a/run.sh", "run.sh").replace("--batch_size 16", "--batch_size 32");
            proptest::prop_assert!(without_ours(&back).contains(&job));
        }
    }
}

#[test]
fn the_first_command_itself_may_change_behind_the_line_of_ours() {
    let copies = placed(
        &[
            ("job.sh", "#!/bin/bash\n#SBATCH --mem=1G\n./run.sh\n"),
            ("run.sh", RUN),
        ],
        "/a/attempt-2",
    );
    let job = format!("#!/bin/bash\n#SBATCH --mem=1G\n{HEAD}\n/a/attempt-2/run.sh\n");
    assert_eq!(copies.unwrap()["job.sh"], job);
}

/// bash names the lines of the copy in its messages; the user looks at the original.
#[test]
fn the_line_of_ours_takes_the_place_of_a_blank_one_that_no_directive_follows() {
    let cases = [
        ("\n./run.sh\n", "OURS\n./run.sh\n"),
        ("\n# Modules\n./run.sh\n", "OURS\n# Modules\n./run.sh\n"),
        (
            "\n#SBATCH --mem=1G\n./run.sh\n",
            "\n#SBATCH --mem=1G\nOURS\n./run.sh\n",
        ),
        ("\n  \n./run.sh\n", "OURS\n  \n./run.sh\n"),
    ];
    for (script, copy) in cases {
        let job = format!("#!/bin/bash\n{script}");
        let copies = placed(&[("job.sh", &job), ("run.sh", RUN)], "/a/attempt-2").unwrap();
        let copy = copy
            .replace("OURS", HEAD)
            .replace("./run.sh", "/a/attempt-2/run.sh");
        assert_eq!(copies["job.sh"], format!("#!/bin/bash\n{copy}"));
    }
}

/// The mounts of the script say by which path a container sees the copy.
#[test]
fn a_copy_is_called_as_the_container_sees_it() {
    let called = |by: &str, folder: &str| {
        let job = format!("#!/bin/bash\n{by}\n");
        let files = [
            ("job.sh", &*job),
            ("sub/run.sh", RUN),
            ("/w/sub/run.sh", RUN),
        ];
        let copies = placed(&files, folder)?;
        assert_eq!(copies["run.sh"], RUN.replace("32", "16"));
        let text = copies["job.sh"].split_once(&format!("{HEAD}\n"));
        Ok::<_, String>(text.unwrap().1.trim_end().to_owned())
    };
    for (before, script, copy) in [
        (
            "apptainer exec --nv -B $PWD:/workspace --pwd /workspace a.sif bash",
            "sub/run.sh",
            "/workspace/.oomctl/a/run.sh",
        ),
        (
            "apptainer exec -B/data,/w:/workspace:ro a.sif bash",
            "/workspace/sub/run.sh",
            "/workspace/.oomctl/a/run.sh",
        ),
        (
            "export SINGULARITY_BIND=/w:/x; singularity exec --containall a.sif bash",
            "/x/sub/run.sh",
            "/x/.oomctl/a/run.sh",
        ),
        (
            "srun --container-image=a --container-mounts=/d:/d,$PWD:/workspace bash",
            "/workspace/sub/run.sh",
            "/workspace/.oomctl/a/run.sh",
        ),
        (
            "docker run --rm --mount type=bind,src=/w,dst=/c -w /c image bash",
            "sub/run.sh",
            "/c/.oomctl/a/run.sh",
        ),
        // One that shows its host, and none at all.
        (
            "apptainer exec a.sif bash",
            "sub/run.sh",
            "/w/.oomctl/a/run.sh",
        ),
        ("srun --mem=1G bash", "sub/run.sh", "/w/.oomctl/a/run.sh"),
    ] {
        let found = called(&format!("{before} {script} a"), "/w/.oomctl/a");
        assert_eq!(found, Ok(format!("{before} {copy} a")));
    }
    for (by, why) in [
        (
            "docker run -v /w/sub:/s image bash /s/run.sh",
            "the container does not mount /w/.oomctl/a/run.sh, so oomctl cannot use a copy of /w/sub/run.sh",
        ),
        (
            "srun --container-image=a --container-mounts=$MOUNTS,/w/sub:/s bash /s/run.sh",
            "oomctl cannot read what the container mounts, and so not whether its program sees /w/.oomctl/a/run.sh, so oomctl cannot use a copy of /w/sub/run.sh",
        ),
    ] {
        let job = format!("#!/bin/bash\n{by}\n");
        let files = [("job.sh", &*job), ("/w/sub/run.sh", RUN)];
        assert_eq!(placed(&files, "/w/.oomctl/a"), Err(why.to_owned()));
    }
}
