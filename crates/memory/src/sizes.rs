//! What a size may be, and which sizes contradict each other.

use super::row::{MeasurementRow, Unknown};
use super::spec::Model;

/// Most layers, experts, heads and words, and the greatest width; far beyond any model, so that a slip of a
/// digit is found.
pub(super) const MOST_LAYERS: f64 = 10_000.0;
pub(super) const MOST_EXPERTS: f64 = 100_000.0;
pub(super) const MOST_HEADS: f64 = 100_000.0;
pub(super) const MOST_WIDTH: f64 = 10_000_000.0;
pub(super) const MOST_WORDS: f64 = 100_000_000.0;
/// Most GPUs of a job, sequences or forward passes of a step, and tokens.
const MOST_GPUS: f64 = 1_000_000.0;
const MOST_SEQUENCES: f64 = 1_000_000.0;
const MOST_TOKENS: f64 = 1e9;

/// Share of the counted parameters that a model has at least: layers may share theirs, and tables round.
const LEAST_PARAMS: f64 = 0.5;

/// What numbers a field takes.
struct FieldBounds {
    field: &'static str,
    most: f64,
    whole: bool,
}

const fn count(field: &'static str, most: f64) -> FieldBounds {
    FieldBounds {
        field,
        most,
        whole: true,
    }
}

const fn amount(field: &'static str, most: f64) -> FieldBounds {
    FieldBounds {
        field,
        most,
        whole: false,
    }
}

/// Every number of a bare specification.
const BOUNDS: &[FieldBounds] = &[
    amount("params_b", 100_000.0),
    count("layers", MOST_LAYERS),
    count("hidden", MOST_WIDTH),
    count("heads", MOST_HEADS),
    count("kv_heads", MOST_HEADS),
    count("head_dim", MOST_WIDTH),
    // Of a mixture of experts the mean over its layers.
    amount("ffn", MOST_WIDTH),
    count("vocab", 10.0 * MOST_WORDS),
    count("experts", MOST_EXPERTS),
    count("gpus", MOST_GPUS),
    amount("gpu_total_gib", 100_000.0),
    count("dp", MOST_GPUS),
    count("tp", MOST_GPUS),
    count("pp", MOST_GPUS),
    count("cp", MOST_GPUS),
    count("vpp", MOST_LAYERS),
    count("shard_group", MOST_GPUS),
    count("micro_batch", MOST_SEQUENCES),
    // Tokens and passes may be means.
    amount("seq_len", MOST_TOKENS),
    amount("grad_accum", MOST_SEQUENCES),
    amount("no_sync_bytes", 8.0),
    amount("bucket_bytes", 1e12),
    count("lora_r", MOST_WIDTH),
    amount("engine_share", 1.0),
    count("rollout_tp", MOST_GPUS),
    amount("max_prompt", MOST_TOKENS),
    amount("max_response", MOST_TOKENS),
    amount("fill", 1.0),
    amount("logprob_tokens", MOST_SEQUENCES * MOST_TOKENS),
    amount("ref_tokens", MOST_SEQUENCES * MOST_TOKENS),
    amount("engine_tokens", MOST_TOKENS),
    count("engine_sequences", MOST_SEQUENCES),
    amount("sync_buffer_mib", 100_000_000.0),
];

/// A number that is needed, more than 0 and within the bounds of its field.
pub(super) fn size(field: &str, value: Option<f64>) -> Result<f64, Unknown> {
    let Some(x) = value else {
        return Err(Unknown::new(field, "is unknown"));
    };
    let bounds = BOUNDS.iter().find(|b| b.field == field);
    let most = bounds.map_or(f64::MAX, |b| b.most);
    let shown = || match x.abs() < 1e15 {
        true => format!("{x}"),
        false => format!("{x:e}"),
    };
    let why = if !x.is_finite() || x <= 0.0 {
        format!("{} is no size", shown())
    } else if x > most {
        format!("{} is more than {most}, the most that is believed", shown())
    } else if bounds.is_some_and(|b| b.whole) && x.fract() != 0.0 {
        format!("{} is not a whole number", shown())
    } else {
        return Ok(x);
    };
    Err(Unknown::new(field, why))
}

/// As `size`, with a default.
pub(super) fn or(field: &str, value: Option<f64>, default: f64) -> Result<f64, Unknown> {
    value.map_or(Ok(default), |x| size(field, Some(x)))
}

/// As `or`, where 0 says that there is none, which is the default.
pub(super) fn or_none(field: &str, value: Option<f64>) -> Result<f64, Unknown> {
    or(field, value.filter(|x| *x != 0.0), 0.0)
}

/// How many GPUs work together, and how the work is split over them.
pub(super) struct Parallelism {
    pub gpus: f64,
    pub data: f64,
    pub tensor: f64,
    pub pipeline: f64,
    pub context: f64,
    /// Pipeline chunks per GPU.
    pub chunks: f64,
}

impl Parallelism {
    /// The split of a row whose model is known.
    pub(super) fn of(row: &MeasurementRow, model: &Model) -> Result<Self, Unknown> {
        let tensor = or("tp", row.tp, 1.0)?;
        let pipeline = or("pp", row.pp, 1.0)?;
        let context = or("cp", row.cp, 1.0)?;
        let inner = tensor * pipeline * context;
        let gpus = or("gpus", row.gpus, or("dp", row.dp, 1.0)? * inner)?;
        let data = or("dp", row.dp, (gpus / inner).floor().max(1.0))?;
        if data * inner != gpus {
            let why =
                format!("{gpus} are not dp {data} x tp {tensor} x pp {pipeline} x cp {context}");
            return Err(Unknown::new("gpus", why));
        }
        let split = Self {
            gpus,
            data,
            tensor,
            pipeline,
            context,
            chunks: or("vpp", row.vpp, 1.0)?,
        };
        split.suits(model)?;
        Ok(split)
    }

    fn suits(&self, model: &Model) -> Result<(), Unknown> {
        if model.heads % self.tensor != 0.0 {
            let why = format!("{} heads cannot be split by {}", model.heads, self.tensor);
            return Err(Unknown::new("tp", why));
        }
        if self.pipeline * self.chunks > model.layers {
            let why = format!(
                "{} stages x {} chunks (vpp) are more than {} layers",
                self.pipeline, self.chunks, model.layers
            );
            return Err(Unknown::new("pp", why));
        }
        if self.chunks > 1.0 && self.pipeline == 1.0 {
            let why = format!("{} chunks need a pipeline, and pp is 1", self.chunks);
            return Err(Unknown::new("vpp", why));
        }
        Ok(())
    }
}

/// Refuses heads that cannot share key and value heads, or a width.
pub(super) fn heads_agree(row: &MeasurementRow, heads: f64, hidden: f64) -> Result<(), Unknown> {
    let shared = row.kv_heads.unwrap_or(heads);
    if heads % shared != 0.0 {
        let why = format!("{heads} heads cannot share {shared} key and value heads");
        return Err(Unknown::new("kv_heads", why));
    }
    if row.head_dim.is_none() && hidden % heads != 0.0 {
        let why = format!(
            "a width of {hidden} cannot be split over {heads} heads, and there is no head_dim"
        );
        return Err(Unknown::new("heads", why));
    }
    Ok(())
}

/// Refuses fewer parameters than the dimensions have: experts and eyes add to them, nothing takes away.
pub(super) fn params_agree(params: f64, counted: f64) -> Result<(), Unknown> {
    if params >= counted * LEAST_PARAMS {
        return Ok(());
    }
    let why = format!(
        "{} x 10^9 parameters are fewer than the dimensions have, {:.2} x 10^9",
        params / 1e9,
        counted / 1e9
    );
    Err(Unknown::new("params_b", why))
}

#[cfg(test)]
mod tests {
    use crate::{MeasurementRow, Profile, Profiles, Unknown};
    use serde_json::{Value, json};

    /// A job with these fields changed, as it is read from a file.
    fn spec(changes: &Value) -> Result<(), Unknown> {
        let mut fields = json!({
            "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128_256, "gpus": 8,
            "micro_batch": 1, "seq_len": 2048,
        });
        for (name, value) in changes.as_object().unwrap() {
            fields[name] = value.clone();
        }
        let profiles = Profiles::new(vec![Profile::default()]);
        let (row, profile) = MeasurementRow::read(&fields.to_string(), &profiles)?;
        row.spec(profile).map(drop)
    }

    #[test]
    fn what_no_job_has_is_named_by_its_field() {
        let engine = |field: &str, value: f64| json!({ "engine_share": 0.5, field: value });
        for (field, changes) in [
            ("layers", json!({ "layers": null })),
            ("layers", json!({ "layers": "32" })),
            ("layers", json!({ "layers": 0 })),
            ("layers", json!({ "layers": 32.5 })),
            ("layers", json!({ "layers": 1e12 })),
            ("hidden", json!({ "hidden": -4096 })),
            ("heads", json!({ "hidden": 4095 })),
            ("kv_heads", json!({ "kv_heads": 5 })),
            ("kv_heads", json!({ "kv_heads": 64 })),
            ("head_dim", json!({ "head_dim": 0.1 })),
            ("ffn", json!({ "ffn": [14336] })),
            ("vocab", json!({ "vocab": 1e300 })),
            ("experts", json!({ "experts": -8 })),
            ("params_b", json!({ "experts": 8 })),
            ("params_b", json!({ "params_b": 8e9 })),
            ("params_b", json!({ "params_b": 0.008 })),
            ("micro_batch", json!({ "micro_batch": 0.5 })),
            ("micro_batch", json!({ "micro_batch": 1e9 })),
            ("seq_len", json!({ "seq_len": 0 })),
            ("grad_accum", json!({ "grad_accum": -1 })),
            ("gpu_total_gib", json!({ "gpu_total_gib": -80 })),
            ("precision", json!({ "precision": 16 })),
            ("sharding", json!({ "sharding": "zero4" })),
            ("metric", json!({ "metric": "guess" })),
            ("lora_r", json!({ "lora_r": -1 })),
            ("lora_targets", json!({ "lora_r": 8, "lora_targets": "" })),
            ("quant", json!({ "quant": "nf4" })),
            ("fill", json!({ "fill": 7 })),
            ("engine_share", json!({ "engine_share": 1.5 })),
            ("max_prompt", engine("max_prompt", -5.0)),
            ("max_response", engine("max_response", 1e300)),
            ("sync_buffer_mib", engine("sync_buffer_mib", -5.0)),
            ("micro_bacth", json!({ "micro_bacth": 4 })),
        ] {
            let told = spec(&changes).unwrap_err();
            assert_eq!(told.field, field, "{changes}: {told}");
        }
    }

    #[test]
    fn parallel_sizes_that_contradict_each_other_are_refused() {
        for (field, changes) in [
            ("gpus", json!({ "dp": 4, "tp": 4 })),
            ("gpus", json!({ "dp": 2 })),
            ("gpus", json!({ "tp": 16 })),
            ("gpus", json!({ "cp": 3 })),
            ("gpus", json!({ "gpus": 7.5 })),
            ("tp", json!({ "gpus": 3, "tp": 3 })),
            ("pp", json!({ "gpus": 64, "pp": 64 })),
            ("pp", json!({ "pp": 8, "vpp": 8 })),
            ("vpp", json!({ "vpp": 4 })),
            (
                "shard_group",
                json!({ "sharding": "fsdp", "shard_group": 16 }),
            ),
            (
                "rollout_tp",
                json!({ "engine_share": 0.5, "rollout_tp": 3 }),
            ),
        ] {
            let told = spec(&changes).unwrap_err();
            assert_eq!(told.field, field, "{changes}: {told}");
        }
    }

    #[test]
    fn what_is_odd_and_possible_is_taken() {
        for changes in [
            json!({}),
            json!({ "dp": 2, "tp": 4, "sharding": "zero1" }),
            // 126 layers in 8 stages, as Llama 3.1 405B was trained.
            json!({ "layers": 126, "pp": 8 }),
            json!({ "hidden": 4095, "head_dim": 128 }),
            json!({ "ffn": 5461.5, "experts": 0, "lora_r": 0, "max_prompt": 0 }),
            json!({ "quant": "nf4", "task": "infer" }),
            json!({ "fits": true, "rollout_n": 8, "gpu": "h100" }),
        ] {
            assert_eq!(spec(&changes), Ok(()), "{changes}");
        }
    }

    #[test]
    fn gpus_that_nothing_else_takes_work_in_parallel_on_data() {
        let shards = |changes: &str| {
            let text = format!(
                r#"{{ "layers": 2, "hidden": 64, "heads": 8, "ffn": 256, "vocab": 1000, "micro_batch": 1, "seq_len": 64,
                    "gpus": 8, "sharding": "fsdp"{changes} }}"#
            );
            let profiles = Profiles::default();
            let (row, profile) = MeasurementRow::read(&text, &profiles).unwrap();
            row.spec(profile).unwrap().data_parallel
        };
        assert_eq!((shards(""), shards(r#", "tp": 4"#)), (8.0, 2.0));
    }
}
