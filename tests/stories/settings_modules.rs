//! Values in a module of settings that a program imports: `from config import cfg`.

use super::own_programs::{fixed, job};

const LOOP: &str = "\
for rows in DataLoader(data, batch_size=cfg.batch_size):
    loss(rows).backward()
";

/// However the module keeps its settings, its value is the one that changes.
#[test]
fn a_constant_of_an_imported_module_is_a_knob() {
    let cases = [
        ("import config as cfg", "config.py", "batch_size = 32"),
        (
            "from config import cfg",
            "config.py",
            "class cfg:\n    batch_size = 32",
        ),
        (
            "from options import Options\ncfg = Options()",
            "options.py",
            "class Options:\n    def __init__(self):\n        self.batch_size = 32",
        ),
        (
            "from lib.config import cfg",
            "lib/config.py",
            "cfg = EasyDict()\ncfg.batch_size = 32",
        ),
    ];
    for (import, path, text) in cases {
        let program = format!("import torch\n{import}\n{LOOP}");
        let said = fixed("python train.py", &[("train.py", &program), (path, text)]);
        said.says(&["batch_size  32 -> 16", &format!("--- a/{path}")]);
    }
    let program = "from constants import *\nfor rows in DataLoader(data, batch_size=BATCH_SIZE):\n    loss(rows).backward()\n";
    let constants = ("constants.py", "BATCH_SIZE = 8 * 4\n");
    let said = fixed("python train.py", &[("train.py", program), constants]);
    said.says(&["-BATCH_SIZE = 8 * 4\n+BATCH_SIZE = 16\n"]);
    // What fills a framework's class may stand there, too.
    let program = "from trl import SFTConfig, SFTTrainer\nfrom config import cfg\na = SFTConfig(output_dir='o', per_device_train_batch_size=cfg.TRAIN.BATCH)\nSFTTrainer(model='m', args=a).train()\n";
    let config = ("config.py", "cfg.TRAIN.BATCH = 8\n");
    let said = fixed("python train.py", &[("train.py", program), config]);
    said.says(&["-cfg.TRAIN.BATCH = 8\n+cfg.TRAIN.BATCH = 4\n"]);
}

/// What may give it another value leaves it unknown.
#[test]
fn a_module_that_something_else_may_fill_says_nothing() {
    for more in [
        "cfg.merge_from_file(args.cfg)",
        "cfg.update(vars(args))",
        "cfg.batch_size = args.b",
        "from other import *",
    ] {
        let program = format!("import torch\nfrom config import cfg\n{more}\n{LOOP}");
        let config = ("config.py", "cfg.batch_size = 32\n");
        let said = fixed("python train.py", &[("train.py", &program), config]);
        assert!(!said.out.contains("32 -> 16"), "{more}: {}", said.out);
    }
    // A program that cannot be copied keeps it.
    let program = format!("import torch\nfrom config import cfg\nmp.spawn(f)\n{LOOP}");
    let config = ("config.py", "cfg.batch_size = 32\n");
    let said = fixed("python train.py", &[("train.py", &program), config]);
    assert!(!said.out.contains("32 -> 16"), "{}", said.out);
}

/// The copy of the program imports the copy of the module, which finds its files where the original lies; each attempt runs what
/// the plan shows.
#[test]
fn the_copy_of_a_module_is_imported_in_its_place() {
    let program = "\
import torch
from lib.config import cfg
from lib import config
import lib.config as other
for rows in DataLoader([], batch_size=cfg.batch_size):
    loss(rows).backward()
";
    let config = "\
import os
from .base import Settings
cfg = Settings()
cfg.batch_size = 32
cfg.root = os.path.dirname(__file__)
";
    let torch = "\
import builtins, sys
def load(rows, batch_size):
    from lib import config
    import lib.config as other
    print('ran', batch_size, config.cfg.root, config is other)
    if batch_size > 8:
        sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.12 GiB is free.')
    return rows
builtins.DataLoader = load
";
    let place = job(
        "python3 train.py",
        &[
            ("train.py", program),
            ("lib/__init__.py", ""),
            ("lib/base.py", "class Settings:\n    pass\n"),
            ("lib/config.py", config),
            ("torch.py", torch),
        ],
    );
    place
        .run("submit --backend local --watch --yes job.sh")
        .ends(0);
    let said = |attempt: u32| place.run(&format!("logs --attempt {attempt}"));
    let root = place.path("lib").canonicalize().unwrap();
    for (attempt, batch) in (1..).zip([32, 16, 8]) {
        said(attempt).says(&[&format!("ran {batch} {} True", root.display())]);
    }
}
