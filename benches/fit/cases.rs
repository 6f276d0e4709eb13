//! The cases: drawn, and kept where they are of the kind that is wanted.

use oomctl::core::recipe::{ClusterFacts, GpuType, Layer, LayerKind, Setting, Shape};
use oomctl_base::{Origin, Value};

use super::family::Family;
use super::models::{MODELS, Model};
use super::oracle::{Best, search};
use super::outcome::Truth;
use super::rng::Rng;
use super::setup::{Program, Setup};
use super::stack::Stack;

/// The two shipped presets.
pub struct Stacks {
    pub grpo: Stack,
    pub script: Stack,
}

impl Stacks {
    pub fn shipped() -> Self {
        Self {
            grpo: Stack::shipped("verl-grpo"),
            script: Stack::shipped("torchrun"),
        }
    }

    pub fn of(&self, program: Program) -> &Stack {
        match program {
            Program::Grpo => &self.grpo,
            Program::Replicated | Program::Sharded => &self.script,
        }
    }
}

/// What a case is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// Runs out of memory as it stands; a legal configuration within the ladder's reach fits.
    Solvable,
    /// Fits as it stands.
    Fits,
    /// Nothing within the ladder's reach fits.
    CannotFit,
}

/// One job.
pub struct Case {
    pub index: u64,
    pub sort: Sort,
    pub model: &'static Model,
    pub program: Program,
    pub cluster: ClusterFacts,
    pub layers: Vec<Layer>,
    pub shape: Shape,
    pub start: Setup,
    pub family: Family,
    pub truth: Box<dyn Truth>,
    /// The fastest legal configuration that fits.
    pub best: Option<Best>,
}

/// Memory of a card as PyTorch reports it, in GiB: V100, A10, A100, L40S, H100, H20, H200.
const CARDS: [f64; 7] = [15.77, 22.06, 39.39, 44.39, 79.18, 95.0, 139.8];

/// Draws until a case of the wanted sort comes out.
const MOST_DRAWS: usize = 4_000;

impl Case {
    /// Case number `index` of a run with `seed`: 1 in 20 fits as it stands, 1 in 16 cannot fit at all, and
    /// 1 in 3 has a term that the product does not know.
    pub fn make(stacks: &Stacks, family: Family, seed: u64, index: u64) -> Self {
        let mut rng = Rng::of(seed, index);
        let wanted = match rng.unit() {
            x if x < 1.0 / 20.0 => Sort::Fits,
            x if x < 1.0 / 20.0 + 1.0 / 16.0 => Sort::CannotFit,
            _ => Sort::Solvable,
        };
        let program = match rng.unit() {
            x if x < 0.85 => Program::Grpo,
            x if x < 0.94 => Program::Replicated,
            _ => Program::Sharded,
        };
        let surprised = rng.chance(1.0 / 3.0);
        for _ in 0..MOST_DRAWS {
            let drawn = Self::draw(stacks, family, &mut rng, program, surprised);
            if let Some(mut case) = drawn.and_then(|case| case.sorted(stacks, wanted)) {
                case.index = index;
                return case;
            }
        }
        panic!("case {index} of seed {seed}: no {wanted:?} case of {program:?} came out");
    }

    fn draw(
        stacks: &Stacks,
        family: Family,
        rng: &mut Rng,
        program: Program,
        surprised: bool,
    ) -> Option<Self> {
        let model = &MODELS[(rng.unit() * MODELS.len() as f64) as usize];
        let card = rng.pick(&CARDS);
        let (per_node, nodes) = rng.pick(&[
            (1, 1),
            (2, 1),
            (4, 1),
            (4, 1),
            (6, 1),
            (8, 1),
            (8, 1),
            (4, 2),
            (8, 2),
        ]);
        let states = 16.0 * model.params() as f64 / 1024_f64.powi(3) / f64::from(per_node * nodes);
        let alone = if program == Program::Replicated {
            f64::from(per_node * nodes)
        } else {
            1.0
        };
        if !(0.08..1.6).contains(&(states * alone / card)) {
            return None;
        }
        let mut given = Given(Vec::new());
        given.set("gpu_memory", Value::Text(format!("{card}GiB")));
        given.int("n_gpus_per_node", i64::from(per_node));
        given.int("nnodes", i64::from(nodes));
        let cluster = cluster(rng, per_node, nodes, card);
        given.host(rng, &cluster);
        match program {
            Program::Grpo => given.grpo(rng, model, i64::from(per_node * nodes), card)?,
            Program::Replicated | Program::Sharded => {
                given.model(model);
                given.script(rng, model, program);
            }
        }
        let layers = vec![given.clone().layer()];
        let shape = stacks.of(program).shape(&layers, &cluster).ok()?;
        let start = Setup::read(program, shape.recipe(), &cluster);
        let (truth, entropy) = family.draw(rng, model, &start, card, surprised);
        if program == Program::Grpo && entropy {
            given.set("entropy_coeff", Value::Float(0.001));
        }
        let layers = vec![given.layer()];
        let shape = stacks.of(program).shape(&layers, &cluster).ok()?;
        let start = Setup::read(program, shape.recipe(), &cluster);
        Some(Self {
            index: 0,
            sort: Sort::Fits,
            model,
            program,
            cluster,
            layers,
            shape,
            start,
            family,
            truth,
            best: None,
        })
    }

    /// The case, if it is of the wanted sort.
    fn sorted(mut self, stacks: &Stacks, wanted: Sort) -> Option<Self> {
        if self.truth.fits(&self.start) != (wanted == Sort::Fits) {
            return None;
        }
        self.best = search(&self, stacks.of(self.program));
        self.sort = wanted;
        (self.best.is_some() == (wanted != Sort::CannotFit)).then_some(self)
    }
}

fn cluster(rng: &mut Rng, per_node: u32, nodes: u32, card: f64) -> ClusterFacts {
    let larger: Vec<f64> = CARDS.into_iter().filter(|c| *c > card + 1.0).collect();
    let types = if larger.is_empty() || rng.chance(0.8) {
        Vec::new()
    } else {
        vec![rng.pick(&larger)]
    };
    ClusterFacts {
        gpus_per_node: Some(if rng.chance(0.6) { per_node } else { 8 }),
        nodes: Some(if rng.chance(0.6) { nodes } else { nodes * 2 }),
        node_memory: Some(format!("{}G", rng.pick(&[256, 512, 1024, 1536, 2048]))),
        gpu_types: types
            .into_iter()
            .map(|memory| GpuType {
                name: "larger".to_owned(),
                memory: format!("{memory}GiB"),
                set: std::iter::once((
                    "gpu_type".to_owned(),
                    oomctl::core::recipe::Scalar::Text("larger".to_owned()),
                ))
                .collect(),
            })
            .collect(),
        ..ClusterFacts::default()
    }
}

/// Values as a project file would give them.
#[derive(Clone)]
struct Given(Vec<(&'static str, Value)>);

impl Given {
    fn set(&mut self, knob: &'static str, value: Value) {
        self.0.push((knob, value));
    }

    fn int(&mut self, knob: &'static str, value: i64) {
        self.set(knob, Value::Int(value));
    }

    fn yes(&mut self, knob: &'static str, value: bool) {
        self.set(knob, Value::Bool(value));
    }

    fn text(&mut self, knob: &'static str, value: &str) {
        self.set(knob, Value::Text(value.to_owned()));
    }

    fn layer(self) -> Layer {
        let mut layer = Layer::new(LayerKind::Project);
        for (line, (knob, value)) in (1_u32..).zip(self.0) {
            let origin = Origin::File {
                path: "oomctl.yaml".to_owned(),
                line,
                column: 1,
            };
            layer
                .settings
                .insert(knob.to_owned(), Setting { value, origin });
        }
        layer
    }

    /// Most jobs ask for most of a node's memory.
    fn host(&mut self, rng: &mut Rng, cluster: &ClusterFacts) {
        let node = cluster.node_memory.as_deref().unwrap_or("256G");
        let all: f64 = node.trim_end_matches('G').parse().unwrap_or(256.0);
        let share = if rng.chance(0.85) {
            rng.between(0.7, 1.0)
        } else {
            rng.between(0.25, 0.7)
        };
        self.set("mem", Value::Text(format!("{}G", (all * share) as u64)));
    }

    fn model(&mut self, model: &Model) {
        let int = |x: u64| i64::try_from(x).unwrap_or(i64::MAX);
        self.int("model.layers", int(model.layers));
        self.int("model.hidden", int(model.hidden));
        self.int("model.intermediate", int(model.intermediate));
        self.int("model.heads", int(model.heads));
        self.int("model.kv_heads", int(model.kv_heads));
        self.int("model.head_dim", int(model.head_dim));
        self.int("model.vocab", int(model.vocab));
        self.int("model.max_position_embeddings", int(model.context));
        self.int("model.params", int(model.params()));
    }

    /// A GRPO job on `world` GPUs of `card` GiB; `None` where lengths and model do not go together.
    fn grpo(&mut self, rng: &mut Rng, model: &Model, world: i64, card: f64) -> Option<()> {
        self.model(model);
        self.text("model.path", model.name);
        self.text("train_files", "data/train.parquet");
        self.text("val_files", "data/val.parquet");
        let prompt = rng.pick(&[256, 512, 1024, 2048]);
        let response = rng.pick(&[512, 1024, 1024, 2048, 2048, 4096, 8192, 16_384]);
        let context = i64::try_from(model.context).ok()?;
        if prompt + response > context {
            return None;
        }
        self.int("max_prompt_length", prompt);
        self.int("max_response_length", response);
        if rng.chance(0.15) {
            self.int(
                "rollout.max_model_len",
                context.min(4 * (prompt + response)),
            );
        }
        self.batches(rng, world, prompt + response);
        self.parallel(rng, model, world, card);
        let offload = rng.chance(0.25);
        self.yes("param_offload", offload != rng.chance(0.1));
        self.yes("optimizer_offload", offload);
        if rng.chance(0.06) {
            self.text("strategy", "fsdp2");
            self.yes("offload_policy", rng.chance(0.7));
        }
        self.yes("enable_gradient_checkpointing", rng.chance(0.88));
        self.yes("use_fused_kernels", rng.chance(0.08));
        self.yes("use_kl_loss", rng.chance(0.75));
        self.text("model_dtype", if rng.chance(0.9) { "fp32" } else { "bf16" });
        Some(())
    }

    fn batches(&mut self, rng: &mut Rng, world: i64, sequence: i64) {
        let samples = rng.pick(&[4, 5, 8, 8, 16]);
        let mut train = rng.pick(&[64, 128, 256, 512, 1024]);
        if world % 3 == 0 {
            train = train / 4 * 3;
        }
        let mini = train / rng.pick(&[1, 2, 4]);
        self.int("rollout.n", samples);
        self.int("train_batch_size", train);
        self.int("ppo_mini_batch_size", mini);
        let remove_padding = rng.chance(0.85);
        self.yes("use_remove_padding", remove_padding);
        if rng.chance(0.3) {
            self.yes("use_dynamic_bsz", true);
            let budget = sequence * rng.pick(&[1, 2, 2, 3, 4, 6, 8]);
            self.int("ppo_max_token_len_per_gpu", budget);
            let logprob = budget * rng.pick(&[1, 1, 2]);
            self.int("rollout.log_prob_max_token_len_per_gpu", logprob);
            self.int("ref.log_prob_max_token_len_per_gpu", logprob);
            return;
        }
        let most = (mini * samples / world).max(1);
        let divisors: Vec<i64> = (1..=most.min(64)).filter(|d| most % d == 0).collect();
        let micro = rng.pick(&divisors);
        let logprob = micro * rng.pick(&[1, 1, 1, 2]);
        self.int("ppo_micro_batch_size_per_gpu", micro);
        self.int("rollout.log_prob_micro_batch_size_per_gpu", logprob);
        self.int("ref.log_prob_micro_batch_size_per_gpu", logprob);
    }

    fn parallel(&mut self, rng: &mut Rng, model: &Model, world: i64, card: f64) {
        let weights = 2.0 * model.params() as f64 / 1024_f64.powi(3);
        let tp = [1, 2, 4, 8]
            .into_iter()
            .find(|tp| weights / *tp as f64 <= 0.35 * card);
        let tp = tp.unwrap_or(8).min(world);
        self.int(
            "tensor_model_parallel_size",
            if rng.chance(0.3) {
                (tp * 2).min(world)
            } else {
                tp
            },
        );
        if rng.chance(0.08) {
            self.int("ulysses_sequence_parallel_size", 2.min(world));
        }
        self.set(
            "gpu_memory_utilization",
            Value::Float(rng.pick(&[0.3, 0.4, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.85])),
        );
        self.yes("free_cache_engine", rng.chance(0.92));
        self.yes("enforce_eager", rng.chance(0.6));
        self.int("max_num_seqs", rng.pick(&[128, 256, 256, 512, 1024]));
    }

    fn script(&mut self, rng: &mut Rng, model: &Model, program: Program) {
        self.text("script", "train.py");
        let mut args = vec!["--model".to_owned(), model.name.to_owned()];
        if program == Program::Sharded {
            args.push("--fsdp".to_owned());
            self.text("sharding", "fsdp");
        } else {
            self.text("sharding", "ddp");
        }
        self.set("args", Value::List(args));
        self.text("precision", "fsdp_mp");
        self.int("batch_size", rng.pick(&[1, 2, 4, 8, 8, 16, 16, 32, 64]));
        if rng.chance(0.75) {
            self.int("gradient_accumulation_steps", rng.pick(&[1, 2, 4, 8]));
        }
        let context = i64::try_from(model.context).unwrap_or(4096);
        self.int(
            "max_seq_len",
            rng.pick(&[512, 1024, 2048, 4096, 8192]).min(context),
        );
        if rng.chance(0.8) {
            self.yes("gradient_checkpointing", rng.chance(0.4));
        }
    }
}
