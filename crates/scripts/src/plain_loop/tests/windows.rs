//! Sums that are divided by a count over all micro batches of a step.

use super::*;

fn of(change: impl Fn(String) -> String) -> Option<&'static str> {
    let text = "for window in windows(loader, args.accum):\n  n = sum((b['y'] != -100).sum() for b in window)\n  \
                for batch in window:\n    out = model(batch['x'])\n    \
                loss = F.cross_entropy(out, batch['y'], ignore_index=-100, reduction='sum')\n    \
                (loss / n).backward()\n  opt.step()\n  opt.zero_grad()\n";
    why(&format!("{HEAD}{}", change(text.to_owned())))
}

#[test]
fn a_sum_divided_by_a_count_over_a_step_is_understood() {
    assert_eq!(of(|text| text), None);
    let each = |text: String| text.replace("(b['y'] != -100).sum()", "len(b['y'])");
    assert_eq!(of(each), None);
    let accelerated =
        |text: String| format!("from accelerate import Accelerator\nf(args.accum)\n{text}");
    assert_eq!(of(accelerated), None);
    let own = "def windows(loader, size):\n  window = []\n  for batch in loader:\n    window.append(batch)\n    \
               if len(window) == size:\n      yield window\n      window = []\n";
    assert_eq!(of(|text| format!("{own}{text}")), None);
}

#[test]
fn a_count_of_less_or_another_loss_beside_it_is_a_doubt() {
    for (from, to) in [
        ("loss / n", "loss / (batch['y'] != -100).sum() / args.accum"),
        ("loss / n", "loss / (batch['y'] != -100).sum()"),
        ("loss / n", "loss / n / args.accum"),
        ("loss / n", "loss"),
        ("(b['y'] != -100).sum()", "b['y'].numel()"),
        ("for b in window", "for b in window[:1]"),
        (", reduction='sum'", ""),
        ("reduction='sum')", "reduction='sum') + out.mean()"),
        ("model(batch['x'])", "model(batch['x']) @ batch['x'].T"),
        ("  opt.step()", "    opt.step()"),
        ("args.accum)", "4)"),
        ("(loss / n)", "loss = loss + aux(out)\n    (loss / n)"),
        (
            "for window",
            "acc = Accelerator(gradient_accumulation_steps=args.accum)\nfor window",
        ),
    ] {
        let found = of(|text| text.replacen(from, to, 1));
        assert!(found.is_some(), "{from} {to}");
    }
}
