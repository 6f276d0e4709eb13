//! The first hour: help, a folder with nothing in it, a cluster that nobody has described, and wrong input.

use super::place::Place;
use super::weaver;

#[test]
fn the_first_page_of_help_has_every_command_and_the_page_of_submit_fits_a_screen() {
    let place = Place::bare();
    let help = place.run(&["-h"]).ends(0).out;
    for group in ["Run:", "Look:", "Understand:", "Tune:", "Set up:", "Also: "] {
        assert!(help.contains(group), "{group}: {help}");
    }
    let submit = place.run(&["submit", "-h"]).ends(0).out;
    assert!(submit.lines().count() <= 25, "{submit}");
    for (short, rare) in [
        ("-w, --watch", "--min-fit-probability"),
        ("-n, --dry-run", "--policy"),
    ] {
        assert!(submit.contains(short) && !submit.contains(rare), "{submit}");
        assert!(place.run(&["submit", "--help"]).ends(0).out.contains(rare));
    }
}

#[test]
fn a_folder_without_a_project_says_how_to_begin() {
    let place = Place::bare();
    for words in [&["plan"][..], &["submit"], &["estimate"]] {
        let done = place.run(words).ends(5);
        done.says(&[
            "there is no oomctl.yaml here or above",
            "`oomctl init`",
            "oomctl submit SCRIPT",
        ]);
    }
}

/// Clients of a made-up cluster.
const SLURM: &str = r#"mkdir bin
printf '#!/bin/sh\necho "cpu|infinite|10|64|256000|(null)"\necho "gpu*|2-00:00:00|4|192|1900000+|gpu:h100:8(S:0-1)"\n' > bin/sinfo
printf '#!/bin/sh\necho "ClusterName             = kestrel"\n' > bin/scontrol
printf '#!/bin/sh\nprintf "lab\\nlab\\n"\n' > bin/sacctmgr
printf '#!/bin/sh\n' > bin/sbatch
chmod +x bin/*"#;

#[test]
fn a_cluster_profile_is_written_from_what_slurm_says() {
    let mut place = Place::with("preset: torchrun\n");
    place.shell(SLURM).ends(0);
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", place.path("bin").display()));
    let done = place.run(&["init", "--cluster"]).ends(0);
    done.says(&["presets/clusters/kestrel.yaml", "cluster: kestrel"]);
    let profile = place.read("presets/clusters/kestrel.yaml");
    insta::assert_snapshot!(profile);
    // It is a profile as any other.
    let words = ["explain", "--set", "script=a.py", "--set", "batch_size=8"];
    let words = [&words[..], &["partition", "--cluster", "kestrel"]].concat();
    place.says(&words, 0, &["gpu", "kestrel.yaml"]);
    let again = place.run(&["init", "--cluster", "kestrel"]).ends(5);
    again.says(&["already exists", "--force"]);
    place.shell("rm bin/sinfo").ends(0);
    place.set("PATH", &place.path("bin").display().to_string());
    place.says("init --cluster x", 4, &["sinfo", "docs/cluster.md"]);
}

#[test]
fn a_job_that_nobody_watches_says_why_it_ended_and_what_goes_on_with_it() {
    let mut place = weaver::project("knobs: { threads: 4 }");
    place.set("WEAVER", "fits 2");
    let done = place.run(&["submit", "--backend", "local"]).ends(0);
    done.says(&[
        "Nothing watches it",
        "`oomctl watch weaver-1`",
        "`submit -w`",
    ]);
    let waits = "to go on: `oomctl watch weaver-1`";
    place.wait_for("the end of the job", || {
        place.run(&["status"]).out.contains(waits)
    });
    let status = place.run(&["status"]).ends(0).out;
    assert!(
        status.contains("ran out of memory") && !status.contains("NonZeroExitCode"),
        "{status}"
    );
    // Nothing of that is in the ledger: the watch reads it for itself.
    assert!(
        place
            .facts("weaver-1")
            .iter()
            .all(|fact| fact["fact"] != "diagnosed")
    );
    place.says("watch", 0, &["succeeded"]);
    assert!(place.read(".oomctl/.gitignore").ends_with("*\n"));
}

#[test]
fn wrong_input_is_told_what_to_write() {
    let place = weaver::project("knobs: { threads: 2 }");
    place.run(&["plan", "--risk", "95%"]).ends(0);
    let absurd = place.run(&["plan", "--risk", "95"]).ends(5);
    absurd.says(&["min_fit_probability is the least probability to fit, at least 0.5 and below 1"]);
    let name = place.run(&["submit", "--run", "my run"]);
    name.says(&["--run my-run"]);
    let set = place.run(&["plan", "--set", "=3"]).ends(5);
    set.says(&["`=3` does not say which knob", "write --set NAME=VALUE"]);
    let large = place
        .run(&["plan", "--set", "threads=99999999999999999999999"])
        .ends(5);
    large.says(&["threads"]);
    place.write("tab.yaml", "preset: weaver\nknobs:\n\tthreads: 2\n");
    let tab = place.run(&["plan", "-c", "tab.yaml"]).ends(5);
    tab.says(&["tab.yaml:3:1", "indent with spaces"]);
    place.shell("head -c 4096 /dev/urandom > core.bin").ends(0);
    let binary = place.run(&["diagnose", "core.bin"]).ends(2);
    binary.says(&["core.bin is binary", "give the path of a log"]);
    // What a truncated log looks like is a log, and so is one in Latin-1.
    place.shell("(head -c 4096 /dev/zero; printf 'caf\\351: CUDA out of memory\\n%.0s' 1 2 3 4 5) > holes.log").ends(0);
    place.run(&["diagnose", "holes.log"]).ends(0);
}

/// As much of PyTorch as the first job uses, on a GPU that holds 1024 sequences.
const TORCH: &str = r#"class Any:
    def __init__(self, *words, **named): pass
    def __getattr__(self, name): return Any()
    def __call__(self, *words, **named): return self.forward(*words) if hasattr(type(self), "forward") else Any()
    def __add__(self, other): return self
    def __truediv__(self, other): return self
    def __format__(self, form): return "1.000"
class OutOfMemoryError(RuntimeError): pass
OutOfMemoryError.__module__ = "torch"
def randint(vocab, shape, device):
    if shape[0] > 1024:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 3.00 GiB is free. Including non-PyTorch memory, this process has 76.18 GiB memory in use. Of the allocated memory 75.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.")
    return Any()
class nn: Module = Parameter = Any; Embedding = TransformerEncoderLayer = TransformerEncoder = Linear = functional = Any()
nn.Module.to = lambda self, device: self
zeros = optim = cuda = Any()
"#;

/// Who has nothing yet gets a job that runs, and sees it run out of memory and go on.
#[test]
fn in_an_empty_folder_init_writes_a_first_job_that_runs() {
    let mut place = Place::bare();
    let done = place.run(&["init", "first job"]).ends(0);
    done.says(&[
        "`cd 'first job'`, then `oomctl submit -w job.sbatch`",
        "`oomctl submit -w job.sbatch --batch_size 4096`",
    ]);
    assert!(!place.has("oomctl.yaml") && place.has("first job/job.sbatch"));
    place.write("here/torch.py", TORCH);
    place.set("PYTHONPATH", &place.path("here").display().to_string());
    place.shell("cp 'first job'/* .").ends(0);
    let submit = ["submit", "-w", "-y", "--backend", "local", "job.sbatch"];
    place.run(&submit).ends(0).says(&["succeeded"]);
    let large = [&submit[..], &["--batch_size", "4096"]].concat();
    place.run(&large).ends(0).says(&[
        "ran out of memory",
        "batch_size                   4096 -> 2048",
        "batch_size                   2048 -> 1024",
        "succeeded",
    ]);
}

/// Where files lie and none says what is run, nothing is guessed, and the message says how to choose.
#[test]
fn among_other_files_init_writes_nothing_and_says_how_to_choose() {
    let place = Place::bare();
    place.write("notes.txt", "");
    let done = place.run(&["init"]).ends(5);
    done.says(&[
        "nothing here says what you train",
        "`oomctl submit -w my_job.slurm`",
        "`oomctl init first-job`",
        "`oomctl init --interactive`",
        "--preset NAME",
        "torchrun",
    ]);
    assert!(!place.path("oomctl.yaml").exists());
    place.write("a.py", "");
    place.write("b.py", "");
    place.says("init", 5, &["2 programs (a.py, ...)"]);
}

/// Where a job script says what is run, the file is for that script: nothing to fill in, and it is no obstacle.
#[test]
fn beside_a_job_script_the_file_is_for_that_script() {
    let place = Place::bare();
    place.write("train.py", "");
    let job = "#!/bin/bash\n#SBATCH --gpus-per-node=1\ntorchrun train.py --batch_size 8\n";
    place.write("job.slurm", job);
    place
        .run("init")
        .ends(0)
        .says(&["next: `oomctl plan job.slurm`, then `oomctl submit -w job.slurm`"]);
    let file = place.read("oomctl.yaml");
    assert!(
        !file.contains("preset:") && !file.contains("FILL_IN"),
        "{file}"
    );
    let plan = place.run(&["plan", "job.slurm"]).ends(0);
    plan.says(&[
        "your own program: oomctl changes its options or settings files",
        "batch_size 8 -> 4",
    ]);
}

/// A stranger's folder: what is known is in the file with its origin, and what is not is marked.
#[test]
fn what_lies_around_is_in_the_file_with_where_it_comes_from() {
    let mut place = Place::bare();
    place.shell(SLURM).ends(0);
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", place.path("bin").display()));
    place.set("VIRTUAL_ENV", &place.path("venv").display().to_string());
    place
        .shell("mkdir -p data venv/lib/python3.12/site-packages/verl-0.8.0.dist-info venv/lib/python3.12/site-packages/torch-2.9.1.dist-info; touch data/train.parquet data/test.parquet; printf '#!/bin/bash\\n#SBATCH --gpus=1\\npython train.py\\n' > job.slurm")
        .ends(0);
    let done = place.run(&["init"]).ends(0);
    let file = place.read("oomctl.yaml");
    let (head, _) = file.split_once("# Named values").unwrap();
    insta::assert_snapshot!(place.steady(&format!("{}{head}", done.told())));
    place
        .run("plan")
        .ends(5)
        .says(&["a required value is missing", "\n  model.path: …"]);
    let model = ["plan", "--set", "model.path=Qwen/Qwen2.5-7B-Instruct"];
    place.run(&model).ends(0);
    // A program of one's own and no framework.
    place.shell("rm -r oomctl.yaml venv job.slurm").ends(0);
    let options = "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\n\
        p.add_argument('--batch-size', default=8)\np.add_argument('--out', required=True)\n";
    place.write(
        "train.py",
        &format!("from parallel import start\n{options}"),
    );
    place.write("parallel.py", "import torch.distributed as dist\n");
    place.run("init").ends(0).says(&[
        "programs parallel.py, train.py",
        "job.sbatch takes a whole node, 8 GPUs. For fewer change --gres and --nproc_per_node",
        "next: replace each FILL_IN in job.sbatch, then `oomctl plan job.sbatch`",
    ]);
    assert!(!place.has("oomctl.yaml"));
    let script = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --partition=gpu\n#SBATCH --gres=gpu:h100:8\n#SBATCH --mem=1669G\n\n\
        torchrun --standalone --nproc_per_node 8 train.py FILL_IN --out FILL_IN \"$@\"\n";
    assert_eq!(place.read("job.sbatch"), script);
    place.says("plan job.sbatch", 0, &["--batch-size 8 -> 4"]);
    // Eight copies of a program for one GPU would each train all of it. One for the Trainer says nothing of several.
    place
        .shell("rm job.sbatch parallel.py; mkdir -p .venv/bin; touch .venv/bin/activate")
        .ends(0);
    let options = format!("from transformers import Trainer\n{options}");
    place.write("train.py", &options);
    place.set("VIRTUAL_ENV", "");
    place.run("init").ends(0).says(&[
        "job.sbatch takes 1 of the 8 GPUs of a node. If the program trains on several, change --gres",
        "`torchrun --standalone --nproc_per_node 8`",
    ]);
    let script = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --partition=gpu\n#SBATCH --gres=gpu:h100:1\n#SBATCH --mem=208G\n\n\
        source .venv/bin/activate\npython train.py FILL_IN --out FILL_IN \"$@\"\n";
    assert_eq!(place.read("job.sbatch"), script);
}
