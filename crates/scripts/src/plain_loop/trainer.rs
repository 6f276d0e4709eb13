//! What a program does itself beside a Trainer of transformers.
//!
//! Rule: the Trainer's loop is known, and so are those models of transformers that have no batch norm and whose loss is a mean. What
//! the program replaces or adds is read as a loop of one's own is.

use std::collections::BTreeSet;

use super::super::other_trainer::package;
use super::super::own_model::trained;
use super::batches::{self, OTHER};
use super::lines::{keeps, lines_in, shows};
use super::{
    DoubtPlace, EACH, KEPT, LoopOfBatches, LoopProgram, MODEL, PythonToken, TokenKind, UNDIVIDED,
    arguments, line_of, rest_of_line,
};
use oomctl_base::word_list;

/// The method by which programs give a Trainer a loss of their own.
pub(super) const COMPUTE_LOSS: &str = "compute_loss";
/// The argument by which they give it a function for that.
const LOSS_FUNCTION: &str = "compute_loss_func";
/// Packages whose models are read by their names, and those that hand models of transformers on.
const KNOWN: [&str; 8] =
    word_list("transformers torch peft trl unsloth accelerate optimum diffusers");
/// Methods of a Trainer that run for each micro batch (transformers, trainer.py).
const STEPS: [&str; 4] =
    word_list("training_step _inner_training_loop get_batch_samples _prepare_inputs");

/// Packages of Lightning.
const LIGHTNING: [&str; 2] = ["lightning", "pytorch_lightning"];

impl LoopProgram<'_, '_> {
    /// `L.Trainer(**cfg.trainer)`, `instantiate(cfg.trainer)`: settings say how Lightning accumulates.
    pub(super) fn fills_a_trainer_of_lightning(&self) -> bool {
        let filled = |name: &str, is_filled: &dyn Fn(&[PythonToken<'_>]) -> bool| {
            self.places(name).iter().any(|(file, at)| {
                let given = self.files[*file].get(at + 2..).unwrap_or_default();
                arguments(given).into_iter().any(is_filled)
            })
        };
        let spread =
            |value: &[PythonToken<'_>]| value.iter().take_while(|t| t.is("*")).count() == 2;
        let group = |value: &[PythonToken<'_>]| value.last().is_some_and(|t| t.text == "trainer");
        self.uses(&LIGHTNING) && (filled("Trainer", &spread) || filled("instantiate", &group))
    }
}

impl<'t> LoopProgram<'_, 't> {
    /// The first doubt about what the program does beside a Trainer.
    pub(super) fn beside_a_trainer(&self) -> Option<DoubtPlace> {
        let own = self.own_losses().or_else(|| self.own_steps());
        let own = own.or_else(|| self.own_loader());
        let models = || self.own_models().or_else(|| self.foreign_models());
        let models = || models().or_else(|| self.loaded());
        let found = own.or_else(models).or_else(|| self.models());
        let found = found.or_else(|| self.hooks());
        found
            .or_else(|| self.collators().or_else(|| self.padded()))
            .or_else(|| batches::doubt(self, &BTreeSet::new()))
            .or_else(|| self.curved())
    }

    /// The lines on which functions of this name are declared.
    fn declared(&self, name: &str) -> impl Iterator<Item = (usize, usize)> {
        let begins = self.places(name).iter();
        let begins = begins.map(|(file, at)| (*file, line_of(self.files[*file], *at)));
        begins.filter(|(file, begin)| self.files[*file][*begin].is("def"))
    }

    fn own_losses(&self) -> Option<DoubtPlace> {
        let found = self.declared(COMPUTE_LOSS).find_map(|(file, begin)| {
            let loss = LoopOfBatches::new(self, file, begin);
            let counted = loss.divides_a_sum();
            loss.undivided()
                .or_else(|| loss.loss().filter(|_| !counted))
        });
        found.or_else(|| self.loss_functions())
    }

    /// A loss of one's own, or a model that returns one, which is a curve over a mean.
    fn curved(&self) -> Option<DoubtPlace> {
        let mut losses = [COMPUTE_LOSS, "forward"]
            .into_iter()
            .flat_map(|name| self.declared(name));
        losses.find_map(|(file, begin)| LoopOfBatches::new(self, file, begin).curve())
    }

    /// `Trainer(…, compute_loss_func=f)`: the Trainer divides by nothing what that makes (trainer.py, training_step), so it has to
    /// divide by what the Trainer counted.
    fn loss_functions(&self) -> Option<DoubtPlace> {
        self.places(LOSS_FUNCTION).iter().find_map(|(file, at)| {
            let tokens = self.files[*file];
            let [equals, name, ..] = tokens.get(at + 1..)? else {
                return None;
            };
            let given = equals.is("=") && !name.is(LOSS_FUNCTION) && !name.is("None");
            let declared: Vec<_> = self.declared(name.text).collect();
            let divides = |(file, begin): &(usize, usize)| {
                LoopOfBatches::new(self, *file, *begin).divides_a_sum()
            };
            let divided = !declared.is_empty() && declared.iter().all(divides);
            (given && !divided).then_some((UNDIVIDED, *file, *at))
        })
    }

    /// A step of the Trainer, replaced by one that does more than to show something.
    fn own_steps(&self) -> Option<DoubtPlace> {
        let harmless = |line: &[PythonToken<'_>]| {
            let plain = ["return", "pass", "def", "with"].contains(&line[0].text);
            let calls_it = line.iter().any(|t| t.is("super"));
            plain || calls_it || shows(line) || line[0].kind == TokenKind::Text
        };
        let steps = STEPS.iter().flat_map(|name| self.declared(name));
        let found = steps.into_iter().find_map(|(file, begin)| {
            let tokens = self.files[file];
            let mut lines = lines_in(tokens, begin).into_iter();
            lines
                .find(|at| !harmless(rest_of_line(&tokens[*at..])))
                .map(|at| (EACH, file, at))
        });
        // transformers calls it after each micro batch but the last of a step (trainer_callback.py).
        let substep = || self.declared("on_substep_end").next();
        found.or_else(|| substep().map(|(file, at)| (EACH, file, at)))
    }

    /// A loader of one's own that does not take the Trainer's batch size.
    fn own_loader(&self) -> Option<DoubtPlace> {
        let takes = |(file, begin): &(usize, usize)| {
            let tokens = self.files[*file];
            let lines = lines_in(tokens, *begin).into_iter();
            let mut all = lines.flat_map(|at| rest_of_line(&tokens[at..]));
            all.any(|t| t.is("super") || t.text.contains("train") && t.text.ends_with("batch_size"))
        };
        let mut loaders = self.declared("get_train_dataloader");
        loaders
            .find(|place| !takes(place))
            .map(|(file, at)| (OTHER, file, at))
    }

    /// `Trainer(model=net)` where `net` is made by a package that is not known: it may have batch norm, or compare samples.
    fn foreign_models(&self) -> Option<DoubtPlace> {
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            trained(tokens).find_map(|model| {
                let [model] = model else { return None };
                let made = self.made_by(model.text).into_iter();
                let mut made = made.filter(|(of, _, value)| {
                    let own = value
                        .first()
                        .is_none_or(|t| !self.bodies(t.text).is_empty());
                    *of == file && !own
                });
                made.find_map(|(of, from, _)| {
                    let package = package(self.files, self.files[of], from)?;
                    (!KNOWN.contains(&package)).then_some((MODEL, of, from))
                })
            })
        })
    }

    /// A model of one's own that keeps something, or that computes its loss.
    fn own_models(&self) -> Option<DoubtPlace> {
        self.declared("forward").find_map(|(file, begin)| {
            let tokens = self.files[file];
            let lines = lines_in(tokens, begin);
            let mut kept = lines.iter().filter(|at| {
                let line = rest_of_line(&tokens[**at..]);
                !shows(line) && keeps(line)
            });
            if let Some(at) = kept.next() {
                return Some((KEPT, file, *at));
            }
            let mut all = lines.iter().flat_map(|at| rest_of_line(&tokens[*at..]));
            let has_loss = all.any(|t| t.text.contains("loss"));
            let loss = || {
                let forward = LoopOfBatches::new(self, file, begin);
                forward.uncounted().or_else(|| forward.loss())
            };
            has_loss.then(loss).flatten()
        })
    }
}
