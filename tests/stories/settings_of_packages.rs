//! Settings of programs in the forms of other packages: references between keys, Trainers, yacs, OpenMMLab, ml_collections.

use super::own_programs::job;

/// A loop whose loader takes its batch of `cfg.loader.batch_size`.
fn looped(head: &str) -> String {
    format!(
        "import torch\nimport torch.nn.functional as F\nfrom omegaconf import OmegaConf\n{head}\
         \x20   model = torch.nn.Linear(8, 2).cuda()\n    opt = torch.optim.AdamW(model.parameters())\n    \
         loader = torch.utils.data.DataLoader(data, batch_size=cfg.loader.batch_size)\n    for x, y in loader:\n        \
         F.cross_entropy(model(x), y).backward()\n        opt.step()\n        opt.zero_grad()\nmain()\n"
    )
}

/// `${a.b}` is no computation: the key that it names is changed, by a word of Hydra or in the file.
#[test]
fn a_reference_between_settings_is_followed_to_the_key_that_it_names() {
    let composed = looped(
        "import hydra\n@hydra.main(version_base=None, config_path='conf', config_name='config')\ndef main(cfg):\n",
    );
    let plan = |settings: &str| {
        let files = [("train.py", &*composed), ("conf/config.yaml", settings)];
        let said = job("python train.py", &files).run("plan --all job.sh");
        said.ends(0).out
    };
    for (key, settings) in [
        (
            "gpu.images",
            "gpu:\n  images: 32\nloader:\n  batch_size: ${gpu.images}\n",
        ),
        (
            "batch_size",
            "batch_size: 32\nloader:\n  batch_size: ${batch_size}\n",
        ),
        (
            "loader.part",
            "loader:\n  part: 32\n  batch_size: ${.part}\n",
        ),
        (
            "gpu.images",
            "gpu:\n  images: 32\nloader:\n  batch_size: ${gpu.images}\nval_loader:\n  batch_size: ${gpu.images}\nrun_name: b${gpu.images}\n",
        ),
    ] {
        let said = plan(settings);
        assert!(
            said.contains(&format!("+python train.py {key}=16")),
            "{said}"
        );
    }
    // Something else would change with it.
    for other in [
        "lr: ${mul:${gpu.images},1e-5}",
        "warmup: ${gpu.images}",
        "all: ${gpu}",
    ] {
        let said = plan(&format!(
            "gpu:\n  images: 32\nloader:\n  batch_size: ${{gpu.images}}\n{other}\n"
        ));
        assert!(!said.contains("32 -> 16"), "{said}");
    }
    let loaded = looped("cfg = OmegaConf.load(__import__('sys').argv[1])\ndef main():\n");
    let files = [
        ("train.py", &*loaded),
        (
            "a.yaml",
            "steps: {part: 32}\nloader:\n  batch_size: ${steps.part}\n",
        ),
    ];
    let place = job("python train.py a.yaml", &files);
    place
        .run("plan --all job.sh")
        .ends(0)
        .says(&["-steps: {part: 32}", "+steps: {part: 16}"]);
}

/// A class of another package that is named like transformers' is one where a Trainer gets it; whose loss it is nobody here knows.
#[test]
fn a_trainer_of_another_package_is_a_trainer_whose_loss_is_unknown() {
    let plan = |head: &str, filled: &str, trained: &str| {
        let program = format!(
            "{head}\nargs = {filled}(output_dir='out', per_device_train_batch_size=64)\n{trained}.train()\n"
        );
        let files = [("train.py", &*program)];
        let said = job("python train.py", &files).run("plan --all job.sh");
        said.ends(0).out
    };
    let head = "from lab.train import LabTrainer, LabTrainingArguments";
    let told = plan(
        head,
        "LabTrainingArguments",
        "LabTrainer(model=m, args=args)",
    );
    assert!(told.contains("recognised as hf-trainer"), "{told}");
    assert!(told.contains("64 -> 32"), "{told}");
    assert!(
        told.contains("unknown: this Trainer is another package's"),
        "{told}"
    );
    let head = "from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments\n\
        from sentence_transformers.losses import MultipleNegativesRankingLoss\nloss = MultipleNegativesRankingLoss(m)";
    let name = "SentenceTransformerTrainingArguments";
    let told = plan(
        head,
        name,
        "SentenceTransformerTrainer(model=m, args=args, loss=loss)",
    );
    assert!(told.contains("recognised as hf-trainer"), "{told}");
    let halved = told.lines().filter(|line| line.contains("64 -> 32"));
    assert!(!halved.clone().any(|line| line.contains(" same")), "{told}");
    // A loop of one's own with such a class stays one.
    let own = "class LabTrainingArguments:\n    def __init__(self, **values):\n        self.__dict__.update(values)\nclass LabTrainer:\n    pass";
    let told = plan(
        own,
        "LabTrainingArguments",
        "LabTrainer(model=m, args=args)",
    );
    assert!(!told.contains("recognised as hf-trainer"), "{told}");
}

/// A loop whose batch and workers come from `cfg`.
fn with_settings(head: &str, batch: &str, workers: &str) -> String {
    format!(
        "import argparse, torch\nimport torch.nn.functional as F\n{head}\n\
         model = torch.nn.Linear(8, 2).cuda()\nopt = torch.optim.AdamW(model.parameters())\n\
         loader = torch.utils.data.DataLoader(data, batch_size={batch}, num_workers={workers})\n\
         for x, y in loader:\n    F.cross_entropy(model(x), y).backward()\n    opt.step()\n    opt.zero_grad()\n"
    )
}

/// Defaults of yacs stand in code or in a YAML file; words behind the command override them.
#[test]
fn a_default_of_yacs_is_overridden_by_words() {
    let defaults = "from yacs.config import CfgNode as CN\n_C = CN()\n_C.DATA = CN()\n_C.DATA.BATCH_SIZE = 64\n\
        _C.DATA.IMAGE = 224\n_C.TEST = CN()\n_C.TEST.BATCH_SIZE = 8\n_C.DATALOADER = CN()\n_C.DATALOADER.NUM_WORKERS = 4\n";
    let plan = |option: &str, line: &str| {
        let head = format!(
            "from lab.config import cfg\np = argparse.ArgumentParser()\np.add_argument('--cfg')\np.add_argument({option})\n\
             args = p.parse_args()\ncfg.merge_from_file(args.cfg)\ncfg.merge_from_list(args.opts)"
        );
        let program = with_settings(&head, "cfg.DATA.BATCH_SIZE", "cfg.DATALOADER.NUM_WORKERS");
        let files = [
            ("train.py", &*program),
            ("lab/config/defaults.py", defaults),
            (
                "lab/config/__init__.py",
                "from .defaults import _C as cfg\n",
            ),
            ("lab/__init__.py", ""),
            ("small.yaml", "DATA:\n  BATCH_SIZE: 32\n"),
            ("other.yaml", "DATA:\n  IMAGE: 384\n"),
        ];
        job(line, &files).run("plan --all job.sh").ends(0).out
    };
    let rest = "'opts', nargs=argparse.REMAINDER";
    let told = plan(rest, "python train.py --cfg other.yaml");
    assert!(
        told.contains("+python train.py --cfg other.yaml DATA.BATCH_SIZE 32"),
        "{told}"
    );
    let workers =
        |line: &str| line.contains("num_workers") && line.contains("lab/config/defaults.py:9");
    assert!(told.lines().any(workers), "{told}");
    let told = plan(rest, "python train.py --cfg small.yaml OUT a");
    assert!(
        told.contains("+python train.py --cfg small.yaml OUT a DATA.BATCH_SIZE 16"),
        "{told}"
    );
    let named = "'--opts', nargs='+'";
    let told = plan(named, "python train.py --cfg other.yaml");
    assert!(
        told.contains("+python train.py --cfg other.yaml --opts DATA.BATCH_SIZE 32"),
        "{told}"
    );
    let told = plan(
        named,
        "python train.py --cfg other.yaml --opts DATA.IMAGE 128",
    );
    assert!(
        told.contains("--opts DATA.IMAGE 128 DATA.BATCH_SIZE 32"),
        "{told}"
    );
}

/// Settings of OpenMMLab are dictionaries of a file of Python, built on others.
#[test]
fn a_setting_of_open_mmlab_is_overridden_by_its_option() {
    let head = "from mmengine.config import Config\np = argparse.ArgumentParser()\np.add_argument('config')\n\
        p.add_argument('--cfg-options', nargs='+')\np.add_argument('--work-dir')\nargs = p.parse_args()\n\
        cfg = Config.fromfile(args.config)\ncfg.merge_from_dict(args.cfg_options)";
    let program = with_settings(head, "cfg.data.samples_per_gpu", "cfg.data.workers_per_gpu");
    let plan = |config: &str, line: &str| {
        let base = "data = dict(samples_per_gpu=8, workers_per_gpu=2, train=dict(type='A'))\nval_dataloader = dict(batch_size=4)\n";
        let files = [
            ("tools/train.py", &*program),
            ("configs/_base_/data.py", base),
            ("configs/own.py", config),
        ];
        job(line, &files).run("plan --all job.sh").ends(0).out
    };
    let built = "_base_ = ['./_base_/data.py']\nmodel = dict(type='B')\n";
    let line = "python tools/train.py configs/own.py";
    let told = plan(built, line);
    assert!(
        told.contains(&format!("+{line} --cfg-options data.samples_per_gpu=4")),
        "{told}"
    );
    let told = plan(&format!("{built}data = dict(samples_per_gpu=16)\n"), line);
    assert!(told.contains("data.samples_per_gpu=8"), "{told}");
    let new = "batch = 32\ntrain_dataloader = dict(batch_size=batch, num_workers=4)\n";
    let told = plan(new, &format!("{line} --work-dir out"));
    assert!(
        told.contains(&format!(
            "+{line} --work-dir out --cfg-options train_dataloader.batch_size=16"
        )),
        "{told}"
    );
    let told = plan(new, &format!("{line} --cfg-options a=1"));
    assert!(
        told.contains("--cfg-options a=1 train_dataloader.batch_size=16"),
        "{told}"
    );
    // A second option of that name would take the place of the first.
    let told = plan(new, &format!("{line} --cfg-options a=1 --work-dir out"));
    assert!(!told.contains("+python"), "{told}");
    // Nobody knows what takes the place of a dictionary's entries.
    let told = plan(
        &format!("{built}data = dict(_delete_=True, train=1)\n"),
        line,
    );
    assert!(!told.contains("samples_per_gpu"), "{told}");
}

/// Settings of ml_collections are made by a function, which the word names behind the file.
#[test]
fn a_setting_of_ml_collections_is_overridden_by_its_flag() {
    let head = "from absl import flags\nfrom ml_collections import config_flags\n\
        config_flags.DEFINE_config_file('config', 'config/base.py', 'Settings.')\nconfig = flags.FLAGS.config";
    let program = with_settings(head, "config.train.batch_size", "2");
    let base = "import ml_collections\ndef get_config():\n    config = ml_collections.ConfigDict()\n    config.seed = 1\n    \
        config.train = train = ml_collections.ConfigDict()\n    train.batch_size = 64\n    return config\n";
    let named = "import imp, os\nbase = imp.load_source('base', os.path.join(os.path.dirname(__file__), 'base.py'))\n\
        def common():\n    config = base.get_config()\n    config.lr = 1e-4\n    return config\n\
        def small():\n    config = common()\n    config.sample.size = 8\n    config.train.batch_size = config.sample.size\n    return config\n\
        def plain():\n    return common()\n\
        def wide():\n    config = common()\n    if config.seed:\n        config.train.batch_size = 128\n    return config\n\
        def get_config(name):\n    return globals()[name]()\n";
    let plan = |words: &str| {
        let files = [
            ("train.py", &*program),
            ("config/base.py", base),
            ("config/lab.py", named),
        ];
        let line = format!("python train.py{words}");
        job(&line, &files).run("plan --all job.sh").ends(0).out
    };
    for (words, batch) in [
        ("", 32),
        (" --config config/base.py", 32),
        (" --config=config/lab.py:small", 4),
    ] {
        let told = plan(words);
        let line = format!("+python train.py{words} --config.train.batch_size={batch}");
        assert!(told.contains(&line), "{told}");
    }
    let told = plan(" --config=config/lab.py:wide");
    assert!(!told.contains("--config.train.batch_size="), "{told}");
}
