//! Conditions, where all that they ask for is known.

use std::rc::Rc;

use super::doc::Doc;
use super::{Walker, arithmetic};
use crate::shell::{ScriptBlock, SimpleCommand, Word};
use crate::traced::Why;

impl Walker<'_> {
    /// The branches that may be taken, and whether one of them surely is; nothing where the script ends in the one that is
    /// taken.
    pub(super) fn ways<'b>(
        &mut self,
        tests: &[Vec<ScriptBlock>],
        branches: &'b [Vec<ScriptBlock>],
        whole: bool,
        doc: &Rc<Doc>,
    ) -> Option<(Vec<&'b Vec<ScriptBlock>>, bool)> {
        let (mut ways, mut sure) = (Vec::new(), false);
        for (at, branch) in branches.iter().enumerate() {
            let taken = match tests.get(at) {
                Some(test) => self.succeeds(test, doc),
                None => Some(whole),
            };
            if taken != Some(false) {
                ways.push(branch);
            }
            if taken == Some(true) {
                sure = true;
                break;
            }
        }
        let ends = sure && ways.len() == 1 && ends(ways[0], doc);
        (!ends).then_some((ways, sure))
    }

    /// Whether what stands behind `&&` or `||` is run; nothing where that is unknown, or where the script ends there.
    pub(super) fn goes_on(&mut self, before: &[ScriptBlock], doc: &Rc<Doc>) -> Option<bool> {
        let is_more = |block: &ScriptBlock| matches!(block, ScriptBlock::Maybe(_));
        let first = before.iter().rposition(|block| !is_more(block))?;
        let holds = self.succeeds(&before[first..], doc)?;
        Some(holds == (joint(before.last()?, doc)? == "&&"))
    }

    /// Whether commands that `&&` and `||` join end in success; nothing where that is unknown.
    fn succeeds(&mut self, chain: &[ScriptBlock], doc: &Rc<Doc>) -> Option<bool> {
        let (first, others) = chain.split_first()?;
        let (mut so_far, mut before) = (self.one_succeeds(first, doc), first);
        for block in others {
            let ScriptBlock::Maybe(inner) = block else {
                return None;
            };
            let [next] = inner.as_slice() else {
                return None;
            };
            // A failure decides behind `&&`, a success behind `||`.
            let decides = joint(before, doc)? == "||";
            if so_far != Some(decides) {
                let next = self.one_succeeds(next, doc);
                let decided = next == Some(decides) || so_far == Some(!decides);
                so_far = next.filter(|_| decided);
            }
            before = block;
        }
        so_far
    }

    fn one_succeeds(&mut self, block: &ScriptBlock, doc: &Rc<Doc>) -> Option<bool> {
        let (start, holds) = match block {
            ScriptBlock::Command(command) => {
                let start = command.words.first()?.start;
                (start, self.command_succeeds(command, doc)?)
            }
            ScriptBlock::Test { start, end } => {
                let text = doc.text.get(*start..*end)?;
                let holds = match arithmetic::inside(text) {
                    Some(sum) => self.sum_holds(sum, *start, *end, doc)?,
                    None => self.inner_holds(text, *start, *end, doc)?,
                };
                (*start, holds)
            }
            _ => return None,
        };
        let negated = doc.text.get(..start)?.trim_end().ends_with('!');
        Some(holds != negated)
    }

    /// `[ … ]`, `test …`, `true`, `false`.
    fn command_succeeds(&mut self, command: &SimpleCommand, doc: &Doc) -> Option<bool> {
        if !command.redirects.is_empty() || !command.assignments.is_empty() {
            return None;
        }
        let bare = |word: &Word| word.bare(&doc.text).map(str::to_owned);
        match command.words.as_slice() {
            [only] => match self.asked(only, doc)?.as_str() {
                "true" | ":" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            [open, words @ .., close] if bare(open).as_deref() == Some("[") => {
                (bare(close).as_deref() == Some("]")).then(|| self.holds(words, doc))?
            }
            [open, words @ ..] if bare(open).as_deref() == Some("test") => self.holds(words, doc),
            _ => None,
        }
    }

    /// `[[ … ]]`.
    fn inner_holds(&mut self, text: &str, start: usize, end: usize, doc: &Doc) -> Option<bool> {
        let text = text.strip_prefix("[[")?.strip_suffix("]]")?;
        // Here `&&` binds closer than `||`.
        if text.contains("&&") && text.contains("||") {
            return None;
        }
        let inner = doc.part(doc.traced.slice(start + 2, end - 2));
        let (mut so_far, is_any) = (Some(!text.contains("||")), text.contains("||"));
        for block in &inner.script.blocks {
            let block = match block {
                ScriptBlock::Maybe(more) => more.first()?,
                block => block,
            };
            let ScriptBlock::Command(command) = block else {
                return None;
            };
            let (first, plain) = (command.words.first()?, command.redirects.is_empty());
            let negated = inner.text.get(..first.start)?.trim_end().ends_with('!');
            let holds = plain.then(|| self.holds(&command.words, &inner)).flatten();
            let holds = holds.map(|holds| holds != negated);
            so_far = either(is_any, so_far, holds);
        }
        so_far
    }

    /// `(( … ))`: a number that is not 0, or one comparison.
    fn sum_holds(&mut self, sum: &str, start: usize, end: usize, doc: &Doc) -> Option<bool> {
        let code = doc.code(start, end, Why::Code);
        let compared = ["==", "!=", "<=", ">=", "<", ">"];
        let found = compared
            .iter()
            .find_map(|by| Some((*by, sum.split_once(by)?)));
        match found {
            Some((by, (left, right))) => {
                let left = self.calculated(left, &code)?;
                compare(left, by, self.calculated(right, &code)?)
            }
            None => Some(self.calculated(sum, &code)? != 0),
        }
    }

    /// Whether what stands in a test's brackets holds.
    fn holds(&mut self, words: &[Word], doc: &Doc) -> Option<bool> {
        let plain: Vec<Option<String>> = words.iter().map(|w| w.plain(&doc.text)).collect();
        let plain: Vec<Option<&str>> = plain.iter().map(Option::as_deref).collect();
        for (joint, is_any) in [("-o", true), ("-a", false)] {
            let at = plain.iter().skip(1).position(|word| *word == Some(joint));
            if let Some(at) = at {
                let (left, right) = (&words[..=at], &words[at + 2..]);
                let left = self.holds(left, doc);
                return either(is_any, left, self.holds(right, doc));
            }
        }
        match plain[..] {
            [Some("!"), ..] => Some(!self.holds(&words[1..], doc)?),
            [_] => Some(!self.asked(&words[0], doc)?.is_empty()),
            [Some("-z"), _] => Some(self.asked(&words[1], doc)?.is_empty()),
            [Some("-n"), _] => Some(!self.asked(&words[1], doc)?.is_empty()),
            [_, Some(by), _] => {
                let (left, right) = (self.asked(&words[0], doc)?, self.asked(&words[2], doc)?);
                match by {
                    "=" | "==" => is_text(&right).then_some(left == right),
                    "!=" => is_text(&right).then_some(left != right),
                    _ => compare(left.trim().parse().ok()?, by, right.trim().parse().ok()?),
                }
            }
            _ => None,
        }
    }

    /// A word that a condition asks for, where it is known.
    fn asked(&mut self, word: &Word, doc: &Doc) -> Option<String> {
        let text = self.text_of(&word.pieces, doc);
        let unset = || self.is_unset_argument(&text.text()).then(String::new);
        text.known().or_else(unset)
    }

    /// Whether code is an argument of the script that is not given: `$1`.
    fn is_unset_argument(&self, code: &str) -> bool {
        let name = code.trim_start_matches(['$', '{']).trim_end_matches('}');
        let number = name.parse::<usize>().ok().filter(|_| code.starts_with('$'));
        let all_known = !self.scope.args.iter().any(|arg| arg.maybe);
        number.is_some_and(|number| number > self.scope.args.len()) && all_known
    }
}

/// Whether a script or a function ends in a branch.
fn ends(branch: &[ScriptBlock], doc: &Doc) -> bool {
    branch.iter().any(|block| match block {
        ScriptBlock::Command(command) => {
            let name = command.words.first().and_then(|w| w.plain(&doc.text));
            matches!(name.as_deref(), Some("exit" | "return"))
        }
        _ => false,
    })
}

/// What joins a command to the one behind it.
fn joint<'t>(before: &ScriptBlock, doc: &'t Doc) -> Option<&'t str> {
    let end = match before {
        ScriptBlock::Command(command) => command.words.last()?.end,
        ScriptBlock::Test { end, .. } => *end,
        ScriptBlock::Maybe(inner) => return joint(inner.last()?, doc),
        _ => return None,
    };
    let behind = doc.text.get(end..)?.trim_start_matches([' ', '\t']);
    behind.get(..2).filter(|by| matches!(*by, "&&" | "||"))
}

/// Whether one of two holds, or both do.
fn either(is_any: bool, left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(decides), _) | (_, Some(decides)) if decides == is_any => Some(is_any),
        (Some(_), Some(_)) => Some(!is_any),
        _ => None,
    }
}

/// Whether two numbers are as a test or a calculation asks.
fn compare(left: i64, by: &str, right: i64) -> Option<bool> {
    match by {
        "-eq" | "==" => Some(left == right),
        "-ne" | "!=" => Some(left != right),
        "-lt" | "<" => Some(left < right),
        "-le" | "<=" => Some(left <= right),
        "-gt" | ">" => Some(left > right),
        "-ge" | ">=" => Some(left >= right),
        _ => None,
    }
}

/// Whether a word is no pattern, which stands for others too.
fn is_text(word: &str) -> bool {
    !word.contains(['*', '?', '[', '\\', '('])
}
