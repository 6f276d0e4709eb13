//! Models that return their loss, and losses that are classes of one's own.

use super::*;

/// A program whose model has these lines in its `forward(self, x, y)`, and what makes its loss of it.
fn returned(forward: &str, loss: &str) -> String {
    let forward = forward.replace('\n', "\n    ");
    format!(
        "p.add_argument('--batch-size', type=int)\np.add_argument('--accum', type=int)\nargs = p.parse_args()\n\
         class Net(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.head = nn.Linear(8, 4)\n  \
         def forward(self, x, y):\n    out = self.head(x)\n    {forward}\n    return loss\n\
         model = Net().cuda()\nloader = DataLoader(data, batch_size=args.batch_size, drop_last=True)\n\
         opt = torch.optim.AdamW(model.parameters(), lr=args.lr)\nfor i, (x, y) in enumerate(loader):\n  {loss}\n  \
         (loss / args.accum).backward()\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
    )
}

const CALLED: &str = "loss = model(x, y)";

#[test]
fn an_item_of_the_data_is_no_number_of_a_loss() {
    let text = |loss: &str| {
        why(&format!(
            "{HEAD}for i, (user, item, y) in enumerate(loader):\n  {loss}\n  loss.backward()\n  \
             if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
        ))
    };
    assert_eq!(
        text("loss = F.mse_loss(model(user, item), y) / args.accum"),
        None
    );
    assert_eq!(
        text("loss = F.mse_loss(model(user, item), y)"),
        Some(UNDIVIDED)
    );
}

#[test]
fn a_model_that_returns_the_mean_over_its_samples_is_understood() {
    for forward in [
        "loss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out, y, ignore_index=-1)",
        "out = out.view(-1, 4)\nloss = F.cross_entropy(out[:, -1], y)",
        "each = F.mse_loss(out, y, reduction='none')\nloss = each.mean()",
        "pooled = (out * m).sum(1) / m.sum(1)\nloss = F.mse_loss(pooled, y)",
    ] {
        assert_eq!(why(&returned(forward, CALLED)), None, "{forward}");
    }
}

#[test]
fn a_mean_over_what_counts_inside_a_class_is_a_doubt() {
    for forward in [
        "keep = y > 0\nloss = F.cross_entropy(out[keep], y[keep])",
        "keep = y > 0\nout, y = out[keep], y[keep]\nloss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out, y, ignore_index=0)",
        "crit = nn.CrossEntropyLoss(ignore_index=self.ignore)\nloss = crit(out, y)",
        "each = F.cross_entropy(out, y, reduction='none')\nm = (y > 0).float()\nloss = (each * m).sum() / m.sum()",
        "each = F.cross_entropy(out, y, reduction='none')\nloss = each[y > 0].mean()",
        "loss = F.cross_entropy(out, y, weight=self.classes)",
        "y = y.masked_fill(y == 0, -1)\nloss = F.cross_entropy(out, y, ignore_index=-1)",
        "y[y == 0] = -1\nloss = F.cross_entropy(out, y, ignore_index=-1)",
    ] {
        for loss in [
            CALLED,
            "loss = model(x, y)[0]",
            "loss = model(x, labels=y)['loss']",
        ] {
            assert_eq!(why(&returned(forward, loss)), Some(WEIGHED), "{forward}");
        }
    }
}

#[test]
fn a_method_of_a_lightning_module_is_read_as_a_forward() {
    let module = |clean: &str| {
        why(&format!(
            "{HEAD}class Net(L.LightningModule):\n  def __init__(self):\n    self.head = nn.Linear(8, 4)\n  \
             def clean(self, s):\n    return {clean}\n  def forward(self, s):\n    return self.head(self.clean(s))\n  \
             def training_step(self, batch, i):\n    x, y = batch\n    loss = F.cross_entropy(self(x), y)\n    return loss\n\
             L.Trainer(accumulate_grad_batches=args.accum).fit(Net(), loader)\n"
        ))
    };
    assert_eq!(module("torch.log(s + 1)"), None);
    assert_eq!(module("(s - s.mean()) / s.std()"), Some(MIXED));
    assert_eq!(module("s - s.mean(0)"), Some(MIXED));
}
