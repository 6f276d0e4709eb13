//! What a script says of GPUs: `DataParallel(…)`, its devices, `CUDA_VISIBLE_DEVICES`.

use super::python::{PythonToken, TokenKind, argument, calls, closed_call, tokens};
use oomctl_base::{line_and_column, word_list};

/// A value in a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Literal<T> {
    /// It is not given, so the default counts.
    #[default]
    Absent,
    /// It stands there.
    Known(T),
    /// It is given, and only a run would tell what it is.
    Unknown,
}

/// A call of `DataParallel(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataParallel {
    /// Line and column of the call, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The call as it is written, up to its bracket: `nn.DataParallel`.
    pub name: String,
    /// Places in the list of visible GPUs; all where it is absent.
    pub device_ids: Literal<Vec<u32>>,
    /// Where outputs are gathered; the first device where it is absent.
    pub output_device: Literal<u32>,
}

/// What one script says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceScript {
    /// The calls of `DataParallel`, the first 16.
    pub data_parallel: Vec<DataParallel>,
    /// It makes one process a GPU: `DistributedDataParallel`, or a library that does (`Accelerator`, `fully_shard`).
    pub is_distributed: bool,
    /// How many GPUs it lets itself see: `os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"`.
    pub visible: Literal<usize>,
}

/// Names that mean a process for each GPU.
const DISTRIBUTED: [&str; 6] = word_list(
    "DistributedDataParallel FullyShardedDataParallel fully_shard init_process_group Accelerator
     LOCAL_RANK",
);
/// Most calls of a script that are looked at.
const CALLS: usize = 16;
/// The class.
const CLASS: &str = "DataParallel";
/// The list of GPUs that CUDA shows.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

impl DeviceScript {
    /// Reads a script. What it cannot make out is unknown; no text is an error.
    pub fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let names = names(&tokens);
        let calls = calls(&tokens, |t| names.contains(&t.text));
        let calls = calls.filter_map(|at| call(text, &tokens, at));
        let distributed = |t: &PythonToken<'_>| DISTRIBUTED.contains(&t.text);
        Self {
            data_parallel: calls.take(CALLS).collect(),
            is_distributed: tokens.iter().any(distributed),
            visible: visible(&tokens),
        }
    }

    /// The same of a text that may have nothing to do with it.
    pub fn is_of_one_process(text: &str) -> bool {
        text.contains(CLASS) && Self::read(text).is_one_process()
    }

    /// Does one process spread itself over several GPUs here, and nothing else?
    pub fn is_one_process(&self) -> bool {
        !self.data_parallel.is_empty() && !self.is_distributed
    }
}

/// The class, and what it is imported as.
fn names<'t>(tokens: &[PythonToken<'t>]) -> Vec<&'t str> {
    let renamed = tokens
        .windows(3)
        .filter(|w| w[0].is(CLASS) && w[1].is("as"));
    let mut all: Vec<&str> = renamed.map(|w| w[2].text).collect();
    all.push(CLASS);
    all
}

/// The call whose name stands at `at`.
fn call(text: &str, tokens: &[PythonToken<'_>], at: usize) -> Option<DataParallel> {
    let name = tokens[at];
    let first = (0..at / 2).take_while(|n| {
        let dot = at - 2 * n - 1;
        dot > 0 && tokens[dot].is(".") && tokens[dot - 1].kind == TokenKind::Name
    });
    let from = tokens[at - 2 * first.count()].from;
    let (arguments, _) = closed_call(&tokens[at + 2..])?;
    let named = |wanted: &str, place| argument(&arguments, wanted, place);
    let spread = arguments.iter().any(|a| a[0].is("*"));
    named("module", 0)?;
    let (line, column) = line_and_column(text, from);
    Some(DataParallel {
        line,
        column,
        name: text.get(from..name.to)?.to_owned(),
        device_ids: given(named("device_ids", 1), spread, places),
        output_device: given(named("output_device", 2), spread, device),
    })
}

/// An argument as a value; with `**kwargs` what is absent may still be given.
fn given<T>(
    argument: Option<&[PythonToken<'_>]>,
    spread: bool,
    read: fn(&[PythonToken<'_>]) -> Option<T>,
) -> Literal<T> {
    match argument {
        None if spread => Literal::Unknown,
        None => Literal::Absent,
        Some([none]) if none.is("None") => Literal::Absent,
        Some(tokens) => read(tokens).map_or(Literal::Unknown, Literal::Known),
    }
}

/// `[0, 1]`, `(0, 1)`, `range(2)` or `list(range(2))`.
fn places(tokens: &[PythonToken<'_>]) -> Option<Vec<u32>> {
    /// More GPUs than a machine has.
    const MANY: u32 = 1_024;
    match tokens {
        [list, open, inner @ .., close] if list.is("list") && open.is("(") && close.is(")") => {
            places(inner)
        }
        [range, open, count, close] if range.is("range") && open.is("(") && close.is(")") => {
            let count = number(count).filter(|count| *count <= MANY)?;
            Some((0..count).collect())
        }
        [open, inner @ .., close]
            if (open.is("[") && close.is("]")) || (open.is("(") && close.is(")")) =>
        {
            let inner = inner.split(|t| t.is(",")).filter(|item| !item.is_empty());
            inner.map(device).collect()
        }
        _ => None,
    }
}

/// `1`, `"cuda:1"` or `torch.device("cuda:1")`.
fn device(tokens: &[PythonToken<'_>]) -> Option<u32> {
    match tokens {
        [one] if one.kind == TokenKind::Text => one.text.strip_prefix("cuda:")?.parse().ok(),
        [one] => number(one),
        [torch, dot, class, open, one, close]
            if torch.is("torch")
                && dot.is(".")
                && class.is("device")
                && open.is("(")
                && close.is(")") =>
        {
            device(std::slice::from_ref(one))
        }
        _ => None,
    }
}

fn number(token: &PythonToken<'_>) -> Option<u32> {
    token
        .text
        .parse()
        .ok()
        .filter(|_| token.kind == TokenKind::Number)
}

/// The last assignment to `CUDA_VISIBLE_DEVICES`.
fn visible(tokens: &[PythonToken<'_>]) -> Literal<usize> {
    let assigns = |w: &&[PythonToken<'_>]| {
        w[0].text == VISIBLE && w[1].is("]") && w[2].is("=") && !w[3].is("=")
    };
    let Some(assigned) = tokens.windows(5).rfind(assigns) else {
        return Literal::Absent;
    };
    let whole = matches!(assigned[4].kind, TokenKind::End) || assigned[4].is(";");
    match assigned[3] {
        list if list.kind == TokenKind::Text && whole => {
            let names = list.text.split(',').filter(|name| !name.trim().is_empty());
            Literal::Known(names.count())
        }
        _ => Literal::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> DataParallel {
        let mut calls = DeviceScript::read(text).data_parallel;
        assert_eq!(calls.len(), 1, "{text}");
        calls.remove(0)
    }

    #[test]
    fn calls_are_found_with_their_place_and_what_stands_in_them() {
        let call = one(
            "import torch\nmodel = torch.nn.DataParallel(net.to(0), device_ids=[0, 1, 2], output_device=2)\n",
        );
        assert_eq!((call.line, call.column), (2, 9));
        assert_eq!(call.name, "torch.nn.DataParallel");
        assert_eq!(call.device_ids, Literal::Known(vec![0, 1, 2]));
        assert_eq!(call.output_device, Literal::Known(2));
        let call = one(
            "from torch.nn import DataParallel as DP\nm = DP(m, list(range(4)), torch.device('cuda:1'))",
        );
        assert_eq!(call.device_ids, Literal::Known(vec![0, 1, 2, 3]));
        assert_eq!(call.output_device, Literal::Known(1));
        let call = one("m = nn.DataParallel(\n    m,  # all GPUs\n)");
        assert_eq!(
            (call.device_ids, call.output_device),
            (Literal::Absent, Literal::Absent)
        );
    }

    #[test]
    fn what_only_a_run_would_tell_is_unknown() {
        let call = one("m = nn.DataParallel(m, device_ids=args.gpus, output_device=args.gpus[0])");
        assert_eq!(
            (call.device_ids, call.output_device),
            (Literal::Unknown, Literal::Unknown)
        );
        let call = one("m = nn.DataParallel(m, **options)");
        assert_eq!(
            (call.device_ids, call.output_device),
            (Literal::Unknown, Literal::Unknown)
        );
        assert_eq!(
            one("m = nn.DataParallel(m, range(99999999))").device_ids,
            Literal::Unknown
        );
    }

    #[test]
    fn words_in_comments_texts_and_definitions_are_no_calls() {
        let text = "# nn.DataParallel(m)\n'''nn.DataParallel(m)'''\nclass DataParallel(nn.Module): pass\n\
                    def DataParallel(m): pass\nDistributedDataParallel(m)\nx = nn.DataParallel\nnn.DataParallel(m";
        let script = DeviceScript::read(text);
        assert!(script.data_parallel.is_empty());
        assert!(script.is_distributed && !script.is_one_process());
    }

    #[test]
    fn the_list_of_visible_gpus_is_counted_where_it_is_a_text() {
        let visible = |text: &str| DeviceScript::read(text).visible;
        assert_eq!(
            visible("os.environ['CUDA_VISIBLE_DEVICES'] = '0,1,3'\n"),
            Literal::Known(3)
        );
        assert_eq!(
            visible("os.environ['CUDA_VISIBLE_DEVICES'] = args.gpus\n"),
            Literal::Unknown
        );
        assert_eq!(
            visible("os.environ['CUDA_VISIBLE_DEVICES'] = '0,' + more\n"),
            Literal::Unknown
        );
        assert_eq!(
            visible("if os.environ['CUDA_VISIBLE_DEVICES'] == '0': pass\n"),
            Literal::Absent
        );
    }
}
