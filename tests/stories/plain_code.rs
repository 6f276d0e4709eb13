//! Failures of programs that no preset knows: what their code keeps, their own names for a batch, what runs before and beside
//! training. Logs are written by hand in the formats of PyTorch 1.13 and of common examples.

use super::fixing::{fixed, job};
use super::place::{Done, install};

const OOM: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; \
    9.31 GiB already allocated; 39.44 MiB free; 9.40 GiB reserved in total by PyTorch)\n";

/// Steps, in words of the program's own.
const STEPS: &str = "Epoch 1 | Step 100 | loss 2.1\nEpoch 1 | Step 200 | loss 1.9\n";

const BACKWARD: &str = "  File \"/home/u/x/train.py\", line 30, in main\n    loss.backward()\n";

fn log(before: &str, frames: &str) -> String {
    format!("{before}Traceback (most recent call last):\n{frames}{OOM}")
}

/// A program with this line behind its optimizer's step.
fn program(line: &str) -> String {
    format!(
        "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch-size', type=int)\n\
         args = parser.parse_args()\nmodel = Net().cuda()\noptimizer = torch.optim.Adam(model.parameters())\ntotal = 0\n\
         for x, y in DataLoader(data, batch_size=args.batch_size):\n    loss = criterion(model(x), y)\n    loss.backward()\n    \
         optimizer.step()\n    {line}\n"
    )
}

fn of_program(text: &str, log: &str) -> Done {
    fixed(
        "python train.py --batch-size 32",
        log,
        &[("train.py", text)],
    )
}

/// A batch that fitted for hundreds of steps fits; what grew beside it is the code's.
#[test]
fn losses_with_their_graphs_are_named_and_the_batch_stays() {
    let leaks = program("total += loss");
    let late = log(STEPS, BACKWARD);
    let told = of_program(&leaks, &late);
    told.says(&[
        "train.py:12 `total += loss` adds up losses with their graphs",
        "no rung of the ladder helps",
        "the code would keep as much memory all the same",
    ]);
    of_program(&program("total += loss.item()"), &late).says(&["--batch-size  32 -> 16"]);
    // In the first step nothing has grown yet.
    let first = of_program(&leaks, &log("Loading data\n", BACKWARD));
    first.says(&["--batch-size  32 -> 16", "perhaps: train.py:12"]);
}

/// The watch says it, and submits nothing that only delays the end.
#[test]
fn a_watch_ends_with_the_line_that_keeps_memory() {
    let place = job(
        "PATH=$PWD/bin:$PATH python train.py --batch-size 32",
        "",
        &[("train.py", &program("total += loss"))],
    );
    place.write("said", &log(STEPS, BACKWARD));
    place.write("bin/README", "Programs of this story.\n");
    install(
        &place.path("bin/python"),
        "#!/bin/sh\ncat said >&2\nexit 1\n",
    );
    let done = place.run("submit --backend local --yes --watch --plain job.sh");
    done.says(&["train.py:12 `total += loss`"]);
    assert!(!done.told().contains("attempt 2"), "{}", done.told());
}

/// An inference without `no_grad`: no preset knows the script, and its own code does.
#[test]
fn what_an_inference_keeps_is_named_without_a_preset() {
    let text = "import torch\nmodel = load().cuda()\nmodel.eval()\nouts = []\nfor x in loader:\n    out = model(x)\n    outs.append(out)\n";
    let frames = "  File \"infer.py\", line 6, in <module>\n    out = model(x)\n";
    let steps = "image 1/2000 done\nimage 2/2000 done\n";
    fixed(
        "python infer.py",
        &log(steps, frames),
        &[("infer.py", text)],
    )
    .says(&[
        "infer.py:6 `out = model(x)` evaluates with graphs",
        "infer.py:7 `outs.append(out)` keeps tensors with their graphs",
    ]);
}

/// What is only suspected comes before smaller batches, and the packages of `PYTHONPATH` are read for it.
#[test]
fn what_may_be_kept_comes_first_where_many_steps_went_well() {
    let buffer = "import torch\nclass ReplayBuffer:\n    def __init__(self):\n        self.items = []\n    def push(self, *args):\n        \
        self.items.append(args)\n";
    let lib = "from lib.replay import ReplayBuffer\ndef run(self, t):\n    self.replay_buffer.push(t, t['reward'])\n";
    let steps = "iteration 861 : loss:11.84\niteration 862 : loss:12.02\n";
    let frames = "  File \"/home/u/x/src/lib/loop.py\", line 9, in step\n    x = self.conv2(x)\n";
    let files = [
        (
            "train.py",
            "import torch\nfrom lib.loop import run\nrun()\n",
        ),
        ("src/lib/loop.py", lib),
        ("src/lib/replay.py", buffer),
    ];
    let done = fixed(
        "PYTHONPATH=src python train.py",
        &log(steps, frames),
        &files,
    );
    done.says(&[
        "perhaps memory grows: 862 steps went well before, and the request that failed is small (64.00 MiB)",
        "perhaps: src/lib/replay.py:6 `self.items.append(args)` stores what it is handed",
        "first look for what the program keeps",
        "smaller micro batches",
        "if `oomctl presets` lists it",
    ]);
}

/// Lightning keeps what each step returns, if it is asked to.
#[test]
fn lightnings_hook_is_named() {
    let text = "import pytorch_lightning as pl\nclass M(pl.LightningModule):\n    def training_step(self, b, i):\n        return {'loss': l, 'x': x}\n    \
        def training_epoch_end(self, outputs):\n        pass\npl.Trainer().fit(M(), d)\n";
    let frames = "  File \"/home/u/x/train.py\", line 4, in training_step\n    x = make()\n";
    let bar = "Epoch 0:   1%|          | 11/900 [00:09<47:51,  1.16it/s, loss=2]\n";
    fixed("python train.py", &log(bar, frames), &[("train.py", text)])
        .says(&["perhaps: train.py:5 `def training_epoch_end(self, outputs):` has Lightning keep"]);
}

/// `DataParallel` around one GPU gathers nothing, and what is on already is not offered.
#[test]
fn what_does_not_apply_to_the_job_is_not_advised() {
    let text = "import torch\nmodel = torch.nn.DataParallel(Net())\n";
    let replica = "RuntimeError: Caught RuntimeError in replica 0 on device 0.\nOriginal Traceback (most recent call last):\n  File \"/home/u/x/net.py\", \
        line 3, in forward\n    x = self.conv2(x)\n";
    let said = |script: &str| fixed(script, &format!("{replica}{OOM}"), &[("train.py", text)]);
    let two = said("#SBATCH --gres=gpu:2\npython train.py");
    two.says(&["DistributedDataParallel, one process a GPU"]);
    let one = said("#SBATCH --gres=gpu:1\npython train.py --gradient_checkpointing");
    one.says(&[
        "smaller micro batches",
        "helps      offload of optimizer states",
    ]);
    for wrong in ["DistributedDataParallel", "gradient checkpointing"] {
        assert!(!one.told().contains(wrong), "{wrong}: {}", one.told());
    }
}

/// A fresh run fits, so the model is not too large.
#[test]
fn a_checkpoint_on_the_gpu_is_named_where_the_job_resumes() {
    let text = program("pass").replace(
        "total = 0",
        "model.load_state_dict(torch.load('ckpt.pt')['model'])",
    );
    let text = text.replace("args =", "parser.add_argument('--resume')\nargs =");
    let fails = log("Resuming from ckpt.pt\n", BACKWARD);
    let resumed = "python train.py --batch-size 32 --resume ckpt.pt";
    let told = fixed(resumed, &fails, &[("train.py", &text)]);
    told.says(&[
        "train.py:8",
        "map_location=\"cpu\"",
        "no rung of the ladder helps",
    ]);
    of_program(&text, &fails).says(&["--batch-size  32 -> 16"]);
}

/// A checkpoint comes back onto the GPU that it was saved from. Of four ranks three then hold memory on the first one's GPU, and no
/// other node changes that.
#[test]
fn ranks_that_load_a_checkpoint_onto_one_gpu_are_no_neighbours() {
    let text = program("pass").replace(
        "total = 0",
        "model.load_state_dict(torch.load('ckpt.pt')['model'])",
    );
    let used = "(GPU 0; 10.76 GiB total capacity; 6.61 GiB already allocated; 118.44 MiB free; 7.10 GiB reserved in total by PyTorch)\n";
    let oom = format!(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB {used}"
    );
    let fails = format!("step 3 | loss 2.1\nTraceback (most recent call last):\n{BACKWARD}{oom}");
    let said = |gpus: u32, text: &str| {
        let line = format!(
            "#SBATCH --gres=gpu:{gpus}\ntorchrun --nproc_per_node={gpus} train.py --batch-size 4 --ckpt runs/0100.pt"
        );
        fixed(&line, &fails, &[("train.py", text)])
    };
    said(4, &text).says(&[
        "train.py:7",
        "map_location=\"cpu\"",
        "each rank of this job that loads the checkpoint onto GPU 0",
        "no rung of the ladder helps",
    ]);
    let others = "Other processes held the memory";
    said(1, &text).says(&[others]);
    said(
        4,
        &text.replace("'ckpt.pt'", "'ckpt.pt', map_location='cpu'"),
    )
    .says(&[others]);
}

/// Each program has its own word for it.
#[test]
fn a_batch_is_found_under_the_names_that_programs_have_for_it() {
    let fails = log("", BACKWARD);
    for (command, change) in [
        ("python train.py --batch 32", "32 -> 16"),
        ("python train.py --batchSize 32", "32 -> 16"),
        ("python main.py -a resnet50 -b 256", "256 -> 128"),
        ("python train.py --train-bs 64 --eval-bs 32", "64 -> 32"),
        ("python train.py --imgs-per-gpu 8", "8 -> 4"),
        ("python train.py bs=32 epochs=3", "32 -> 16"),
        ("python train.py data.train_batch_size=64", "64 -> 32"),
        (
            "python tools/train.py c.py --cfg-options data.samples_per_gpu=8",
            "8 -> 4",
        ),
        (
            "yolo detect train data=c.yaml model=y.pt batch=16",
            "16 -> 8",
        ),
        (
            "fairseq-train d --arch transformer --max-tokens 4096 --update-freq 8",
            "4096 -> 2048",
        ),
        (
            "fairseq-train d --arch transformer --max-sentences 32",
            "32 -> 16",
        ),
    ] {
        let told = fixed(command, &fails, &[]);
        told.says(&[change]);
    }
    // What accumulates keeps the mathematics.
    for (command, changes) in [
        (
            "python train.py --batch 32 --update-freq 2",
            ["32 -> 16", "2 -> 4"],
        ),
        (
            "python tools/train.py c.py --cfg-options train_dataloader.batch_size=8 optim_wrapper.accumulative_counts=2",
            ["8 -> 4", "2 -> 4"],
        ),
        (
            "fairseq-train d --arch transformer --max-tokens 4096 --update-freq 8",
            ["4096 -> 2048", "8 -> 16"],
        ),
    ] {
        // A program that is not there may do anything.
        let effect = match command.starts_with("fairseq-train") {
            true => " job.sh:2  same",
            false => " job.sh:2  unknown",
        };
        fixed(command, &fails, &[]).says(&[changes[0], changes[1], effect]);
    }
}

/// A number that is written into the call counts as well.
#[test]
fn the_batch_of_a_loader_is_changed_where_it_is_written() {
    let text = "import torch\nmodel = Net().cuda()\nloader = DataLoader(train_set, batch_size=32, shuffle=True)\n\
        val_loader = DataLoader(val_set, batch_size=128)\nfor x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n";
    let changed = fixed("python train.py", &log("", BACKWARD), &[("train.py", text)]);
    changed.says(&[
        " batch_size  32 -> 16",
        "+loader = DataLoader(train_set, batch_size=16,",
    ]);
    let tested = "  File \"/home/u/x/train.py\", line 50, in validate\n    out = model(x)\n";
    let changed = fixed("python train.py", &log("", tested), &[("train.py", text)]);
    changed.says(&["eval_batch_size  128 -> 64"]);
    let keras = "from tensorflow import keras\nmodel = keras.Sequential()\nmodel.fit(x, y, batch_size=64, validation_data=(x_val, y_val))\n";
    let full = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,512,512,64]\n";
    fixed("python train.py", full, &[("train.py", keras)]).says(&["batch_size  64 -> 32"]);
    // Two loaders that train: it is unknown which of them was too large.
    let two = text.replace("val_", "more_");
    let none = fixed("python train.py", &log("", BACKWARD), &[("train.py", &two)]);
    assert!(!none.out.contains("->"), "{}", none.told());
}

#[test]
fn what_runs_before_and_beside_training_has_a_batch_of_its_own() {
    let cached = "  File \"/w/library/train_util.py\", line 985, in cache_latents\n    cache_batch_latents(vae, batch)\n  \
        File \"/w/library/train_util.py\", line 2318, in cache_batch_latents\n    latents = vae.encode(images)\n";
    let images =
        "accelerate launch sdxl_train.py --train_batch_size=2 --vae_batch_size=4 --cache_latents";
    let told = fixed(images, &log("caching latents...\n", cached), &[]);
    told.says(&["in preparation", "--vae_batch_size  4 -> 2  job.sh:2  same"]);
    let none = fixed(
        &images.replace("--vae_batch_size=4 ", ""),
        &log("", cached),
        &[],
    );
    none.says(&[
        "no rung of the ladder helps",
        "a smaller batch of what is computed before training",
    ]);
    let tested = log(
        STEPS,
        "  File \"/home/u/x/train.py\", line 50, in test\n    out = model(x)\n",
    );
    let own = "python train.py --batch-size 64 --test-batch-size 256";
    fixed(own, &tested, &[]).says(&["--test-batch-size  256 -> 128  job.sh:2  same"]);
    let least = "python train.py --batch-size 64 --test-batch-size 1";
    fixed(least, &tested, &[]).says(&["the evaluation has a batch of its own"]);
    // Without one it takes that of training.
    fixed("python train.py --batch-size 64", &tested, &[]).says(&["--batch-size  64 -> 32"]);
}

/// Shared memory has no option of Slurm, and where the job asks for no host memory there is none to raise.
#[test]
fn processes_that_load_data_are_made_fewer_where_nothing_else_gives_them_room() {
    let worker = |signal: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/home/u/x/train.py\", line 30, in main\n    for x in loader:\n\
             RuntimeError: DataLoader worker (pid 4161) is killed by signal: {signal}.\n"
        )
    };
    let script = "python train.py --batch-size 64 --workers 16";
    let full = "Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit";
    for signal in ["Killed", full] {
        let told = fixed(script, &worker(signal), &[]);
        told.says(&["--workers  16 -> 8  job.sh:2  same"]);
        assert!(!told.out.contains("batch_size  64"), "{}", told.told());
    }
    let asked = format!("#SBATCH --mem=64G\n{script}");
    fixed(&asked, &worker("Killed"), &[]).says(&["mem   64G -> 128G"]);
}

const JAX: &str = "Traceback (most recent call last):\n  File \"/home/u/x/train.py\", line 9, in <module>\n    state = step(state, batch)\n\
    jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n";

/// A share that the program is already given is none to give it.
#[test]
fn a_variable_before_the_command_of_any_program_is_read() {
    let program = [("train.py", "import jax\n")];
    let told = fixed("python train.py", JAX, &program);
    told.says(&["xla_mem_fraction", "unset -> 0.9"]);
    let told = fixed(
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 python train.py",
        JAX,
        &program,
    );
    assert!(!told.told().contains("-> 0.9"), "{}", told.told());
    let told = fixed(
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.5 python train.py",
        JAX,
        &program,
    );
    told.says(&[
        "0.5 -> 0.9",
        "+XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 python train.py",
    ]);
}

/// What the program's text says itself is named where it stands.
#[test]
fn numbers_in_the_text_of_a_program_without_options_are_named() {
    let text = "from lib.train import main\n\nif __name__ == '__main__':\n    batch_size = 16\n    main('out', batch_size=batch_size)\n";
    let first = log("", BACKWARD);
    let told = fixed("python run.py", &first, &[("run.py", text)]);
    told.says(&[
        "framework not recognised",
        "a lower `batch_size = 16` in run.py:4",
    ]);
    // A batch of one can be no lower, and that of an evaluation fills nothing in training.
    let settings = "from dataclasses import dataclass\n\n@dataclass\nclass Settings:\n    micro_batch_size: int = 1\n    \
        val_batch_size: int = 8\n    batch_size: int = 4\n    sharded_offload: bool = False\n";
    let main = "import fire\nfrom settings import Settings\n\ndef main(**words):\n    train(Settings())\n\nfire.Fire(main)\n";
    let told = fixed(
        "python run.py",
        &first,
        &[("run.py", main), ("settings.py", settings)],
    );
    told.says(&[
        "a lower `batch_size: int = 4` in settings.py:7",
        "`sharded_offload: bool = False` in settings.py:8 turned on",
    ]);
    assert!(!told.told().contains("micro_batch_size"), "{}", told.told());
    assert!(!told.told().contains("val_batch_size"), "{}", told.told());
    let engine = "from dataclasses import dataclass\nfrom lib.ppo import Experiment\n\n@dataclass\nclass Config:\n    \
        gpu_memory_utilization: float = 0.75\n    train_batch_size: int = 64\n\nExperiment(Config()).run()\n";
    let frames = "  File \"/env/lib/python3.11/site-packages/vllm/worker/worker.py\", line 280, in _init_cache_engine\n    CacheEngine(\n  \
        File \"/env/lib/python3.11/site-packages/vllm/worker/cache_engine.py\", line 71, in _allocate_kv_cache\n    torch.zeros(kv_cache_shape,\n";
    let told = fixed("python run.py", &log("", frames), &[("run.py", engine)]);
    told.says(&["lower `gpu_memory_utilization: float = 0.75` in run.py:6"]);
    assert!(!told.told().contains("--gpu"), "{}", told.told());
    assert!(!told.told().contains("train_batch_size"), "{}", told.told());
}

/// A program's own option is the framework's knob where its code hands it on.
#[test]
fn a_field_that_a_parser_fills_is_an_option() {
    let text = "from dataclasses import dataclass, field\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n\n@dataclass\n\
        class ScriptArguments:\n    batch_size: int = field(default=64, metadata={'help': 'samples'})\n    accumulation: int = 2\n\n\
        script_args = HfArgumentParser(ScriptArguments).parse_args_into_dataclasses()[0]\nargs = TrainingArguments(\n    output_dir='out',\n    \
        per_device_train_batch_size=script_args.batch_size,\n    gradient_accumulation_steps=script_args.accumulation,\n    \
        gradient_checkpointing=True,\n)\nTrainer(model=model, args=args).train()\n";
    let told = fixed(
        "python train.py --batch_size 8",
        &log("", BACKWARD),
        &[("train.py", text)],
    );
    told.says(&[
        "8 -> 4",
        "2 -> 4",
        "+python train.py --batch_size 4 --accumulation 4",
    ]);
}
