//! Whether a program divides its loss by the accumulation, exactly once.

use super::super::python::line;
use super::lines::assignment;
use super::{
    DIVIDED, DIVISOR, DoubtPlace, LoopOfBatches, LoopProgram, PythonToken, TokenKind, UNDIVIDED,
    rest_of_line,
};

impl LoopProgram<'_, '_> {
    /// Whether what a line computes is a loss or its gradient, is returned, or stands on another line of one.
    fn reaches_a_loss(&self, own: &[PythonToken<'_>]) -> bool {
        let is = |t: &PythonToken<'_>| {
            let name = t.text.to_lowercase();
            let of_loss = ["loss", "backward"].iter().any(|part| name.contains(part));
            t.kind == TokenKind::Name && (of_loss || t.is("grad"))
        };
        let target = assignment(own)
            .and_then(|sign| own[..sign].iter().rfind(|t| t.kind == TokenKind::Name));
        let others = target.map_or(&[][..], |target| self.places(target.text));
        own.iter().any(is)
            || own[0].is("return")
            || others
                .iter()
                .any(|(file, at)| line(self.files[*file], *at).iter().any(is))
    }

    /// The loop whose loss nothing divides by the accumulation, or two things do. Frameworks divide it themselves.
    pub(super) fn division(&self, first: &LoopOfBatches<'_, '_>) -> Option<DoubtPlace> {
        if first.weighs_a_slice() || first.counts_its_window() {
            return None;
        }
        let divides = |tokens: &[PythonToken<'_>], at: usize| {
            let single =
                tokens[at].is("/") && at.checked_sub(1).is_some_and(|at| !tokens[at].is("/"));
            let rest = rest_of_line(&tokens[at + 1..]);
            let rest = rest.get(..DIVISOR).unwrap_or(rest);
            single
                && !rest.first().is_some_and(|t| t.is("/"))
                && rest.iter().any(|t| self.is_accumulation(t))
        };
        let counts = |tokens: &[PythonToken<'_>], at: usize| {
            line(tokens, at)
                .iter()
                .any(|t| t.is("len") || t.is("range"))
        };
        let shown = |tokens: &[PythonToken<'_>], at: usize| {
            let line = line(tokens, at);
            // A batch may be of users and items.
            let number = line.windows(2).any(|w| w[0].is(".") && w[1].is("item"));
            number || !self.reaches_a_loss(line)
        };
        let places = self.files.iter().enumerate().flat_map(|(file, tokens)| {
            (0..tokens.len())
                .filter(move |at| divides(tokens, *at) && !counts(tokens, *at))
                .map(move |at| (file, at))
        });
        let places: Vec<(usize, usize)> = places.collect();
        let part = places
            .iter()
            .find_map(|(file, at)| first.adds_undivided(*file, *at));
        if part.is_some() {
            return part;
        }
        let mut places = places.into_iter();
        let place = places.find(|(file, at)| !shown(self.files[*file], *at));
        let accelerates = self.is_handed("Accelerator", |t| self.is_accumulation(t));
        match place {
            Some((file, at)) if accelerates && first.is_framework() => {
                let line = line(self.files[file], at);
                let of_loss = line.iter().any(|t| t.text.contains("loss"));
                of_loss.then_some((DIVIDED, file, at))
            }
            Some(_) => None,
            None => {
                let whole = first.is_framework() || first.adds_losses_up();
                (!whole).then(|| (UNDIVIDED, first.file, first.backward_pass()))
            }
        }
    }
}
