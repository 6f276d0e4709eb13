use super::*;

#[test]
fn a_curve_over_a_mean_with_a_name_is_a_doubt() {
    let ce = "ce = F.cross_entropy(model(x), y)\n";
    for loss in [
        "pt = torch.exp(-ce)\nloss = (1 - pt) ** 2 * ce",
        "pt = torch.exp(-ce)\nloss = ((1 - pt) ** 2 * ce).mean()",
        "loss = 0.25 * (1 - torch.exp(-ce)) ** 2 * ce",
        "loss = ce ** 2",
        "loss = ce.pow(2)",
        "loss = ce * (1 + ce)",
        "loss = ce\nloss = loss * (1 + loss)",
        "loss = ce\nloss **= 2",
        "other = F.mse_loss(model(x), y)\nloss = ce * other",
        "loss = ce / (ce.detach() + 1)",
        "loss = ce * torch.sigmoid(ce.detach())",
        "loss = (ce - args.b).abs() + args.b",
        "loss = F.relu(ce - args.margin)",
        "loss = torch.where(ce > 1.385, ce, ce * 0.1)",
        "loss = ce.sqrt() + F.mse_loss(model(x), y)",
        "loss = torch.log(ce)",
        "loss = 1 - torch.exp(-ce)",
        "loss = torch.tanh(ce)",
        "a = model(x).mean()\nloss = ce + a * a",
        "each = F.mse_loss(model(x), y, reduction='none')\nloss = (ce * each).mean()",
        "loss = ce if ce > 1 else 0.1 * ce",
        "loss = F.cross_entropy(model(x), y) ** 2",
        "loss = F.cross_entropy(model(x), y) * F.mse_loss(model(x), y)",
        "loss = (F.cross_entropy(model(x), y) - 1.385).abs() + 1.385",
        "losses = {}\nlosses['ce'] = ce\nloss = sum(v ** 2 for v in losses.values())",
    ] {
        let body = format!("{ce}{loss}");
        assert_eq!(looped("", &body, "pass"), Some(CURVE), "{loss}");
    }
}

#[test]
fn sums_and_multiples_of_means_and_curves_over_each_sample_are_understood() {
    for body in [
        "ce = F.cross_entropy(model(x), y, reduction='none')\npt = torch.exp(-ce)\nloss = ((1 - pt) ** 2 * ce).mean()",
        "ce = F.cross_entropy(model(x), y)\nkl = F.mse_loss(model(x), y)\nloss = ce + args.beta * kl - 0.1 * (ce + kl) / 3",
        "l1 = F.cross_entropy(model(x), y)\nl2 = F.mse_loss(model(x), y)\nloss = torch.exp(-log_var[0]) * l1 + torch.exp(-log_var[1]) * l2",
        "loss = (model(x) - y).square().mean(1).pow(0.5).mean()",
        "losses = {}\nlosses['ce'] = F.cross_entropy(model(x), y)\nlosses['l1'] = F.l1_loss(model(x), y)\nloss = sum(losses.values())",
        "losses = [F.cross_entropy(model(x), y), F.l1_loss(model(x), y)]\nloss = torch.stack(losses).mean()",
        "loss = F.cross_entropy(model(x), y)\nppl = math.exp(loss.item())\nprint(ppl)",
        "out = model(x)\nloss = F.cross_entropy(out, y)\nloss = loss.float()\nif args.aux:\n  loss = loss + args.aux * F.l1_loss(out, y)",
        "out = model(x)\neach = (out - y) ** 2\nloss = (each * w).mean() * 0.5",
        "loss = F.cross_entropy(model(x), y) if args.ce else F.mse_loss(model(x), y)",
        "loss = ((model(x) - y) ** 2).sum() / x.shape[0]",
    ] {
        assert_eq!(looped("", body, "pass"), None, "{body}");
    }
}

#[test]
fn a_curve_over_a_mean_in_a_function_or_a_class_is_a_doubt() {
    let focal = |reduction: &str| {
        format!(
            "class FocalLoss(nn.Module):\n  def __init__(self, gamma=2.0):\n    super().__init__()\n    self.gamma = gamma\n    \
             self.ce = nn.CrossEntropyLoss({reduction})\n  def forward(self, logits, target):\n    ce = self.ce(logits, target)\n    \
             pt = torch.exp(-ce)\n    loss = (1 - pt) ** self.gamma * ce\n    return loss.mean()\ncriterion = FocalLoss()\n"
        )
    };
    let called = "loss = criterion(model(x), y)";
    assert_eq!(looped(&focal(""), called, "pass"), Some(CURVE));
    assert_eq!(looped(&focal("reduction='none'"), called, "pass"), None);
    let flood = "def flood(loss, b):\n  return (loss - b).abs() + b\n";
    for (body, found) in [
        ("loss = flood(F.mse_loss(model(x), y), 0.1)", Some(CURVE)),
        ("loss = flood(model(x) - y, 0.1).mean()", None),
    ] {
        assert_eq!(looped(flood, body, "pass"), found, "{body}");
    }
    let own = |line: &str| {
        format!(
            "class Net(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.head = nn.Linear(2, 2)\n  def forward(self, x, y):\n    \
             out = self.head(x)\n    loss = F.cross_entropy(out, y)\n    {line}\n    return out, loss\nnet = Net()\n"
        )
    };
    let both = "out, loss = net(x, y)";
    assert_eq!(looped(&own("loss = loss ** 2"), both, "pass"), Some(CURVE));
    assert_eq!(looped(&own("out = out ** 2"), both, "pass"), None);
    let plain = "out, loss = net(x, y)\nloss = loss + F.mse_loss(out, y)";
    assert_eq!(looped(&own("pass"), plain, "pass"), None);
}

#[test]
fn a_step_of_lightning_that_returns_a_curve_over_a_mean_is_a_doubt() {
    let step = |loss: &str| {
        why(&format!(
            "class Lit(L.LightningModule):\n  def __init__(self):\n    super().__init__()\n    self.net = nn.Linear(9, 9)\n  \
             def training_step(self, batch, batch_idx):\n    x, y = batch\n    ce = F.cross_entropy(self.net(x), y)\n    \
             loss = {loss}\n    self.log('train_loss', loss)\n    return loss\n\
             trainer = L.Trainer(accumulate_grad_batches=args.accum)\ntrainer.fit(Lit(), DataLoader(d, batch_size=args.batch_size))\n"
        ))
    };
    assert_eq!(step("(1 - torch.exp(-ce)) ** 2 * ce"), Some(CURVE));
    assert_eq!(step("0.5 * ce"), None);
}

#[test]
fn a_curve_over_a_mean_beside_a_trainer_is_a_doubt() {
    let of = |loss: &str| {
        let own = format!(
            "class T(Trainer):\n  def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):\n    out = model(**inputs)\n    \
             ce = F.mse_loss(out.logits, inputs['y'])\n    loss = {loss}\n    return (loss, out) if return_outputs else loss\n"
        );
        beside(TRAINER_DOUBT, &own)
    };
    assert_eq!(of("ce * ce.detach().sigmoid()"), Some(CURVE));
    assert_eq!(of("0.5 * ce"), None);
    let model = |loss: &str| {
        let own = format!(
            "class Net(nn.Module):\n  def __init__(self):\n    self.head = nn.Linear(9, 9)\n  def forward(self, x, labels):\n    z = self.head(x)\n    ce = F.cross_entropy(z, labels)\n    \
             return {{'loss': {loss}, 'logits': z}}\n"
        );
        beside(TRAINER_DOUBT, &own)
    };
    assert_eq!(model("(ce - 0.1).abs() + 0.1"), Some(CURVE));
    assert_eq!(model("ce"), None);
}

#[test]
fn a_text_that_breaks_off_is_read_to_its_end() {
    for body in [
        "with x as (",
        "= 2",
        "for ( in x:",
        "loss = (",
        "loss **= ",
        "x[",
        "f(a=",
        "** = 3",
        "a, = b",
        "loss = -",
    ] {
        let _ = looped("", body, "pass");
        let _ = why(&format!("{body}\n{}", body.repeat(3)));
        let step = format!("def training_step(self, batch, i):\n  {body}\n");
        let _ = why(&format!("{step}t = Trainer(accumulate_grad_batches=2)\n"));
    }
}

/// Whether a loss is called a curve, whatever else is not understood in its loop.
fn curve(body: &str) -> Option<&'static str> {
    let body = body.replace('\n', "\n  ");
    let text = format!(
        "for i, (x, y) in enumerate(loader):\n  {body}\n  (loss / args.accum).backward()\n"
    );
    let all = tokens(&text);
    let files = [&*all];
    let program = LoopProgram::new(&files, Vec::new());
    let found = program.loops().iter().find_map(LoopOfBatches::curve);
    found.map(|(why, ..)| why)
}

#[test]
fn everyday_losses_of_several_terms_are_no_curves() {
    for body in [
        "mu, logvar = enc(x)\nz = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)\nrecon = F.mse_loss(dec(z), x)\n\
         kld = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())\nloss = recon + args.beta * kld",
        "ratio = torch.exp(logp(x) - old)\npg = -torch.min(ratio * adv, torch.clamp(ratio, 0.8, 1.2) * adv).mean()\nent = dist(x).entropy().mean()\n\
         loss = pg - args.ent * ent + 0.5 * ((value(x) - y) ** 2).mean()",
        "alpha = log_alpha.exp()\nloss = (alpha * logp(x) - q(x)).mean()",
        "snr = snr_of(t)\nw = torch.minimum(snr, torch.full_like(snr, 5)) / snr\neach = F.mse_loss(model(x), y, reduction='none')\n\
         loss = (each.mean(dim=list(range(1, each.ndim))) * w).mean()",
        "with torch.autocast('cuda'):\n  out = model(x)\n  loss = F.cross_entropy(out, y)\nloss = loss.mean()",
        "loss = -F.logsigmoid(args.beta * (chosen(x) - rejected(x))).mean()",
        "loss, logits = model(x, y)[:2]\nloss = loss * 2",
        "outputs = model(x, labels=y)\nloss = outputs['loss'] if isinstance(outputs, dict) else outputs[0]",
        "n = 3\nloss = 0\nfor k in range(n):\n  loss = loss + F.cross_entropy(model(x)[k], y) / n",
    ] {
        assert_eq!(curve(body), None, "{body}");
    }
    assert_eq!(curve("loss = strange(x).mean() ** 2"), Some(CURVE));
}
