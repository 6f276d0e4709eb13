//! Rungs that the program or its environment cannot take: they are passed over, or taken back. The trainer here is a stand-in that
//! prints what transformers prints.

use super::place::{Place, at_once};
use oomctl_base::word_list;

const TRAINER: &str = r#"import sys
args = sys.argv[1:]
given = lambda name: args[args.index(name) + 1] if name in args else None
def died(*lines):
    print("Traceback (most recent call last):", *lines, sep="\n", file=sys.stderr)
    sys.exit(1)
if given("--use_liger_kernel") != "false":
    died('  File "/opt/env/transformers/trainer.py", line 1495, in train', "    apply_liger_kernel(self.model, self.args.liger_kernel_config)",
         BROKEN)
if given("--optim") == "adamw_torch":
    died('  File "/opt/env/transformers/trainer.py", line 3782, in compute_loss', "    outputs = model(**inputs)",
         '  File "/opt/env/transformers/models/qwen2/modeling_qwen2.py", line 840, in forward',
         "    logits = self.lm_head(hidden_states[:, slice_indices, :])",
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free.")
ALSO
"#;
const NO_LIGER: &str = "ImportError: You have set `use_liger_kernel` to `True` but liger-kernel >= 0.3.0 is not available.";
/// What transformers, argparse and HfArgumentParser print.
const REFUSALS: [&str; 3] = [
    NO_LIGER,
    "train.py: error: unrecognized arguments: --use_liger_kernel true",
    "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--use_liger_kernel', 'true']",
];
const OPTIONS: &str = "--model_name_or_path m --per_device_train_batch_size 1 --block_size 1024 --gradient_accumulation_steps 8 \
    --gradient_checkpointing true --use_liger_kernel false --optim adamw_torch";

/// A job whose program dies of `broken` with fused kernels, and does `also` when it trains.
fn place(broken: &str, also: &str) -> Place {
    let place = Place::bare();
    let broken = format!("{broken:?}");
    let program = TRAINER.replace("BROKEN", &broken).replace("ALSO", also);
    place.write("train.py", &program);
    place.write(
        "job.sh",
        &format!("#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py {OPTIONS}\n"),
    );
    place
}

const SUBMIT: [&str; 8] = word_list("submit --watch --yes --backend local --run r job.sh");

#[test]
fn a_rung_that_the_program_refuses_is_taken_back() {
    at_once(&REFUSALS, |broken| is_taken_back(broken));
}

fn is_taken_back(broken: &str) {
    let place = place(broken, "");
    let done = place.run(&SUBMIT).ends(0);
    done.says(&[
        "withdraw   fused-loss: the program failed with it, back to the settings of attempt 1",
        "climb      eight-bit-adam",
        "r succeeded (3 attempts",
    ]);
    let third = place.read(".oomctl/runs/r/attempt-3/job.sh");
    assert!(third.contains("--use_liger_kernel false"), "{third}");
    assert!(third.contains("--optim paged_adamw_8bit"), "{third}");
    place
        .run("status r")
        .ends(0)
        .says(&["      without fused-loss\n      then eight-bit-adam"]);
    let run = place.json("status r --json");
    assert_eq!(
        run["runs"][0]["attempts"][1]["withdrawn"],
        serde_json::json!(["fused-loss"])
    );
}

/// What the program dies of without the rung as well was not the rung's doing.
#[test]
fn who_dies_of_the_same_again_is_not_tried_a_third_time() {
    let broken = "ValueError: use_liger_kernel and this model do not go together";
    let also = format!("died('  File \"train.py\", line 9, in <module>', {broken:?})");
    let place = place(broken, &also);
    let done = place.run(&SUBMIT).ends(1);
    done.says(&["withdraw   fused-loss", "r failed", "(3 attempts"]);
}

/// A failure that says nothing of what was changed ends the run, as one of the first attempt does.
#[test]
fn a_failure_of_something_else_ends_the_run() {
    let place = place("ZeroDivisionError: division by zero", "");
    let done = place.run(&SUBMIT).ends(1);
    done.says(&["r failed", "(2 attempts"]);
    assert!(!done.told().contains("withdraw"), "{}", done.told());
}

#[test]
fn a_rung_whose_package_is_not_installed_is_passed_over() {
    let place = place(NO_LIGER, "");
    let script = place.read("job.sh").replace("python3", "env/bin/python3");
    place.write("job.sh", &script);
    let site = "env/lib/python3.12/site-packages";
    place.write(&format!("{site}/torch/__init__.py"), "");
    place.write(
        "env/pyvenv.cfg",
        "home = /usr/bin\ninclude-system-site-packages = false\n",
    );
    let plan = || place.run(&["plan", "--all", "job.sh"]).ends(0).told();
    let told = plan();
    let lacks = "fused-loss: liger-kernel is not installed in ";
    assert!(told.contains(lacks), "{told}");
    // What is there needs no remark, and what cannot be told gets one.
    place.write(&format!("{site}/liger_kernel-0.6.2.dist-info/METADATA"), "");
    let told = plan();
    assert!(!told.contains(lacks), "{told}");
    assert!(!told.contains("needs the package liger-kernel"), "{told}");
    place.write(
        "env/pyvenv.cfg",
        "home = /usr/bin\ninclude-system-site-packages = true\n",
    );
    let told = plan();
    assert!(told.contains("needs the package liger-kernel"), "{told}");
}

/// Its message names the value, and no other rung brings the program to it.
#[test]
fn a_refused_value_is_not_tried_again_by_another_rung() {
    let place = Place::bare();
    let program = r#"import argparse, sys
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=16)
p.add_argument("--accum-steps", type=int, default=1)
p.add_argument("--seq-len", type=int, default=512)
a = p.parse_args()
assert a.batch_size % 32 == 0, "tensor cores"
def fit(batch_size, accum, seq_len):
    loader = DataLoader(Tokens(seq_len), batch_size=batch_size)
    for step, x in enumerate(loader):
        loss = model(x.cuda()).loss / accum
        loss.backward()
        if (step + 1) % accum == 0:
            optimizer.step()
if a.seq_len > 256:
    frame = '  File "train.py", line 12, in fit\n    loss.backward()'
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free."
    sys.exit(f"Traceback (most recent call last):\n{frame}\n{text}")
if False:
    fit(a.batch_size, a.accum_steps, a.seq_len)
"#;
    place.write("train.py", program);
    let job = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython3 train.py --batch-size 32 --accum-steps 2 --seq-len 512\n";
    place.write("job.sh", job);
    let done = place.run(&SUBMIT).ends(0);
    done.says(&["withdraw   halve-batch", "r succeeded (3 attempts"]);
    let third = place.read(".oomctl/runs/r/attempt-3/job.sh");
    assert!(
        third.contains("--batch-size 32 --accum-steps 2 --seq-len 256"),
        "{third}"
    );
}
