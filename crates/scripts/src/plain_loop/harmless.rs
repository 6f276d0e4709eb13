//! What looks like a change of training after each micro batch, and is none.

use std::collections::BTreeSet;

use super::lines::{assignment, lines_in, shows};
use super::micro_batches::IN_PLACE;
use super::{LoopOfBatches, PythonToken, TokenKind, headers, rest_of_line};
use oomctl_base::word_list;

/// Parts of names of what runs beside training.
const ASIDE: [&str; 5] = ["valid", "eval_", "logging", "save_", "checkpoint"];

/// What changes a model, its optimizer or the loop.
const CHANGES: [&str; 12] = word_list(
    "step zero_grad backward load_state_dict param_groups eval train half bfloat16 requires_grad_ grad data",
);

/// What makes a copy of a tensor, and only of a model changes what it is called on.
const HALVES: [&str; 2] = ["half", "bfloat16"];

impl LoopOfBatches<'_, '_> {
    /// Whether a condition on a counter decides nothing of training: it passes over what was trained before a resume (`if
    /// args.resume and step < resume_step: continue`), or says when to evaluate, to save or to log.
    pub(super) fn is_beside(&self, begin: usize, ends: bool) -> bool {
        let has = |parts: &[&str]| {
            let mut line = self.line(begin).iter();
            line.any(|t| {
                let name = t.text.to_lowercase();
                t.kind == TokenKind::Name && parts.iter().any(|part| name.contains(part))
            })
        };
        let body = lines_in(self.tokens, begin);
        let mut body = body.iter().map(|at| self.line(*at));
        let mut inside = body.clone();
        // `steps_trained_in_current_epoch -= 1`
        let counts_down = |line: &[PythonToken<'_>]| {
            matches!(line, [name, minus, equals, one]
                if self.line(begin).iter().any(|t| t.is(name.text)) && minus.is("-") && equals.is("=") && one.is("1"))
        };
        let passes = inside.any(|line| line[0].is("continue"))
            && body.all(|line| {
                line[0].is("continue") || line[0].is("if") || shows(line) || counts_down(line)
            });
        has(&["resume", "trained"]) && passes || !ends && has(&ASIDE)
    }

    /// Whether a line on an optimizer's groups gives them a value that no micro batch has a part in, so that each of a step
    /// gives them the same: a counter of steps is raised only where the optimizer steps.
    pub(super) fn sets_by_steps(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let lines = match line[0].is("for") {
            true => lines_in(self.tokens, begin),
            false => vec![begin],
        };
        lines.iter().all(|at| {
            let line = self.line(*at);
            let Some(sign) = assignment(line).filter(|sign| *sign > 1) else {
                return false;
            };
            let plain = line[sign - 1].is("]");
            let value = &line[sign + 1..];
            let own = value.iter().any(|t| t.is(line[0].text));
            plain && !own && !self.is_of_each(value)
        })
    }

    /// Whether a line only reads settings of an optimizer's groups, `lr = optimizer.param_groups[0]["lr"]`: what is written only where
    /// the optimizer steps is the same for each micro batch of a step.
    pub(super) fn reads_groups(&self, begin: usize) -> bool {
        let line = self.line(begin);
        let end = begin + line.len();
        // Its parameters are no settings.
        let is_setting = |at: usize| {
            let open = self.tokens.get(at).is_some_and(|t| t.is("["));
            let key = self.tokens.get(at + 1);
            open && key.is_some_and(|t| t.kind == TokenKind::Text && !t.is("params"))
        };
        let given = |begin: usize| assignment(self.line(begin)).map_or(0, |sign| begin + sign);
        let mut places = (begin..end).filter(|at| self.tokens[*at].is("param_groups"));
        places.all(|at| {
            let number = self.tokens[at + 1..].iter().position(|t| t.is("]"));
            let number = number.filter(|_| self.tokens[at + 1].is("["));
            if let Some(closed) = number {
                return is_setting(at + 2 + closed) && given(begin) <= at;
            }
            // `for group in optimizer.param_groups`, in a line or before a block.
            let sign = (begin..at).rfind(|at| self.tokens[*at].is("in"));
            let Some(sign) = sign.filter(|_| self.tokens[begin..at].iter().any(|t| t.is("for")))
            else {
                return false;
            };
            let group = self.tokens[sign - 1].text;
            let block = match line[0].is("for") {
                true => lines_in(self.tokens, begin),
                false => Vec::new(),
            };
            block.into_iter().chain([begin]).all(|begin| {
                let mut all = begin..begin + self.line(begin).len();
                all.all(|at| {
                    let asked = self.tokens[at - 1].is("in");
                    let own = at + 1 == sign || asked || is_setting(at + 1) && given(begin) <= at;
                    !self.tokens[at].is(group) || own
                })
            })
        })
    }

    /// Whether a function of the program saves what it is handed, and changes none of it.
    pub(super) fn only_saves(&self, name: &str) -> bool {
        let saves = ["save", "checkpoint", "ckpt"].iter();
        let bodies = self.program.bodies(name);
        let changes = |(file, lines): &(usize, Vec<usize>)| {
            let tokens = self.program.files[*file];
            let mut lines = lines.iter().map(|at| rest_of_line(&tokens[*at..]));
            lines.any(|line| {
                let copies = line.iter().any(|t| t.is("items") || t.is("state_dict"));
                let of_object = |at: usize| at > 0 && line[at - 1].is(".");
                let changes =
                    |name: &str| CHANGES.contains(&name) && !(copies && HALVES.contains(&name));
                (0..line.len()).any(|at| {
                    let name = line[at].text;
                    IN_PLACE.contains(&name) || of_object(at) && changes(name)
                })
            })
        };
        saves.into_iter().any(|part| name.contains(part))
            && !bodies.is_empty()
            && !bodies.iter().any(changes)
    }

    /// Whether a line stands below `for group in optimizer.param_groups`, where the whole was looked at.
    pub(super) fn is_of_groups(&self, at: usize) -> bool {
        let mut around = headers(self.tokens, at).take_while(|(begin, _)| *begin != self.begin);
        around.any(|(_, header)| header.iter().any(|t| t.is("param_groups")))
    }

    /// Whether a value has something of a micro batch in it, through the names that the loop gives.
    fn is_of_each(&self, value: &[PythonToken<'_>]) -> bool {
        // `args.lr` is no `lr`.
        let names = |line: &[PythonToken<'_>]| -> BTreeSet<String> {
            let is = |at: &usize| {
                let of = at.checked_sub(1).is_some_and(|at| line[at].is("."));
                line[*at].kind == TokenKind::Name && !of
            };
            let names = (0..line.len()).filter(is);
            names.map(|at| line[at].text.to_owned()).collect()
        };
        let header = self.line(self.begin);
        let targets = header.iter().take_while(|t| !t.is("in"));
        let targets: Vec<&str> = targets.map(|t| t.text).collect();
        let (mut all, mut known) = (names(value), 0);
        while known < all.len() {
            known = all.len();
            for at in &self.lines {
                let line = self.line(*at);
                let Some(sign) = assignment(line) else {
                    continue;
                };
                let given = names(&line[..sign]);
                if !given.is_disjoint(&all) {
                    let made_of = names(&line[sign + 1..]);
                    // `w *= 0.9`, `n = n + 1` and `next(rates)` are another value each time.
                    let changes = line[sign - 1].kind == TokenKind::Other
                        || !given.is_disjoint(&made_of)
                        || made_of.contains("next");
                    if changes {
                        return true;
                    }
                    all.extend(made_of);
                }
            }
        }
        // `for step in range(steps): for micro in range(accum)` counts steps.
        let counted = |name: &String| self.is_counter(name) || targets.contains(&name.as_str());
        all.iter().any(counted)
    }

    /// Whether an object keeps nothing from one micro batch to the next but what is shown: the loop makes it anew, or it is a
    /// metric by what makes it.
    pub(super) fn is_fresh(&self, object: &str) -> bool {
        let made = self.program.made_by(object);
        let shown = !made.is_empty() && made.iter().all(|(.., value)| shows(value));
        shown || self.is_given(object)
    }
}
