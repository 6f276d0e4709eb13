//! Good inputs to begin with, and words that mean something to a target.
//!
//! The files of the project are seeds where there are some: logs of `tests/diagnosis`, presets,
//! profiles, templates, the ledger that is kept for each version. The rest is written here in the
//! formats of the programs that print it.

use std::path::{Path, PathBuf};

/// What a campaign begins with.
pub struct Seeds {
    /// Whole inputs.
    pub inputs: Vec<Vec<u8>>,
    /// Fragments.
    pub words: Vec<&'static str>,
}

/// The seeds of a target.
pub fn of(target: &str) -> Seeds {
    let (folders, own, words): (&[(&str, &str)], &[&str], &'static str) = match target {
        "log" | "printed" => (&[("tests/diagnosis", "log")], &LOGS, LOG_WORDS),
        "message" => (&[], &MESSAGES, MESSAGE_WORDS),
        "slurm" => (&[], &ANSWERS, ANSWER_WORDS),
        "script" => (&[("tests/adopt/sets", "txt")], &[], SCRIPT_WORDS),
        "project" => (&PROJECT_FOLDERS, &PROJECTS, PROJECT_WORDS),
        "template" => (&[("templates/torchrun", "j2")], &TEMPLATES, TEMPLATE_WORDS),
        "ledger" => (&[("tests/fixtures", "jsonl")], &LEDGERS, LEDGER_WORDS),
        "kernel_log" => (&[], &KERNEL_LOGS, KERNEL_LOG_WORDS),
        "snapshot" => (&[], &SNAPSHOTS, SNAPSHOT_WORDS),
        "python" => (&[("examples/data-parallel", "py")], &PYTHON, PYTHON_WORDS),
        other => panic!("there is no target {other}"),
    };
    let mut inputs: Vec<Vec<u8>> = own.iter().map(|text| text.as_bytes().to_vec()).collect();
    for (folder, extension) in folders {
        inputs.extend(files(&root().join(folder), extension));
    }
    // Words may hold any other sign, blanks and line ends among them.
    let words = words.split('¶').collect();
    Seeds { inputs, words }
}

/// The root of the project, also for a package in a folder below it.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|dir| dir.join("tests/fuzz").is_dir());
    root.unwrap().to_owned()
}

fn files(folder: &Path, extension: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == extension));
    // The order of a folder is its own.
    paths.sort();
    assert!(
        !paths.is_empty(),
        "{} has no *.{extension}",
        folder.display()
    );
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

const LOGS: [&str; 3] = [
    "step:7 - loss:0.5\n\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m Traceback (most recent call last):\n\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m   File \"/w/train.py\", line 12, in main\n\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m     loss.backward()\n\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of which 1.10 GiB is free.\nslurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-11-21T08:05:02 ***\n",
    "Training Progress:  10%|\u{2588}   | 12/120 [00:30<04:30,  2.50s/it]\rTraining Progress:  11%|\u{2588}   | 13/120 [00:33<04:28,  2.50s/it]\nslurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\nsrun: error: node1: task 0: Out Of Memory\n",
    "[rank3]:[E1121 08:05:00.000000000 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\nValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n",
];
const LOG_WORDS: &str = "CUDA out of memory. ¶torch.OutOfMemoryError: ¶torch.cuda.OutOfMemoryError: \
    ¶RuntimeError: CUDA error: out of memory\n¶Tried to allocate 2.00 GiB\
    ¶GPU 1 has a total capacity of 79.18 GiB¶ of which 1.10 GiB is free\
    ¶Process 77 has 30.00 GiB memory in use. ¶HIP out of memory. \
    ¶CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`¶NCCL WARN Cuda failure 2 'out of memory'\
    ¶RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.\
    ¶ValueError: No available memory for the cache blocks.\
    ¶Free memory on device cuda:2 (10.50/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB).\
    ¶slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch.\n\
    ¶slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-11-21T08:05:02 DUE TO TIME LIMIT ***\n\
    ¶slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-11-21T08:05:02 DUE TO PREEMPTION ***\n\
    ¶DUE TO NODE FAILURE¶Killed\n¶Bus error (core dumped)\n¶Traceback (most recent call last):\n\
    ¶  File \"/w/train.py\", line 12, in main\n    loss.backward()\n\
    ¶During handling of the above exception, another exception occurred:\n\
    ¶The above exception was the direct cause of the following exception:\n\
    ¶ray.exceptions.RayTaskError(OutOfMemoryError): \
    ¶ray.exceptions.ActorDiedError: The actor died unexpectedly¶\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m \
    ¶(WorkerDict pid=4321, ip=192.0.2.7) [repeated 3x across cluster]¶[rank0]: ¶0: ¶step:12 - \
    ¶perf/max_memory_allocated_gb:np.float64(41.25) - response_length/mean:412.5 - \
    ¶'completions/mean_length': 719.1, ¶ iteration       12/     100 | consumed samples: 1 |\
    ¶ 10%|# | 12/120 [00:30<04:30,  2.50s/it]\r\
    ¶RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed. \
    ¶OSError: [Errno 28] No space left on device\
    ¶Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB¶retrying with a smaller batch\n\
    ¶If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\
    ¶2026-11-21T08:05:02Z \
    ¶\u{256d}\u{2500}\u{2500} Traceback (most recent call last) \u{2500}\u{2500}\u{256e}\n";

const MESSAGES: [&str; 9] = [
    "2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.10 GiB is free. Process 77 has 30.00 GiB memory in use. Including non-PyTorch memory, this process has 48.00 GiB memory in use. Of the allocated memory 40.00 GiB is allocated by PyTorch, with 1.50 GiB allocated in private pools (e.g., CUDA Graphs), and 5.25 GiB is reserved by PyTorch but unallocated.",
    "1.50 GiB (GPU 3; 15.75 GiB total capacity; 12.25 GiB already allocated; 512.00 MiB free; 2.00 GiB cached)",
    "640.00 MiB (GPU 1; 23.69 GiB total capacity; 20.50 GiB already allocated; 256.00 MiB free; 21.75 GiB reserved in total by PyTorch)",
    "torch.cuda.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\nCurrently allocated     : 21.50 GiB\nRequested               : 1.25 GiB\nDevice limit            : 23.69 GiB\nFree (according to CUDA): 0.50 GiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB\n",
    "ValueError: Free memory on device cuda:2 (10.50/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB). Decrease GPU memory utilization\n",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.\n",
    "OOM when allocating tensor with shape[8,64] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc\n",
    "node7:4711:4790 [2] include/alloc.h:185 NCCL WARN Cuda failure 2 'out of memory'\n",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.95 TiB for an array with shape (512, 512, 1024, 1024) and data type float64\n",
];
const MESSAGE_WORDS: &str = " GiB¶ MiB¶ TiB¶ bytes¶KB¶ is free¶ total capacity¶ is allocated by PyTorch\
    ¶ is reserved by PyTorch but unallocated¶ reserved in total¶ cached¶ allowed¶ allocated in private pools\
    ¶Process 77 has 30.00 GiB memory in use.¶this process has 48.00 GiB memory in use¶64G";

const ANSWERS: [&str; 9] = [
    "17_3|20|RUNNING|0|0|0|1795235178|1795235190|1795236978|node[1-3,7],gpu-[008-011]|None|(null)|oomctl-a-1-00ff00ff\n9|9|PENDING|0|0|1|1795235178|1795238778|1795240578||BeginTime|(null)|x\n",
    "4711|4711|FAILED|1:0|1:0|1795235178|1795235190|1795236978|node1|None||||oomctl-a-1-00ff00ff\n4711.batch|4711.batch|OUT_OF_MEMORY|0:125||1795235190|1795235190|1795236978|node1|||||batch\n4712|4712|CANCELLED by 1000|0:15|0:0|1795235178|1795235190|1795236978|node[1-2]|None||||x\n",
    "JobId=20 ArrayJobId=17 ArrayTaskId=3 JobName=oomctl-a-1-00ff00ff\n   UserId=u(1000) GroupId=g(1000) MCS_label=N/A\n   JobState=RUNNING Reason=None Dependency=(null)\n   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0\n   DerivedExitCode=0:0\n   SubmitTime=1795235178 EligibleTime=1795235178\n   StartTime=1795235190 EndTime=1795236978 Deadline=N/A\n   NodeList=node[1-2]\n   BatchHost=node1\n   Command=/w/job.sbatch\n   WorkDir=/w\n   Comment=a comment\n   StdErr=/w/logs/%x-%A_%4a.err\n   StdIn=/dev/null\n   StdOut=/w/logs/%x-%A_%4a.out\n",
    "4711\n",
    "*** Maintenance on Monday ***\n4711;cluster\n",
    "\n--\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
    "4711\n--\nsbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
    "\n--\nsbatch: error: QOSMaxGRESPerJob\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
];
const ANSWER_WORDS: &str = "|¶||||||||||¶4711¶4711;cluster¶17_[4-6%2]¶28+0¶4711.batch¶node[1-3,7]¶node[1-16384]¶n[0-99][0-99]\
    ¶[0000000001-9]¶[¶]¶COMPLETED¶OUT_OF_MEMORY¶CANCELLED by 1000¶CANCELLED,COMPLETING¶NODE_FAIL¶REVOKED\
    ¶{\"set\":true,\"infinite\":false,\"number\":9223372036854775807}¶-1¶9223372036854775807¶[\"OUT_OF_MEMORY\"]¶{}\
    ¶(null)¶N/A¶Unknown¶JobId=¶JobState=¶ Reason=¶ Dependency=¶%10j%x%N%%¶\n--\n¶sbatch: error: \
    ¶Socket timed out";

const PROJECT_FOLDERS: [(&str, &str); 5] = [
    ("presets", "yaml"),
    ("presets/sets", "yaml"),
    ("presets/datasets", "yaml"),
    ("presets/clusters", "yaml"),
    ("examples/diamonds-grpo", "yaml"),
];
const PROJECTS: [&str; 4] = [
    "preset: torchrun\npolicy: same-math\nknobs:\n  script: train.py\n  batch_size: 32\n  gradient_accumulation_steps: 4\n  max_seq_len: 4096\n  mem: 64G\n  time_limit: 12:00:00\n  args: [--lr, 1e-4]\n  modules: [cuda/12.4]\npin: [max_seq_len]\noverrides:\n  +trainer.my_option: 3\nlimits: { attempts: 8, wall_time: 3d, gpu_hours: 2000 }\nsupervision: { poll: 15s, drain: 5s }\nladder:\n  - halve-batch-keep-effective\n  - { rung: shorter-sequences, laps: 2 }\n  - rung: mine\n    title: fewer\n    moves:\n      - { knob: batch_size, times: 0.5 }\n",
    "preset: torchrun\nsignatures:\n  - id: shuttle_lost\n    kind: loom_full\n    class: gpu_oom\n    contains: \"KeyError: 'shuttle'\"\n    pattern: 'KeyError: .(?P<what>\\w+)'\n    helps: [fewer threads]\n",
    "batch_size=32\nscript=train.py\nmem=64G\ntime_limit=2-00:00:00\nargs=[a, 'b c']\nmax_seq_len=null\ngradient_checkpointing=true\nenv={A: b}\n",
    "facts:\n  gpus_per_node: 8\n  nodes: 4\n  node_memory: 1900G\n  gpu_types:\n    - { name: H100, memory: 79.18GiB, set: { gpu_type: h100 } }\nknobs: &anchor\n  batch_size: 8\nother: *anchor\n",
];
const PROJECT_WORDS: &str = "knobs:\n¶pin: ¶overrides:\n¶ladder:\n¶limits: ¶supervision: ¶signatures:\n¶facts:\n¶  batch_size: \
    ¶  - rung: ¶    moves:\n¶to_expr: ¶times: ¶floor: ¶laps: ¶when: ¶must: ¶default: ¶default_expr: \
    ¶pattern: ¶min: ¶max: ¶derived:\n¶rules:\n¶versions: '>=1'\n¶type: int\n¶type: size\n¶type: duration\n\
    ¶type: list\n¶type: map\n¶role: micro_batch\n¶spelling: { flag: --x }\n¶uses: [slurm]\n¶batch_size * 2\
    ¶batch_size // 0¶cluster.gpus_per_node¶&a ¶*a¶<<: *a\n¶!!binary ¶---\n¶...\n¶{¶[¶- ¶: ¶'¶\"¶|\n¶~¶null\
    ¶2-00:00:00";

const TEMPLATES: [&str; 4] = [
    "train.py; rm -rf $HOME 'x' \"y\" `z`\n#SBATCH --job-name={{ attempt.token|sbatch }}\n{% for word in (args or []) + flags %}\n  {{ word }}\n{% endfor %}\n",
    "batch * rollout.n // 3\nlcm(8, 12) == 24 and ceil(7 / 2) == 4\nbytes(mem) == 2147483648\nseconds('1-00:00:00') > 5\nmib(batch / 3)\nnone_yet is none\n",
    "a b\n{% macro twice(x) %}{{ x ~ x }}{% endmacro %}{{ twice('a')|comment }}{% include 'slurm/_header.sbatch.j2' %}\n",
    "$(x)\n{% set x = 'ab' * 1000 %}{{ x|length }} {{ [1,2,3]|join(',') }} {{ range(10)|list|hydra }}\n",
];
const TEMPLATE_WORDS: &str = "{{ ¶ }}¶{% ¶ %}¶{## ¶ ##}¶{% for i in range(9999) %}¶{% endfor %}¶{% if batch %}¶{% endif %}\
    ¶{% set x = x ~ x %}¶{% set ns = namespace(x='ab') %}¶{% set ns.x = ns.x ~ ns.x %}\
    ¶{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}¶{% include 'torchrun/job.sbatch.j2' %}\
    ¶{% extends 'torchrun/job.sbatch.j2' %}¶{% raw %}¶{% break %}¶|safe¶|sbatch¶|comment¶|hydra\
    ¶|replace('a', 'aaaa')¶|indent(9)¶|batch(3)¶|slice(3)¶|join('x')¶|list¶|tojson¶|format¶'x' * 1000\
    ¶[1] * 1000¶ ** 9¶ // 0¶ % 0¶lcm(9223372036854775807, 2)¶gcd(-9223372036854775808, -1)¶ceil(1e308 * 10)\
    ¶bytes('1e30G')¶seconds('99999999-0')¶version_at_least('1.2')¶((((((((¶not not not not \
    ¶-9223372036854775808";

const LEDGERS: [&str; 2] = [
    "{\"v\":1,\"seq\":1,\"at\":\"2026-11-21T08:00:00Z\",\"epoch\":1,\"fact\":\"created\",\"run\":\"r-1\",\"version\":\"0.1.0\"}\n{\"v\":1,\"seq\":2,\"at\":\"2026-11-21T08:00:01Z\",\"epoch\":1,\"fact\":\"owner_changed\",\"host\":\"login1\",\"pid\":4242}\n{\"v\":1,\"seq\":3,\"at\":\"2026-11-21T08:00:02Z\",\"epoch\":1,\"fa",
    "{\"v\":1,\"seq\":1,\"at\":\"2026-11-21T08:00:00Z\",\"epoch\":1,\"fact\":\"created\",\"run\":\"r-1\",\"version\":\"0.1.0\"}\nhalf\n{\"v\":1,\"seq\":2,\"at\":\"2026-11-21T08:06:40Z\",\"epoch\":2,\"fact\":\"torn_tail\",\"offset\":101,\"length\":4}\n{\"v\":1,\"seq\":3,\"at\":\"2026-11-21T08:07:00Z\",\"epoch\":2,\"fact\":\"from_the_future\"}\n",
];
const LEDGER_WORDS: &str = "{\"v\":1,\"seq\":2,¶\"seq\":¶\"at\":\"9999-12-31T23:59:59Z\"¶\"at\":\"-009999-01-02T01:59:59Z\"\
    ¶\"epoch\":18446744073709551615¶\"attempt\":4294967295¶\"restarts\":4294967295¶\"gpu_seconds\":1e308\
    ¶\"gpus\":18446744073709551615¶\"fact\":\"torn_tail\",\"offset\":18446744073709551615,\"length\":1}\n\
    ¶\"fact\":\"created\"¶\"fact\":\"intended\"¶\"fact\":\"submitted\"¶\"fact\":\"restarted\"\
    ¶\"fact\":\"ended\"¶\"fact\":\"finished\"¶\"fact\":\"unheard_of\"¶\"v\":2¶\"v\":-1¶\"length\":0¶null\
    ¶[[[[[[[[¶\\ud800¶}\n{";

const KERNEL_LOGS: [&str; 3] = [
    "4,1203,86400000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n",
    "Nov 20 14:03:07 node7 kernel: [ 12.5] NVRM: Xid (PCI:0000:04:00 GPU-I:05): 94, pid=7194, Contained: SM (0x1).\n",
    "[Fri Nov 20 14:03:00 2026] NVRM: Xid (0000:01:00): 13, 0005 00000000\n2026-11-20T14:03:00,5+02:00 NVRM: Xid (PCI:0000:af:00): 45, pid=1\n",
];
const KERNEL_LOG_WORDS: &str = "NVRM: Xid (¶PCI:0000:3b:00¶PCI:ffffffff:ff:ff¶): ¶79, ¶4294967296, ¶4,1203,18446744073709551615,-;\
    ¶[ 99999999999999999999.0] ¶[Fri Feb 30 25:03:00 9999] ¶Feb 29 14:03:00 ¶9999-12-31T23:59:59+00:00 ¶\n";

const PYTHON: [&str; 2] = [
    "import os\nfrom torch.nn import DataParallel as DP\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\nnet = DP(net, list(range(2)), torch.device(\"cuda:1\"))\n",
    "def main():\n    model = torch.nn.DataParallel(  # all\n        build(args), device_ids=[0, 1, 2],\n    )\n",
];
const PYTHON_WORDS: &str = "DataParallel(¶nn.DataParallel(net, ¶device_ids=[0, 1]¶output_device=1¶range(4)¶list(¶**options¶)¶(¶]¶'''\
    ¶\"¶r'¶\\\n¶#¶ = ¶\n    ¶import DataParallel as DP\n¶os.environ['CUDA_VISIBLE_DEVICES'] = ¶\u{e4}";

const SCRIPT_WORDS: &str = "python3 -m verl.trainer.main_ppo \\\n¶torchrun train.py --batch_size 32 ¶python train.py +a=b ~a a=$X\n\
    ¶defaults:\n  - a: b\n  - /a@_global_.c: b\n  - _self_\n¶# @package _global_\n¶deepspeed: conf.json\n\
    ¶data.train_batch_size=¶--batch_size=¶$BS¶${BS:-32}¶${BS:=¶\"${ARGS[@]}\"¶ARGS=(¶ARGS+=(¶BS=32\n\
    ¶BS=$BS$BS\n¶export BS\n¶\"$@\"¶bash run.sh ¶source run.sh\n¶bash -c '¶eval \"¶<<EOF\n¶\nEOF\n¶<<-'X'\n\
    ¶cat > conf.json ¶if x; then\n¶else\n¶fi\n¶for x in 1 2; do\n¶while [[ $# -gt 0 ]]; do\n¶done\n\
    ¶case $1 in\n¶*) ¶;;\n¶esac\n¶f() {\n¶}\n¶$(¶`¶\\\n¶#SBATCH --mem=64G\n¶#SBATCH --gres=gpu:4\n¶shift\n";

/// Pickles without bytes above 127, which a text can hold: one segment with two blocks and a failure, and a list of itself.
const SNAPSHOTS: [&str; 2] = [
    "}(X\x08\0\0\0segments](}(X\x0a\0\0\0total_sizeM\0\x10X\x06\0\0\0blocks](}(X\x04\0\0\0sizeM\0\x08q\0X\x05\0\0\0stateX\x10\0\0\0active_allocatedX\x06\0\0\0frames](}(X\x04\0\0\0nameX\x04\0\0\0stepX\x08\0\0\0filenameX\x07\0\0\0/w/t.pyX\x04\0\0\0lineK\x07ueu}(X\x04\0\0\0sizeh\0X\x05\0\0\0stateX\x08\0\0\0inactiveueueX\x0d\0\0\0device_traces](](}(X\x06\0\0\0actionX\x03\0\0\0oomX\x04\0\0\0sizeK\x09ueeu.",
    "](q\0h\0h\0e.",
];
const SNAPSHOT_WORDS: &str =
    "](¶}(¶e¶u¶a¶s¶q\0¶h\0¶K\x01¶J\0\0\0\x10¶X\x7f\x7f\x7f\x7f¶X\x06\0\0\0blocks";
