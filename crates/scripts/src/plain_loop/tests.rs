use super::super::listed_options::declared_by;
use super::super::python::tokens;
use super::batches::OTHER;
use super::uses::{DECIDES, DRAWN, UNREAD};
use super::*;

mod accumulated;
mod curves;
mod each;
mod lengths;
mod masked;
mod meets;
mod sliced;
mod steps;
mod windows;

const HEAD: &str = "p.add_argument('--batch-size', type=int)\np.add_argument('--accum', type=int)\nargs = p.parse_args()\n\
                    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, batch_first=True), 12).cuda()\n\
                    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)\n\
                    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)\n";
const LOSS: &str = "loss = F.cross_entropy(model(x), y)";

/// Why the first doubt of a sort is raised, whatever the options of the program are.
fn beside(sort: &str, text: &str) -> Option<&'static str> {
    let all = tokens(text);
    let mut doubts = doubts_beside(&[&all]).into_iter();
    let (_, found) = doubts.find(|(is, _)| *is == sort)?;
    found.map(told)
}

fn why(text: &str) -> Option<&'static str> {
    let all = tokens(text);
    doubt(&[&all], &declared_by(&[&all])).map(told)
}

fn told((why, ..): ProgramDoubt) -> &'static str {
    match why {
        Cow::Borrowed(why) => why,
        Cow::Owned(why) => panic!("{why}"),
    }
}

/// A loop with code before it, in each micro batch before the backward pass, and in each step.
fn looped(before: &str, body: &str, step: &str) -> Option<&'static str> {
    let (body, step) = (body.replace('\n', "\n    "), step.replace('\n', "\n      "));
    why(&format!(
        "{HEAD}{before}\nfor epoch in range(args.epochs):\n  for i, (x, y) in enumerate(loader):\n    x, y = x.cuda(), y.cuda()\n    {body}\n    \
         (loss / args.accum).backward()\n    if (i + 1) % args.accum == 0:\n      opt.step()\n      opt.zero_grad()\n      {step}\n    \
         print(f'step {{i}} loss {{loss.item():.3f}}', flush=True)\n"
    ))
}

#[test]
fn a_plain_loop_is_understood() {
    for (before, body, step) in [
        ("", LOSS, "pass"),
        (
            "crit = nn.MSELoss()",
            "loss = crit(model(x), y)",
            "sched.step()",
        ),
        (
            "def f(a, b):\n  return F.mse_loss(a, b)",
            "loss = f(model(x), y)",
            "ema.update(model)",
        ),
        (
            "total = len(loader) * args.epochs // args.accum",
            LOSS,
            "sched.step()",
        ),
        (
            "print(len(loader) * args.epochs, args.batch_size * 4)",
            LOSS,
            "pass",
        ),
        (
            "per_step = args.batch_size * args.accum * world",
            LOSS,
            "pass",
        ),
        (
            "",
            "with torch.autocast('cuda'):\n  loss = F.cross_entropy(model(x), y)",
            "pass",
        ),
        (
            "",
            "each = F.mse_loss(model(x), y, reduction='none')\nloss = (each.sum(-1).sum() / each.shape[0])\nloss *= 2\nx = x + 1",
            "pass",
        ),
        (
            "it = iter(loader)\nbatches = BatchSampler(s, args.batch_size, True)\nothers = DataLoader(d, batch_sampler=batches)",
            "try:\n  z = next(it)\nexcept StopIteration:\n  it = iter(loader)\n  z = next(it)\nloss = F.cross_entropy(model(z), y)",
            "pass",
        ),
        (
            "",
            "t = torch.randint(0, 9, (args.batch_size,)).cuda()\nloss = F.mse_loss(model(x + t), y)",
            "pass",
        ),
        (
            "",
            "loss = F.cross_entropy(model(x), y)\nmeter.update(loss.item())\nbar.update(1)",
            "pass",
        ),
        (
            "",
            "loss = F.cross_entropy(model(x), y)\nacc = accuracy(x, y, topk=(1, 5))",
            "pass",
        ),
        (
            "acc = torchmetrics.Accuracy(task='multiclass')",
            "loss = F.cross_entropy(model(x), y)\nacc.update(p, y)\nif i == 0:\n  plot_images(x, y)",
            "pass",
        ),
        (
            "",
            "more = {'a': x}\nmore.update({'b': y})\nloss = F.cross_entropy(model(x, more), y)",
            "pass",
        ),
        (
            "",
            "loss = F.cross_entropy(model(x), y)\nwith amp.scale_loss(loss, opt) as scaled_loss:\n  scaled_loss.backward()",
            "pass",
        ),
        (
            "",
            "if n <= 100:\n  lr = args.lr * n / 100\n  for g in opt.param_groups:\n    g['lr'] = lr\nloss = F.cross_entropy(model(x), y)",
            "n += 1",
        ),
        (
            "",
            "if args.resume and i < resume_step:\n  continue\nloss = F.cross_entropy(model(x), y)",
            "pass",
        ),
        (
            "f = functools.partial(embed, d=1)\ndef embed(a, d):\n  if a is None:\n    raise ValueError(told(a))\n  return a * d",
            "with torch.no_grad():\n  e = f(x)\nloss = F.cross_entropy(model(e), y)",
            "pass",
        ),
    ] {
        assert_eq!(looped(before, body, step), None, "{before} {body}");
    }
    let micro = "for step in range(args.steps):\n  for micro in range(args.accum):\n    x, y = get_batch()\n    loss = model(x, y).loss\n    \
                 (loss / args.accum).backward()\n  if step < 1000:\n    set_lr(opt, step)\n  opt.step()\n";
    let own = "def get_batch():\n  i = torch.randint(9, (n,))\n  return torch.stack([data[j] for j in i])\n";
    assert_eq!(why(&format!("{HEAD}{own}{micro}")), None);
}

#[test]
fn a_sampler_of_ones_own_makes_other_batches() {
    let own =
        "own = PKSampler(data, args.batch_size)\nothers = DataLoader(data, batch_sampler=own)";
    let found = looped(own, LOSS, "pass");
    assert_eq!(
        found,
        Some("what this sampler makes of the batch size was not read")
    );
}

const DOUBTFUL: &[(&str, &str, &str)] = &[
    (
        "import deepspeed",
        "loss = F.cross_entropy(model(x), y)\nclipper.step(parameters)",
        EACH,
    ),
    (
        "",
        "loss = strange(model(x), y)\nwith amp.scale_loss(loss, opt) as scaled:\n  scaled.backward()",
        CALL,
    ),
    (
        "",
        "lr = args.lr * i / 100\nfor g in opt.param_groups:\n  g['lr'] = lr\nloss = F.cross_entropy(model(x), y)",
        EACH,
    ),
    (
        "",
        "for g in opt.param_groups:\n  g['lr'] *= 0.99\nloss = F.cross_entropy(model(x), y)",
        EACH,
    ),
    (
        "",
        "n = n + 1\nfor g in opt.param_groups:\n  g['lr'] = args.lr / n\nloss = F.cross_entropy(model(x), y)",
        EACH,
    ),
    (
        "bank = Bank(99)",
        "z = model(x)\nbank.update(z)\nloss = F.cross_entropy(z, y)",
        EACH,
    ),
    (
        "",
        "if args.resume and i >= 5000:\n  break\nloss = F.cross_entropy(model(x), y)",
        COUNT,
    ),
    (
        "def mode(a):\n  return strange(a)",
        "loss = F.cross_entropy(mode(model(x)), y)",
        CALL,
    ),
    (
        "",
        "D(x).mean().backward()\noptd.step()\nloss = F.cross_entropy(model(x), y)",
        EACH,
    ),
    (
        "",
        "loss = F.cross_entropy(model(x), y)\nema.update_parameters(model)",
        EACH,
    ),
    (
        "",
        "adjust(opt, i)\nloss = F.cross_entropy(model(x), y)",
        EACH,
    ),
    (
        "",
        "opt.param_groups[0]['lr'] = rate(i)\nloss = F.cross_entropy(model(x), y)",
        EACH,
    ),
    (
        "",
        "if i >= 5000:\n  break\nloss = F.cross_entropy(model(x), y)",
        COUNT,
    ),
    (
        "",
        "n += 1\nif n < 1000:\n  w = n / 1000\nloss = F.cross_entropy(model(x), y)",
        COUNT,
    ),
    (
        "",
        "loss = F.cross_entropy(model(x), y - c)\nc.mul_(0.9).add_(x.mean())",
        KEPT,
    ),
    (
        "",
        "q, k = model(x), model(y)\nloss = F.cross_entropy(q, k)\nqueue[p:p + n] = k",
        KEPT,
    ),
    ("", "d = torch.cdist(e, e)\nloss = F.relu(d).mean()", CALL),
    (
        "",
        "each = F.cross_entropy(model(x), y)\nloss = each.topk(8).values.mean()",
        CALL,
    ),
    ("", "loss = F.cross_entropy(model(x + x.flip(0)), y)", MIXED),
    (
        "",
        "z = x @ y.T\nloss = F.cross_entropy(model(z), y)",
        MIXED,
    ),
    (
        "",
        "each = F.cross_entropy(model(x), y, reduction='none')\nloss = (each * mask).sum() / mask.sum()",
        WEIGHED,
    ),
    (
        "",
        "p = model(x).sigmoid()\nloss = 1 - 2 * (p * y).sum() / (p.sum() + y.sum())",
        WEIGHED,
    ),
    (
        "h = None",
        "out, h = model(x, h)\nloss = F.cross_entropy(out, y)",
        KEPT,
    ),
    (
        "h = start()",
        "h = h.detach()\nz = model(x, h)\nloss = F.cross_entropy(z, y)",
        KEPT,
    ),
    (
        "seen = 0",
        "seen += model(x)\nloss = F.cross_entropy(seen, y)",
        KEPT,
    ),
    (
        "for q in model.parameters():\n  q.register_hook(lambda g: g / g.norm())",
        LOSS,
        "this hook changes the gradients of each micro batch",
    ),
    (
        "",
        "p = torch.randperm(9)\nloss = F.cross_entropy(model(x[p]), y)",
        CALL,
    ),
    (
        "model = timm.create_model('efficientnet_b0').cuda()",
        LOSS,
        MODEL,
    ),
    (
        "model = torch.hub.load('pytorch/vision', 'resnet50')",
        LOSS,
        MODEL,
    ),
    ("model = models.__dict__[args.arch]()", LOSS, MODEL),
    (
        "sched = OneCycleLR(opt, 1e-3, steps_per_epoch=len(loader))",
        LOSS,
        LENGTH,
    ),
    ("total = len(loader) * args.epochs", LOSS, LENGTH),
    (
        "dl = DataLoader(d, batch_size=8)\ntotal = len(dl) * args.epochs",
        LOSS,
        LENGTH,
    ),
    (
        "class N(nn.Module):\n  def forward(self, h):\n    return h - h.mean()",
        LOSS,
        MIXED,
    ),
    (
        "lr = args.lr * math.sqrt(args.batch_size / 64)",
        LOSS,
        BATCH,
    ),
    ("half = 0.5 ** (args.batch_size / 50000)", LOSS, BATCH),
    (
        "opt = AdamW(p, lr=t['lr'] * t['batch_size'] / 256)",
        LOSS,
        BATCH,
    ),
    ("b = args.batch_size\nsteps = n // b", LOSS, BATCH),
    (
        "class HardLoss(nn.Module):\n  def forward(self, a, b):\n    return a.topk(8).mean()\ncrit = HardLoss()",
        "loss = crit(model(x), y)",
        CALL,
    ),
];

#[test]
fn what_else_a_micro_batch_does_is_a_doubt() {
    for (before, body, expected) in DOUBTFUL {
        assert_eq!(
            looped(before, body, "pass"),
            Some(*expected),
            "{before} {body}"
        );
    }
}

#[test]
fn what_was_not_found_is_a_doubt() {
    assert_eq!(why("print(1)\n"), Some(NO_LOOP));
    assert_eq!(
        why(&format!(
            "{HEAD}for x in loader:\n  loss = model(x).mean()\n  loss.backward()\n  opt.step()\n"
        )),
        Some(NO_WAIT)
    );
    let lightning = "import lightning\nt = Trainer(accumulate_grad_batches=4)\nclass M(LightningModule):\n  def training_step(self, batch, i):\n    \
                     x, y = batch\n    return F.cross_entropy(self.net(x), y)\n  def __init__(self):\n    self.net = nn.Linear(1, 1)\n";
    assert_eq!(why(lightning), None);
    let by_file = lightning.replace("t = Trainer(accumulate_grad_batches=4)", "LightningCLI(M)");
    for trainer in [
        "t = Trainer(**cfg.trainer)",
        "t = instantiate(cfg.trainer, callbacks=c)",
    ] {
        let filled = lightning.replace("t = Trainer(accumulate_grad_batches=4)", trainer);
        assert_eq!(why(&filled), None, "{trainer}");
    }
    assert_eq!(why(&by_file), None);
    assert_eq!(
        why(&lightning.replace("F.cross_entropy(", "strange(")),
        Some(CALL)
    );
}

#[test]
fn a_text_that_ends_early_is_no_panic() {
    for text in [
        "",
        "(",
        "for x in y:\n loss.backward()",
        "loss.backward(",
        "m = (\n",
        "def training_step",
    ] {
        let _ = why(text);
    }
}

#[test]
fn what_counts_splits_or_forgets_micro_batches_is_a_doubt() {
    let of = |header: &str, body: &str, step: &str| {
        why(&format!(
            "{HEAD}step = 0\nfor epoch in range(9):\n  {header}\n    {body}\n    loss = F.cross_entropy(model(x), y) / args.accum\n    loss.backward()\n    \
             if (i + 1) % args.accum == 0:\n      opt.step()\n      {step}\n"
        ))
    };
    let (each, zero) = ("for i, (x, y) in enumerate(loader):", "opt.zero_grad()");
    assert_eq!(of(each, "pass", zero), None);
    assert_eq!(of(each, zero, "pass"), Some(EACH));
    let ends = "step += 1\n    if step == 6: raise SystemExit(0)";
    assert_eq!(of(each, ends, zero), Some(COUNT));
    let few = "for i, (x, y) in enumerate(islice(loader, 6)):";
    assert_eq!(of(few, "pass", zero), Some(COUNT));
    let annealed = "{HEAD}for i, (x, y) in enumerate(loader):\n  beta = min(1.0, i / 10000)\n  loss = (F.mse_loss(model(x), y) + beta * kl(x)) / args.accum\n  \
                    loss.backward()\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n";
    assert_eq!(why(&annealed.replace("{HEAD}", HEAD)), Some(COUNT));
    let mixed = |loss: &str| looped("", &format!("loss = {loss}"), "pass");
    assert_eq!(mixed("torch.sqrt(F.mse_loss(model(x), y))"), Some(CURVE));
    assert_eq!(
        mixed("F.mse_loss(model(x), y, reduction='none').max()"),
        Some(MIXED)
    );
    assert_eq!(mixed("F.mse_loss(model(x).exp(), torch.log(y))"), None);
    assert_eq!(mixed("F.mse_loss(model(x), y).clamp(max=9)"), Some(CURVE));
    let parts = "for i, (x, y) in enumerate(loader):\n  for a, b in zip(x.chunk(args.accum), y.chunk(args.accum)):\n    \
                 (F.cross_entropy(model(a), b) / args.accum).backward()\n  opt.step()\n  opt.zero_grad()\n";
    assert_eq!(why(&format!("{HEAD}{parts}")), Some(SPLIT));
}

#[test]
fn what_goes_by_the_number_of_micro_batches_is_a_doubt() {
    let of = |header: &str, guard: &str, step: &str| {
        why(&format!(
            "{HEAD}it = iter(loader)\n{header}\n  x, y = next(it)\n  loss = F.cross_entropy(model(x), y) / args.accum\n  loss.backward()\n  \
             if {guard}:\n    {step}\n    opt.step()\n    opt.zero_grad()\n"
        ))
    };
    let (each, guard) = (
        "for i, b in enumerate(loader):",
        "(i + 1) % args.accum == 0",
    );
    assert_eq!(of(each, guard, "pass"), None);
    assert_eq!(of("for i in range(len(loader)):", guard, "pass"), None);
    assert_eq!(of(each, "i % args.accum == args.accum - 1", "pass"), None);
    let later = "for i, b in enumerate(loader, 1):";
    assert_eq!(of(later, "i % args.accum == 0", "pass"), None);
    assert_eq!(
        of("for i in range(args.max_steps):", guard, "pass"),
        Some(COUNT)
    );
    assert_eq!(
        of("for i, b in zip(range(8), loader):", guard, "pass"),
        Some(COUNT)
    );
    assert_eq!(of(each, "i % args.accum == 0", "pass"), Some(COUNT));
    assert_eq!(of(each, "not i % args.accum", "pass"), Some(COUNT));
    assert_eq!(of(each, guard, "set_lr(opt, get_lr(i))"), Some(COUNT));
    let counted = "n = 0\nwhile n < args.steps:\n  n += 1";
    assert_eq!(of(counted, "n % args.accum == 0", "pass"), Some(COUNT));
    let loss = |body: &str| looped("", body, "pass");
    assert_eq!(
        loss("loss = F.cross_entropy(model(x), y)\nif loss.item() < 0.1:\n  break"),
        Some(DECIDES)
    );
    assert_eq!(
        loss(
            "loss = F.cross_entropy(model(x), y)\nif loss.item() * args.accum < 0.1:\n  raise SystemExit"
        ),
        Some(DECIDES)
    );
    for (no_mean, why) in [
        ("F.cross_entropy(model(x), y, weight=classes)", WEIGHED),
        (
            "F.cross_entropy(model(x), y, reduction=args.reduction)",
            MODEL,
        ),
        (
            "F.mse_loss(model(x), y, reduction='none')[mask].mean()",
            WEIGHED,
        ),
        ("F.mse_loss(model(x) / model(x).norm(), y)", MIXED),
        ("F.cross_entropy(model(x)[y > 0], y[y > 0])", WEIGHED),
        ("F.nll_loss(torch.log_softmax(model(x), 0), y)", MIXED),
        ("F.mse_loss(model(x - x.mean((0, 2))), y)", MIXED),
    ] {
        assert_eq!(loss(&format!("loss = {no_mean}")), Some(why), "{no_mean}");
    }
    for picked in [
        "keep = y != 0\nout, z = out[keep], y[keep]",
        "at = torch.where(y != 0)\nout, z = out[at], y[at]",
    ] {
        let body = format!("out = model(x)\n{picked}\nloss = F.cross_entropy(out, z)");
        assert_eq!(loss(&body), Some(WEIGHED), "{picked}");
    }
    for plain in [
        "out[:, -1]",
        "out[:, 0]",
        "out[0]",
        "parts[name]",
        "out[:, y > 0]",
        "out['a']",
    ] {
        let body = format!("out = model(x)\nloss = F.mse_loss({plain}, y)");
        assert_eq!(loss(&body), None, "{plain}");
    }
    let plain = "F.cross_entropy(model(x)[:, -1], y, reduction='mean', weight=None)";
    assert_eq!(loss(&format!("loss = {plain}")), None);
    let weighted = "crit = nn.CrossEntropyLoss(weight=classes)";
    assert_eq!(
        looped(weighted, "loss = crit(model(x), y)", "pass"),
        Some(WEIGHED)
    );
}

#[test]
fn what_else_than_its_loss_a_micro_batch_is_used_for_is_a_doubt() {
    for (before, body, why) in [
        ("", "model.head.requires_grad_(i >= 4)", COUNT),
        ("", "if i % 4 == 0:\n  scale = 2", COUNT),
        ("", "model.seen += 1\nx = x * model.seen", COUNT),
        ("", "if loss > 2 * last:\n  loss = loss * 0", DECIDES),
        ("", "if x.size(0) < 4:\n  continue", DECIDES),
        ("", "if random.random() < 0.5:\n  x = x.flip(-1)", DRAWN),
        ("", "lam = np.random.beta(a, a)", DRAWN),
        (
            "",
            "t = torch.rand(1)\nloss = F.mse_loss(model(x * t), y)",
            DRAWN,
        ),
        (
            "",
            "for p in model.parameters():\n  p.grad += noise(p)",
            EACH,
        ),
        ("loader = list(itertools.islice(loader, 8))", "pass", COUNT),
        (
            "it = cycle(loader)\nloader = [next(it) for _ in range(8)]",
            "pass",
            COUNT,
        ),
        (
            "others = DataLoader(b, batch_size=8)\nothers = iter(others)",
            "u = next(others)",
            OTHER,
        ),
        (
            "crit = nn.CrossEntropyLoss(ignore_index=0)",
            "loss = crit(model(x), y)",
            WEIGHED,
        ),
        ("net = getattr(nn, args.norm)(8)", "pass", MODEL),
        ("", "drop.observe(loss)", UNREAD),
        ("", "model.update_moving_average()", EACH),
        ("", "loss = loss * (loss.detach() / other.detach())", CURVE),
        (
            "",
            "kl = x.mean()\nloss = F.mse_loss(model(2 * (x - kl)), y)",
            MIXED,
        ),
        (
            "class Drop(nn.Module):\n  def forward(self, x):\n    return x if random.random() > 0.5 else self.f(x)",
            "pass",
            DRAWN,
        ),
        ("def pairs(e):\n  return torch.cdist(e, e)", "pass", MIXED),
        ("def iou(e):\n  return torch.bincount(e)", "pass", ""),
        (
            "trainer = Trainer(val_check_interval=2, callbacks=[EarlyStopping()])",
            "pass",
            COUNT,
        ),
    ] {
        let body = format!("{LOSS}\n{body}");
        let expected = Some(why).filter(|why| !why.is_empty());
        assert_eq!(looped(before, &body, "pass"), expected, "{before} {body}");
    }
    let padded = "def collate(b):\n  return pad(b, -100)";
    assert!(looped(padded, LOSS, "pass").is_some_and(|why| why.contains("padding")));
    for body in [
        "if i % 100 == 0:\n  print(f'{loss}')",
        "if i % args.eval_every == 0:\n  evaluate(model)",
        "mean = total / (i + 1)\nprint(mean)",
        "seen += x.shape[0]\nif seen >= args.samples:\n  break",
        "if torch.isnan(loss):\n  raise ValueError('nan')",
        "each = F.mse_loss(model(x), y, reduction='none')\nloss = each.sum() / len(x)",
        "x = torch.rand(x.shape)\nz = [random.choice(a) for a in x]",
    ] {
        let body = format!("{LOSS}\n{body}");
        assert_eq!(looped("", &body, "pass"), None, "{body}");
    }
}

/// Accelerate steps a scheduler that it prepared once an optimizer step.
#[test]
fn a_scheduler_that_accelerate_does_not_know_steps_with_each_micro_batch() {
    let of = |prepared: &str| {
        why(&format!(
            "{HEAD}acc = Accelerator(gradient_accumulation_steps=args.accum)\nsched = LambdaLR(opt, f)\n\
             model, opt, loader{prepared} = acc.prepare(model, opt, loader{prepared})\nfor x, y in loader:\n  with acc.accumulate(model):\n    \
             {LOSS}\n    acc.backward(loss)\n    opt.step()\n    sched.step()\n    opt.zero_grad()\n"
        ))
    };
    assert_eq!(of(", sched"), None);
    assert_eq!(of(""), Some(EACH));
}

/// A Trainer of transformers knows its own loss; another one is read.
#[test]
fn a_loss_of_ones_own_in_a_trainer_is_a_doubt_unless_it_is_a_mean_over_samples() {
    let of = |body: &str| {
        let text = format!(
            "class T(Trainer):\n  def compute_loss(self, model, inputs, return_outputs=False):\n    y = inputs.pop('labels')\n    \
             out = model(**inputs)\n    {body}\n    return (loss, out) if return_outputs else loss\n"
        );
        beside(TRAINER_DOUBT, &text)
    };
    assert_eq!(of("loss = F.cross_entropy(out.logits, y)"), None);
    assert_eq!(of("loss = super().compute_loss(model, inputs)"), None);
    assert_eq!(
        of("loss = F.cross_entropy(out.logits, y, reduction='sum')"),
        Some(SUMMED)
    );
    assert_eq!(
        of("loss = nn.CrossEntropyLoss(weight=w)(out.logits, y)"),
        Some(WEIGHED)
    );
}

/// Half the batch and twice the accumulation of a sum is no mean; Accelerate divides once by itself.
#[test]
fn a_loss_is_divided_by_the_accumulation_exactly_once() {
    let of = |head: &str, backward: &str| {
        why(&format!(
            "{HEAD}{head}for i, (x, y) in enumerate(loader):\n  {LOSS}\n  {backward}\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
        ))
    };
    assert_eq!(of("", "(loss / args.accum).backward()"), None);
    assert_eq!(of("", "loss /= args.accum\n  loss.backward()"), None);
    assert_eq!(of("", "loss.backward()"), Some(UNDIVIDED));
    let added = "loss = F.cross_entropy(model(x), y, reduction='sum')\n  loss.backward()";
    assert_eq!(of("", added), Some(SUMMED));
    assert_eq!(of("", "loss = model(x).sum()\n  loss.backward()"), None);
    let accelerate = "a = Accelerator(gradient_accumulation_steps=args.accum)\na.accumulate\n";
    assert_eq!(of(accelerate, "a.backward(loss)"), None);
    assert_eq!(
        of(accelerate, "a.backward(loss / args.accum)"),
        Some(DIVIDED)
    );
}

#[test]
fn what_a_program_does_beside_a_trainer_is_read() {
    let of = |text: &str| beside(TRAINER_DOUBT, text);
    let loss = "from transformers import GPT2LMHeadModel\nclass T(Trainer):\n  def compute_loss(self, model, inputs, **kwargs):\n    ";
    assert_eq!(
        of(&format!("{loss}return model(**inputs).loss\n")),
        Some(UNDIVIDED)
    );
    assert_eq!(
        of(&format!("{loss}return model(**inputs, **kwargs).loss\n")),
        None
    );
    let made = loss.replace("GPT2LMHeadModel", "ViTConfig, ViTForImageClassification");
    assert_eq!(
        of(&format!(
            "{made}return F.cross_entropy(model(**inputs).logits, inputs['labels'])\n"
        )),
        Some(UNDIVIDED)
    );
    let sum =
        "loss = F.cross_entropy(model(**inputs).logits, y, ignore_index=-100, reduction='sum')";
    let kwargs = loss.replace("**kwargs", "num_items_in_batch=None");
    let counted = |rest: &str| of(&format!("{kwargs}{sum}\n    return loss / {rest}\n"));
    assert_eq!(counted("num_items_in_batch"), None);
    assert!(counted("num_items_in_batch + aux.mean()").is_some());
    assert!(counted("num_items_in_batch - aux.sum() / 8").is_some());
    let weighed = of(&format!(
        "{kwargs}{sum} / num_items_in_batch\n    loss = loss * weight(y)\n    return loss\n"
    ));
    assert!(weighed.is_some());
    let added = of(&format!(
        "{kwargs}{sum} / num_items_in_batch\n    return torch.add(loss, aux)\n"
    ));
    assert!(added.is_some());
    assert!(counted("len(y)").is_some());
    let function = |body: &str| {
        of(&format!(
            "def f(outputs, labels, num_items_in_batch=None):\n  {body}\nT(model, compute_loss_func=f)\n"
        ))
    };
    let mean = "return F.cross_entropy(outputs.logits, labels)";
    assert_eq!(function(mean), Some(UNDIVIDED));
    let divided = "loss = F.cross_entropy(outputs.logits, labels, reduction='sum')\n  return loss / num_items_in_batch";
    assert_eq!(function(divided), None);
    assert_eq!(function(&format!("{divided} + z.mean()")), Some(UNDIVIDED));
    assert_eq!(
        of("class C(TrainerCallback):\n  def on_substep_end(self, args):\n    self.seen += 1\n"),
        Some(EACH)
    );
    let computed =
        "steps = rows // args.batch_size\nt = TrainingArguments('out', max_steps=steps)\n";
    assert_eq!(of(computed), Some(BATCH));
    assert_eq!(
        of("t = TrainingArguments('out', max_steps=args.max_steps)\n"),
        None
    );
}

#[test]
fn a_model_of_an_unknown_package_in_a_trainer_is_a_doubt() {
    let of = |import: &str, model: &str| {
        let text =
            format!("{import}\nnet = {model}\nT = Trainer(model=net, args=args)\nT.train()\n");
        beside(TRAINER_DOUBT, &text)
    };
    let foreign = of("import some_vision as sv", "sv.Net(backbone)");
    assert_eq!(foreign, Some(MODEL));
    assert_eq!(of("from lab.nets import Net", "Net(8)"), Some(MODEL));
    let load = "AutoModelForCausalLM.from_pretrained(path)";
    assert_eq!(
        of("from transformers import AutoModelForCausalLM", load),
        None
    );
    assert_eq!(
        of(
            "from peft import get_peft_model",
            "get_peft_model(base, config)"
        ),
        None
    );
    let own = "class Net(nn.Module):\n  def forward(self, x):\n    return self.layer(x)";
    assert_eq!(of(own, "Net(8)"), None);
}

/// Each argument is judged by itself: the accumulation and the interval of a log beside it excuse nothing.
#[test]
fn an_argument_of_the_trainer_that_is_computed_from_the_batch_is_a_doubt() {
    let of = |argument: &str| {
        let text = format!(
            "t = TrainingArguments('out', per_device_train_batch_size=a.batch_size, logging_steps=a.log_steps,\n    \
             gradient_accumulation_steps=a.accum, {argument})\nprint(a.batch_size * 2, end='')\n"
        );
        beside(TRAINER_DOUBT, &text)
    };
    for argument in [
        "learning_rate=a.lr * a.batch_size / 8",
        "max_steps=len(data) // a.batch_size",
        "warmup_steps=1000 // a.batch_size",
    ] {
        assert_eq!(of(argument), Some(BATCH), "{argument}");
    }
    for argument in [
        "learning_rate=a.lr",
        "per_device_eval_batch_size=a.batch_size * 2",
        "max_steps=len(data) // (a.batch_size * a.accum)",
        "save_steps=800 // a.batch_size",
    ] {
        assert_eq!(of(argument), None, "{argument}");
    }
}

/// What a program replaces or adds beside a Trainer can make smaller micro batches train otherwise.
#[test]
fn what_a_program_replaces_or_adds_beside_a_trainer_is_read() {
    let of = |text: &str| beside(TRAINER_DOUBT, text);
    let model = |forward: &str| {
        of(&format!(
            "from torch import nn\nclass M(nn.Module):\n  def __init__(self):\n    self.net = nn.Linear(8, 8)\n  \
             def forward(self, x, labels=None):\n    z = self.net(x)\n    {forward}\nTrainer(model=M()).train()\n"
        ))
    };
    let plain = "return {'loss': nn.functional.cross_entropy(z, labels), 'logits': z}";
    assert_eq!(model(plain), None);
    assert_eq!(
        model(
            "loss = nn.functional.cross_entropy(z, labels)\n    return SequenceClassifierOutput(loss=loss, logits=z)"
        ),
        None
    );
    assert_eq!(
        model("return {'loss': nn.functional.cross_entropy(z, labels, reduction='sum')}"),
        Some(SUMMED)
    );
    assert_eq!(model(&format!("self.calls += 1\n    {plain}")), Some(KEPT));
    assert_eq!(
        model(&format!(
            "z, self.last = self.net(z, self.last)\n    {plain}"
        )),
        Some(KEPT)
    );
    let trainer = |body: &str| of(&format!("class T(Trainer):\n{body}\n"));
    let step = "  def training_step(self, model, inputs, n=None):\n    ";
    assert_eq!(
        trainer(&format!(
            "{step}return super().training_step(model, inputs, n)"
        )),
        None
    );
    assert_eq!(
        trainer(&format!(
            "{step}self.beta = min(1, self.beta + 0.1)\n    return super().training_step(model, inputs, n)"
        )),
        Some(EACH)
    );
    let loader =
        "  def get_train_dataloader(self):\n    return DataLoader(self.train_dataset, batch_size=";
    assert_eq!(trainer(&format!("{loader}self._train_batch_size)")), None);
    assert_eq!(trainer(&format!("{loader}64)")), Some(batches::OTHER));
    let loads = |name: &str| {
        of(&format!(
            "from transformers import {name}\nm = {name}.from_pretrained(path)\n"
        ))
    };
    assert_eq!(loads("AutoModelForCausalLM"), None);
    assert_eq!(loads("AutoModelForSequenceClassification"), None);
    assert_eq!(loads("ViTForImageClassification"), None);
    assert!(loads("AutoModelForImageClassification").is_some());
    assert!(loads("CLIPModel").is_some());
    assert!(loads("Wav2Vec2ForCTC").is_some());
    assert!(of("import torchvision\nm = torchvision.models.resnet50()\n").is_some());
    assert_eq!(of("from torchvision import transforms\n"), None);
    let collator = |line: &str| {
        of(&format!(
            "def collate(rows):\n  x = torch.stack([r['x'] for r in rows])\n  {line}\n  return {{'x': x}}\nTrainer(data_collator=collate)\n"
        ))
    };
    assert_eq!(collator("x = x / 255"), None);
    assert_eq!(collator("x = x - x.mean(0)"), Some(MIXED));
    assert_eq!(collator("x = 0.5 * x + 0.5 * x.flip(0)"), Some(MIXED));
    assert_eq!(
        of("args.learning_rate *= args.per_device_train_batch_size / 64\n"),
        Some(BATCH)
    );
}

/// What was `same` in a stranger's programs, and trained otherwise.
#[test]
fn data_that_makes_its_own_batches_and_terms_that_are_not_divided_are_doubts() {
    let step = "if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n";
    let of = |head: &str, loss: &str| {
        why(&format!(
            "{HEAD}{head}for i, (x, y) in enumerate(loader):\n  {loss}\n  loss.backward()\n  {step}"
        ))
    };
    let plain = "loss = F.cross_entropy(model(x), y) / args.accum";
    assert_eq!(of("", plain), None);
    let stream = "loader = DataLoader(Stream(args.batch_size), batch_size=None)\n";
    assert!(of(stream, plain).is_some_and(|why| why.contains("makes its batches itself")));
    let collate = "def collate(rows):\n  x = torch.stack(rows)\n  return x - x.mean(0)\nloader = DataLoader(d, batch_size=args.batch_size, collate_fn=collate)\n";
    assert_eq!(of(collate, plain), Some(MIXED));
    assert_eq!(
        of(
            "",
            "loss = torch.exp(F.cross_entropy(model(x), y)) / args.accum"
        ),
        Some(CURVE)
    );
    let added = "loss = loss + 0.1 * model(x).pow(2).mean()";
    assert_eq!(of("", &format!("{plain}\n  {added}")), Some(UNDIVIDED));
    let all = "loss = F.cross_entropy(model(x), y)";
    let divided = "loss = loss / args.accum";
    assert_eq!(of("", &format!("{all}\n  {added}\n  {divided}")), None);
    let micro = |takes: &str| {
        why(&format!(
            "{HEAD}for it in range(steps):\n  x, y = get_batch()\n  for micro in range(args.accum):\n    {takes}\n    {plain}\n    loss.backward()\n  opt.step()\n  opt.zero_grad()\n"
        ))
    };
    assert_eq!(
        micro("pass"),
        Some("this loop takes the same micro batch each time")
    );
    assert_ne!(micro("x, y = get_batch()"), micro("pass"));
}

/// What was `same` in a stranger's programs, and trained otherwise: the first micro batch of a step, layers, collators, libraries.
#[test]
fn what_a_step_a_layer_a_collator_and_a_library_make_of_a_micro_batch_is_read() {
    let of = |head: &str, body: &str| {
        why(&format!(
            "{HEAD}{head}for i, (x, y) in enumerate(loader):\n  loss = F.cross_entropy(model(x), y) / args.accum\n{body}"
        ))
    };
    let step =
        "  loss.backward()\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n";
    assert_eq!(of("", step), None);
    let named = |is: &str, asks: &str| {
        let rest = format!(
            "  held = {is} 0\n  loss.backward()\n  if {asks}:\n    opt.step()\n    opt.zero_grad()\n"
        );
        of("", &rest)
    };
    assert_eq!(named("i % args.accum !=", "not held"), Some(COUNT));
    assert_eq!(named("i % args.accum ==", "held"), Some(COUNT));
    assert_eq!(named("(i + 1) % args.accum !=", "not held"), None);
    let turns = "  loss.backward()\n  if (i + 1) % args.accum == 0:\n    opt_d.step()\n    opt_d.zero_grad()\n  \
                 g = F.mse_loss(model(x), y) / args.accum\n  g.backward()\n  if (i + 1) % args.accum == 0:\n    opt_g.step()\n    opt_g.zero_grad()\n";
    assert!(of("", turns).is_some_and(|why| why.contains("another optimizer")));
    for (head, part) in [
        ("model = nn.LSTM(8, 8)\n", "batch_first"),
        ("model = nn.LSTM(8, 8, batch_first=True)\n", ""),
        ("model = nn.LSTM(8, 8)\nx = x.transpose(0, 1)\n", ""),
        (
            "def collate(rows):\n  return torch.cat([r[0] for r in rows])\nloader = DataLoader(d, batch_size=args.batch_size, collate_fn=collate)\n",
            "joins the rows",
        ),
        (
            "def collate(rows):\n  return torch.stack([r[0] for r in rows])\nloader = DataLoader(d, batch_size=args.batch_size, collate_fn=collate)\n",
            "",
        ),
        (
            "from transformers import AutoModelForImageClassification\nmodel = AutoModelForImageClassification.from_pretrained(args.model)\n",
            "made of was not read",
        ),
        (
            "from transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained(args.model)\n",
            "",
        ),
        (
            "from efficientnet_pytorch import EfficientNet\nmodel = EfficientNet.from_pretrained('b0')\n",
            "made of was not read",
        ),
    ] {
        let found = of(head, step);
        match part {
            "" => assert_eq!(found, None, "{head}"),
            part => assert!(
                found.is_some_and(|why| why.contains(part)),
                "{head} {found:?}"
            ),
        }
    }
    let balance = |keeps: &str| {
        why(&format!(
            "{HEAD}class Balance:\n  def __call__(self, loss):\n    {keeps}\n    return loss / 2\nbalance = Balance()\n\
             for i, (x, y) in enumerate(loader):\n  loss = balance(F.cross_entropy(model(x), y)) / args.accum\n{step}"
        ))
    };
    assert_eq!(
        balance("self.mean = 0.9 * self.mean + loss.item()"),
        Some(KEPT)
    );
    assert_eq!(balance("pass"), None);
}

/// Accelerate holds back the steps of what it prepared, and nothing else.
#[test]
fn what_accelerate_does_not_hold_back_runs_for_each_micro_batch() {
    let of = |line: &str| {
        why(&format!(
            "{HEAD}accelerator = Accelerator(gradient_accumulation_steps=args.accum)\nmodel, opt, loader = accelerator.prepare(model, opt, loader)\n\
             for x, y in loader:\n  with accelerator.accumulate(model):\n    loss = F.cross_entropy(model(x), y)\n    \
             accelerator.backward(loss)\n    {line}\n    opt.step()\n    opt.zero_grad()\n"
        ))
    };
    assert_eq!(of("pass"), None);
    assert_eq!(
        of(
            "if accelerator.sync_gradients:\n      accelerator.clip_grad_norm_(model.parameters(), 1.0)"
        ),
        None
    );
    assert_eq!(
        of("accelerator.clip_grad_norm_(model.parameters(), 1.0)"),
        Some(EACH)
    );
    assert_eq!(of("ema.step(model.parameters())"), Some(EACH));
}

/// transformers from 5.0 on divides no loss of a model that takes `**kwargs`.
#[test]
fn a_model_that_may_not_divide_by_what_the_trainer_counted_is_named() {
    let of = |text: &str| beside(UNDIVIDED_DOUBT, text);
    let loads = |name: &str| {
        of(&format!(
            "from transformers import {name}\nm = {name}.from_pretrained(p)\n"
        ))
    };
    for name in [
        "AutoModelForSequenceClassification",
        "T5ForConditionalGeneration",
        "AutoModelForMaskedLM",
    ] {
        assert_eq!(loads(name), Some(libraries::ITS_OWN_MEAN), "{name}");
    }
    for name in [
        "AutoModelForCausalLM",
        "GPT2LMHeadModel",
        "ViTForImageClassification",
        "Qwen2_5_VLForConditionalGeneration",
        "DataCollatorForLanguageModeling",
    ] {
        assert_eq!(loads(name), None, "{name}");
    }
    let own = |given: &str, hands: &str| {
        let all = format!(
            "class M(nn.Module):\n  def __init__(self):\n    self.net = nn.Linear(8, 8)\n  def forward(self, x, labels=None{given}):\n    z = self.net(x)\n    {hands}\n    \
             return {{'loss': F.cross_entropy(z, labels)}}\n"
        );
        beside(TRAINER_DOUBT, &all)
    };
    assert_eq!(own("", "pass"), None);
    assert_eq!(own(", **kwargs", "pass"), Some(UNDIVIDED));
    assert_eq!(own(", **kwargs", "z = self.net(z, **kwargs)"), None);
}

/// A function of a mean over a micro batch is no mean over its samples.
#[test]
fn functions_of_a_mean_over_a_micro_batch_are_doubts() {
    for (loss, is) in [
        ("torch.mean(each(x))", false),
        ("torch.pow(x - y, 2).mean()", false),
        ("torch.sqrt(torch.mean((x - y) ** 2, dim=1)).mean()", false),
        ("(x - y).pow(2).mean(1).sqrt().mean()", false),
        ("torch.sqrt(torch.mean((x - y) ** 2))", true),
        ("(x - y).pow(2).mean().sqrt()", true),
        (
            "torch.pow(x, 2).mean() - 0.5 * torch.pow(x.mean(), 2)",
            true,
        ),
        ("(x ** 2).mean() - 0.5 * x.mean() ** 2", true),
        ("torch.sqrt(criterion(x, y))", true),
    ] {
        let text = format!(
            "{HEAD}criterion = nn.MSELoss()\ndef each(x):\n  return x\nfor i, (x, y) in enumerate(loader):\n  x = model(x)\n  \
             loss = {loss}\n  (loss / args.accum).backward()\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
        );
        let found = why(&text);
        assert_eq!(
            [Some(CURVE), Some(SUMMED)].contains(&found),
            is,
            "{loss}: {found:?}"
        );
    }
}

#[test]
fn a_loop_over_a_computed_accumulation_is_understood() {
    let text = |before: &str, guard: &str| {
        format!(
            "p.add_argument('--device-batch-size', type=int)\np.add_argument('--total-batch-size', type=int)\nargs = p.parse_args()\n\
             model = nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, batch_first=True), 12).cuda()\n\
             loader = DataLoader(data, batch_size=args.device_batch_size, shuffle=True)\nbatches = iter(loader)\n\
             opt = torch.optim.AdamW(model.parameters(), lr=args.lr)\n\
             tokens = args.device_batch_size * args.length\nall_tokens = tokens * world_size\n\
             assert args.total_batch_size % all_tokens == 0\ngrad_accum_steps = args.total_batch_size // all_tokens\n{before}\n\
             for step in range(args.steps):\n  for i in range(grad_accum_steps):\n    x, y = next(batches)\n    \
             {LOSS} / grad_accum_steps\n    {guard}:\n      with model.no_sync():\n        loss.backward()\n    else:\n      loss.backward()\n  \
             opt.step()\n  opt.zero_grad()\n"
        )
    };
    const LAST: &str = "if i < grad_accum_steps - 1";
    for before in [
        "pass",
        "print(f'{tokens} tokens', tokens)",
        "ratio = args.total_batch_size / 2**19\nlr_scale = ratio ** 0.5",
        "eval_steps = args.eval_tokens // (args.device_batch_size * args.length)",
    ] {
        assert_eq!(why(&text(before, LAST)), None, "{before}");
    }
    for (before, guard, expected) in [
        ("lr = args.lr * tokens ** 0.5", LAST, BATCH),
        (
            "args.total_batch_size = args.device_batch_size * world_size\nscale = args.total_batch_size / 256",
            LAST,
            BATCH,
        ),
        (
            "val_size = 2 * args.device_batch_size\na, b = random_split(data, [9 - val_size, val_size])",
            LAST,
            BATCH,
        ),
        (
            "class C:\n  @property\n  def total_batch_size(self):\n    return self.b\nscale = cfg.total_batch_size / 256",
            LAST,
            BATCH,
        ),
        (
            "pass",
            "if i == grad_accum_steps - 1:\n      loss = loss + term()\n    if i < 2",
            DECIDES,
        ),
        (
            "eval_steps = 9 // (args.device_batch_size * 2)\nstop = EarlyStopping(eval_steps)",
            LAST,
            BATCH,
        ),
        ("pass", "if loss < grad_accum_steps", DECIDES),
    ] {
        assert_eq!(
            why(&text(before, guard)),
            Some(expected),
            "{before} {guard}"
        );
    }
}

/// A model that the one call of a function hands it is that model.
#[test]
fn what_a_function_is_handed_is_looked_up_at_its_call() {
    let text = |call: &str| {
        format!(
            "p.add_argument('--batch-size')\np.add_argument('--accum')\nargs = p.parse_args()\nclass Net(nn.Module):\n  def __init__(self):\n    self.l = nn.Linear(8, 8)\n  \
             def forward(self, x):\n    return self.l(x)\n\
             def train(net, args):\n  loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)\n  opt = torch.optim.AdamW(net.parameters())\n  \
             for i, (x, y) in enumerate(loader):\n    loss = F.mse_loss(net(x), y) / args.accum\n    loss.backward()\n    if (i + 1) % args.accum == 0:\n      \
             opt.step()\n      opt.zero_grad()\n{call}\n"
        )
    };
    assert_eq!(why(&text("train(Net(), args)")), None);
    assert_eq!(why(&text("train(args=args, net=Net())")), None);
    assert_eq!(why(&text("train(make(), args)")), Some(MODEL));
    assert_eq!(why(&text("train(Net(), args)\ntrain(Net(), args)")), None);
    assert_eq!(why(&text("train(Net(), args)\ntrain()")), Some(CALL));
    let along = "def dice(a, b, dims):\n  return 1 - (a * b).sum(dim=dims) / a.sum(dim=dims)\n";
    assert_eq!(
        looped(along, "loss = dice(model(x), y, (1, 2))", "pass"),
        Some(MIXED)
    );
    let chosen = format!(
        "{along}def one(a, b, dims):\n  return F.mse_loss(a, b)\nf = one if args.one else dice\n"
    );
    assert_eq!(
        looped(&chosen, "loss = f(model(x), y, (1, 2))", "pass"),
        Some(MIXED)
    );
    assert_eq!(
        why(&text("train(Net(), args)\ntrain(make(), args)")),
        Some(MODEL)
    );
}

/// What a loop calls belongs to it, as if its lines stood there.
#[test]
fn a_backward_pass_in_a_function_of_the_loop_is_understood() {
    let text = |inside: &str, update: &str, call: &str| {
        format!(
            "{HEAD}class T:\n  def __init__(self, net, loader, opt):\n    self.net = net\n    self.loader = loader\n    self.opt = opt\n    self.loss = nn.CrossEntropyLoss()\n  \
             def run(self, x, y, update):\n    {inside}\n    loss = self.loss(self.net(x), y)\n    (loss / args.accum).backward()\n    \
             if update:\n      self.opt.step()\n      self.opt.zero_grad()\n  def epoch(self):\n    for i, (x, y) in enumerate(self.loader):\n      {call}\n\
             T(model, loader, opt).epoch()\n",
            call = call.replace("UPDATE", update)
        )
    };
    const LAST: &str = "update=(i + 1) % args.accum == 0";
    const CALL_IT: &str = "self.run(x, y, UPDATE)";
    assert_eq!(why(&text("x = x.cuda()", LAST, CALL_IT)), None);
    let hard = "class Hard(nn.Module):\n  def forward(self, a, b):\n    each = F.cross_entropy(a, b, reduction='none')\n    return each[each > each.mean()].mean()\n";
    let base = text("pass", LAST, CALL_IT);
    let own = "self.loss = nn.CrossEntropyLoss()";
    for (given, rest) in [
        (
            "self.loss = nn.CrossEntropyLoss() if args.plain else Hard()",
            "",
        ),
        (own, "T.loss = Hard()\n"),
    ] {
        let changed = format!("{hard}{}{rest}", base.replace(own, given));
        assert_eq!(why(&changed), Some(WEIGHED), "{given} {rest}");
    }
    let handed = base
        .replace(own, "self.loss = loss")
        .replace("net, loader, opt)", "net, loader, opt, loss)");
    let handed = handed.replace("T(model, loader, opt)", "T(model, loader, opt, Hard())");
    assert_eq!(why(&format!("{hard}{handed}")), Some(WEIGHED));
    let other = format!(
        "{base}class U(T):\n  def run(self, x, y, update):\n    self.loss(self.net(x), y).backward()\n"
    );
    assert_eq!(why(&other), Some(NOT_AROUND));
    let ramp = text("w = self.weight()\n    self.seen += 1", LAST, CALL_IT)
        .replace("self.net(x), y)", "self.net(x), y) * w");
    let ramp = ramp.replace(
        "  def epoch",
        "  def weight(self):\n    return min(1, self.seen / 9)\n  def epoch",
    );
    assert_eq!(why(&ramp), Some(COUNT));
    let inner = ramp.replace("w = self.weight()", "w = self.outer()");
    let inner = inner.replace(
        "  def epoch",
        "  def outer(self):\n    return 2 * self.weight()\n  def epoch",
    );
    assert_eq!(why(&inner), Some(COUNT));
    for (inside, update, call, expected) in [
        ("self.seen += 1", LAST, CALL_IT, None),
        ("self.h = self.h * 0.9 + x", LAST, CALL_IT, Some(KEPT)),
        ("sched.step()", LAST, CALL_IT, Some(EACH)),
        ("pass", "update=True", CALL_IT, Some(NO_WAIT)),
        ("pass", LAST, "other.run(x, y, UPDATE)", Some(NOT_AROUND)),
        (
            "pass",
            LAST,
            "self.run(x, y, UPDATE); self.run(x, y, UPDATE)",
            Some(NOT_AROUND),
        ),
    ] {
        assert_eq!(
            why(&text(inside, update, call)),
            expected,
            "{inside} {update} {call}"
        );
    }
}

/// What an adversary found behind the rules for options by their use, for rates and for other passes.
#[test]
fn rates_other_passes_and_statistics_are_doubts() {
    const STEPS: &str = "batch = args.batch_size\n";
    for (before, expected) in [
        (
            "args.lr = args.lr * float(args.batch_size * world_size) / 8",
            Some(BATCH),
        ),
        ("lr = args.lr * (args.accum / 4) ** 0.5", Some(ACCUMULATED)),
        (
            "lr = args.lr * args.batch_size * args.accum * world_size / 256",
            None,
        ),
        ("local = args.batch_size // world_size", None),
        (
            "beta = args.batch_size / 64\nloss = loss + beta * z / args.accum",
            Some(BATCH),
        ),
        (
            "def pre(x):\n  F.mse_loss(model(x), x).backward()\nfor x, _ in loader:\n  other.pre(x)",
            Some(NOT_AROUND),
        ),
        ("def unused(x):\n  F.mse_loss(model(x), x).backward()", None),
        (
            "class N(nn.Module):\n  def forward(self, h):\n    return h @ h.t()",
            Some(MIXED),
        ),
        (
            "class N(nn.Module):\n  def forward(self, h):\n    return h @ self.weight.t() + h.std(dim=1)",
            None,
        ),
        (
            "class N(nn.Module):\n  def forward(self, h):\n    return h.std(dim=0)",
            Some(MIXED),
        ),
    ] {
        assert_eq!(
            looped(&format!("{STEPS}{before}"), LOSS, "pass"),
            expected,
            "{before}"
        );
    }
    let named = HEAD.replace("args.batch_size", "args.samples");
    let by_use = format!(
        "{named}warm = 64 // args.samples\nfor i, (x, y) in enumerate(loader):\n  {LOSS} / args.accum\n  loss.backward()\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
    );
    assert_eq!(why(&by_use), Some(BATCH));
    assert_eq!(looped("parts = data.chunk(args.accum)", LOSS, "pass"), None);
    let sum = "loss = F.kl_div(model(x), y, reduction='sum')";
    assert_eq!(
        looped("t = 4", &format!("{sum} * (t ** 2) / x.shape[0]"), "pass"),
        None
    );
    assert_eq!(
        looped("t = 4", &format!("{sum} * (t ** 2) / 64"), "pass"),
        Some(SUMMED)
    );
}
