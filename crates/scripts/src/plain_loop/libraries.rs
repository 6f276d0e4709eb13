//! Models of libraries, whose names say what they make of a micro batch.

use super::super::python::line;
use super::{DoubtPlace, LoopProgram, MIXED, MODEL, PythonToken};
use oomctl_base::word_list;

pub(super) const BATCH_NORM: &str = "batch norm takes its statistics of a micro batch";
pub(super) const ITS_OWN_MEAN: &str = "accumulation may change the loss of this model, which may not divide its mean by gradient_accumulation_steps";
const SUM: &str = "whether the loss of this model is a mean over samples was not read";

/// Layers that take statistics of a micro batch.
const NORMS: [&str; 7] = word_list(
    "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm",
);
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

/// Ends of names of models that divide their loss by what the Trainer counted, or get no count of it (transformers 5.0 to 5.23,
/// models/*/modeling_*.py).
const COUNTED: [&str; 14] = word_list(
    "ForCausalLM LMHeadModel ForQuestionAnswering ForImageTextToText ForVision2Seq ForMultimodalLM \
     ViTForImageClassification DeiTForImageClassification SwinForImageClassification ConvNextForImageClassification \
     Dinov2ForImageClassification ModernBertForMaskedLM EuroBertForMaskedLM Zamba2ForSequenceClassification",
);
/// Parts of names of models of the kind `ForConditionalGeneration` that do so, too.
const SEES: [&str; 7] = word_list("VL Llava Gemma Idefics Mllama Mistral3 Glm4v");

/// What begins the names of models of diffusers and transformers that have layer norm, group norm or RMS norm alone.
const PLAIN_NORM: [&str; 4] =
    word_list("AutoencoderKL UNet2DCondition CLIPTextModel T5EncoderModel");
/// Parts of them that programs call by themselves.
const PARTS: [&str; 4] = word_list("encoder decoder quant_conv post_quant_conv");

const TWICE: &str = "batch norm counts a micro batch twice that is computed again";

/// `BertForMaskedLM`: a model of transformers with the loss of a task.
pub(super) fn names_a_task(name: &str) -> bool {
    let task = name.split_once("For").map(|(_, task)| task);
    name.starts_with(char::is_uppercase)
        && !name.contains("Collator")
        && task.is_some_and(|task| task.starts_with(char::is_uppercase))
}

impl LoopProgram<'_, '_> {
    /// Batch norm, of which each forward changes the statistics.
    pub(super) fn norms(&self) -> Option<DoubtPlace> {
        let (file, at) = NORMS.iter().find_map(|name| self.places(name).first())?;
        Some((TWICE, *file, *at))
    }

    /// A model of a library that has batch norm, or whose loss is no mean over samples.
    pub(super) fn loaded(&self) -> Option<DoubtPlace> {
        let vision = |name: &str| name == "torchvision" && self.has_beside(name, "models");
        self.places.iter().find_map(|(name, places)| {
            let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
            let own = || !self.bodies(name).is_empty();
            let why = match name {
                name if NORMS.contains(name) => BATCH_NORM,
                name if COMPARES.iter().any(|part| name.contains(part)) => MIXED,
                name if *name == ROUTER && !self.has_beside(name, "False") => MIXED,
                name if vision(name) => MODEL,
                name if ends(&SENSES) && !LAYER_NORM.contains(name) && !own() => MODEL,
                _ if ends(&SUMS) && !self.uses(&["ctc_loss_reduction"]) && !own() => SUM,
                _ => return None,
            };
            let (file, at) = places.first()?;
            Some((why, *file, *at))
        })
    }

    /// A model whose loss a Trainer of transformers 5.0 or later does not divide by the accumulation, and may not be divided by what
    /// it counted: all models take `**kwargs`, which the Trainer takes for a promise (trainer.py, `model_accepts_loss_kwargs`).
    pub(super) fn uncounted(&self) -> Option<DoubtPlace> {
        let sees = |name: &str| {
            name.ends_with("ForConditionalGeneration")
                && SEES.iter().any(|part| name.contains(part))
        };
        let loads = |(file, at): &&(usize, usize)| {
            let tokens = self.files[*file];
            let next = |n: usize, text: &str| tokens.get(at + n).is_some_and(|t| t.is(text));
            next(1, "(") || next(1, ".") && (next(2, "from_pretrained") || next(2, "from_config"))
        };
        let uncounted = self.places.iter().filter(|(name, _)| {
            let counts = COUNTED.iter().any(|end| name.ends_with(end)) || sees(name);
            names_a_task(name) && !counts && self.bodies(name).is_empty()
        });
        let mut made = uncounted.filter_map(|(_, places)| places.iter().find(loads));
        made.next().map(|(file, at)| (ITS_OWN_MEAN, *file, *at))
    }

    /// `vae.encoder(x)`, where `vae` is what a class of diffusers or transformers loads that is known to have no batch norm.
    pub(super) fn is_part_of_a_known_model(&self, file: usize, at: usize) -> bool {
        let tokens = self.files[file];
        let [.., object, dot] = &tokens[..at] else {
            return false;
        };
        let loads = |value: &[PythonToken<'_>]| match value {
            [class, dot, loads, ..] if dot.is(".") && loads.is("from_pretrained") => {
                PLAIN_NORM.iter().any(|part| class.text.starts_with(part))
                    && self.bodies(class.text).is_empty()
            }
            _ => false,
        };
        let made = || {
            let made = self.made_by(object.text);
            !made.is_empty() && made.iter().all(|(.., value)| loads(value))
        };
        dot.is(".") && PARTS.contains(&tokens[at].text) && made()
    }

    /// Whether a name stands on a line with another word.
    fn has_beside(&self, name: &str, word: &str) -> bool {
        self.places(name).iter().any(|(file, at)| {
            let tokens = self.files[*file];
            let line = line(tokens, *at);
            line.iter().any(|t| t.is(word))
        })
    }
}
