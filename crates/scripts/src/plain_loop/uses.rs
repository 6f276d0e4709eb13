//! What a loop does with the number, the values and the chances of a micro batch beside its loss.
//!
//! Rule: of these only what shows, what saves and what evaluates is known to train nothing.

use super::super::python::{is_keyword, line};
use super::lines::{assignment, calls_in, lines_in, shows};
use super::{COUNT, EACH, LoopOfBatches, PLAIN, PythonToken, TokenKind, arguments, headers};
use oomctl_base::word_list;

pub(super) const DECIDES: &str = "this decides by one micro batch";
pub(super) const DRAWN: &str = "this is drawn once for each micro batch";
pub(super) const UNREAD: &str = "what this does after each micro batch was not read";

/// Parts of names of what runs beside training.
const ASIDE: [&str; 9] = word_list("eval valid test save checkpoint ckpt logg plot prof");
/// What leaves a loop or a micro batch.
const LEAVES: [&str; 6] = word_list("break continue return raise exit quit");
/// Calls after which training goes on as before.
const HARMLESS: [&str; 18] = word_list(
    "backward manual_backward step zero_grad update train eval append extend add set_description set_postfix put empty_cache collect clip_grad_norm_ clip_grad_value_ unscale_",
);
/// Tests of values.
const TESTS: [&str; 3] = ["isnan", "isfinite", "isinf"];
/// How many names may hand on what is only shown.
const HANDS_ON: usize = 3;

impl LoopOfBatches<'_, '_> {
    /// The first line that uses the number of a micro batch, decides by its values, draws for it, or changes its gradients.
    pub(super) fn uses(&self) -> Option<(&'static str, usize)> {
        let all = || self.lines.iter().chain(&self.waits).copied();
        let counts = all().find(|at| self.uses_a_counter(*at));
        let counts = counts.map(|at| (COUNT, at));
        let each = || self.lines.iter().copied();
        let decides = || all().find(|at| self.decides(*at)).map(|at| (DECIDES, at));
        let draws = || each().find(|at| self.draws(*at)).map(|at| (DRAWN, at));
        let changes = || each().find(|at| self.changes_gradients(*at));
        let unread = || each().find(|at| self.calls_unread(*at));
        let found = counts.or_else(decides).or_else(draws);
        let found = found.or_else(|| changes().map(|at| (EACH, at)));
        found.or_else(|| unread().map(|at| (UNREAD, at)))
    }

    fn uses_a_counter(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let is_ours = || {
            line.iter()
                .any(|t| self.program.is_accumulation(t) || t.is("sync_gradients"))
        };
        self.names_a_counter(line)
            && !shows(line)
            && !is_ours()
            && !self.is_beside_training(begin)
            && !self.is_share_of_an_epoch(begin)
            && !self.gives_what_is_shown(line, HANDS_ON)
    }

    /// Whether a line gives a name a value that is only shown, or counts.
    fn gives_what_is_shown(&self, line: &[PythonToken<'_>], depth: usize) -> bool {
        let Some(sign) = assignment(line) else {
            return false;
        };
        // `self.seen += 1`, where nothing outside of the loop looks at it.
        let counts = sign == 4
            && line[0].is("self")
            && self.is_counting_member(line[2].text)
            && self.is_of_the_loop(line[2].text);
        let mut given = line[..sign].iter().filter(|t| t.kind == TokenKind::Name);
        counts || given.all(|t| self.is_counter(t.text) || self.is_only_shown(t.text, depth))
    }

    fn is_only_shown(&self, name: &str, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        let mut all = self.lines.iter().chain(&self.waits);
        all.all(|at| {
            let line = self.line(*at);
            let value = assignment(line).map_or(line, |sign| &line[sign + 1..]);
            let used = value.iter().any(|t| t.is(name));
            let first = line[0].is(name) && assignment(line).is_some();
            !used
                || first
                || shows(line)
                || self.is_beside_training(*at)
                || self.gives_what_is_shown(line, depth)
        })
    }

    /// Whether a line is a condition of which nothing of training depends, or stands below one.
    pub(super) fn is_beside_training(&self, at: usize) -> bool {
        let around = headers(self.tokens, at).take_while(|(begin, _)| *begin != self.begin);
        let mut around = around.map(|(begin, _)| begin);
        self.guards_nothing(at) || around.any(|begin| self.guards_nothing(begin))
    }

    /// Whether all that a condition guards shows, saves, evaluates or fails.
    fn guards_nothing(&self, begin: usize) -> bool {
        let line = self.line(begin);
        if !(line[0].is("if") || line[0].is("elif")) {
            return false;
        }
        let aside = |line: &[PythonToken<'_>]| {
            line.iter().any(|t| {
                let name = t.text.to_lowercase();
                t.kind == TokenKind::Name && ASIDE.iter().any(|part| name.contains(part))
            })
        };
        let of_failure = line.iter().any(|t| TESTS.contains(&t.text));
        // Where a loss decides by its size, the program ends for other reasons.
        let by_size = line.iter().any(|t| t.is("<") || t.is(">"));
        let harmless = |at: &usize| {
            let line = self.line(*at);
            let exits = of_failure && !by_size && line.iter().any(|t| t.is("exit"));
            let tells = exits || line[0].is("raise") || line[0].is("pass");
            shows(line) || aside(line) || tells || self.is_local(*at, begin)
        };
        let body = lines_in(self.tokens, begin);
        let ends = self.has_in_it(begin, &LEAVES);
        let raises = |at: &usize| {
            let line = self.line(*at);
            line[0].is("raise") && !line.iter().any(|t| t.is("SystemExit"))
        };
        let fails = body.iter().any(raises) || of_failure && self.has_in_it(begin, &["exit"]);
        let shown = match body.is_empty() {
            true => shows(line) || fails,
            false => aside(line) || body.iter().all(harmless),
        };
        (!ends || fails) && shown || self.is_beside(begin, ends)
    }

    /// Whether a line gives a name a value that is shown, and that nothing outside of the block at `begin` takes: `rate = opt.param_groups[0]["lr"]`.
    fn is_local(&self, at: usize, begin: usize) -> bool {
        let line = self.line(at);
        let plain = |at: usize| PLAIN.contains(&self.tokens[at].text);
        let body = lines_in(self.tokens, begin);
        let end = body.last().map_or(begin, |at| at + self.line(*at).len());
        let mut shown = body.iter().map(|at| self.line(*at)).filter(|l| shows(l));
        let is_shown = shown.any(|l| l.iter().any(|t| t.text.contains(line[0].text)));
        let mut places = self.program.places(line[0].text).iter();
        assignment(line) == Some(1)
            && is_shown
            && calls_in(self.tokens, at, line.len()).all(plain)
            && places.all(|(file, at)| *file != self.file || (begin..=end).contains(at))
    }

    /// `if loss > 2 * last:`, `if torch.isnan(loss):`
    fn decides(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let condition = line[0].is("if") || line[0].is("elif") || line[0].is("while");
        let compares = line
            .iter()
            .any(|t| t.is("<") || t.is(">") || TESTS.contains(&t.text));
        let of_time = line.iter().any(|t| {
            let name = t.text.to_lowercase();
            ["time", "elapsed"].iter().any(|part| name.contains(part))
        });
        // `if i < accum - 1:` asks which micro batch of a step this is.
        let of_step = self.accumulates && line.iter().any(|t| self.program.is_accumulation(t));
        let number = self.line(self.begin).get(1).filter(|_| of_step);
        let of_batch = |t: &PythonToken<'_>| {
            t.kind == TokenKind::Name
                && self.is_given(t.text)
                && number.is_none_or(|number| !number.is(t.text))
                && !self.is_counter(t.text)
                && !self.counts_samples(t.text)
        };
        condition
            && compares
            && !of_time
            && line.iter().any(of_batch)
            && !self.is_beside_training(begin)
    }

    /// `seen += x.shape[0]`
    fn counts_samples(&self, name: &str) -> bool {
        let mut all = self.lines.iter().map(|at| self.line(*at));
        all.any(|line| {
            matches!(line, [first, plus, equals, value @ ..]
                if first.is(name) && plus.is("+") && equals.is("=")
                    && value.iter().any(|t| ["shape", "size", "len", "batch_size"].contains(&t.text)))
        })
    }

    /// `if i % accum == 0: lr = at(i / len(loader) + epoch)`: how far an epoch is at the first micro batch of a step.
    fn is_share_of_an_epoch(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let shares = line
            .windows(3)
            .any(|w| w[1].is("/") && w[2].is("len") && self.is_counter(w[0].text));
        let mut around = headers(self.tokens, begin).take_while(|(begin, _)| *begin != self.begin);
        let at_first = |(_, header): (usize, &[PythonToken<'_>])| matches!(header, [_, counter, divided, ..] if divided.is("%") && self.is_counter(counter.text));
        shares && around.any(at_first)
    }

    /// A statement that only calls something, of which nobody knows what it does: `drop.observe(loss.item())`.
    fn calls_unread(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let plain = |t: &PythonToken<'_>| t.kind == TokenKind::Name || t.is(".");
        let length = line.iter().take_while(|t| plain(t)).count();
        let Some(called) = length
            .checked_sub(1)
            .filter(|_| line.get(length).is_some_and(|t| t.is("(")))
        else {
            return false;
        };
        if is_keyword(line[0].text) {
            return false;
        }
        let name = line[called].text;
        let object = &line[..called];
        let handed = line[length..]
            .iter()
            .any(|t| t.is("loss") || t.text.ends_with("_loss") || t.is("model"));
        let own = !self.program.bodies(name).is_empty();
        let entered = self.function.as_ref().is_some_and(|f| f.name == name);
        let entered = entered || self.program.is_scaler(self.file, begin + called);
        let known =
            entered || PLAIN.contains(&name) || HARMLESS.contains(&name) || is_keyword(name);
        (handed || own)
            && !known
            && !self.only_saves(name)
            && !shows(object)
            && !shows(&line[called..=called])
            && !self.is_beside_training(begin)
    }

    fn draws(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let mut all = calls_in(self.tokens, begin, line.len());
        !shows(line) && all.any(|at| draws_once(self.tokens, at)) && !self.is_beside_training(begin)
    }

    /// `p.grad += noise`, `p.grad.clamp_(-1, 1)`
    fn changes_gradients(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let of_gradients =
            |line: &[PythonToken<'_>]| line.windows(2).any(|w| w[0].is(".") && w[1].is("grad"));
        let given = assignment(line).is_some_and(|sign| of_gradients(&line[..sign]));
        let in_place = || {
            line.windows(2)
                .any(|w| w[1].is("(") && w[0].kind == TokenKind::Name && w[0].text.ends_with('_'))
        };
        given || of_gradients(line) && in_place()
    }
}

/// What makes or seeds a source of random numbers, and draws none.
const SOURCES: [&str; 7] =
    word_list("seed default_rng RandomState Random get_state getstate setstate");

/// Whether a call draws one number, whatever the batch: `random.random()`, `np.random.beta(a, a)`, `torch.rand(1)`.
pub(super) fn draws_once(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map_or("", |at| tokens[at].text);
    let line = line(tokens, at);
    let of_each = line.iter().any(|t| t.is("for"));
    let name = tokens[at].text;
    let given = arguments(&tokens[at + 2..]);
    if of_each || before(1) != "." {
        return false;
    }
    let is_sized = |value: &&[PythonToken<'_>]| value.first().is_some_and(|t| t.is("size"));
    match (before(2), name) {
        ("random", _) if before(4) != "torch" => {
            !SOURCES.contains(&name) && given.len() < 3 && !given.iter().any(is_sized)
        }
        ("torch", "rand" | "randn") => given.first().is_some_and(|value| is_one(value)),
        ("torch", "randint") => given.iter().skip(1).any(|v| v.len() > 1 && is_one(v)),
        _ => false,
    }
}

/// `1`, `(1,)`, `[1]`
fn is_one(size: &[PythonToken<'_>]) -> bool {
    size.iter()
        .all(|t| t.is("1") || t.is(",") || t.opens() || t.closes())
}
