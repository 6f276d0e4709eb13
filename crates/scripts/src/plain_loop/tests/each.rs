//! What has no samples, and what computes each of them by itself, is no reason for a doubt.

use super::*;

#[test]
fn names_that_are_given_their_values_in_one_line_are_paired() {
    let of = |given: &str| {
        let class = format!(
            "class T:\n  def __init__(self, model, loader, args):\n    {given}\n    self.opt = torch.optim.AdamW(model.parameters())\n  \
             def fit(self):\n    for i, (x, y) in enumerate(self.loader):\n      loss = F.cross_entropy(self.model(x), y)\n      \
             (loss / self.args.accum).backward()\n      if (i + 1) % self.args.accum == 0:\n        self.opt.step()\n        \
             self.opt.zero_grad()\n"
        );
        why(&format!("{HEAD}{class}T(model, loader, args).fit()\n"))
    };
    let paired = "self.model, self.loader, self.args = model, loader, args";
    assert_eq!(of(paired), None);
    let other = "self.model, self.loader, self.args = timm.make(1), loader, args";
    assert_eq!(of(other), Some(MODEL));
}

#[test]
fn parameters_have_no_samples() {
    let of = |before: &str, term: &str| {
        let body = format!("out = model(x)\nloss = {term} + F.cross_entropy(out, y)");
        looped(before, &body, "pass")
    };
    let own = "log_var = nn.Parameter(torch.zeros(2))";
    for term in [
        "1e-3 * sum(q.pow(2).sum() for q in model.parameters())",
        "1e-3 * sum((q ** 2).sum() for _, q in model.named_parameters())",
        "0.01 * max(q.abs().max() for q in model.parameters())",
        "sum(q.norm(2) for q in model.parameters())",
        "sum(torch.norm(q) for q in model.parameters())",
        "log_var.sum()",
    ] {
        assert_eq!(of(own, term), None, "{term}");
    }
    for (before, term) in [
        (own, "1e-3 * sum(q.pow(2).sum() for q in out)"),
        (own, "0.01 * max(q.abs().max() for q in out)"),
        (own, "(log_var * out).sum()"),
        (own, "sum((q * out).sum() for q in model.parameters())"),
        (
            own,
            "sum((q - o).norm() for q, o in zip(model.parameters(), out))",
        ),
        ("w = nn.Parameter(torch.zeros(2)) * data", "w.sum()"),
        ("", "out.sum()"),
        ("log_var = torch.zeros(2)", "log_var.sum()"),
    ] {
        assert!(of(before, term).is_some(), "{term}");
    }
}

#[test]
fn a_sum_that_a_line_divides_is_no_sum_over_a_step() {
    let of = |loss: &str| {
        let text = format!(
            "{HEAD}for i, (x, y) in enumerate(loader):\n  out = model(x)\n  {loss}\n  loss.backward()\n  \
             if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
        );
        why(&text)
    };
    for loss in [
        "loss = F.mse_loss(out, y, reduction='none').sum() / x.shape[0]",
        "loss = sum([F.mse_loss(out, y), F.l1_loss(out, y)])",
        "loss = F.mse_loss(out, y) + sum(q.pow(2).sum() for q in model.parameters())",
    ] {
        assert_eq!(of(loss), Some(UNDIVIDED), "{loss}");
    }
    for (sum, expected) in [
        ("F.mse_loss(out, y, reduction='none').sum()", None),
        ("F.mse_loss(out, y, reduction='sum') / len(data)", None),
        ("F.mse_loss(out, y, reduction='sum')", Some(SUMMED)),
    ] {
        assert_eq!(of(&format!("loss = {sum}")), expected, "{sum}");
    }
}

#[test]
fn a_sum_divided_by_the_batch_of_a_loader_is_a_mean_where_all_batches_are_full() {
    let of = |loader: &str, loss: &str| {
        let body = format!("loss = F.cross_entropy(model(x), y, reduction='sum') / {loss}");
        looped(loader, &body, "pass")
    };
    const FULL: &str = "loader = DataLoader(data, batch_size=args.batch_size, drop_last=True)";
    let head = |text: &str| {
        let full = text.replace("shuffle=True", "drop_last=True");
        why(&full)
    };
    let text = |loss: &str| {
        format!(
            "{HEAD}test = DataLoader(other, batch_size=args.batch_size)\nfor i, (x, y) in enumerate(loader):\n  \
             loss = F.cross_entropy(model(x), y, reduction='sum') / {loss}\n  (loss / args.accum).backward()\n  \
             if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
        )
    };
    assert_eq!(head(&text("args.batch_size")), None);
    assert_eq!(head(&text("8")), Some(SUMMED));
    assert_eq!(why(&text("args.batch_size")), Some(SUMMED));
    assert_eq!(of(FULL, "args.batch_size"), Some(SUMMED));
    let undivided = text("args.batch_size").replace("(loss / args.accum)", "loss");
    assert_eq!(head(&undivided), Some(UNDIVIDED));
}

#[test]
fn what_computes_each_sample_by_itself_is_understood() {
    let of = |body: &str| looped("", &format!("out = model(x)\n{body}"), "pass");
    for body in [
        "loss = nn.NLLLoss()(nn.LogSoftmax(dim=-1)(out), y)",
        "loss = F.gaussian_nll_loss(out[:, 0], y, torch.ones_like(out[:, 0]))",
        "loss = F.poisson_nll_loss(out, y)",
        "u = torch.distributions.Normal(out[:, 0], 1.0)\nloss = -u.log_prob(y.float()).mean()",
        "loss = -torch.distributions.Laplace(out, 1.0).log_prob(y).mean()",
        "err = y - out\nloss = torch.maximum(0.9 * err, (0.9 - 1) * err).mean()",
        "loss = torch.mean(torch.minimum(out, y))",
        "loss = F.softplus(-out * y).mean()",
        "loss = torch.clamp(F.cross_entropy(out, y, reduction='none'), max=1.3).mean()",
    ] {
        assert_eq!(of(body), None, "{body}");
    }
    for body in [
        "loss = nn.NLLLoss()(nn.LogSoftmax(dim=0)(out), y)",
        "loss = F.gaussian_nll_loss(out[:, 0], y, out[:, 0].var().expand_as(y))",
        "u = torch.distributions.Normal(out.mean(), 1.0)\nloss = -u.log_prob(y.float()).mean()",
        "u = made(out)\nloss = -u.log_prob(y.float()).mean()",
        "loss = torch.maximum(F.cross_entropy(out, y), torch.tensor(1.385))",
        "ce = F.cross_entropy(out, y)\nloss = torch.maximum(ce, torch.tensor(1.385)).mean()",
        "ce = F.cross_entropy(out, y)\nloss = F.softplus(ce)",
        "loss = model(x).loss\nloss = torch.maximum(loss, y).mean()",
        "m = out.mean()\nloss = torch.maximum(m, torch.tensor(1.385))",
        "a = ((out - y) ** 2).mean()\nb = a * 2\nloss = torch.maximum(b, y).mean()",
        "loss = torch.clamp(F.cross_entropy(out, y), max=1.3).mean()",
        "loss = torch.clamp(F.cross_entropy(out, y, reduction='mean'), max=1.3)",
    ] {
        assert!(of(body).is_some(), "{body}");
    }
}
