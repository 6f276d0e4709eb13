//! The oracle: knows the truth, and looks for the fastest legal configuration that fits.
//!
//! It may move the knobs that the shipped ladder moves, to any legal value: batches, budgets and the
//! engine's share down (the share up where the engine does not start otherwise), switches on and off, the
//! responses to one half, GPUs and nodes up within the cluster. The experiment comes first, then the
//! number of GPUs, then speed: what changes training or takes more GPUs is looked at only where nothing
//! else fits.

use std::collections::{BTreeSet, HashMap};

use oomctl::core::recipe::Shape;
use oomctl_base::units::Bytes;

use super::cases::Case;
use super::outcome::Truth;
use super::setup::{Program, Setup};
use super::sizes::{Part, parts};
use super::stack::Stack;

/// What the oracle found.
#[derive(Debug, Clone)]
pub struct Best {
    pub setup: Setup,
    pub shape: Shape,
    /// Tokens per second and GPU.
    pub speed: f64,
}

/// Searches the ladder's reach.
pub fn search(case: &Case, stack: &Stack) -> Option<Best> {
    let moved = stack.moved();
    let search = Search {
        case,
        stack,
        late: case.truth.late(),
        moved,
    };
    let start = search.roomy_host();
    let halved = search.shortened(&start);
    [Some(start), halved]
        .into_iter()
        .flatten()
        .find_map(|base| {
            let places = search.places(&base);
            places.iter().find_map(|place| search.best_at(place))
        })
}

struct Search<'a> {
    case: &'a Case,
    stack: &'a Stack,
    /// The truth, with what grows counted from the start.
    late: Box<dyn Truth>,
    moved: BTreeSet<String>,
}

/// Results of the trainer's phases, by what they depend on.
type Known = HashMap<String, Option<u64>>;

impl Search<'_> {
    fn moves(&self, knob: &str) -> bool {
        self.moved.contains(knob)
    }

    fn speed(&self, setup: &Setup) -> f64 {
        self.late.speed(setup)
    }

    /// The start with as much host memory as the node has: it costs nothing here.
    fn roomy_host(&self) -> Setup {
        let mut setup = self.case.start.clone();
        let node = self.case.cluster.node_memory.as_deref();
        let node = node.and_then(|t| Bytes::parse(t).ok()).map(|b| b.0);
        if self.moves("mem") && setup.host.is_some() {
            setup.host = node.or(setup.host);
        }
        setup
    }

    fn shortened(&self, base: &Setup) -> Option<Setup> {
        let knob = match base.program {
            Program::Grpo => "max_response_length",
            _ => "max_seq_len",
        };
        let half = base.response / 2;
        (self.moves(knob) && half >= 64).then(|| {
            let mut setup = base.clone();
            setup.response = half;
            if base.program == Program::Grpo {
                setup.engine_context = base.engine_context - (base.response - half);
            }
            setup
        })
    }

    /// The same job on as many GPUs, on larger ones, and on more, the fewest first.
    fn places(&self, base: &Setup) -> Vec<Setup> {
        let mut places = vec![base.clone()];
        let larger = self.case.cluster.gpu_types.iter();
        let larger = larger
            .filter_map(|t| Bytes::parse(&t.memory).ok())
            .map(|b| b.0);
        let cards: Vec<u64> = larger
            .filter(|b| self.moves("gpu_memory") && *b > base.card)
            .collect();
        let grown = |knob: &str, most: Option<u32>, now: u64| -> Vec<u64> {
            let most = u64::from(most.unwrap_or(0));
            let mut all = vec![now];
            let mut next = (now * 2).min(most);
            while self.moves(knob) && next > *all.last().expect("not empty") && all.len() < 4 {
                all.push(next);
                next = (next * 2).min(most);
            }
            all
        };
        let facts = &self.case.cluster;
        for nodes in grown("nnodes", facts.nodes, base.nodes) {
            for gpus in grown("n_gpus_per_node", facts.gpus_per_node, base.gpus_per_node) {
                for card in std::iter::once(base.card).chain(cards.iter().copied()) {
                    let mut place = base.clone();
                    (place.nodes, place.gpus_per_node, place.card) = (nodes, gpus, card);
                    places.push(place);
                }
            }
        }
        places.sort_by_key(|p| (p.world(), p.card));
        places.dedup();
        places.into_iter().map(divisible).collect()
    }

    /// The fastest that fits at one place.
    fn best_at(&self, place: &Setup) -> Option<Best> {
        let mut known = Known::new();
        let mut found: Vec<(f64, Setup)> = Vec::new();
        for switched in self.switches(place) {
            if let Some(setup) = self.fill(switched, &mut known) {
                found.push((self.speed(&setup), setup));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found
            .into_iter()
            .find_map(|(speed, setup)| self.proven(speed, setup))
    }

    /// The truth and the product have the last word.
    fn proven(&self, speed: f64, setup: Setup) -> Option<Best> {
        if !self.case.truth.fits(&setup) {
            return None;
        }
        let mut layers = self.case.layers.clone();
        layers.push(setup.layer(&self.case.start));
        let shape = self.stack.shape(&layers, &self.case.cluster).ok()?;
        Some(Best {
            setup,
            shape,
            speed,
        })
    }

    /// Every setting of the switches that the ladder may throw.
    fn switches(&self, place: &Setup) -> Vec<Setup> {
        let mut all = vec![place.clone()];
        let grpo = place.program == Program::Grpo;
        let mut switch = |knob: &str, set: &dyn Fn(&mut Setup)| {
            if !self.moves(knob) {
                return;
            }
            let mut more: Vec<Setup> = all.clone();
            more.iter_mut().for_each(set);
            more.retain(|s| !all.contains(s));
            all.extend(more);
        };
        if grpo {
            switch("param_offload", &|s| s.param_offload = !s.param_offload);
            switch("optimizer_offload", &|s| {
                s.optimizer_offload = !s.optimizer_offload
            });
            switch("enable_gradient_checkpointing", &|s| s.checkpointing = true);
            switch("enable_activation_offload", &|s| {
                s.activation_offload = true
            });
            switch("use_fused_kernels", &|s| s.fused = true);
            switch("entropy_from_logits_with_chunking", &|s| {
                s.chunked_entropy = true
            });
            switch("enforce_eager", &|s| s.eager = true);
            switch("ulysses_sequence_parallel_size", &|s| {
                s.sequence_parallel *= 2
            });
            switch("ulysses_sequence_parallel_size", &|s| {
                s.sequence_parallel *= 2
            });
        } else {
            let known = !self
                .case
                .shape
                .recipe()
                .value("gradient_checkpointing")
                .is_null();
            if known {
                switch("gradient_checkpointing", &|s| s.checkpointing = true);
            }
            switch("allocator_conf", &|s| s.expandable = true);
        }
        all
    }

    /// The largest batches and the best engine for switches as they are.
    fn fill(&self, mut setup: Setup, known: &mut Known) -> Option<Setup> {
        if setup.program == Program::Grpo && !setup.sleep {
            // The engine's share takes from the trainer all the time: the fastest of these.
            let shares = (1..20)
                .map(|k| f64::from(k) * 0.05)
                .filter(|x| *x <= setup.share);
            let trials = std::iter::once(setup.share).chain(shares.rev());
            let filled = trials.filter_map(|share| {
                let trial = Setup {
                    share,
                    ..setup.clone()
                };
                let batches = self.batches(trial, &mut Known::new())?;
                self.engine(&batches, true)
            });
            return filled.max_by(|a, b| self.speed(a).total_cmp(&self.speed(b)));
        }
        setup = self.batches(setup, known)?;
        if setup.program == Program::Grpo {
            self.engine(&setup, false)
        } else {
            Some(setup)
        }
    }

    /// The fastest micro batches or budgets that fit.
    fn batches(&self, setup: Setup, known: &mut Known) -> Option<Setup> {
        let mut all = parts(&setup).iter();
        all.try_fold(setup, |setup, part| self.fastest(setup, part, known))
    }

    /// The setup with the fastest of a part's sizes for which its phase fits.
    fn fastest(&self, mut setup: Setup, part: &Part, known: &mut Known) -> Option<Setup> {
        let sizes = (part.sizes)(&setup);
        let fits = |size: u64| {
            let mut trial = setup.clone();
            (part.put)(&mut trial, size);
            self.late.holds(&trial, part.decides)
        };
        // Larger is faster, except where it means more padding.
        let pace = |size: u64| {
            let mut trial = setup.clone();
            (part.put)(&mut trial, size);
            self.speed(&trial)
        };
        let fastest = || {
            let mut paced: Vec<(f64, u64)> =
                sizes.iter().map(|size| (pace(*size), *size)).collect();
            paced.sort_by(|a, b| b.partial_cmp(a).expect("speeds are finite"));
            paced
                .into_iter()
                .map(|(_, size)| size)
                .find(|size| fits(*size))
        };
        let best = *known.entry(key(part, &setup)).or_insert_with(fastest);
        (part.put)(&mut setup, best?);
        Some(setup)
    }

    /// The engine that starts, wakes and is fastest; `fixed` keeps its share.
    fn engine(&self, setup: &Setup, fixed: bool) -> Option<Setup> {
        let mut variants = vec![setup.clone()];
        let mut more = |knob: &str, change: &dyn Fn(&mut Setup)| {
            if self.moves(knob) {
                let mut next = variants.last().expect("not empty").clone();
                change(&mut next);
                variants.push(next);
            }
        };
        more("rollout.max_model_len", &|s| {
            s.engine_context = s.sequence()
        });
        more("max_num_batched_tokens", &|s| {
            s.engine_tokens = s.engine_tokens.min(s.engine_context)
        });
        for _ in 0..3 {
            more("max_num_seqs", &|s| {
                s.engine_sequences = (s.engine_sequences / 2).max(16.min(s.engine_sequences))
            });
        }
        for _ in 0..2 {
            more("tensor_model_parallel_size", &|s| {
                s.tensor_parallel = (s.tensor_parallel * 2).min(s.gpus_per_node);
            });
        }
        variants
            .iter()
            .find_map(|variant| self.share(variant, fixed))
    }

    /// The largest share of the GPU that works up to the start's, else the largest above it.
    fn share(&self, setup: &Setup, fixed: bool) -> Option<Setup> {
        if !setup.legal(self.case.model, &self.case.cluster) {
            return None;
        }
        let works = |share: f64| {
            let trial = Setup {
                share,
                ..setup.clone()
            };
            // Nothing has grown yet when the engine starts.
            let starts = self.case.truth.starts(&trial);
            (starts && self.late.wakes(&trial)).then_some(trial)
        };
        if fixed || !self.moves("gpu_memory_utilization") {
            return works(setup.share);
        }
        let grid = (10..=98).map(|k| f64::from(k) * 0.01);
        let (down, up): (Vec<f64>, Vec<f64>) = grid.partition(|x| *x < setup.share);
        let order = std::iter::once(setup.share)
            .chain(down.into_iter().rev())
            .chain(up.into_iter().rev());
        order.into_iter().find_map(works)
    }
}

/// Mini and train batch as large as they may be on this many ranks.
fn divisible(mut setup: Setup) -> Setup {
    if setup.program == Program::Grpo {
        let ranks = setup.world().max(setup.data_parallel());
        let unit = (1..=ranks)
            .find(|n| (n * setup.samples).is_multiple_of(ranks))
            .unwrap_or(ranks);
        setup.mini_batch = (setup.mini_batch / unit * unit).max(unit);
        setup.train_batch = (setup.train_batch / unit * unit).max(setup.mini_batch);
    }
    setup
}

/// What the result of a part depends on, of what differs at one place.
fn key(part: &Part, s: &Setup) -> String {
    let offload = part
        .offload
        .then_some((s.param_offload, s.optimizer_offload));
    let switches = (
        s.checkpointing,
        s.activation_offload,
        s.fused,
        s.chunked_entropy,
    );
    let rest = (s.eager, s.sequence_parallel, s.expandable);
    format!("{} {offload:?} {switches:?} {rest:?}", part.name)
}
