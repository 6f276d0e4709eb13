use super::super::listed_options::declared_by;
use super::super::python::tokens;
use super::*;

const HEAD: &str = "p.add_argument('--batch-size', type=int, default=64)\np.add_argument('--grad-accum', type=int)\n\
                    p.add_argument('--max-steps', type=int)\nargs = p.parse_args()\n";

fn shown(text: &str) -> Vec<&'static str> {
    let text = format!("{HEAD}{text}\n");
    let all = tokens(&text);
    signs(&[&all], &declared_by(&[&all]))
        .into_iter()
        .map(|(name, ..)| name)
        .collect()
}

fn in_a_loop(body: &str, after: &str) -> Vec<&'static str> {
    let inner = body.replace('\n', "\n    ");
    let after = after.replace('\n', "\n    ");
    shown(&format!(
        "def train():\n  for i, (x, y) in enumerate(loader):\n    {inner}\n    (loss / args.grad_accum).backward()\n    \
         if (i + 1) % args.grad_accum == 0:\n      opt.step()\n      steps += 1\n    {after}"
    ))
}

#[test]
fn a_rate_of_the_batch_alone_is_a_sign() {
    let rate = |text: &str| shown(text).contains(&LEARNING_RATE);
    assert!(rate("lr = args.lr * args.batch_size / 256"));
    assert!(rate(
        "opt = AdamW(net.parameters(), lr=args.lr * args.batch_size / 256)"
    ));
    assert!(rate("args.lr = args.lr * args.batch_size * world / 256"));
    assert!(!rate(
        "lr = args.lr * args.batch_size * args.grad_accum / 256"
    ));
    assert!(rate(
        "fit(GPT(args.dim, args.lr * args.batch_size / 256), data)"
    ));
    assert!(rate(
        "scale = (args.batch_size * world) / 256\nlr = args.lr * (args.batch_size / 256)"
    ));
    assert!(!rate("run(lr=args.lr, batch_size=args.batch_size)"));
    assert!(!rate("if args.scale:\n  lr = args.lr * args.batch_size"));
    assert!(!rate("print(f'{args.batch_size}')\nlr = 3e-4"));
    assert!(!rate("if lr == args.batch_size: pass"));
}

#[test]
fn a_loss_over_the_samples_of_a_batch_is_a_sign() {
    let cases = [
        (
            "loss = F.cross_entropy(a @ b.T, torch.arange(len(a)))",
            &[NEGATIVES][..],
        ),
        (
            "labels = torch.arange(n, device=d)\nloss = criterion(logits, labels)",
            &[NEGATIVES],
        ),
        ("loss = NTXentLoss(0.1)(a, b)", &[NEGATIVES]),
        (
            "loss = f(x).mean() + relu(1 - z.std(dim=0)).mean()",
            &[STATISTICS],
        ),
        (
            "adv = (r - r.mean()) / (r.std() + 1e-6)\nloss = -(p * adv).mean()",
            &[STATISTICS],
        ),
        ("loss = ((net(x) - y) ** 2).sum()", &[SUM]),
        ("loss = F.mse_loss(net(x), y, reduction='sum')", &[SUM]),
        ("loss = F.mse_loss(net(x), y, reduction='sum') / 4", &[SUM]),
        (
            "loss = ((net(x) - y) ** 2).sum()\nloss = loss / x.size(0)",
            &[],
        ),
        ("loss = ((net(x) - y) ** 2).sum() / x.shape[0]", &[]),
        (
            "v = nn.Parameter(torch.zeros(2))\nloss = f(x) + v.sum()",
            &[],
        ),
        ("v = g(x)\nloss = f(x) + v.sum()", &[SUM]),
        ("loss = F.cross_entropy(net(x), y)", &[]),
        ("pos = torch.arange(t)\nloss = net(x, pos)", &[]),
        ("z = x.var(-1, keepdim=True)\nloss = f(z)", &[]),
        ("print(g.std().item())\nloss = f(x)", &[]),
    ];
    for (body, expected) in cases {
        assert_eq!(in_a_loop(body, "pass"), expected, "{body}");
    }
    assert!(shown("data = (data - data.mean(0)) / data.std(0)").is_empty());
}

#[test]
fn what_is_done_for_each_micro_batch_is_a_sign() {
    let cases = [
        ("sched.step()", &[EACH][..]),
        ("clip_grad_norm_(net.parameters(), 1.0)", &[EACH]),
        ("step += 1\nif step >= args.max_steps:\n  return", &[COUNT]),
        ("step += 1\nprint(step)", &[]),
        ("if steps >= args.max_steps:\n  return", &[]),
        ("if (i + 1) % args.grad_accum == 0:\n  sched.step()", &[]),
    ];
    for (after, expected) in cases {
        assert_eq!(in_a_loop("loss = f(x)", after), expected, "{after}");
    }
    assert!(in_a_loop("a = Accelerator()\nloss = f(x)", "sched.step()").is_empty());
    let inner = "for step in range(args.max_steps):\n  for k in range(args.grad_accum):\n    (f(x) / args.grad_accum).backward()\n  \
                 clip_grad_norm_(ps, 1)\n  opt.step()\n  sched.step()\n  step += 1";
    assert!(shown(inner).is_empty());
    let epochs = "for e in range(9):\n  for i, x in enumerate(d):\n    (f(x) / args.grad_accum).backward()\n    \
                  if i % args.grad_accum == 0:\n      opt.step()\n  sched.step()";
    assert!(shown(epochs).is_empty());
}

#[test]
fn any_text_is_read_to_its_end() {
    for text in [
        "lr =",
        "loss.sum()",
        "reduction=",
        "x.std(",
        "n += 1",
        "arange(",
        "sched.step(",
    ] {
        let _ = shown(text);
    }
}
