//! Steps whose batch goes through in slices of a width that an option sets.

use super::*;

const OPTIONS: &str = "p.add_argument('--micro-bs', type=int, default=8)\np.add_argument('--group', type=int)\nargs = p.parse_args()\n\
                       model = nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, batch_first=True), 12).cuda()\n\
                       opt = torch.optim.AdamW(model.parameters(), lr=args.lr)\n";
const RANGE: &str = "range(0, len(ids), args.micro_bs)";
const DIVIDED: &str = "(loss / n_micro).backward()";

/// A step that goes over slices, with these lines in each slice.
fn sliced(body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    format!(
        "{OPTIONS}for step in range(args.steps):\n  ids, y = next(data)\n  opt.zero_grad()\n  n_micro = len(ids) // args.micro_bs\n  \
         for i in {RANGE}:\n    part = slice(i, i + args.micro_bs)\n    loss = F.cross_entropy(model(ids[part]), y[part])\n    {body}\n  opt.step()\n"
    )
}

#[test]
fn slices_of_a_batch_are_understood() {
    let base = sliced(DIVIDED);
    assert_eq!(why(&base), None);
    for text in [
        sliced("loss = loss * len(ids[part]) / len(ids)\nloss.backward()"),
        base.replace(
            "len(ids) // args.micro_bs",
            "math.ceil(len(ids) / args.micro_bs)",
        ),
        base.replace("for i in range(", "for i in trange("),
    ] {
        assert_eq!(why(&text), None, "{text}");
    }
}

#[test]
fn slices_that_are_no_parts_of_a_step_are_doubts() {
    let base = sliced(DIVIDED);
    for text in [
        sliced("loss.backward()"),
        sliced("(loss / 4).backward()"),
        sliced("(loss / len(ids)).backward()"),
        sliced("(loss / n_micro).backward()\nopt.step()\nopt.zero_grad()"),
        sliced("(loss / n_micro).backward()\nclip_grad_norm_(model.parameters(), 1)"),
        base.replace(
            "F.cross_entropy(model(ids[part]), y[part])",
            "F.cross_entropy(model(ids[part]), y[part], ignore_index=0)",
        ),
        base.replace(
            "y[part])\n",
            "y[part])\n    loss = loss / loss.detach().std()\n",
        ),
        base.replace(RANGE, "range(len(ids))"),
    ] {
        assert_ne!(why(&text), None, "{text}");
    }
}
