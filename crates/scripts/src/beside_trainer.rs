//! What a program brings itself beside a framework's Trainer: a loss, a step, a model, a way to make its batches.
//!
//! Rule: oomctl reads none of it. A name shows that it is there, and then nobody knows whether smaller micro batches train the same.

use std::collections::BTreeSet;

use super::other_trainer::package;
use super::own_model::trained;
use super::python::{PythonToken, TokenKind, assigned, line};
use super::scaled::scaled;
use super::unread_code::unread_code;
use oomctl_base::word_list;

/// What the name of a doubt begins with that is raised by what a program does itself beside a Trainer of transformers. What follows
/// says why.
pub const TRAINER_DOUBT: &str = "<unclear beside a trainer> ";

/// What the name of a doubt begins with about what computing a part twice does.
pub const RECOMPUTED_DOUBT: &str = "<unclear when computed again> ";

/// What the name of a doubt begins with about a model whose loss a newer Trainer may not divide by the accumulation.
pub const UNDIVIDED_DOUBT: &str = "<undivided beside a newer trainer> ";

const OWN: &str = "oomctl does not read this part of the training";
const UNREAD: &str = "what this code does with the settings was not read";
const BATCH: &str = "this is computed from the batch size";
const MODEL: &str = "what this model is made of is unknown";
const BATCH_NORM: &str = "batch norm takes its statistics from a micro batch";
const COMPARED: &str = "this model compares the samples of a micro batch";
const SUMMED: &str = "the loss of this model may be a sum over the samples of a micro batch";
const TOKEN_MEAN: &str = "the loss of this model is a mean over the tokens of a micro batch, and each has another number of them";
const TWICE: &str = "batch norm counts a micro batch twice that is computed again";
const UNDIVIDED: &str = "accumulation may change the loss of this model, which may not divide its mean by gradient_accumulation_steps";

/// Functions that a program may put in the place of a Trainer's (transformers, trainer.py), or of a model's.
const REPLACED: [&str; 8] = word_list(
    "compute_loss training_step _inner_training_loop get_batch_samples _prepare_inputs on_substep_end get_train_dataloader forward",
);
/// What takes a function of the program's own for each micro batch, or changes something with each.
const HANDED: [&str; 5] = word_list(
    "compute_loss_func register_hook register_full_backward_hook register_post_accumulate_grad_hook spectral_norm",
);
/// Packages whose models are known by their names, and those that hand models of transformers on.
const KNOWN: [&str; 8] =
    word_list("transformers torch peft trl unsloth accelerate optimum diffusers");

/// Layers that take statistics from a micro batch.
const NORMS: [&str; 3] = ["BatchNorm", "LazyBatchNorm", "SyncBatchNorm"];
/// Parts of names of models that compare the samples of a batch with each other.
const COMPARES: [&str; 7] = word_list(
    "CLIPModel SiglipModel Siglip2Model ClapModel DualEncoderModel ForContrastiveLearning ForImageTextRetrieval",
);
/// The loss of a mixture of experts that balances them over the tokens of a micro batch.
const ROUTER: &str = "output_router_logits";
/// Ends of names of models for pictures and sound, of which many have batch norm (transformers, models/auto/modeling_auto.py).
const SENSES: [&str; 12] = word_list(
    "ForImageClassification ForSemanticSegmentation ForInstanceSegmentation ForUniversalSegmentation ForObjectDetection \
     ForDepthEstimation ForVideoClassification ForAudioClassification ForAudioFrameClassification ForKeypointDetection \
     ForPrediction Backbone",
);
/// Models among them that have layer norm alone.
const LAYER_NORM: [&str; 8] = word_list(
    "ViTForImageClassification DeiTForImageClassification BeitForImageClassification SwinForImageClassification \
     Swinv2ForImageClassification ConvNextForImageClassification Dinov2ForImageClassification ASTForAudioClassification",
);
/// Ends of names of models whose loss is a sum by default, or one of several.
const SUMS: [&str; 2] = ["ForCTC", "ForPreTraining"];

/// Ends of names of models whose loss is a mean over tokens, where it is not divided by what the Trainer counted.
const TOKENS: [&str; 5] = word_list(
    "ForMaskedLM ForTokenClassification ForConditionalGeneration ForSeq2SeqLM ForSpeechSeq2Seq",
);

/// Ends of names of models that divide their loss by what the Trainer counted, or get no count of it (transformers 5.0 to 5.23,
/// models/*/modeling_*.py).
const COUNTED: [&str; 14] = word_list(
    "ForCausalLM LMHeadModel ForQuestionAnswering ForImageTextToText ForVision2Seq ForMultimodalLM \
     ViTForImageClassification DeiTForImageClassification SwinForImageClassification ConvNextForImageClassification \
     Dinov2ForImageClassification ModernBertForMaskedLM EuroBertForMaskedLM Zamba2ForSequenceClassification",
);
/// Parts of names of models of the kind `ForConditionalGeneration` that do so, too.
const SEES: [&str; 7] = word_list("VL Llava Gemma Idefics Mllama Mistral3 Glm4v");

/// A doubt: its sort and why, the file, and its bytes.
pub(super) type Doubt = (String, usize, (usize, usize));

/// The first doubt of each sort about a program with these files. `is_read` says of a module whether it is among them.
pub(super) fn doubts(files: &[&[PythonToken<'_>]], is_read: impl Fn(&str) -> bool) -> Vec<Doubt> {
    let program = TrainerProgram::new(files);
    let norm = |tokens: &[PythonToken<'_>], at: usize| is_norm(tokens[at].text).then_some(TWICE);
    let unread = unread_code(files, is_read).map(|(file, at)| (UNREAD, file, at));
    let beside = unread.or_else(|| program.first(|tokens, at| program.replaced(tokens, at)));
    let beside = beside.or_else(|| program.foreign_model());
    let beside = beside.or_else(|| program.first(|tokens, at| program.model(tokens, at)));
    let beside = beside.or_else(|| scaled(files).map(|(file, at)| (BATCH, file, at)));
    let all = [
        (TRAINER_DOUBT, beside),
        (
            UNDIVIDED_DOUBT,
            program.first(|tokens, at| program.undivided(tokens, at)),
        ),
        (RECOMPUTED_DOUBT, program.first(norm)),
    ];
    let found = all
        .into_iter()
        .filter_map(|(sort, found)| Some((sort, found?)));
    let named = found
        .map(|(sort, (why, file, at))| (format!("{sort}{why}"), file, files[file][at].bytes()));
    named.collect()
}

/// A reason, the file, and the token.
type DoubtPlace = (&'static str, usize, usize);

/// The files of a program, with the names of its functions and classes.
struct TrainerProgram<'a, 't> {
    files: &'a [&'a [PythonToken<'t>]],
    declared: BTreeSet<&'t str>,
}

impl<'a, 't> TrainerProgram<'a, 't> {
    fn new(files: &'a [&'a [PythonToken<'t>]]) -> Self {
        let pairs = files.iter().flat_map(|tokens| tokens.windows(2));
        let declared = pairs.filter(|pair| pair[0].is("def") || pair[0].is("class"));
        Self {
            files,
            declared: declared.map(|pair| pair[1].text).collect(),
        }
    }

    /// The first name that is a reason to doubt.
    fn first(
        &self,
        why: impl Fn(&[PythonToken<'t>], usize) -> Option<&'static str>,
    ) -> Option<DoubtPlace> {
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            let mut names = (0..tokens.len()).filter(|at| tokens[*at].kind == TokenKind::Name);
            names.find_map(|at| Some((why(tokens, at)?, file, at)))
        })
    }

    /// A loss, a step, a model, a loader or a collator of the program's own, and what changes gradients with each micro batch.
    fn replaced(&self, tokens: &[PythonToken<'t>], at: usize) -> Option<&'static str> {
        let name = tokens[at].text;
        let declares = at.checked_sub(1).is_some_and(|at| tokens[at].is("def"));
        let collates = || match &tokens[at..] {
            [key, equals, value, ..] if key.is("data_collator") && equals.is("=") => {
                value.is("lambda") || self.makes(value.text)
            }
            _ => false,
        };
        let own = declares && REPLACED.contains(&name) || HANDED.contains(&name) || collates();
        own.then_some(OWN)
    }

    /// Whether a name is one of the program's own, or gets a value that begins with one.
    fn makes(&self, name: &str) -> bool {
        let mut files = self.files.iter();
        self.declared.contains(name)
            || files.any(|tokens| {
                let mut places = assigned(tokens, name, false);
                places.any(|at| {
                    tokens
                        .get(at + 2)
                        .is_some_and(|t| self.declared.contains(t.text))
                })
            })
    }

    /// `Trainer(model=net)` where `net` is made by a package that is not known: it may have batch norm, or compare samples.
    fn foreign_model(&self) -> Option<DoubtPlace> {
        self.files.iter().enumerate().find_map(|(file, tokens)| {
            trained(tokens).find_map(|model| {
                let [model] = model else { return None };
                let mut made = assigned(tokens, model.text, false).map(|at| at + 2);
                let made = made.find(|at| {
                    let package = (*at < tokens.len()).then(|| package(self.files, tokens, *at));
                    package.flatten().is_some_and(|name| !KNOWN.contains(&name))
                });
                made.map(|at| (MODEL, file, at))
            })
        })
    }

    /// A model of a library that has batch norm or may have it, or whose loss may be no mean over samples.
    fn model(&self, tokens: &[PythonToken<'t>], at: usize) -> Option<&'static str> {
        let name = tokens[at].text;
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let beside = |word: &str| line(tokens, at).iter().any(|t| t.is(word));
        let next = |text: &str| tokens.get(at + 1).is_some_and(|t| t.is(text));
        let by_name = match name {
            "hub" => next("."),
            "torchvision" => beside("models"),
            // It describes the model that was trained.
            "create_model_card" => false,
            _ => name.starts_with("create_model") && next("("),
        };
        match () {
            () if self.declared.contains(name) => None,
            () if is_norm(name) => Some(BATCH_NORM),
            () if COMPARES.iter().any(|part| name.contains(part)) => Some(COMPARED),
            () if name == ROUTER && !beside("False") => Some(COMPARED),
            () if by_name || ends(&SENSES) && !LAYER_NORM.contains(&name) => Some(MODEL),
            () if ends(&SUMS) && !self.sets("ctc_loss_reduction") => Some(SUMMED),
            () if ends(&TOKENS) && self.is_uncounted(tokens, at) => Some(TOKEN_MEAN),
            () => None,
        }
    }

    fn sets(&self, name: &str) -> bool {
        self.files
            .iter()
            .any(|tokens| tokens.iter().any(|t| t.is(name)))
    }

    /// A model whose loss a Trainer of transformers 5.0 or later does not divide by the accumulation, and may not be divided by what
    /// it counted: all models take `**kwargs`, which the Trainer takes for a promise (trainer.py, `model_accepts_loss_kwargs`).
    fn undivided(&self, tokens: &[PythonToken<'t>], at: usize) -> Option<&'static str> {
        self.is_uncounted(tokens, at).then_some(UNDIVIDED)
    }

    /// A model of transformers is made here that does not divide its loss by what the Trainer counted.
    fn is_uncounted(&self, tokens: &[PythonToken<'t>], at: usize) -> bool {
        let name = tokens[at].text;
        let sees = name.ends_with("ForConditionalGeneration")
            && SEES.iter().any(|part| name.contains(part));
        let counts = COUNTED.iter().any(|end| name.ends_with(end)) || sees;
        let next = |n: usize, text: &str| tokens.get(at + n).is_some_and(|t| t.is(text));
        let loads =
            next(1, "(") || next(1, ".") && (next(2, "from_pretrained") || next(2, "from_config"));
        names_a_task(name) && !counts && loads && !self.declared.contains(name)
    }
}

/// `BertForMaskedLM`: a model of transformers with the loss of a task.
fn names_a_task(name: &str) -> bool {
    let task = name.split_once("For").map(|(_, task)| task);
    name.starts_with(char::is_uppercase)
        && !name.contains("Collator")
        && task.is_some_and(|task| task.starts_with(char::is_uppercase))
}

fn is_norm(name: &str) -> bool {
    NORMS.iter().any(|norm| name.starts_with(norm))
}

#[cfg(test)]
mod tests {
    use super::super::python::tokens;
    use super::*;

    /// Why the first doubt of a sort is raised.
    fn why(sort: &str, text: &str) -> Option<String> {
        let mut found = doubts(&[&tokens(text)], |_| false).into_iter();
        found.find_map(|(name, ..)| name.strip_prefix(sort).map(str::to_owned))
    }

    #[test]
    fn what_a_program_puts_in_the_place_of_a_trainers_is_a_doubt() {
        for own in [
            "class T(Trainer):\n  def compute_loss(self, model, inputs):\n    return super().compute_loss(model, inputs)\n",
            "class T(Trainer):\n  def training_step(self, model, inputs):\n    pass\n",
            "class T(Trainer):\n  def get_train_dataloader(self):\n    pass\n",
            "class C(TrainerCallback):\n  def on_substep_end(self, args):\n    pass\n",
            "class M(nn.Module):\n  def forward(self, x):\n    return self.layer(x)\n",
            "Trainer(model, compute_loss_func=f)\n",
            "for p in model.parameters():\n  p.register_hook(f)\n",
            "def collate(rows):\n  pass\nTrainer(data_collator=collate)\n",
            "class C:\n  pass\nc = C(8)\nTrainer(data_collator=c)\n",
            "Trainer(data_collator=lambda rows: rows)\n",
        ] {
            assert_eq!(why(TRAINER_DOUBT, own).as_deref(), Some(OWN), "{own}");
        }
        for text in [
            "",
            "(",
            "def",
            "data_collator =",
            "c = DataCollatorWithPadding(t)\nTrainer(data_collator=c).train()\nmodel.forward(x)\n",
            "def compute_metrics(p):\n  pass\nTrainer(compute_metrics=compute_metrics)\n",
        ] {
            assert_eq!(why(TRAINER_DOUBT, text), None, "{text}");
        }
    }

    #[test]
    fn a_model_of_an_unknown_package_or_with_batch_norm_is_a_doubt() {
        let of = |import: &str, model: &str| {
            let text = format!("{import}\nnet = {model}\nTrainer(model=net, args=a).train()\n");
            why(TRAINER_DOUBT, &text)
        };
        for (import, model, reason) in [
            ("import some_vision as sv", "sv.Net(8)", MODEL),
            ("from lab.nets import Net", "Net(8)", MODEL),
            ("import timm", "timm.create_model('x')", MODEL),
            ("import torch", "torch.hub.load('x', 'y')", MODEL),
            ("import torchvision", "torchvision.models.resnet50()", MODEL),
            ("from torch import nn", "nn.BatchNorm2d(8)", BATCH_NORM),
            (
                "",
                "AutoModelForImageClassification.from_pretrained(p)",
                MODEL,
            ),
            ("", "CLIPModel.from_pretrained(p)", COMPARED),
            ("", "Wav2Vec2ForCTC.from_pretrained(p)", SUMMED),
            ("", "AutoModelForMaskedLM.from_config(c)", TOKEN_MEAN),
            ("", "T5ForConditionalGeneration(c)", TOKEN_MEAN),
        ] {
            assert_eq!(of(import, model).as_deref(), Some(reason), "{model}");
        }
        for (import, model) in [
            (
                "from transformers import AutoModelForCausalLM",
                "AutoModelForCausalLM.from_pretrained(p)",
            ),
            (
                "from peft import get_peft_model",
                "get_peft_model(base, config)",
            ),
            ("", "AutoModelForSequenceClassification.from_pretrained(p)"),
            ("", "ViTForImageClassification.from_pretrained(p)"),
            (
                "from torchvision import transforms",
                "AutoModelForCausalLM.from_pretrained(p)",
            ),
            (
                "def publish(trainer): trainer.create_model_card(tags=[])",
                "AutoModelForCausalLM.from_pretrained(p)",
            ),
        ] {
            assert_eq!(of(import, model), None, "{model}");
        }
        let norm = why(RECOMPUTED_DOUBT, "n = nn.SyncBatchNorm(8)\n");
        assert_eq!(norm.as_deref(), Some(TWICE));
        assert_eq!(why(RECOMPUTED_DOUBT, "n = nn.LayerNorm(8)\n"), None);
    }

    /// transformers from 5.0 on divides no loss of a model that takes `**kwargs`.
    #[test]
    fn a_model_that_may_not_divide_by_what_the_trainer_counted_is_named() {
        let loads = |name: &str| {
            let text = format!("from transformers import {name}\nm = {name}.from_pretrained(p)\n");
            why(UNDIVIDED_DOUBT, &text)
        };
        for name in [
            "AutoModelForSequenceClassification",
            "T5ForConditionalGeneration",
            "AutoModelForMaskedLM",
        ] {
            assert_eq!(loads(name).as_deref(), Some(UNDIVIDED), "{name}");
        }
        for name in [
            "AutoModelForCausalLM",
            "GPT2LMHeadModel",
            "ViTForImageClassification",
            "Qwen2_5_VLForConditionalGeneration",
            "DataCollatorForLanguageModeling",
        ] {
            assert_eq!(loads(name), None, "{name}");
        }
    }
}
