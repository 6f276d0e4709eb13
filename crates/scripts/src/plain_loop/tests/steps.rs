//! What lets an optimizer step, and what only looks as if it did something to each micro batch.

use super::*;

const CALL: &str = "def __call__(self, loss, optimizer, clip=None, update_grad=True):";
const BACKWARD: &str = "    self._scaler.scale(loss).backward(create_graph=False)\n";
const STEP: &str = "      norm = clip_grad_norm_(self.all, clip)\n      self._scaler.step(optimizer)\n      self._scaler.update()\n";
const UPDATE: &str = "update_grad=(i + 1) % args.accum == 0";
const ZERO: &str = "if (i + 1) % args.accum == 0:\n      opt.zero_grad()";

/// A program whose loss goes backward in a class with this `__call__`, in a loop that hands it this.
fn scaled(call: &str, given: &str, rest: &str) -> String {
    format!(
        "{HEAD}class Scaler:\n  def __init__(self):\n    self._scaler = torch.cuda.amp.GradScaler()\n  {CALL}\n{call}\n\
         loss_scaler = Scaler()\nfor i, (x, y) in enumerate(loader):\n    {LOSS}\n    loss = loss / args.accum\n    \
         loss_scaler(loss, opt, {given})\n    {rest}\n"
    )
}

fn right() -> String {
    format!("{BACKWARD}    if update_grad:\n{STEP}    else:\n      norm = None\n    return norm")
}

#[test]
fn an_object_that_is_told_when_to_step_is_understood() {
    let base = scaled(&right(), UPDATE, ZERO);
    assert_eq!(why(&base), None);
    let class = base.replace("class Scaler:", "class Scaler_:");
    for text in [
        base.replace("loss_scaler(", "norm = loss_scaler("),
        base.replace("clip_grad_norm_(self.all, clip)", "own(self.all)"),
        base.replace(UPDATE, "None, (i + 1) % args.accum == 0"),
        base.replace(UPDATE, "update_grad=last").replace("    loss = loss /", "    last = (i + 1) % args.accum == 0 or i == len(loader) - 1\n    loss = loss /"),
        class.replace("loss_scaler = Scaler()", "from util import Scaler_ as Scaler\nloss_scaler = None\nif args.amp:\n  loss_scaler = Scaler()"),
        format!("from timm.utils import NativeScaler\n{}", class.replace("= Scaler()", "= NativeScaler()").replace("update_grad=(", "need_update=(").replace("_scaler.scale(loss).backward", "idle")),
    ] {
        assert_eq!(why(&text), None, "{text}");
    }
}

#[test]
fn an_object_that_steps_otherwise_is_a_doubt() {
    let told = format!("{BACKWARD}    if update_grad:\n{STEP}");
    let base = scaled(&right(), UPDATE, ZERO);
    assert_eq!(why(&scaled(&told, UPDATE, ZERO)), None);
    let bare = STEP.replace("      ", "    ");
    for call in [
        format!("{BACKWARD}{bare}"),
        format!("{BACKWARD}    if update_grad or self.n > 3:\n{STEP}"),
        format!("{BACKWARD}    if not update_grad:\n{STEP}"),
        format!("{BACKWARD}    update_grad = True\n    if update_grad:\n{STEP}"),
        format!("{BACKWARD}    update_grad = None\n    if update_grad:\n{STEP}"),
        format!("{BACKWARD}    clip_grad_norm_(self.all, clip)\n    if update_grad:\n{STEP}"),
        format!(
            "{BACKWARD}    if clip is not None:\n      clip_grad_norm_(self.all, clip)\n    if update_grad:\n{STEP}"
        ),
        format!("{BACKWARD}    optimizer.zero_grad()\n    if update_grad:\n{STEP}"),
        format!("{told}    else:\n      optimizer.zero_grad()"),
        format!("{told}    self._scaler.update()"),
        format!("    loss = loss ** 2\n{told}"),
        format!("{BACKWARD}{told}"),
        format!("    if self.on:\n  {told}"),
        told.replace("scale(loss)", "scale(loss * self.n)"),
        told.replace("self._scaler.scale(loss)", "(loss / loss.detach())"),
        told.replace("self._scaler.scale(loss)", "self.own.scale(loss)"),
    ] {
        assert_ne!(why(&scaled(&call, UPDATE, ZERO)), None, "{call}");
    }
    for (given, rest) in [
        ("update_grad=(i + 1) % args.log_every == 0", ZERO),
        ("update_grad=True", ZERO),
        ("None", ZERO),
        ("update_grad=(i + 1) % args.accum != 0", ZERO),
        ("update_grad=(i + 1) % args.accum", ZERO),
        ("update_grad=not (i + 1) % args.accum == 0", ZERO),
        ("update_grad=i % args.accum == 0", ZERO),
        ("update_grad=(i + 1) % args.accum == 0 or i < 100", ZERO),
        ("update_grad=args.accum > 1", ZERO),
        (UPDATE, "opt.zero_grad()"),
        (UPDATE, "sched.step()"),
        (
            UPDATE,
            "loss_scaler(model(y).mean(), opt, update_grad=False)",
        ),
        (UPDATE, "ema.update(model)"),
    ] {
        assert_ne!(why(&scaled(&told, given, rest)), None, "{given} {rest}");
    }
    for text in [
        base.replace("    loss = loss / args.accum\n", ""),
        base.replace("    loss = loss / args.accum\n", "    updates = rows / args.accum\n"),
        base.replace("    loss = loss / args.accum\n", "    part = i / args.accum\n"),
        base.replace("loss_scaler = Scaler()", "loss_scaler = Scaler() if args.amp else Other()"),
        base.replace("loss_scaler = Scaler()", "loss_scaler = Scaler()\nif args.apex:\n  loss_scaler = Other()"),
        format!("from timm.utils import NativeScaler\n{}", base.replace("= Scaler()", "= NativeScaler()").replace("update_grad=(", "need_update=(").replace("% args.accum", "% args.log")),
        format!("from timm.utils import accuracy\n{}", scaled(&format!("{BACKWARD}{bare}"), UPDATE, ZERO).replace("Scaler()", "NativeScaler()").replace("class Scaler", "class NativeScaler")),
        base.replace("loss_scaler = Scaler()", "class Each(Scaler):\n  def __call__(self, loss, optimizer, update_grad):\n    super().__call__(loss, optimizer, True)\nloss_scaler = Each()"),
        base.replace("GradScaler()", "Own()"),
    ] {
        assert_ne!(why(&text), None, "{text}");
    }
}

/// A loop with this behind its backward pass.
fn stepping(steps: &str) -> Option<&'static str> {
    why(&format!(
        "{HEAD}for i, (x, y) in enumerate(loader):\n  {LOSS}\n  (loss / args.accum).backward()\n  {}\n",
        steps.replace('\n', "\n  ")
    ))
}

#[test]
fn a_step_waits_in_the_other_branch_and_behind_what_passes_over_all_others() {
    for steps in [
        "if (i + 1) % args.accum:\n  continue\nclip_grad_norm_(model.parameters(), 1)\nopt.step()\nopt.zero_grad()",
        "if (i + 1) % args.accum != 0: continue\nopt.step()\nopt.zero_grad()",
        "wait = (i + 1) % args.accum != 0\nif wait:\n  continue\nopt.step()\nopt.zero_grad()",
        "if (i + 1) % args.accum != 0:\n  pass\nelse:\n  clip_grad_norm_(model.parameters(), 1)\n  opt.step()\n  opt.zero_grad()",
        "if not (i + 1) % args.accum:\n  opt.step()\n  opt.zero_grad()",
        "if (i + 1) % args.accum == 0 or i + 1 == len(loader):\n  opt.step()\n  opt.zero_grad()",
    ] {
        assert_eq!(stepping(steps), None, "{steps}");
    }
    for steps in [
        "if (i + 1) % args.accum != 0:\n  opt.step()\n  opt.zero_grad()",
        "if (i + 1) % args.accum:\n  opt.step()\n  opt.zero_grad()",
        "if (i + 1) % args.accum == 0:\n  pass\nelse:\n  opt.step()\n  opt.zero_grad()",
        "if (i + 1) % args.accum == 0:\n  continue\nopt.step()\nopt.zero_grad()",
        "if (i + 1) % args.log:\n  continue\nopt.step()\nopt.zero_grad()",
        "if args.slow:\n  if (i + 1) % args.accum:\n    continue\nopt.step()\nopt.zero_grad()",
        "if (i + 1) % args.accum:\n  for y in z:\n    continue\nopt.step()\nopt.zero_grad()",
        "opt.step()\nif (i + 1) % args.accum:\n  continue\nopt.zero_grad()",
        "if args.accum > 1:\n  opt.step()\n  opt.zero_grad()",
        "if (i + 1) % args.accum == 0 or i % 2 == 0:\n  opt.step()\n  opt.zero_grad()",
        "if args.slow:\n  pass\nelse:\n  opt.step()\n  opt.zero_grad()",
    ] {
        assert_ne!(stepping(steps), None, "{steps}");
    }
}

#[test]
fn what_is_read_saved_or_ended_changes_nothing() {
    const SAVE: &str = "def save_checkpoint(model, optimizer):\n  torch.save([model.state_dict(), optimizer.state_dict()], 'a.pt')";
    const VAE: &str =
        "from diffusers import AutoencoderKL\nvae = AutoencoderKL.from_pretrained('a')";
    for (before, body) in [
        ("", "rate = opt.param_groups[0]['lr']"),
        (
            "",
            "if i % 9 == 0:\n  rate = opt.param_groups[-1][\"lr\"]\n  logger.info(rate)",
        ),
        (
            "",
            "for g in opt.param_groups:\n  low = min(low, g['lr'])\n  if 'decay' in g:\n    decay = g['decay']",
        ),
        ("", "rates = [g['lr'] for g in opt.param_groups]"),
        (
            "",
            "if not math.isfinite(loss.item()):\n  print(loss)\n  sys.exit(1)",
        ),
        (
            SAVE,
            "if i % args.save_every == 0:\n  save_checkpoint(model, opt)",
        ),
        (SAVE, "save_checkpoint(model, opt)"),
        (
            VAE,
            "with torch.no_grad():\n  x = vae.quant_conv(vae.encoder(x))",
        ),
    ] {
        assert_eq!(
            looped(before, &format!("{LOSS}\n{body}\n{LOSS}"), "pass"),
            None,
            "{body}"
        );
    }
    for (before, body) in [
        ("", "opt.param_groups[0]['lr'] = rate(i)"),
        ("", "opt.param_groups[0]['lr'] *= 0.9"),
        ("", "g = opt.param_groups[0]\ng['lr'] *= 0.9"),
        ("", "for g in opt.param_groups:\n  g['lr'] = g['lr'] * 0.9"),
        (
            "",
            "for g in opt.param_groups:\n  g.update(lr=0.1 / (1 + i))",
        ),
        ("", "for g in opt.param_groups:\n  change(g)"),
        (
            "",
            "for g in opt.param_groups:\n  for p in g['params']:\n    p.data.mul_(0.9)",
        ),
        (
            "",
            "ps = opt.param_groups[0]['params']\nps[0].data.mul_(0.9)",
        ),
        ("", "if torch.isnan(loss):\n  continue"),
        ("", "if torch.isnan(loss):\n  break"),
        ("", "if not torch.isnan(loss):\n  seen += 1"),
        ("", "if torch.isnan(loss) or loss < 0.1:\n  sys.exit(0)"),
        ("", "if loss < 0.1:\n  sys.exit(0)"),
        (
            "def save_checkpoint(model, optimizer):\n  optimizer.step()",
            "save_checkpoint(model, opt)",
        ),
        (
            "def save_checkpoint(model, optimizer):\n  model.eval()",
            "save_checkpoint(model, opt)",
        ),
        ("", "save_checkpoint(model, opt)"),
        ("", "checkpoint_and_step(model, opt)"),
        ("vae = VAE()", "x = vae.encoder(x)"),
        (
            "from diffusers import AutoencoderKL\nvae = AutoencoderKL.from_pretrained('a')\nvae.encoder = strange()",
            "x = vae.encoder(x)",
        ),
        (
            "class AutoencoderKL(nn.Module):\n  pass\nvae = AutoencoderKL.from_pretrained('a')",
            "x = vae.encoder(x)",
        ),
        (
            "class VAE(nn.Module):\n  def __init__(self):\n    self.encoder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))\nvae = VAE()",
            "x = vae.encoder(x)",
        ),
        (
            "from transformers import ResNetModel\nvae = ResNetModel.from_pretrained('a')",
            "x = vae.encoder(x)",
        ),
        (VAE, "x = vae.strange(x)"),
        (
            "from timm.data import Mixup\nmix = Mixup(0.8)",
            "x, y = mix(x, y)",
        ),
    ] {
        assert_ne!(
            looped(before, &format!("{LOSS}\n{body}\n{LOSS}"), "pass"),
            None,
            "{before} {body}"
        );
    }
}

#[test]
fn an_accumulation_of_two_settings_is_named_by_them() {
    let of = |text: &str| {
        let all = tokens(text);
        let found = doubts_beside(&[&all])
            .into_iter()
            .find(|(sort, _)| *sort == PARTS);
        found
            .and_then(|(_, found)| found)
            .map(|(keys, ..)| keys.into_owned())
    };
    const KEYS: Option<&str> = Some("train.micro of train.batch");
    for (text, expected) in [
        ("accum = cfg.train.batch // cfg.train.micro\n", KEYS),
        (
            "accum = cfg['train']['batch'] // cfg['train']['micro']\n",
            KEYS,
        ),
        (
            "accum = cfg.train.batch // cfg.train.micro\naccum = 4\n",
            None,
        ),
        ("accum = cfg.train.batch // 8\n", None),
        (
            "accum = cfg.train.batch // cfg.train.micro // world\n",
            None,
        ),
        ("steps = cfg.train.batch // cfg.train.micro\n", None),
        ("accum = cfg.train.batch / cfg.train.micro\n", None),
    ] {
        assert_eq!(of(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn what_goes_by_a_count_of_micro_batches_behind_their_loop_is_a_doubt() {
    let of = |each: &str, step: &str, behind: &str| {
        why(&format!(
            "{HEAD}updates = 0\nfor step in range(args.steps):\n  opt.zero_grad()\n  for _ in range(args.accum):\n    x, y = get_batch()\n    \
             {LOSS} / args.accum\n    loss.backward()\n    {each}\n  opt.step()\n  {step}\n  {behind}\n\
             def get_batch():\n  i = torch.randint(9, (n,))\n  return torch.stack([data[j] for j in i])\n"
        ))
    };
    const RAISES: &str = "updates += 1";
    let copies = "if updates % args.every == 0:\n    target.load_state_dict(model.state_dict())";
    for (each, step, behind, found) in [
        (RAISES, "pass", copies, Some(COUNT)),
        ("pass", RAISES, copies, None),
        (
            RAISES,
            "pass",
            "if updates > args.warm:\n    sched.step()",
            Some(COUNT),
        ),
        (
            RAISES,
            "pass",
            "for g in opt.param_groups:\n    g['lr'] = args.lr * min(1, updates / 8)",
            Some(COUNT),
        ),
        (
            RAISES,
            "pass",
            "if updates % 10 == 0:\n    print(updates)",
            None,
        ),
        (
            RAISES,
            "pass",
            "if updates % args.save_every == 0:\n    torch.save(model.state_dict(), 'm.pt')",
            None,
        ),
        (
            RAISES,
            "pass",
            "if updates % (args.every * args.accum) == 0:\n    target.load_state_dict(model.state_dict())",
            None,
        ),
        (RAISES, "pass", "mean = total / updates", None),
    ] {
        assert_eq!(of(each, step, behind), found, "{each} {step} {behind}");
    }
}

#[test]
fn a_loss_that_nothing_divides_is_shown_where_it_goes_backward() {
    let text = format!(
        "{HEAD}for i, (x, y) in enumerate(loader):\n  {LOSS}\n  loss.backward()\n  if (i + 1) % args.accum == 0:\n    opt.step()\n    opt.zero_grad()\n"
    );
    let all = tokens(&text);
    let found = doubt(&[&all], &declared_by(&[&all]));
    let shown = found.and_then(|(why, _, (from, to))| Some((why, text.get(from..to)?)));
    assert_eq!(shown, Some((UNDIVIDED.into(), "backward")));
}
