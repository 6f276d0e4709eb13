//! What a value that a loop calls is made of: a model of layers, a loss, a function under another name.

use super::means::{is_over_samples, mixes_samples, transposes_samples, weighs};
use super::meets::{is_aside, is_in_a_module};
use super::statistics::takes_a_statistic;
use super::uses::{DRAWN, draws_once};
use super::{
    DEPTH, DoubtPlace, LAYERS, LOADS, LoopProgram, MIXED, MODEL, PLAIN, PythonToken, TokenKind,
    WEIGHED, WRAPPERS, arguments, calls,
};
use oomctl_base::word_list;

/// Calls that make a model by a name, whatever it is made of.
const BY_NAME: [&str; 4] = word_list("create_model create_model_and_transforms get_model hub");
/// Calls that look at the samples of a batch together, wherever they stand.
pub(super) const MIXES: [&str; 5] = word_list("cdist pdist bincount cov corrcoef");
/// The same in a module of one's own.
pub(super) const TOGETHER: [&str; 4] =
    word_list("randperm all_gather gather_all all_gather_into_tensor");

/// Mixes samples with each other (timm/data/mixup.py, torchvision/transforms/v2).
const MIXUPS: [&str; 4] = word_list("Mixup FastCollateMixup MixUp CutMix");
/// Losses of timm that are means over samples (timm/loss/cross_entropy.py).
const MEANS_OF_TIMM: [&str; 2] = word_list("LabelSmoothingCrossEntropy SoftTargetCrossEntropy");

impl<'t> LoopProgram<'_, 't> {
    /// A model that is not made of layers whose text was read.
    pub(super) fn models(&self) -> Option<DoubtPlace> {
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            let by_name = |t: &PythonToken<'_>| BY_NAME.contains(&t.text);
            let names = (0..tokens.len()).filter(|at| {
                let hub = tokens[*at].is("hub") && tokens.get(at + 1).is_some_and(|t| t.is("."));
                by_name(&tokens[*at]) && (hub || tokens.get(at + 1).is_some_and(|t| t.is("(")))
            });
            let mut foreign = names.filter(|at| self.bodies(tokens[*at].text).is_empty());
            let mixes = || {
                let mut all = calls(tokens, |_| true).filter(|at| !is_aside(tokens, *at));
                all.find_map(|at| {
                    let name = tokens[at].text;
                    let module = || is_in_a_module(tokens, at);
                    let in_a_module = TOGETHER.contains(&name)
                        || is_over_samples(name) && mixes_samples(tokens, at)
                        || transposes_samples(tokens, at)
                        || takes_a_statistic(tokens, at);
                    let mixed = MIXES.contains(&name) || in_a_module && module();
                    let drawn = || draws_once(tokens, at) && module();
                    match mixed {
                        true => Some((MIXED, file, at)),
                        false if drawn() => Some((DRAWN, file, at)),
                        false => self
                            .weighs_in_a_module(file, at)
                            .then_some((WEIGHED, file, at)),
                    }
                })
            };
            // `getattr(nn, name)` may be any layer.
            let mut named = calls(tokens, |t| t.is("getattr"));
            let named = || {
                named.find(|at| {
                    let given = arguments(&tokens[at + 2..]);
                    given
                        .first()
                        .is_some_and(|of| of.last().is_some_and(|t| LAYERS.contains(&t.text)))
                })
            };
            let model = foreign.next().or_else(named).map(|at| (MODEL, file, at));
            model
                .or_else(mixes)
                .or_else(|| self.picks_in_a_module(file))
        })
    }

    /// A value that is called: a model, or a loss.
    pub(super) fn maker(
        &self,
        file: usize,
        from: usize,
        value: &[PythonToken<'t>],
        (depth, as_loss): (usize, bool),
    ) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let mut level = 0_usize;
        let mut heads = Vec::new();
        for (at, token) in value.iter().enumerate() {
            let called = value.get(at + 1).is_some_and(|t| t.is("("));
            if level == 0 && token.kind == TokenKind::Name && called {
                heads.push(from + at);
            }
            level = token.depth_after(level);
        }
        if heads.is_empty() {
            return self.renamed((file, from, value), (depth, as_loss));
        }
        heads.into_iter().find_map(|at| {
            let name = tokens[at].text;
            if let Some(why) = weighs(tokens, at) {
                return Some((why, file, at));
            }
            if name == "partial" {
                let given = arguments(&tokens[at + 2..]);
                let bodies = match given.first() {
                    Some([one]) => (one.text, self.bodies(one.text)),
                    _ => ("", Vec::new()),
                };
                return match bodies {
                    (_, none) if none.is_empty() => Some((MODEL, file, at)),
                    (name, bodies) => self.enter(name, &bodies, (depth, as_loss)),
                };
            }
            if name == "cls" {
                return None;
            }
            if LOADS.contains(&name) {
                return self.loads_unread(file, at);
            }
            if WRAPPERS.contains(&name) || PLAIN.contains(&name) {
                let given = arguments(&tokens[at + 2..]);
                let wrapped = given
                    .first()
                    .filter(|_| depth < DEPTH && WRAPPERS.contains(&name))?;
                let inner = wrapped.first()?;
                let place = tokens.iter().position(|t| t.from == inner.from)?;
                let is_call = wrapped.iter().any(|t| t.is("("));
                return is_call
                    .then(|| self.maker(file, place, wrapped, (depth + 1, as_loss)))
                    .flatten();
            }
            let chain = tokens[..at].iter().rev();
            let mut chain = chain.take_while(|t| t.is(".") || t.kind == TokenKind::Name);
            let of_layers = chain.any(|t| LAYERS.contains(&t.text));
            let bodies = self.bodies(name);
            if MIXUPS.contains(&name) && bodies.is_empty() {
                return Some((MIXED, file, at));
            }
            let of_timm = MEANS_OF_TIMM.contains(&name) && !self.places("timm").is_empty();
            let is_known = of_layers || of_timm || !bodies.is_empty() || self.is_layer(name);
            let unknown = (!is_known).then_some((MODEL, file, at));
            unknown.or_else(|| {
                self.enter(name, &bodies, (depth, as_loss))
                    .filter(|_| starts_upper(name))
            })
        })
    }

    /// A value without a call: another name of what the program makes elsewhere.
    fn renamed(
        &self,
        (file, from, value): (usize, usize, &[PythonToken<'t>]),
        (depth, as_loss): (usize, bool),
    ) -> Option<DoubtPlace> {
        let is_name = |t: &PythonToken<'_>| t.kind == TokenKind::Name;
        let plain = value
            .iter()
            .all(|t| is_name(t) && !t.is("__dict__") || t.is("."));
        let by_itself = value
            .first()
            .is_some_and(|t| t.is("None") || t.is("lambda"));
        // `f = one if many else other`
        let mut functions = value.iter().filter(|t| is_name(t));
        let found =
            functions.find_map(|t| self.enter(t.text, &self.bodies(t.text), (depth, as_loss)));
        // `self.loss = loss`, which the calls of the class hand it.
        let handed = || match value {
            [one] if depth < DEPTH => self.handed_to(one.text),
            _ => Vec::new(),
        };
        let found = found.or_else(|| {
            let mut handed = handed().into_iter();
            handed
                .find_map(|(file, from, value)| self.maker(file, from, value, (depth + 1, as_loss)))
        });
        found.or((!plain && !by_itself).then_some((MODEL, file, from)))
    }

    /// `EfficientNet.from_pretrained(…)`: a model of which neither the text nor the library is known.
    fn loads_unread(&self, file: usize, at: usize) -> Option<DoubtPlace> {
        let tokens = self.files[file];
        let chain = tokens[..at].iter().rev();
        let chain = chain.take_while(|t| t.is(".") || t.kind == TokenKind::Name);
        let names: Vec<&str> = chain.filter(|t| !t.is(".")).map(|t| t.text).collect();
        let known = names.iter().any(|name| {
            LAYERS.contains(name) || self.is_layer(name) || !self.bodies(name).is_empty()
        });
        // `self.model_class.from_pretrained(…)` may be any.
        let class = names.first().is_some_and(|name| starts_upper(name));
        (class && !known).then_some((MODEL, file, at))
    }

    /// Whether a name is imported from a module of layers.
    fn is_layer(&self, name: &str) -> bool {
        self.files.iter().any(|tokens| {
            let imports = tokens.split(|t| t.kind == TokenKind::End);
            let mut from = imports.filter(|line| {
                line.first().is_some_and(|t| t.is("from")) && line.iter().any(|t| t.is(name))
            });
            from.any(|line| {
                line.iter()
                    .take_while(|t| !t.is("import"))
                    .any(|t| LAYERS.contains(&t.text))
            })
        })
    }
}

/// Whether a name is that of a class.
fn starts_upper(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}
