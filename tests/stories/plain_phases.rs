//! In which phase a program of one's own failed, by its frames and by its text. Logs are written by hand in the formats of PyTorch
//! 1.13 and of tqdm.

use super::fixing::fixed;

const OOM: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; \
    10.31 GiB already allocated; 39.44 MiB free; 10.40 GiB reserved in total by PyTorch)\n";

/// A program that has all in its main file, with this block at the end of each epoch.
fn program(block: &str) -> String {
    format!(
        "import torch\nbatch_size = 64\nnet = Net().cuda()\noptimizer = torch.optim.Adam(net.parameters())\n\
         for epoch in range(9):\n    for x, y in batches(batch_size):\n        net.train()\n        loss = criterion(net(x), y)\n        \
         loss.backward()\n        optimizer.step()\n{block}"
    )
}

/// A failure below this line of the program.
fn log(line: u32, code: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"train.py\", line {line}, in <module>\n    {code}\n  File \"/home/u/x/model.py\", line 9, in \
         forward\n    return self.conv(x)\n{OOM}"
    )
}

/// The whole set in one pass has no batch, and no gradients either.
#[test]
fn an_evaluation_in_the_main_file_is_one_by_its_text() {
    let block = "    with torch.no_grad():\n        net.eval()\n        out = net(everything)\n";
    let files = [("train.py", &*program(block))];
    let told = fixed("python train.py", &log(13, "out = net(everything)"), &files);
    told.says(&[
        "in eval",
        "train.py:13 in <module> belongs to an evaluation",
        "the evaluation in pieces",
    ]);
    for wrong in ["batch_size = ", "micro batches", "name it"] {
        assert!(!told.out.contains(wrong), "{wrong}: {}", told.told());
    }
}

#[test]
fn a_teacher_beside_a_step_of_training_is_no_evaluation() {
    let block = "    teacher.eval()\n    for x, y in batches(batch_size):\n        with torch.no_grad():\n            t = teacher(x)\n        \
        criterion(net(x), t).backward()\n";
    let files = [("train.py", &*program(block))];
    let told = fixed("python train.py", &log(14, "t = teacher(x)"), &files);
    told.says(&["in forward", "batch_size  64 -> 32"]);
}

/// PyTorch raises it in a signal handler, wherever the main process stands.
#[test]
fn a_killed_worker_died_in_the_dataloader_wherever_the_program_stood() {
    let log = "  5%|5         | 483/9632 [13:31<4:28:11,  1.76s/it]\nTraceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    \
        loss.backward()\n  File \"/env/lib/python3.9/site-packages/torch/utils/data/_utils/signal_handling.py\", line 66, in handler\n    \
        _error_if_any_worker_fails()\nRuntimeError: DataLoader worker (pid 4161) is killed by signal: Killed. \n";
    let told = fixed("#SBATCH --mem=32G\npython train.py", log, &[]);
    told.says(&[
        "host memory ran out in dataloader",
        "483 steps went well before",
        "do the workers copy what they read",
    ]);
}

#[test]
fn data_that_are_put_together_on_the_gpu_are_no_step_of_training() {
    let settings =
        "class Settings:\n    def __init__(self):\n        self.data_device = \"cuda\"\n";
    let main = program("").replace(
        "import torch\n",
        "import torch\nfrom settings import Settings\n",
    );
    let log = format!(
        "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    data = Views(settings)\n  File \
         \"/home/u/x/scene/cameras.py\", line 46, in __init__\n    self.image = image.to(self.data_device)\n{OOM}"
    );
    let files = [("train.py", &*main), ("settings.py", settings)];
    let told = fixed("python train.py", &log, &files);
    told.says(&[
        "in preparation",
        "`data_device = \"cuda\"` in settings.py:3 puts the data on the GPU",
    ]);
    for wrong in ["a lower `batch_size", "micro batches"] {
        assert!(!told.out.contains(wrong), "{wrong}: {}", told.told());
    }
}

/// A place that no step is known to have come to is not blamed.
#[test]
fn a_list_in_another_file_is_blamed_only_where_steps_were_counted_and_the_failure_came_through_it()
{
    let scores = "def scores(net, loader):\n    net.eval()\n    outs = []\n    for x in loader:\n        outs.append(net(x))\n    return outs\n";
    let main = program("").replace(
        "import torch\n",
        "import torch\nfrom scores import scores\n",
    );
    let files = [("train.py", &*main), ("scores.py", scores)];
    let failed = log(9, "loss = criterion(net(x), y)");
    let told = fixed("python train.py", &failed, &files);
    assert!(!told.out.contains("scores.py"), "{}", told.told());
    let counted = format!("Epoch 1 | Step 100 | loss 2.1\nEpoch 1 | Step 200 | loss 1.9\n{failed}");
    let told = fixed("python train.py", &counted, &files);
    assert!(!told.out.contains("scores.py"), "{}", told.told());
    // Nor in a file that the traceback does not come through.
    let head = "Traceback (most recent call last):\n";
    let frame = "  File \"scores.py\", line 5, in scores\n    outs.append(net(x))\n";
    let within = counted.replace(head, &format!("{head}{frame}"));
    fixed("python train.py", &within, &files).says(&["scores.py:5"]);
}

/// What a label says is counted are images, not steps.
#[test]
fn a_bar_of_cached_images_counts_no_steps() {
    let killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=48121.batch. Some of the step tasks have been OOM Killed.\n";
    let script = "#SBATCH --mem=32G\npython train.py --batch-size 16";
    let bar = |label: &str| {
        format!("{label}:  90%|#### | 26503/29451 [03:41<00:24, 119.61it/s]\n{killed}")
    };
    let cached = fixed(script, &bar("train: Caching images (29.8GB)"), &[]);
    assert!(!cached.out.contains("2650"), "{}", cached.told());
    for label in ["train", "Training", "Epoch 3 loss 0.31"] {
        fixed(script, &bar(label), &[]).says(&["26503 steps went well before"]);
    }
}
