use super::*;

#[test]
fn what_else_than_a_loss_is_computed_from_the_accumulation_is_a_doubt() {
    for before in [
        "opt = torch.optim.AdamW(model.parameters(), lr=args.lr / args.accum)",
        "opt = torch.optim.AdamW(model.parameters(), lr=args.lr * args.accum)",
        "opt = torch.optim.AdamW(model.parameters(), lr=args.lr * math.sqrt(args.accum / 2))",
        "opt = torch.optim.AdamW(model.parameters(), lr=cfg['lr'] * cfg['accum'])",
        "warmup = 8 // args.accum\nsched = LambdaLR(opt, lambda s: min(1, s / warmup))",
        "sched = StepLR(opt, step_size=4 // args.accum, gamma=0.5)",
        "total = 8 // args.accum\nsched = CosineAnnealingLR(opt, total)",
        "sched = CosineAnnealingLR(opt, args.max_iters // args.accum)",
        "wd = 0.1 * args.accum\nopt = AdamW(model.parameters(), weight_decay=wd)",
        "b2 = 0.95 ** (1 / args.accum)\nopt = AdamW(model.parameters(), betas=(0.9, b2))",
        "args.lr = args.lr * args.accum",
        "lr = args.lr / args.gradient_accumulation_steps",
        "max_norm = args.max_grad_norm / args.accum\nclip = Clip(max_norm)",
    ] {
        assert_eq!(looped(before, LOSS, "pass"), Some(ACCUMULATED), "{before}");
    }
    for (body, step) in [
        (
            LOSS,
            "for g in opt.param_groups:\n  g['lr'] = args.lr / args.accum",
        ),
        (
            LOSS,
            "nn.utils.clip_grad_norm_(model.parameters(), 0.2 / args.accum)",
        ),
        (
            "loss = F.cross_entropy(model(x), y) + 0.1 / args.accum * model(x).pow(2).mean()",
            "pass",
        ),
    ] {
        assert_eq!(looped("", body, step), Some(ACCUMULATED), "{body} {step}");
    }
}

#[test]
fn steps_that_are_counted_by_the_accumulation_are_understood() {
    for before in [
        "opt = AdamW(model.parameters(), lr=args.lr * args.batch_size * args.accum / 16)",
        "eff = args.batch_size * args.accum\nargs.lr = args.lr * eff / 16",
        "total = len(ds) // (args.batch_size * args.accum)\nsched = CosineAnnealingLR(opt, total)",
        "batches = loader\ntotal = args.epochs * len(batches) // args.accum\nsched = OneCycleLR(opt, 1e-3, total_steps=total)",
        "per_epoch = math.ceil(len(loader) / args.accum)",
        "total_micro = args.steps * args.accum\nfor _ in range(total_micro):\n  pass",
        "print('steps', args.steps * args.accum)",
        "trainer = T(logging_steps=100 // args.accum)",
        "resume_step = done * args.accum",
        "tokens_per_step = B * T * args.accum",
        "def at(it):\n  return it // args.accum",
    ] {
        assert_eq!(looped(before, LOSS, "pass"), None, "{before}");
    }
    for (body, step) in [
        (
            LOSS,
            "opt.param_groups[0]['lr'] = args.lr * 0.9 ** ((i + 1) // args.accum)",
        ),
        (
            LOSS,
            "if i // args.accum < 2:\n  opt.param_groups[0]['lr'] = args.lr * 0.5\nelse:\n  opt.param_groups[0]['lr'] = args.lr",
        ),
        (
            "loss = F.cross_entropy(model(x), y)\nrunning = running + loss.item() / args.accum",
            "pass",
        ),
        (
            "loss = F.cross_entropy(model(x), y)\nloss_accum = loss.item() * args.accum",
            "pass",
        ),
    ] {
        assert_eq!(looped("running = 0", body, step), None, "{body} {step}");
    }
}
