//! Submissions and what they start.

use std::collections::{BTreeMap, BTreeSet};

use super::{CallTarget, Reading, Submission, follow};
use crate::ask::ask;
use crate::{Ask, Directive, Launchers, directives, wins};
use oomctl_base::Role;

fn launchers() -> Launchers {
    let text = include_str!("../../../../presets/launchers/known.yaml");
    serde_yaml::from_str(text).unwrap()
}

fn reading(files: &[(&str, &str)], args: &[&str], variables: &[(&str, &str)]) -> Reading {
    let submission = Submission {
        script: files[0].0.to_owned(),
        args: args.iter().map(|a| (*a).to_owned()).collect(),
        variables: variables
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect(),
        ..Submission::default()
    };
    let files: BTreeMap<String, String> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let names = BTreeSet::from(["trainer-cli".to_owned()]);
    follow(&submission, &files, &launchers(), &names)
}

#[test]
fn what_the_environment_of_a_job_of_plain_sbatch_may_have_set_is_unknown() {
    let read = |head: &str| {
        let text = format!(
            "#!/bin/bash\n{head}\n: ${{ACC:=2}}\nDATA=${{DATA:-/d}}\ntrainer-cli --bs ${{BS:-16}} --acc $ACC --data $DATA\n"
        );
        let submission = Submission {
            script: "a.slurm".to_owned(),
            variables: [("SET".to_owned(), "1".to_owned())].into(),
            is_foreign: true,
            ..Submission::default()
        };
        let files = BTreeMap::from([("a.slurm".to_owned(), text)]);
        let names = BTreeSet::from(["trainer-cli".to_owned()]);
        follow(&submission, &files, &launchers(), &names)
    };
    let open = |reading: &Reading| reading.open.clone().into_iter().collect::<Vec<_>>();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let reading = read("");
    assert_eq!(open(&reading), [pair("ACC", "2"), pair("BS", "16")]);
    let call = reading.calls.last().unwrap();
    assert!(call.words.iter().any(|w| w.text.text() == "/d"));
    assert!(!call.words.iter().any(|w| w.text.text() == "16"));
    // The job has nothing of it, or the script sets it itself.
    assert!(open(&read("#SBATCH --export=NONE")).is_empty());
    assert_eq!(open(&read("BS=8")), [pair("ACC", "2")]);
}

/// Each call as its target and its words, `?` behind those that may not be there.
fn shown(reading: &Reading) -> Vec<String> {
    let call = |call: &super::Call| {
        let target = match &call.target {
            CallTarget::Module(name) => format!("-m {name}"),
            CallTarget::Script(name) | CallTarget::Program(name) => name.clone(),
            CallTarget::Code => "code".to_owned(),
        };
        let words = call.words[call.args.min(call.words.len())..].iter();
        let words = words.map(|w| format!(" {}{}", w.text.text(), if w.maybe { "?" } else { "" }));
        format!("{target}:{}", words.collect::<String>())
    };
    reading.calls.iter().map(call).collect()
}

fn check(text: &str, expected: &[&str]) {
    let reading = reading(&[("a.slurm", text)], &[], &[]);
    assert_eq!(shown(&reading), expected, "{text}");
}

#[test]
fn launchers_are_gone_through_to_what_is_started() {
    for line in [
        "python train.py --x 1",
        "srun --nodes=2 -n 4 -l python -u train.py --x 1",
        "time nohup torchrun --standalone --nproc_per_node 8 train.py --x 1 &",
        "exec accelerate launch --config_file c.yaml --multi_gpu train.py --x 1",
        "deepspeed --num_gpus=4 train.py --x 1 2>&1 | tee log",
        "env -u Y A=1 timeout 3h apptainer exec --nv -B /a:/b image.sif python3 train.py --x 1",
        "srun bash -c 'python train.py --x 1'",
        "python -m torch.distributed.run --nproc-per-node=8 train.py --x 1",
        "conda run -n env --no-capture-output python train.py --x 1",
        "cd x && uv run train.py --x 1",
    ] {
        let expected = ["train.py: --x 1"];
        check(line, &expected);
    }
    check("python -m pkg.train a.b=1", &["-m pkg.train: a.b=1"]);
    check("trainer-cli train c.yaml", &["trainer-cli: train c.yaml"]);
    check("ls; nvidia-smi", &[]);
}

#[test]
fn values_are_followed_through_variables() {
    check("BS=${BS:-32}\npython t.py --bs $BS", &["t.py: --bs 32"]);
    check(
        "A=4; B=\"$A\"\nC=${B}\npython t.py b=${C}x",
        &["t.py: b=4x"],
    );
    check(
        "ARGS=\"--a 1 \\\n --b 2\"\npython t.py $ARGS \"$ARGS\"",
        &["t.py: --a 1 --b 2 --a 1  --b 2"],
    );
    check(
        "ARGS=(--a 1)\nARGS+=(--b \"2 3\")\npython t.py \"${ARGS[@]}\"",
        &["t.py: --a 1 --b 2 3"],
    );
    check(
        "python t.py --n $(nproc) --g $SLURM_GPUS $X",
        &["t.py: --n $(nproc)? --g $SLURM_GPUS? $X?"],
    );
    check(
        "f() { python t.py \"$@\" --z; }\nf --a 1",
        &["t.py: --a 1 --z"],
    );
    check("eval \"python t.py --a 1\"", &["t.py: --a 1"]);
}

#[test]
fn an_element_is_taken_by_a_calculated_number() {
    let lists = "#SBATCH --array=2\nS=(4 8 16)\nM=(a b)\n";
    let check = |code: &str, wanted: &str| check(&format!("{lists}{code}"), &[wanted]);
    check("python t.py ${S[$SLURM_ARRAY_TASK_ID]}", "t.py: 16");
    check("python t.py ${M[$((SLURM_ARRAY_TASK_ID % 2))]}", "t.py: a");
    check(
        "I=$((SLURM_ARRAY_TASK_ID - 1))\npython t.py \"${S[I]}\" ${S[${I}]}",
        "t.py: 8 8",
    );
    check("python t.py ${S[3]} ${S[$N]}", "t.py: ${S[3]}? ${S[$N]}?");
    check("python t.py ${S[i++]}", "t.py: ${S[i++]}?");
    // Elements that are named, that come later, or that may not be there.
    check("D=([1]=a [0]=b)\npython t.py ${D[0]}", "t.py: ${D[0]}?");
    check("S[2]=1\npython t.py ${S[2]}", "t.py: ${S[2]}?");
    check(
        "S=()\n[ -n \"$X\" ] && S+=(1)\npython t.py ${S[0]}",
        "t.py: ${S[0]}?",
    );
}

#[test]
fn where_ways_part_only_what_is_the_same_is_known() {
    check(
        "B=8\nif [ $X = 1 ]; then B=16; C=2; else C=3; fi\npython t.py $B $C",
        &["t.py: ${B}? ${C}?"],
    );
    check(
        "A=(--a 1)\n[ -n \"$X\" ] && A+=(--fp16)\npython t.py \"${A[@]}\"",
        &["t.py: --a 1 --fp16?"],
    );
    check(
        "A=\"--a 1\"\nif x; then A=\"$A --b 2\"; fi\npython t.py $A",
        &["t.py: --a 1  --b 2?"],
    );
    check(
        "for lr in 1 2; do python t.py --lr $lr; done",
        &["t.py: --lr ${lr}?"],
    );
    check(
        "B=8\nfor i in 1 2; do python t.py $B; B=16; done",
        &["t.py: ${B}?"],
    );
    check("if [ ! -d x ]; then exit 1; fi\npython t.py", &["t.py:"]);
    check(
        "case $X in a) B=1;; *) B=2;; esac; python t.py $B",
        &["t.py: ${B}?"],
    );
}

#[test]
fn where_all_that_a_condition_asks_is_known_one_way_is_taken() {
    let two = |head: &str, test: &str| {
        format!("{head}\nif {test}; then python a.py; else python b.py; fi")
    };
    for (head, test, taken) in [
        ("M=fast", "[ \"$M\" == fast ]", "a.py:"),
        ("M=fast", "[ \"$M\" = \"slow\" ]", "b.py:"),
        ("M=fast", "[ $M != slow ]", "a.py:"),
        ("M=fast", "[[ $M == fast ]]", "a.py:"),
        ("M=fast", "[[ $M == slow || $M == fast ]]", "a.py:"),
        ("M=fast", "[[ ! $M == fast ]]", "b.py:"),
        ("M=fast", "! [ $M = fast ]", "b.py:"),
        ("M=fast", "test $M = fast", "a.py:"),
        ("M=fast", "[ $M = slow -o $M = fast ]", "a.py:"),
        ("M=fast", "[ $M = fast ] && [ -z \"$M\" ]", "b.py:"),
        ("M=fast; W=fast", "[ $M = $W ]", "a.py:"),
        ("N=4", "[ $N -gt 1 ]", "a.py:"),
        ("N=4", "(( N >= 8 ))", "b.py:"),
        ("ON=false", "$ON", "b.py:"),
        ("M=${M:-fast}", "[ \"${M}\" == \"fast\" ]", "a.py:"),
    ] {
        check(&two(head, test), &[taken]);
    }
    for (head, test) in [
        ("", "[ $M = fast ]"),
        ("M=fast", "[ -f $M ]"),
        ("M=fast", "[[ $M == f* ]]"),
        ("M=fast", "[[ $M =~ fast ]]"),
        ("M=fast", "[[ $M == slow && $M == fast || $N == 1 ]]"),
        ("M=fast", "[ $M = fast ] && [ $N = 1 ]"),
        ("M=$(hostname)", "[ $M = fast ]"),
    ] {
        check(&two(head, test), &["a.py:", "b.py:"]);
    }
    let three = "if [ $M = a ]; then python a.py; B=1; elif [ $M = b ]; then python b.py; B=2; else python c.py; B=3; fi\npython t.py $B";
    check(&format!("M=b\n{three}"), &["b.py:", "t.py: 2"]);
    check(&format!("M=x\n{three}"), &["c.py:", "t.py: 3"]);
    // What is known of one test leaves the others.
    let part = "M=b\nif [ -f x ]; then python a.py; elif [ $M = b ]; then python b.py; else python c.py; fi";
    check(part, &["a.py:", "b.py:"]);
    // A script that ends in the way that is taken is read on.
    check(
        "M=a\nif [ $M = a ]; then python a.py; exit 0; fi\npython t.py",
        &["a.py:", "t.py:"],
    );
    check(
        "M=a\nB=1\n[ $M = a ] && [ $M != b ] && B=2\n[ $M = b ] && B=3\npython t.py $B",
        &["t.py: 2"],
    );
}

#[test]
fn arguments_of_the_submission_reach_the_program() {
    let submit = "#!/bin/bash\nB=8\nwhile [[ $# -gt 0 ]]; do\n  case \"$1\" in\n    --dataset) D=\"$2\"; shift 2 ;;\n    --bs=*) B=\"${1#*=}\"; shift ;;\n    *) REST+=(\"$1\"); shift ;;\n  esac\ndone\nsource common/env.sh\nbash scripts/run.sh --d \"$D\" \"${REST[@]}\"\n";
    let run = "#!/bin/bash\nexec python -m pkg.main n=$N bs=$B \"$@\"\n";
    let env = "export N=4\n";
    let files = [
        ("submit.slurm", submit),
        ("scripts/run.sh", run),
        ("common/env.sh", env),
    ];
    let reading_of = reading(&files, &["--dataset", "gems", "x=1"], &[("B", "2")]);
    // What is not exported is not inherited: the program sees the environment's own.
    assert_eq!(shown(&reading_of), ["-m pkg.main: n=4 bs=2 --d gems x=1"]);
    assert!(reading_of.wanted.is_empty());
    let without = reading(&files[..1], &[], &[]);
    let wanted: Vec<&str> = without.wanted.iter().map(String::as_str).collect();
    assert_eq!(wanted, ["common/env.sh", "scripts/run.sh"]);
}

#[test]
fn scripts_are_found_from_their_own_folder_too() {
    let submit = "HERE=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\ncd $SLURM_SUBMIT_DIR\n. \"$HERE/env.sh\"\n\"$HERE\"/run.sh\n";
    let files = [
        ("jobs/a.slurm", submit),
        ("jobs/env.sh", "export A=1"),
        ("jobs/run.sh", "python t.py $A"),
    ];
    let read = reading(&files, &[], &[]);
    assert_eq!(shown(&read), ["t.py: 1"]);
}

#[test]
fn the_folder_of_a_path_is_known_step_by_step() {
    let own = "script_path=$(realpath $0)\nscript_dir=$(dirname $script_path)\nroot=$(dirname \"$script_dir\")\n. $script_dir/env.sh\n. $root/more.sh\npython t.py $A $B\n";
    let files = [
        ("jobs/gpt/a.sh", own),
        ("jobs/gpt/env.sh", "A=1"),
        ("jobs/more.sh", "B=2"),
    ];
    let read = reading(&files, &[], &[]);
    assert_eq!(shown(&read), ["t.py: 1 2"], "{:?}", read.wanted);
}

#[test]
fn a_path_that_code_names_stays_where_it_is_when_the_script_goes_elsewhere() {
    let own = "DIR=$( cd -- \"$( dirname -- \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd)\nROOT=$(realpath $DIR/../..)\ncd $ROOT/runs\n. $DIR/env.sh\n. $(readlink -f ${ROOT}/etc/more.sh)\n. $PWD/here.sh\n. $(realpath ../other.sh)\n$ROOT/go.sh\n";
    let files = [
        ("tests/functional/a.sh", own),
        ("tests/functional/env.sh", "export A=1"),
        ("etc/more.sh", "export B=2"),
        ("runs/here.sh", "export C=3"),
        ("other.sh", "export D=4"),
        ("go.sh", "python t.py $A $B $C $D"),
    ];
    let read = reading(&files, &[], &[]);
    assert_eq!(shown(&read), ["t.py: 1 2 3 4"], "{:?}", read.wanted);
}

#[test]
fn files_that_a_script_writes_are_known() {
    let text = "M=2\nmkdir -p out\ncat > out/ds.json <<EOF\n{\"micro\": $M}\nEOF\npython t.py --deepspeed out/ds.json";
    let read = reading(&[("a.slurm", text)], &[], &[]);
    let made = read.created.get("out/ds.json").unwrap();
    assert_eq!(made.text(), "{\"micro\": 2}\n");
}

#[test]
fn directives_count_up_to_the_first_command_and_the_last_one_most() {
    let text = "#!/bin/bash\n#SBATCH --mem=64G\n#SBATCH -p gpu --gres gpu:a100:4 # no\n\n# a\n#SBATCH --job-name=\"a b\"\n#SBATCH --mem 128G\n#SBATCH -N2\n#SBATCH --exclusive\nset -e\n#SBATCH --mem=1G\n";
    let mut read = reading(&[("a.slurm", text)], &[], &[]);
    let value = |all: &[Directive], option: &str| {
        let found = wins(all, option).unwrap();
        let source = &read.sources[found.span.file].text;
        let value = found.value.as_ref().map(super::Traced::text);
        (
            value.unwrap_or_default(),
            source[found.span.start..found.span.end].to_owned(),
        )
    };
    let all = directives(&read);
    assert_eq!(value(&all, "mem"), ("128G".into(), "--mem 128G".into()));
    assert_eq!(value(&all, "partition"), ("gpu".into(), "-p gpu".into()));
    assert_eq!(
        value(&all, "gres"),
        ("gpu:a100:4".into(), "--gres gpu:a100:4".into())
    );
    assert_eq!(
        value(&all, "job-name"),
        ("a b".into(), "--job-name=\"a b\"".into())
    );
    assert_eq!(value(&all, "nodes"), ("2".into(), "-N2".into()));
    assert_eq!(
        value(&all, "exclusive"),
        (String::new(), "--exclusive".into())
    );
    let submission = Submission {
        options: vec!["--mem=32G".into(), "-N".into(), "4".into()],
        script: "a.slurm".into(),
        ..Submission::default()
    };
    let files = BTreeMap::from([("a.slurm".to_owned(), text.to_owned())]);
    read = follow(&submission, &files, &launchers(), &BTreeSet::new());
    let all = directives(&read);
    assert_eq!(
        wins(&all, "mem").unwrap().value.as_ref().unwrap().text(),
        "32G"
    );
    assert_eq!(
        wins(&all, "nodes").unwrap().value.as_ref().unwrap().text(),
        "4"
    );
}

#[test]
fn hostile_scripts_are_read_to_an_end() {
    const SIZE: usize = 1 << 17;
    let double = "A=aaaaaaaaaaaaaaaa\n".to_owned() + &"A=$A$A\n".repeat(16);
    let whole = [
        ("${a:-", ""),
        ("\"${a:-$b", ""),
        ("$b", "x \"${a:-"),
        ("$(", ""),
        ("`", ""),
        ("<<A\n", ""),
        ("<<A ", ""),
        ("if x; then ", ""),
        ("for i in $@; do for j in a b; do ", ""),
        ("f() {\nx\n", ""),
        ("case x in a) ", ""),
        ("((", ""),
        ("a=(", ""),
        ("a+=(x) ", ""),
        ("srun env ", ""),
        ("python -m m $A\n", &double),
        ("B=$A python -m m \"$A\" $A\n", &double),
        ("echo $((A + A + A))\n", &double),
        ("cat > $A <<E\n$A\nE\n", &double),
        ("eval \"$A\"\n", &double),
        ("bash -c \"$A\"\n", &double),
        ("source a.sh\n", ""),
        ("X=1 Y=2 true\n", ""),
        ("A=\"$A x\"; go $A\n", ""),
        ("python -m m c.yaml --x c.json\n", ""),
    ];
    for (piece, before) in whole {
        let text = format!(
            "{before}{}",
            piece.repeat((SIZE - before.len()) / piece.len())
        );
        let files = [
            ("a.sh", text.as_str()),
            ("c.yaml", &text),
            ("c.json", &text),
        ];
        let reading = reading(&files, &["--x"], &[]);
        assert!(reading.calls.len() <= super::MAX_CALLS, "{piece}");
    }
}

proptest::proptest! {
    #[test]
    fn no_words_behind_a_builtin_make_it_panic(
        builtin in "set|let|export|declare -i|local|unset|eval|source|shift|read|\\(\\(",
        words in "[-+$aoXé\u{fffd}=2*(){}'\"\\\\ ]{0,12}",
    ) {
        let text = format!("{builtin} {words}\npython t.py $X\n");
        let _ = reading(&[("a.sh", &text)], &[], &[]);
    }
}

#[test]
fn gpus_are_counted_and_changed_in_every_form_of_their_request() {
    for (asked, gpus, kind, of_8) in [
        (
            "--gres=gpu:a100:4",
            Some(4),
            Some("a100"),
            "--gres=gpu:a100:8",
        ),
        (
            "--gres=craynetwork:1,gpu=4",
            Some(4),
            None,
            "--gres=craynetwork:1,gpu=8",
        ),
        (
            "-N 2 -n 8 --gpus-per-task=1",
            Some(4),
            None,
            "-N 2 -n 16 --gpus-per-task=1",
        ),
        (
            "-n 1 --gpus-per-task=a100:4",
            Some(4),
            Some("a100"),
            "-n 1 --gpus-per-task=a100:8",
        ),
        (
            "--nodes=2 --ntasks-per-node=4 --tres-per-task=cpu=8,gres/gpu:h100=1",
            Some(4),
            Some("h100"),
            "--nodes=2 --ntasks-per-node=8 --tres-per-task=cpu=8,gres/gpu:h100=1",
        ),
        (
            "--ntasks=2 --nodes=2 --tres-per-task=gres/gpu:2",
            Some(2),
            None,
            "--ntasks=2 --nodes=2 --tres-per-task=gres/gpu:8",
        ),
        // Tasks of CPUs alone ask for no GPUs; those of seven tasks on two nodes nobody knows.
        (
            "-n 4 --tres-per-task=cpu=8",
            None,
            None,
            "-n 4 --tres-per-task=cpu=8\n#SBATCH --gres=gpu:8",
        ),
        ("-N 2 -n 7 --gpus-per-task=1", None, None, ""),
        ("-N 2 -n 8 --gres=gpu:3", Some(3), None, ""),
    ] {
        let text = format!("#!/bin/bash\n#SBATCH {asked}\nsrun python t.py\n");
        let read = reading(&[("a.slurm", &text)], &[], &[]);
        let found = crate::asked(&read, Role::GpusPerNode).map(|(count, _)| count);
        let named = crate::gpu_type(&read).map(|(name, _)| name);
        assert_eq!((found, named.as_deref()), (gpus, kind), "{asked}");
        let mut edits = ask(&read, &Ask::GpusPerNode(8)).unwrap_or_default();
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.span.start));
        let mut new = text.clone();
        for edit in &edits {
            new.replace_range(edit.span.start..edit.span.end, &edit.text);
        }
        let wanted = match of_8 {
            "" => text.clone(),
            of_8 => text.replace(asked, of_8),
        };
        assert_eq!(new, wanted, "{asked}");
    }
}

#[test]
fn what_a_program_prints_is_followed_into_files() {
    let outputs = |script: &str| {
        let reading = reading(&[("a.slurm", script)], &[], &[("HOME", "/home/ann")]);
        let call = reading.calls.last().unwrap();
        let shown = call.outputs.iter().map(|file| {
            let path = file.path.as_deref().unwrap_or("?");
            format!("{path}{}", if file.appends { "+" } else { "" })
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    for (script, expected) in [
        ("python t.py > log.txt 2>&1", "log.txt"),
        (
            "OUT=./out\nmkdir -p $OUT\ndeepspeed t.py \\\n  --x 1 \\\n  &> $OUT/training.log",
            "out/training.log",
        ),
        (
            "python t.py >> $HOME/a.log 2> err.log",
            "/home/ann/a.log+ err.log",
        ),
        (
            "srun python t.py &>> logs/$SLURM_JOB_ID.log &\nwait",
            "logs/${SLURM_JOB_ID}.log+",
        ),
        (
            "exec > run_${SLURM_ARRAY_TASK_ID}.log 2>&1\necho begin\npython t.py",
            "run_${SLURM_ARRAY_TASK_ID}.log",
        ),
        (
            "log() {\n  exec &> f.log\n}\nlog\nbash -c 'python t.py'",
            "f.log",
        ),
        ("{ python t.py; echo end; } > f.log", "f.log"),
        ("for i in 1 2; do python t.py; done > f.log", "f.log"),
        ("if true; then python t.py; fi &> f.log", "f.log"),
        ("(cd x && python t.py > f.log)", "x/f.log"),
        ("python t.py | tee f.log > /dev/null", "f.log"),
        ("python t.py 2>&1 | ts > f.log", "f.log"),
        ("python t.py > >(tee -a f.log > /dev/null)", "f.log+"),
        (
            "OUTPUT=$1\nif [ \"$OUTPUT\" == \"\" ]; then\n  OUTPUT=./out\nfi\npython t.py &> $OUTPUT/t.log",
            "out/t.log",
        ),
        (
            "if [ -n \"$HOME\" ]; then OUT=$HOME; else OUT=b; fi\npython t.py > $OUT/t.log",
            "/home/ann/t.log",
        ),
        // A script that lacks its argument is read on.
        (
            "if [ -z \"$1\" ]; then exit 1; fi\npython t.py > t.log",
            "t.log",
        ),
        ("python t.py > $(date +%F).log", "?"),
        (
            "srun --output=a.log --error b.log python t.py",
            "a.log b.log",
        ),
        (
            "srun -l -oa.log -e b.log bash -c 'python t.py'",
            "a.log b.log",
        ),
        (
            "srun --ntasks 8 --output-format=x -o l/%j.log torchrun -o c t.py",
            "l/${SLURM_JOB_ID}.log",
        ),
        ("srun --mpi=pmix python -o c t.py", ""),
        ("srun --output\npython t.py", ""),
        ("srun -o %t.log python t.py > a.log", "a.log ?"),
        // The log of the job has it too.
        ("python t.py 2>&1 | tee f.log", ""),
        ("exec > >(tee f.log) 2>&1\npython t.py", ""),
        ("echo begin > f.log\npython t.py 2>&1", ""),
        ("nvidia-smi > gpus.txt\npython t.py < in 3> x", ""),
        ("(exec > f.log; echo a)\npython t.py", ""),
    ] {
        assert_eq!(outputs(script), expected, "{script}");
    }
}

/// verl's examples give other values on an NPU, which no job of a GPU runs on.
#[test]
fn what_a_script_does_on_an_npu_alone_is_passed_over() {
    let on = |test: &str| {
        format!("p=(--x 1)\nif {test}; then\n  p+=(--x 2)\nfi\npython t.py \"${{p[@]}}\"")
    };
    for test in [
        "[ \"$d\" == \"npu\" ]",
        "[ -n \"$d\" ] && [[ $d == npu ]]",
        "[ $d = 'npu' ]",
    ] {
        check(&on(test), &["t.py: --x 1"]);
    }
    for test in [
        "[ \"$d\" != \"npu\" ]",
        "! [ $d == npu ]",
        "[ $d == npu ] || [ $e == 1 ]",
        "[ $d == cuda ]",
    ] {
        check(&on(test), &["t.py: --x 1 --x? 2?"]);
    }
    check(
        "if [ \"$d\" == npu ]; then\n  a=2\nelse\n  a=1\nfi\npython t.py --x $a",
        &["t.py: --x 1"],
    );
}

#[test]
fn a_word_that_may_be_missing_is_unknown_in_a_text_that_a_list_is_joined_to() {
    let list = "A=(--x 1)\nif [ -e more ]; then A+=(--x 2); fi\n";
    for run in [
        "python train.py ${A[*]}",
        "C=\"python train.py ${A[*]}\"\n$C",
        "bash -c \"python train.py ${A[*]}\"",
        "eval python train.py \"${A[@]}\"",
    ] {
        let reading = reading(&[("a.slurm", &format!("{list}{run}\n"))], &[], &[]);
        let words = &reading.calls[0].words;
        let unsure = |w: &super::Arg| w.maybe || w.text.known().is_none();
        assert!(words.iter().any(unsure), "{run}: {words:?}");
    }
}

#[test]
fn what_a_file_that_is_not_read_may_set_is_unknown_where_nothing_else_sets_it() {
    let words = |text: &str| {
        let read = reading(&[("a.slurm", text)], &[], &[("C", "3")]);
        let words = read.calls[0].words.iter();
        words.filter(|w| w.text.known().is_none()).count()
    };
    let run = "python train.py ${A:-1} $B $C\n";
    assert_eq!(words(&format!("B=2\n{run}")), 0);
    assert_eq!(words(&format!("B=2\nsource conda.sh\n{run}")), 0);
    assert_eq!(words(&format!("B=2\nsource site.sh\n{run}")), 1);
    assert_eq!(words(&format!("source site.sh\nB=2 A=1\n{run}")), 0);
}

#[test]
fn a_list_that_nothing_sets_has_no_elements() {
    check(
        "python train.py \"${ARGS[@]}\" --x 1\n",
        &["train.py: --x 1"],
    );
}
