//! What a program lets others call with each micro batch.

use super::lines::shows;
use super::{DoubtPlace, KEPT, LoopProgram, TokenKind, rest_of_line};

const HOOK: &str = "this hook changes the gradients of each micro batch";
const HOOKS: [&str; 3] = [
    "register_hook",
    "register_full_backward_hook",
    "register_post_accumulate_grad_hook",
];
/// What Lightning calls with each micro batch (lightning/pytorch/core/hooks.py).
const EACH_BATCH: [&str; 6] = [
    "on_train_batch_start",
    "on_train_batch_end",
    "on_before_backward",
    "on_after_backward",
    "optimizer_step",
    "lr_scheduler_step",
];

impl LoopProgram<'_, '_> {
    /// What changes the gradients of each micro batch.
    pub(super) fn hooks(&self) -> Option<DoubtPlace> {
        let mut places = HOOKS.iter().flat_map(|name| self.places(name));
        let hook = places.next().map(|(file, at)| (HOOK, *file, *at));
        // Its estimate of the largest singular value goes on with each forward (PyTorch, torch.nn.utils.spectral_norm).
        let kept = || self.places("spectral_norm").first();
        let hook = hook.or_else(|| self.hooks_of_lightning());
        hook.or_else(|| kept().map(|(file, at)| (KEPT, *file, *at)))
    }

    /// A function that Lightning calls with each micro batch, and that does more than to show something.
    fn hooks_of_lightning(&self) -> Option<DoubtPlace> {
        EACH_BATCH.iter().find_map(|name| {
            let mut bodies = self.bodies(name).into_iter();
            bodies.find_map(|(file, lines)| {
                let line = |at: &usize| rest_of_line(&self.files[file][*at..]);
                let mut lines = lines.into_iter();
                let shown = |at: &usize| {
                    let line = line(at);
                    shows(line) || line[0].is("pass") || line[0].kind == TokenKind::Text
                };
                lines.find(|at| !shown(at)).map(|at| (HOOK, file, at))
            })
        })
    }
}
