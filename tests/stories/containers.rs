//! Programs in containers, which see the job's files under other names.

use super::place::{Place, install};

/// `exec --nv -B SOURCE:/workspace --pwd /workspace IMAGE python3 main.py --config FILE`: shows nothing but what it mounts, and runs
/// out of memory above a batch of 16.
const APPTAINER: &str = r#"#!/bin/bash
from=${4%%:*}; file=${11}
case $file in
  /workspace/*) file=$from/${file#/workspace/} ;;
  /*) echo "$file: No such file or directory" >&2; exit 127 ;;
  *) file=$from/$file ;;
esac
batch=$(sed -n 's/^batch_size: //p' "$file") || exit 127
echo "batch $batch of ${11}"
[ "$batch" -le 16 ] && exit 0
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2
exit 1
"#;

const PROGRAM: &str = "import argparse
import torch
import yaml
p = argparse.ArgumentParser()
p.add_argument('--config', required=True)
cfg = yaml.safe_load(open(p.parse_args().config))
loader = torch.utils.data.DataLoader(data(), batch_size=cfg['batch_size'])
";

fn place() -> Place {
    let mut place = Place::with("backend: local\none_rung: true");
    place.write("main.py", PROGRAM);
    place.write("base.yaml", "batch_size: 64\nlr: 0.1\n");
    let bin = place.home.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    install(&bin.join("apptainer"), APPTAINER);
    place.first_on_path.push(bin);
    place
}

fn job(start: &str, config: &str) -> String {
    format!("#!/bin/bash\n{start} python3 main.py --config {config}\n")
}

#[test]
fn a_program_in_a_container_reads_the_copy_behind_the_mount() {
    let place = place();
    let root = place.root.display();
    for (run, source, config) in [
        ("here", "$PWD".to_owned(), "base.yaml"),
        ("root", root.to_string(), "base.yaml"),
        ("inside", "$PWD".to_owned(), "/workspace/base.yaml"),
        ("both", root.to_string(), "/workspace/base.yaml"),
    ] {
        let start =
            format!("apptainer exec --nv -B {source}:/workspace --pwd /workspace torch.sif");
        place.write("job.sh", &job(&start, config));
        let words = [
            "submit", "--yes", "--watch", "--fresh", "--run", run, "job.sh",
        ];
        let done = place.run(&words).ends(0);
        assert!(!done.told().contains("not found"), "{}", done.told());
        let log = place.read(&format!(".oomctl/runs/{run}/attempt-3/slurm.out"));
        let copy = format!("batch 16 of /workspace/.oomctl/runs/{run}/attempt-3/base.yaml");
        assert!(log.contains(&copy), "{log}");
    }
    assert_eq!(place.read("base.yaml"), "batch_size: 64\nlr: 0.1\n");
}

#[test]
fn a_copy_that_no_mount_holds_is_no_rung_and_the_plan_says_why() {
    let place = place();
    std::fs::create_dir_all(place.root.join("conf")).unwrap();
    place.write("conf/base.yaml", "batch_size: 64\n");
    let start = "docker run --rm --gpus all -v $PWD/conf:/conf -v $PWD/main.py:/main.py image";
    place.write(
        "job.sh",
        &job(start, "/conf/base.yaml").replace("main.py --", "/main.py --"),
    );
    let plan = place.run("plan job.sh").ends(0);
    plan.says(&["the container does not mount", "base.yaml"]);
    // What is outside of the mounts is in the image, and is not missing here.
    place.write("job.sh", &job(start, "/etc/base.yaml"));
    let plan = place.run("plan job.sh").ends(0);
    assert!(!plan.told().contains("not found"), "{}", plan.told());
}
