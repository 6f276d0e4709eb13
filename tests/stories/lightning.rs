//! Programs of Lightning's own command line, whose settings are the arguments of its trainer and of the data.

use super::place::Place;

const PROGRAM: &str = "import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.cli import LightningCLI
from torch.utils.data import DataLoader

class Data(L.LightningDataModule):
    def __init__(self, root='data', batch_size=64):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.hparams.batch_size)

class Net(L.LightningModule):
    def __init__(self, hidden=32, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(8, 3)

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)

if __name__ == '__main__':
    LightningCLI(Net, Data)
";

const SETTINGS: &str = "trainer:
  max_epochs: 2
  limit_train_batches: 8
  val_check_interval: 4
  accumulate_grad_batches: 1
data: {root: x, batch_size: 32}
";

fn place(settings: &str) -> Place {
    let place = Place::bare();
    place.write("main.py", PROGRAM);
    place.write("base.yaml", settings);
    place.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH --gpus=1\nsrun python main.py fit --config base.yaml \"$@\"\n",
    );
    place
}

/// What counts batches of the loader follows the batch, so that an epoch has as many samples and steps as before.
#[test]
fn a_file_of_its_command_line_is_changed_and_what_counts_batches_goes_along() {
    let of_file = place(SETTINGS).run("plan --all job.sh").ends(0);
    of_file.says(&[
        "-  limit_train_batches: 8\n-  val_check_interval: 4\n-  accumulate_grad_batches: 1\n-data: {root: x, batch_size: 32}\n",
        "+  limit_train_batches: 16\n+  val_check_interval: 8\n+  accumulate_grad_batches: 2\n+data: {root: x, batch_size: 16}\n",
    ]);
    let short = place(SETTINGS).run("plan job.sh").ends(0);
    short.says(&[
        "batch_size 32 -> 1",
        "limit_train_batches 8 -> 256",
        "unknown",
    ]);
    let by_word = place(SETTINGS).run(&[
        "plan",
        "--all",
        "job.sh",
        "--trainer.limit_train_batches=12",
    ]);
    by_word.ends(0).says(&["--trainer.limit_train_batches=24"]);
}

/// The usual layout: the data and the network are modules beside the program.
#[test]
fn data_and_network_may_be_modules_beside_the_program() {
    let place = place(SETTINGS);
    let (head, classes) = PROGRAM.split_once("class Data").unwrap();
    let (classes, _) = classes.split_once("if __name__").unwrap();
    place.write("parts.py", &format!("{head}class Data{classes}"));
    let main = "from lightning.pytorch.cli import LightningCLI\nfrom parts import Data, Net\nLightningCLI(Net, Data)\n";
    place.write("main.py", main);
    let short = place.run("plan job.sh").ends(0);
    short.says(&["batch_size 32 -> 1", "accumulate_grad_batches 1 -> 32"]);
}

/// A fraction is one of the epoch, which has more batches then.
#[test]
fn a_fraction_of_an_epoch_stays() {
    let settings = SETTINGS
        .replace("batches: 8", "batches: 0.5")
        .replace(": 4", ": 0.25");
    let plan = place(&settings).run("plan --all job.sh").ends(0);
    plan.says(&["+  accumulate_grad_batches: 2"]);
    for stays in ["+  limit_train_batches", "+  val_check_interval"] {
        assert!(!plan.told().contains(stays), "{}", plan.told());
    }
}

/// Where `rich` is installed, Lightning draws its bar so.
#[test]
fn the_bar_that_rich_draws_shows_the_steps() {
    let place = Place::bare();
    let bar = "Epoch 1/1  ━━━━━━━━━━━━━━━━━━━━ 6/6 0:00:00 • 0:00:00 100.50it/s v_num: 0.000";
    place.write("train.py", &format!("print('{bar}')\n"));
    let script = "#!/bin/bash\npython3 train.py --batch_size 4\n";
    place.write("job.sh", script);
    let words = ["submit", "--yes", "--watch", "--backend", "local", "job.sh"];
    let done = place.run(&words).ends(0);
    done.says(&["succeeded", "step 6"]);
    assert!(!done.told().contains("finds no step"), "{}", done.told());
}
