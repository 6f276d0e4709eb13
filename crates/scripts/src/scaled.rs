//! What a program computes of its batch beside a Trainer: a learning rate, a number of steps, packs of samples.
//!
//! Rule: where the batch and the accumulation stand together their product stays, and what says when something is shown or saved
//! trains nothing.

use std::collections::BTreeSet;

use super::parts::is_accumulation;
use super::python::{
    PythonToken, TokenKind, argument_with, assignment, brackets, is_named, line, line_of,
    path_begin, statements,
};
use oomctl_base::word_list;

/// Parts of the names of values that train nothing, and the batch itself.
const OTHERS: [&str; 12] =
    word_list("acc eval val test print log logger assert save name dir batch");
/// Names of values that training depends on, however they are computed.
const SCHEDULE: [&str; 11] = word_list(
    "learning_rate lr warmup_steps warmup_ratio num_warmup_steps max_steps num_train_epochs num_training_steps total_steps \
     weight_decay max_grad_norm",
);
/// Names behind one another that are followed.
const MOST_NAMES: usize = 3;

/// The file and the token of the first such value.
pub(super) fn scaled(files: &[&[PythonToken<'_>]]) -> Option<(usize, usize)> {
    let sizes = names(files, is_batch);
    let counts = names(files, is_accumulation);
    files.iter().enumerate().find_map(|(file, tokens)| {
        let mut places = 0..tokens.len();
        let at = places.find(|at| follows(tokens, *at, &sizes, &counts))?;
        Some((file, at))
    })
}

fn is_batch(name: &str) -> bool {
    let others = ["eval", "val_", "test"];
    name.contains("batch_size") && !others.iter().any(|part| name.contains(part))
}

/// The names under which a program has a value of the Trainer: the Trainer's own, what it hands there, and what it takes from there.
fn names<'t>(files: &[&[PythonToken<'t>]], is: impl Fn(&str) -> bool) -> BTreeSet<&'t str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for _ in 0..MOST_NAMES {
        for tokens in files {
            let all = statements(tokens).filter_map(|line| taken(line, &found, &is));
            let taken: Vec<&str> = all.flatten().collect();
            found.extend(taken);
        }
        found.extend(files.iter().flat_map(|tokens| handed(tokens, &is)));
    }
    for tokens in files {
        found.extend(tokens.iter().map(|t| t.text).filter(|text| is(text)));
    }
    found
}

/// `per_device_train_batch_size=a.bs`: the last name of a value that is handed on as it is.
fn handed<'t>(tokens: &[PythonToken<'t>], is: impl Fn(&str) -> bool) -> Vec<&'t str> {
    let keys = (2..tokens.len()).filter(|at| tokens[at - 1].is("=") && is(tokens[at - 2].text));
    let names = keys.filter_map(|at| {
        let open = brackets(tokens, at).next()?;
        let value = argument_with(tokens, open, at)?.get(2..)?;
        let plain = value.iter().all(|t| !is_sign(t));
        let last = value.iter().rev().find(|t| !t.closes())?;
        let named = matches!(last.kind, TokenKind::Name | TokenKind::Text);
        (plain && named).then_some(last.text)
    });
    names.collect()
}

/// `bs = args.per_device_train_batch_size`, `a, b = c, d`, `(n := bs)`: the names that get such a value.
fn taken<'t>(
    line: &[PythonToken<'t>],
    known: &BTreeSet<&str>,
    is: impl Fn(&str) -> bool,
) -> Option<Vec<&'t str>> {
    let has = |value: &[PythonToken<'_>]| {
        let mut places = (0..value.len()).filter(|at| !is_handed(value, *at));
        places.any(|at| is(value[at].text) || known.contains(value[at].text))
    };
    let walrus = line.windows(3).position(|w| w[1].is(":") && w[2].is("="));
    if let Some(at) = walrus.filter(|at| has(&line[at + 3..])) {
        return Some(vec![line[at].text]);
    }
    let equals = assignment(line)?;
    let (targets, values) = (&line[..equals], &line[equals + 1..]);
    let [targets, values] =
        [targets, values].map(|part| part.split(|t| t.is(",")).collect::<Vec<_>>());
    let pairs: Vec<_> = match targets.len() == values.len() {
        true => targets.into_iter().zip(values).collect(),
        false => vec![(*targets.first()?, &line[equals + 1..])],
    };
    let own = pairs.into_iter().filter(|(_, value)| has(value));
    let named = own.filter_map(|(target, _)| match target {
        [name] if name.kind == TokenKind::Name => Some(name.text),
        _ => None,
    });
    Some(named.collect())
}

/// Whether a value is only handed to an argument with a name.
fn is_handed(value: &[PythonToken<'_>], at: usize) -> bool {
    let first = path_begin(value, at);
    let equals = first.checked_sub(1).is_some_and(|at| value[at].is("="));
    equals || value.get(at + 1).is_some_and(|t| t.is("="))
}

fn is_sign(token: &PythonToken<'_>) -> bool {
    token.is("*") || token.is("/")
}

/// Whether something else than the Trainer's own two values follows the one at this place.
fn follows(
    tokens: &[PythonToken<'_>],
    at: usize,
    sizes: &BTreeSet<&str>,
    counts: &BTreeSet<&str>,
) -> bool {
    let token = &tokens[at];
    let (size, count) = (sizes.contains(token.text), counts.contains(token.text));
    let is_key = tokens.get(at + 1).is_some_and(|t| t.is("="));
    if size == count || is_key || token.kind == TokenKind::Other {
        return false;
    }
    // `ds.map(pack, batched=True, batch_size=bs)` may pack samples.
    let mut calls = brackets(tokens, at).filter_map(|open| tokens.get(open.checked_sub(1)?));
    if size && calls.any(|call| call.is("map")) {
        return true;
    }
    let (part, target) = part_of(tokens, at);
    let has = |names: &BTreeSet<&str>| part.iter().any(|t| names.contains(t.text));
    let is_other = |t: &PythonToken<'_>| OTHERS.iter().any(|part| t.text.contains(part));
    if has(sizes) && has(counts) || target.or(part.first()).is_some_and(is_other) {
        return false;
    }
    let of_schedule = target.is_some_and(|t| SCHEDULE.contains(&t.text));
    size && scales(tokens, at) || of_schedule
}

/// The argument or the statement in which a token stands, and what gets its value.
fn part_of<'a, 't>(
    tokens: &'a [PythonToken<'t>],
    at: usize,
) -> (&'a [PythonToken<'t>], Option<&'a PythonToken<'t>>) {
    let mut given = brackets(tokens, at).filter_map(|open| argument_with(tokens, open, at));
    if let Some(part) = given.find(|given| is_named(given)) {
        return (part, part.first());
    }
    let line = line(tokens, at);
    let place = at - line_of(tokens, at);
    let (before, behind) = line.split_at(place.min(line.len()));
    let ends = |t: &PythonToken<'_>| t.is(";");
    let from = before.iter().rposition(ends).map_or(0, |end| end + 1);
    let length = behind.iter().position(ends).unwrap_or(behind.len());
    let part = &line[from..before.len() + length];
    let target = assignment(part).and_then(|equals| {
        let before = part[..equals].iter().rev();
        let mut before = before.skip_while(|t| is_sign(t) || t.is("+") || t.is("-"));
        before.next()
    });
    (part, target)
}

/// Whether a name, with what it belongs to, is multiplied or divided.
fn scales(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let first = path_begin(tokens, at);
    let around = [first.checked_sub(1), Some(at + 1)].map(|at| tokens.get(at?));
    tokens[at].kind == TokenKind::Name && around.into_iter().flatten().any(is_sign)
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    fn is_scaled(text: &str) -> bool {
        scaled(&[&tokens(text)]).is_some()
    }

    /// Each argument is judged by itself: the accumulation and the interval of a log beside it excuse nothing.
    #[test]
    fn an_argument_that_is_computed_from_the_batch_is_found() {
        let of = |argument: &str| {
            is_scaled(&format!(
                "t = TrainingArguments('out', per_device_train_batch_size=a.bs, logging_steps=a.log_steps,\n    \
                 gradient_accumulation_steps=a.accum, {argument})\nprint(a.bs * 2, end='')\n"
            ))
        };
        for argument in [
            "learning_rate=a.lr * a.bs / 8",
            "learning_rate=scaled(a.lr, a.bs)",
            "learning_rate=a.lr * a.accum",
            "max_steps=len(data) // a.bs",
            "warmup_steps=1000 // a.bs",
        ] {
            assert!(of(argument), "{argument}");
        }
        for argument in [
            "learning_rate=a.lr",
            "per_device_eval_batch_size=a.bs * 2",
            "max_steps=len(data) // (a.bs * a.accum)",
            "save_steps=800 // a.bs",
        ] {
            assert!(!of(argument), "{argument}");
        }
    }

    #[test]
    fn a_value_is_followed_under_the_names_that_the_program_gives_it() {
        for text in [
            "steps = rows // args.batch_size\n",
            "args.learning_rate *= args.per_device_train_batch_size / 64\n",
            "bs = args.per_device_train_batch_size\nargs.learning_rate = 1e-6 * bs\n",
            "bs, ga = args.per_device_train_batch_size, args.gradient_accumulation_steps\nargs.warmup_steps = 3200 // bs\n",
            "if (bs := args.per_device_train_batch_size) > 1: args.warmup_steps = 3200 // bs\n",
            "args.learning_rate = lr_for(args.per_device_train_batch_size)\n",
            "args.learning_rate = 1e-6 * getattr(args, 'per_device_train_batch_size')\n",
            "n = vars(args)['per_device_train_batch_size']\nargs.learning_rate = n * 1e-6\n",
            "n = int(sys.argv[sys.argv.index('--per_device_train_batch_size') + 1])\nargs.lr = n * 1e-6\n",
            "k = args.gradient_accumulation_steps\nargs.warmup_steps = 100 * k\n",
            "ds = ds.map(pack, batched=True, batch_size=args.per_device_train_batch_size)\n",
            "x = TrainingArguments(per_device_train_batch_size=int(os.environ['BS']), warmup_steps=3200 // int(os.environ['BS']))\n",
            "x = TrainingArguments(per_device_train_batch_size=cfg['bs'], learning_rate=cfg['base'] * cfg['bs'])\n",
            "lr = a.lr * a.bs / 32\nx = TrainingArguments(per_device_train_batch_size=a.bs, learning_rate=lr)\n",
        ] {
            assert!(is_scaled(text), "{text}");
        }
        for text in [
            "",
            "=",
            "bs",
            "gradient_accumulation_steps = batch_size // micro_batch_size\n",
            "total = args.per_device_train_batch_size * args.gradient_accumulation_steps\nargs.max_steps = rows // total\n",
            "bs = args.per_device_train_batch_size\nloader = DataLoader(ds, batch_size=bs)\nprint('lr', bs * 2)\n",
            "p.add_argument('--batch_size', type=int, help='per GPU / rank')\np.add_argument('--learning_rate')\n",
            "x = TrainingArguments(per_device_train_batch_size=4, learning_rate=lr, warmup_steps=100)\n",
        ] {
            assert!(!is_scaled(text), "{text}");
        }
    }
}
