//! A program on phantom GPUs. PyTorch itself is run by tests/phantom/run; here a few lines of Python ask CUDA's library, and a
//! made-up `torch` stands for what cannot be measured.

use serde_json::Value;

use super::place::Place;

/// What a program without PyTorch sees: the card, its memory, and that it is full.
const ASKS: &str = "
import ctypes, sys
cuda = ctypes.CDLL(None)
free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
print('total', total.value, file=sys.stderr)
print('small', cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 30)), file=sys.stderr)
print('large', cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 40)), file=sys.stderr)
cuda.cufftCreate()
import socket, os
print('tmp', os.environ['TMPDIR'], file=sys.stderr)
";

#[test]
fn a_program_sees_a_card_that_is_not_there_and_what_it_lacks_is_named() {
    let place = Place::bare();
    place.write("asks.py", ASKS);
    let done = place
        .call("measure --json --gpu-type a100-40gb -- python3 asks.py")
        .ends(1);
    let total = (39.39 * f64::from(1 << 30)) as u64;
    assert!(
        done.err.contains(&format!("total {total}")),
        "{}",
        done.told()
    );
    assert!(done.err.contains("small 0\nlarge 2\n"), "{}", done.told());
    let view: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(view["source"], "phantom");
    assert_eq!(view["outcome"], "unmeasured");
    assert_eq!(view["unknown_calls"], serde_json::json!(["cufftCreate"]));
    let reason = view["reason"].as_str().unwrap();
    assert!(reason.contains("PyTorch was never imported"), "{reason}");
    let folder = done.err.split("tmp ").nth(1).unwrap().trim();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
}

#[test]
fn what_cannot_be_measured_is_said_in_a_sentence() {
    let place = Place::bare();
    place.write(
        "torch/__init__.py",
        "__version__ = '2.9.1+cpu'\nfrom . import version\n",
    );
    place.write("torch/version.py", "cuda = None\n");
    place.write("cpu.py", "import torch\n");
    place.write("slow.py", "import torch, time\ntime.sleep(600)\n");
    place
        .run(&["measure", "--", "python3", "cpu.py"])
        .ends(1)
        .says(&["not measured: PyTorch 2.9.1+cpu is built for the CPU"]);
    place
        .run(&["measure", "--time-limit", "1s", "--", "python3", "slow.py"])
        .ends(21);
    place
        .run(&["measure", "--", "no-such-program"])
        .ends(127)
        .says(&["there is no program no-such-program"]);
    place
        .run(&["measure", "--gpu-type", "a100", "--", "true"])
        .ends(2)
        .says(&["GPU type a100 has 79.15GiB or 39.39GiB", "--gpu-memory"]);
    place
        .run(&["measure", "--gpu-type", "abacus", "--", "true"])
        .ends(2)
        .says(&["GPU type abacus"]);
}
