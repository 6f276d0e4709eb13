//! Samples that meet in a forward, by an index, or in a norm.

use super::super::libraries::BATCH_NORM;
use super::*;

/// What is found where a module of the program has this line in its forward.
fn forward(line: &str) -> Option<&'static str> {
    let line = line.replace('\n', "\n    ");
    let net = format!(
        "class Net(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.body = nn.Linear(8, 8)\n  \
         def forward(self, x, y):\n    {line}\n    return self.body(x)"
    );
    looped(&net, LOSS, "pass")
}

#[test]
fn samples_that_meet_in_a_forward_are_a_doubt() {
    for line in [
        "x = F.layer_norm(x, x.shape)",
        "x = nn.LayerNorm(x.shape, elementwise_affine=False)(x)",
        "x = F.layer_norm(x, x.size())",
        "x = F.layer_norm(x, normalized_shape=list(x.shape))",
        "x = x.cumsum(0)",
        "x = torch.cumsum(x, dim=0)",
        "x = x - x.cummax(0).values",
        "x = torch.cumprod(x, 0)",
        "x = torch.diff(x, dim=0, prepend=x[:1])",
        "x = torch.sort(x, dim=0)[0]",
        "x = x.roll(1, 0)",
        "x = torch.roll(x, 1)",
        "x = x.roll(shifts=1)",
        "x = x + x.flip(0)",
        "q = x @ x.transpose(0, 1)\nx = q.softmax(-1) @ x",
        "x = torch.matmul(x, x.permute(1, 0)).softmax(-1) @ x",
        "x = (x @ x.T).softmax(-1) @ x",
        "a = torch.einsum('id,jd->ij', x, x).softmax(-1)",
        "a = torch.einsum('b d, n d -> b n', x, y)",
        "x = x - x[0]",
        "x = x / x[:1]",
        "x = F.avg_pool1d(x.t(), 3, 1, 1).t()",
        "x = torch.log(x) - x.mean(0)",
    ] {
        assert_eq!(forward(line), Some(MIXED), "{line}");
    }
    for line in [
        "x = F.batch_norm(x, None, None, training=True)",
        "x = F.batch_norm(x, self.m, self.v, self.w, self.b, self.training)",
        "x = nn.LazyBatchNorm1d()(x)",
    ] {
        assert_eq!(forward(line), Some(BATCH_NORM), "{line}");
    }
}

#[test]
fn a_forward_in_which_each_sample_is_by_itself_stays_understood() {
    for line in [
        "x = F.layer_norm(x, x.shape[1:])",
        "x = F.layer_norm(x, (x.size(-1),))",
        "x = F.layer_norm(x, x.size()[1:])",
        "x = torch.cumsum(x, dim=1)",
        "x = x.cumsum(-1)",
        "starts = torch.cumsum(lengths, dim=0)",
        "x = F.group_norm(x, 4)",
        "x = F.batch_norm(x, self.m, self.v, training=False)",
        "x = torch.roll(x, shifts=(1, 1), dims=(1, 2))",
        "x = x.roll(1, 1)",
        "x = x.transpose(0, 1)",
        "x = x @ self.weight.transpose(0, 1)",
        "w = self.proj\nx = x @ w.T",
        "x = x @ emb.T",
        "f = torch.einsum('i,j->ij', t, self.inv_freq)",
        "x = torch.einsum('bi,oi->bo', x, self.weight)",
        "w = self.proj\nx = torch.einsum('bi,oi->bo', x, w)",
        "x = torch.einsum('bhid,bhjd->bhij', x, y)",
        "x = torch.einsum('bhwc,hkc->bhwk', x, places)",
        "x = torch.einsum('bind,jd->bnij', x, places)",
        "x = torch.bmm(attention, x.transpose(0, 1))",
        "basis = torch.cumprod(torch.tensor([1] + levels), dim=0)",
        "x = x - x[:, :1]",
        "x = x - y[0]",
        "x = x.view(x.shape[0], -1)",
        "print(x.cumsum(0))",
    ] {
        assert_eq!(forward(line), None, "{line}");
    }
    let later = "class Net(nn.Module):\n  def __init__(self):\n    self.body = Own(lambda x: x - x.mean(0))";
    assert_eq!(looped(later, LOSS, "pass"), Some(MIXED));
    let schedule = "class Diffusion(nn.Module):\n  def __init__(self, betas):\n    kept = torch.cumprod(1 - betas, dim=0)\n    \
                    kept = kept / kept[0]\n  def forward(self, x):\n    return x";
    assert_eq!(looped(schedule, LOSS, "pass"), None);
}

#[test]
fn samples_that_meet_by_an_index_in_a_loop_are_a_doubt() {
    let of = |body: &str| looped("", body, "pass");
    for body in [
        "x[0] = 0\nloss = F.cross_entropy(model(x), y)",
        "x[:2] = 0\nloss = F.cross_entropy(model(x), y)",
        "x = torch.cat([x, x[:1]])\ny = torch.cat([y, y[:1]])\nloss = F.cross_entropy(model(x), y)",
        "x, y = x[:-1], y[:-1]\nloss = F.cross_entropy(model(x), y)",
        "out = model(x)\nloss = F.cross_entropy(out, y) + F.mse_loss(out[1:], out[:-1])",
        "out = model(x)\nloss = F.cross_entropy(out, y) + F.mse_loss(out[0], out[1])",
        "out = model(x)\na, b = out.chunk(2)\nloss = F.cross_entropy(out, y) + F.mse_loss(a, b)",
        "a, b = x.chunk(2)\nx = torch.cat([a, 0.5 * b + 0.5 * a])\nloss = F.cross_entropy(model(x), y)",
        "a, b = torch.chunk(x, 2, dim=0)\nd = a - b\nloss = F.cross_entropy(model(d), y)",
    ] {
        assert_eq!(of(body), Some(MIXED), "{body}");
    }
}

#[test]
fn an_index_that_takes_no_sample_from_a_batch_stays_understood() {
    let of = |body: &str| looped("", body, "pass");
    for body in [
        "x, y = x[: len(x) // 2 * 2], y[: len(x) // 2 * 2]\nloss = F.cross_entropy(model(x), y)",
        "out = model(x)\nloss = F.cross_entropy(out[:, -1], y)",
        "logits = model(x)\nloss = F.cross_entropy(logits[:, :-1].flatten(0, 1), y[:, 1:].flatten())",
        "logits = model(x)\nloss = F.cross_entropy(logits[..., :-1, :].transpose(1, 2), y[..., 1:])",
        "x[:, 0] = 0\nloss = F.cross_entropy(model(x), y)",
        "out = model(x)\nn = x[0].shape[-1]\nloss = F.mse_loss(out, y) * (n / 8)",
        "out = model(x)\nloss = F.cross_entropy(out[0], y) + 0.4 * F.cross_entropy(out[1], y)",
        "mu, var = model(x).chunk(2, dim=-1)\nloss = F.mse_loss(mu, var)",
        "out = model(x)\nmu, var = out.chunk(2, 1)\nloss = F.mse_loss(mu, var)",
        "out = model(torch.cat([x, y]))\nchosen, rejected = out.chunk(2)\nloss = -F.logsigmoid(chosen - rejected).mean()",
        "chosen, rejected = model(x).chunk(2)\nloss = -F.logsigmoid(chosen - rejected).mean()",
        "pair = torch.cat([x, y])\na, b = model(pair).chunk(2)\nloss = F.mse_loss(a, b)",
        "a, b = x.chunk(2)\nloss = F.cross_entropy(model(torch.cat([a, b])), y)",
    ] {
        assert_eq!(of(body), None, "{body}");
    }
    let moved = "for i, batch in enumerate(loader):\n  batch = tuple(t.to(device) for t in batch)\n  \
                 loss = F.cross_entropy(model(batch[0]), batch[1])\n  (loss / args.accum).backward()\n  if (i + 1) % args.accum == 0:\n    \
                 opt.step()\n    opt.zero_grad()\n";
    assert_eq!(why(&format!("{HEAD}{moved}")), None);
    let tuple = "for i, batch in enumerate(loader):\n  x, y = batch[0].cuda(), batch[1].cuda()\n  \
                 loss = F.cross_entropy(model(x), y)\n  (loss / args.accum).backward()\n  if (i + 1) % args.accum == 0:\n    \
                 opt.step()\n    opt.zero_grad()\n";
    assert_eq!(why(&format!("{HEAD}{tuple}")), None);
}

#[test]
fn a_norm_of_a_whole_batch_is_a_doubt() {
    let of = |loss: &str| looped("", &format!("e = model(x) - y\nloss = {loss}"), "pass");
    for loss in [
        "torch.linalg.norm(e)",
        "torch.linalg.norm(e, ord='fro')",
        "torch.norm(e, 2)",
        "torch.norm(e, p=2)",
        "e.norm(2)",
        "e.norm(p='fro')",
    ] {
        assert_eq!(of(loss), Some(MIXED), "{loss}");
    }
    for loss in [
        "torch.linalg.norm(e, dim=-1).mean()",
        "torch.linalg.norm(e, 2, -1).mean()",
        "torch.norm(e, p=2, dim=1).mean()",
        "e.norm(2, 1).mean()",
        "e.norm(dim=-1).mean()",
    ] {
        assert_eq!(of(loss), None, "{loss}");
    }
}
