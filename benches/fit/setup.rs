//! What a recipe says, in numbers; what the framework allows; and the way back to a layer.

use oomctl::core::recipe::{ClusterFacts, Layer, LayerKind, Recipe, Setting};
use oomctl_base::units::Bytes;
use oomctl_base::{Origin, Value};

use super::models::Model;

/// Which of the two programs is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// verl's GRPO: FSDP actor, reference policy, vLLM beside them.
    Grpo,
    /// A fine-tuning script started by torchrun, replicated on every GPU.
    Replicated,
    /// A fine-tuning script started by torchrun, sharded over all GPUs.
    Sharded,
}

/// The values that decide about memory and speed. Those that the fine-tuning script lacks have the
/// value that means nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    pub program: Program,
    pub gpus_per_node: u64,
    pub nodes: u64,
    /// Bytes of one GPU.
    pub card: u64,
    /// Host memory of a node in bytes, where it is limited.
    pub host: Option<u64>,
    pub train_batch: u64,
    pub mini_batch: u64,
    pub samples: u64,
    pub prompt: u64,
    pub response: u64,
    pub micro: u64,
    pub logprob_micro: u64,
    pub ref_micro: u64,
    pub accumulation: Option<u64>,
    pub dynamic: bool,
    pub budget: u64,
    pub logprob_budget: u64,
    pub ref_budget: u64,
    pub sequence_parallel: u64,
    pub fsdp_size: i64,
    pub fp32: bool,
    pub ref_fp32: bool,
    pub reference: bool,
    pub checkpointing: bool,
    pub activation_offload: bool,
    pub remove_padding: bool,
    pub fused: bool,
    pub chunked_entropy: bool,
    /// The update computes an entropy.
    pub entropy: bool,
    pub param_offload: bool,
    pub optimizer_offload: bool,
    /// FSDP2's own offload, inside the update too.
    pub offload_policy: bool,
    pub share: f64,
    pub sleep: bool,
    pub eager: bool,
    pub engine_sequences: u64,
    pub engine_context: u64,
    pub engine_tokens: u64,
    pub tensor_parallel: u64,
    pub bucket: u64,
    pub expandable: bool,
}

/// Greatest common divisor.
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

struct Reader<'a>(&'a Recipe);

impl Reader<'_> {
    fn int(&self, knob: &str) -> Option<i64> {
        match self.0.value(knob) {
            Value::Int(x) => Some(*x),
            _ => None,
        }
    }

    fn count(&self, knob: &str) -> u64 {
        self.int(knob)
            .and_then(|x| u64::try_from(x).ok())
            .unwrap_or(1)
    }

    fn yes(&self, knob: &str) -> bool {
        *self.0.value(knob) == Value::Bool(true)
    }

    fn share(&self, knob: &str) -> f64 {
        match self.0.value(knob) {
            Value::Float(x) => *x,
            _ => 0.0,
        }
    }

    fn text(&self, knob: &str) -> &str {
        match self.0.value(knob) {
            Value::Text(text) => text,
            _ => "",
        }
    }

    fn size(&self, knob: &str) -> Option<u64> {
        Bytes::parse(self.text(knob)).ok().map(|b| b.0)
    }
}

impl Setup {
    /// Reads a resolved recipe of the preset `verl-grpo` or `torchrun`.
    pub fn read(program: Program, recipe: &Recipe, cluster: &ClusterFacts) -> Self {
        let r = Reader(recipe);
        let node = cluster
            .node_memory
            .as_deref()
            .and_then(|t| Bytes::parse(t).ok());
        let host = r.size("mem").filter(|b| *b > 0).or(node.map(|b| b.0));
        let common = Self {
            program,
            gpus_per_node: r.count("n_gpus_per_node"),
            nodes: r.count("nnodes"),
            card: r.size("gpu_memory").unwrap_or(0),
            host,
            train_batch: 1,
            mini_batch: 1,
            samples: 1,
            prompt: 0,
            response: r.count("max_seq_len"),
            micro: r.count("batch_size"),
            logprob_micro: 1,
            ref_micro: 1,
            accumulation: r.int("gradient_accumulation_steps").map(i64::unsigned_abs),
            dynamic: false,
            budget: 1,
            logprob_budget: 1,
            ref_budget: 1,
            sequence_parallel: 1,
            fsdp_size: -1,
            fp32: true,
            ref_fp32: false,
            reference: false,
            checkpointing: r.yes("gradient_checkpointing"),
            activation_offload: false,
            remove_padding: false,
            fused: false,
            chunked_entropy: false,
            entropy: false,
            param_offload: false,
            optimizer_offload: false,
            offload_policy: false,
            share: 0.0,
            sleep: true,
            eager: true,
            engine_sequences: 1,
            engine_context: 1,
            engine_tokens: 1,
            tensor_parallel: 1,
            bucket: 0,
            expandable: r
                .text("allocator_conf")
                .contains("expandable_segments:True"),
        };
        match program {
            Program::Grpo => common.read_grpo(&r),
            Program::Replicated | Program::Sharded => common,
        }
    }

    fn read_grpo(self, r: &Reader<'_>) -> Self {
        Self {
            train_batch: r.count("train_batch_size"),
            mini_batch: r.count("ppo_mini_batch_size"),
            samples: r.count("rollout.n"),
            prompt: r.count("max_prompt_length"),
            response: r.count("max_response_length"),
            micro: r.count("ppo_micro_batch_size_per_gpu"),
            logprob_micro: r.count("rollout.log_prob_micro_batch_size_per_gpu"),
            ref_micro: r.count("ref.log_prob_micro_batch_size_per_gpu"),
            dynamic: r.yes("use_dynamic_bsz"),
            budget: r.count("ppo_max_token_len_per_gpu"),
            logprob_budget: r.count("rollout.log_prob_max_token_len_per_gpu"),
            ref_budget: r.count("ref.log_prob_max_token_len_per_gpu"),
            sequence_parallel: r.count("ulysses_sequence_parallel_size"),
            fsdp_size: r.int("fsdp_size").unwrap_or(-1),
            fp32: r.text("model_dtype") == "fp32",
            ref_fp32: r.text("ref.model_dtype") == "fp32",
            reference: r.yes("use_kl_loss") || r.yes("use_kl_in_reward"),
            checkpointing: r.yes("enable_gradient_checkpointing"),
            activation_offload: r.yes("enable_activation_offload"),
            remove_padding: r.yes("use_remove_padding"),
            fused: r.yes("use_fused_kernels"),
            chunked_entropy: r.yes("entropy_from_logits_with_chunking"),
            entropy: r.share("entropy_coeff") != 0.0,
            param_offload: r.yes("param_offload"),
            optimizer_offload: r.yes("optimizer_offload"),
            offload_policy: r.yes("offload_policy") && r.text("strategy") == "fsdp2",
            share: r.share("gpu_memory_utilization"),
            sleep: r.yes("free_cache_engine"),
            eager: r.yes("enforce_eager"),
            engine_sequences: r.count("max_num_seqs"),
            engine_context: r.count("rollout.max_model_len"),
            engine_tokens: r.count("max_num_batched_tokens"),
            tensor_parallel: r.count("tensor_model_parallel_size"),
            bucket: r.count("update_weights_bucket_megabytes") << 20,
            ..self
        }
    }

    pub fn world(&self) -> u64 {
        self.gpus_per_node * self.nodes
    }

    /// Ranks that see different sequences.
    pub fn data_parallel(&self) -> u64 {
        (self.world() / self.sequence_parallel).max(1)
    }

    /// Longest sequence, in tokens.
    pub fn sequence(&self) -> u64 {
        self.prompt + self.response
    }

    /// GPUs over which weights and states are sharded.
    pub fn shards(&self) -> u64 {
        match self.program {
            Program::Replicated => 1,
            _ => u64::try_from(self.fsdp_size)
                .ok()
                .filter(|n| *n > 0)
                .map_or(self.world(), |n| n.min(self.world())),
        }
    }

    /// Sequences of a mini batch on one rank.
    pub fn mini_per_rank(&self) -> u64 {
        self.mini_batch * self.samples / self.data_parallel()
    }

    /// Sequences of a step on one rank; the V1 trainer fills a step up.
    pub fn step_per_rank(&self) -> u64 {
        let (dp, mini) = (self.data_parallel(), self.mini_batch * self.samples);
        let unit = dp / gcd(dp, mini) * mini;
        (self.train_batch * self.samples).div_ceil(unit) * unit / dp
    }

    /// The arithmetic of the shipped presets (verl 0.9.1, V1 trainer), written out because the search asks
    /// it thousands of times; `Shape::new` has the last word on what the search finds.
    pub fn legal(&self, model: &Model, cluster: &ClusterFacts) -> bool {
        let over = |most: Option<u32>, n: u64| most.is_some_and(|m| n > u64::from(m));
        if over(cluster.gpus_per_node, self.gpus_per_node) || over(cluster.nodes, self.nodes) {
            return false;
        }
        self.program != Program::Grpo || (self.batches_legal() && self.parallel_legal(model))
    }

    fn batches_legal(&self) -> bool {
        let (world, dp, sp) = (self.world(), self.data_parallel(), self.sequence_parallel);
        let divides = |by: u64, n: u64| by > 0 && n.is_multiple_of(by);
        let mini = self.mini_batch * self.samples;
        if !divides(dp, mini) || mini == 0 {
            return false;
        }
        if self.dynamic {
            let budgets = [self.budget, self.logprob_budget, self.ref_budget];
            return budgets.iter().all(|b| b * sp >= self.sequence());
        }
        let step = self.step_per_rank();
        divides(world, self.train_batch * self.samples)
            && self.train_batch >= self.mini_batch
            && divides(self.micro, self.mini_per_rank())
            && divides(self.logprob_micro, step)
            && (!self.reference || divides(self.ref_micro, step))
    }

    fn parallel_legal(&self, model: &Model) -> bool {
        let (world, sp, tp) = (self.world(), self.sequence_parallel, self.tensor_parallel);
        let kv = model.kv_heads;
        world.is_multiple_of(sp)
            && (sp == 1 || self.remove_padding)
            && world.is_multiple_of(tp)
            && tp.is_multiple_of(self.gpus_per_node.min(tp))
            && model.heads.is_multiple_of(tp)
            && model.heads.is_multiple_of(sp)
            && (kv.is_multiple_of(sp) || sp.is_multiple_of(kv))
            && self.engine_context >= self.sequence()
            && self.engine_context <= model.context
            && !(self.expandable && self.sleep)
    }

    /// Knobs and values, for those knobs that the search moves.
    fn values(&self) -> Vec<(&'static str, Value)> {
        let int = |x: u64| Value::Int(i64::try_from(x).unwrap_or(i64::MAX));
        let gpus = [
            ("n_gpus_per_node", int(self.gpus_per_node)),
            ("nnodes", int(self.nodes)),
            ("gpu_memory", Value::Text(size(self.card))),
            (
                "mem",
                self.host.map_or(Value::Null, |b| Value::Text(size(b))),
            ),
        ];
        let rest = match self.program {
            Program::Grpo => vec![
                ("train_batch_size", int(self.train_batch)),
                ("ppo_mini_batch_size", int(self.mini_batch)),
                ("max_response_length", int(self.response)),
                ("ppo_micro_batch_size_per_gpu", int(self.micro)),
                (
                    "rollout.log_prob_micro_batch_size_per_gpu",
                    int(self.logprob_micro),
                ),
                ("ref.log_prob_micro_batch_size_per_gpu", int(self.ref_micro)),
                ("ppo_max_token_len_per_gpu", int(self.budget)),
                (
                    "rollout.log_prob_max_token_len_per_gpu",
                    int(self.logprob_budget),
                ),
                ("ref.log_prob_max_token_len_per_gpu", int(self.ref_budget)),
                (
                    "ulysses_sequence_parallel_size",
                    int(self.sequence_parallel),
                ),
                (
                    "enable_gradient_checkpointing",
                    Value::Bool(self.checkpointing),
                ),
                (
                    "enable_activation_offload",
                    Value::Bool(self.activation_offload),
                ),
                ("use_fused_kernels", Value::Bool(self.fused)),
                (
                    "entropy_from_logits_with_chunking",
                    Value::Bool(self.chunked_entropy),
                ),
                ("param_offload", Value::Bool(self.param_offload)),
                ("optimizer_offload", Value::Bool(self.optimizer_offload)),
                (
                    "gpu_memory_utilization",
                    Value::Float((self.share * 1e4).round() / 1e4),
                ),
                ("enforce_eager", Value::Bool(self.eager)),
                ("max_num_seqs", int(self.engine_sequences)),
                ("max_num_batched_tokens", int(self.engine_tokens)),
                ("rollout.max_model_len", int(self.engine_context)),
                ("tensor_model_parallel_size", int(self.tensor_parallel)),
            ],
            Program::Replicated | Program::Sharded => {
                let conf = "expandable_segments:True".to_owned();
                let mut script = vec![
                    ("batch_size", int(self.micro)),
                    ("max_seq_len", int(self.response)),
                    ("gradient_checkpointing", Value::Bool(self.checkpointing)),
                ];
                script.extend(
                    self.accumulation
                        .map(|n| ("gradient_accumulation_steps", int(n))),
                );
                script.extend(
                    self.expandable
                        .then_some(("allocator_conf", Value::Text(conf))),
                );
                script
            }
        };
        gpus.into_iter().chain(rest).collect()
    }

    /// The layer that leads from `start` here.
    pub fn layer(&self, start: &Self) -> Layer {
        let before = start.values();
        let mut layer = Layer::new(LayerKind::Rung);
        for (knob, value) in self.values() {
            if !before.contains(&(knob, value.clone())) {
                let origin = Origin::Rung {
                    rung: "oracle".to_owned(),
                    attempt: 2,
                };
                layer
                    .settings
                    .insert(knob.to_owned(), Setting { value, origin });
            }
        }
        layer
    }
}

/// A size as a knob takes it.
pub fn size(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}
