//! Settings of programs that a blind test showed: references between keys, Trainers of other packages, yacs, OpenMMLab, ml_collections.

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
