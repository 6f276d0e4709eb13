//! What is read of a `config.json`, and what is refused. The texts are shortened: keys that say nothing of dimensions are
//! left out.

use serde_json::json;

use super::*;

/// Every table that is shipped.
fn tables() -> Vec<ModelTable> {
    let texts = [
        include_str!("../../../../presets/models/deepseek.yaml"),
        include_str!("../../../../presets/models/gemma.yaml"),
        include_str!("../../../../presets/models/gpt.yaml"),
        include_str!("../../../../presets/models/llama.yaml"),
        include_str!("../../../../presets/models/mistral.yaml"),
        include_str!("../../../../presets/models/others.yaml"),
        include_str!("../../../../presets/models/phi.yaml"),
        include_str!("../../../../presets/models/qwen.yaml"),
    ];
    texts.map(|text| serde_yaml::from_str(text).unwrap()).into()
}

fn gpus() -> Vec<GpuTable> {
    let texts = [
        include_str!("../../../../presets/gpus/amd.yaml"),
        include_str!("../../../../presets/gpus/nvidia.yaml"),
    ];
    texts.map(|text| serde_yaml::from_str(text).unwrap()).into()
}

/// Llama-3.1-8B.
fn llama() -> serde_json::Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "vocab_size": 128256
    })
}

fn with(changes: serde_json::Value) -> Result<Dimensions, Unknown> {
    let mut config = llama();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    read_dimensions(&config.to_string())
}

fn refused(changes: serde_json::Value) -> String {
    with(changes).unwrap_err().to_string()
}

#[test]
fn every_shipped_model_has_the_published_number_of_parameters() {
    let tables = tables();
    let models: Vec<&ModelEntry> = tables.iter().flat_map(|t| &t.models).collect();
    let names: usize = models.iter().map(|m| m.names.len()).sum();
    assert!(
        models.len() >= 60 && names >= 200,
        "{} models, {names} names",
        models.len()
    );
    for model in models {
        let name = &model.names[0];
        let counted = Dimensions::of(&model.config).unwrap_or_else(|e| panic!("{name}: {e}"));
        let published = model.dimensions().unwrap().params;
        let off = (counted.params / published - 1.0).abs();
        assert!(
            off < 0.01,
            "{name}: {} counted, {published} published",
            counted.params
        );
        assert_eq!(
            counted.remarks.iter().find(|r| r.contains("model_type")),
            None,
            "{name}"
        );
    }
}

#[test]
fn most_families_are_counted_to_the_last_parameter() {
    let tables = tables();
    for (name, params) in [
        ("Qwen/Qwen2.5-7B", 7_615_616_512.0),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624.0),
        ("meta-llama/Llama-3.2-1B", 1_235_814_400.0),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704.0),
        ("google/gemma-3-1b-it", 999_885_952.0),
        ("microsoft/phi-2", 2_779_683_840.0),
        ("gpt2", 124_439_808.0),
        ("tiiuae/falcon-7b", 6_921_720_704.0),
        ("allenai/OLMo-2-1124-7B", 7_298_617_344.0),
        ("bigscience/bloom", 176_247_271_424.0),
        ("facebook/opt-1.3b", 1_315_758_080.0),
        ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224.0),
    ] {
        let model = tables.iter().find_map(|t| t.find(name)).unwrap();
        assert_eq!(
            Dimensions::of(&model.config).unwrap().params,
            params,
            "{name}"
        );
    }
}

#[test]
fn no_name_stands_twice_in_the_tables() {
    let mut seen = std::collections::BTreeSet::new();
    for table in tables() {
        for name in table.models.iter().flat_map(|m| &m.names) {
            assert!(seen.insert(name.to_lowercase()), "{name}");
        }
    }
}

#[test]
fn a_config_gives_its_dimensions() {
    let d = with(json!({})).unwrap();
    assert_eq!(
        (d.layers, d.hidden, d.intermediate),
        (32.0, 4096.0, 14336.0)
    );
    assert_eq!((d.heads, d.kv_heads, d.head_dim), (32.0, 8.0, 128.0));
    assert_eq!((d.vocab, d.max_positions), (128_256.0, Some(131_072.0)));
    assert_eq!((d.params, d.experts), (8_030_261_248.0, 0.0));
    assert_eq!((d.tied, d.gated), (false, true));
    assert_eq!((d.format.as_deref(), d.quantised), (Some("bfloat16"), None));
    assert!(d.remarks.is_empty());
}

#[test]
fn the_knobs_are_those_of_the_set() {
    let set = include_str!("../../../../presets/sets/model.yaml");
    let set: serde_json::Value = serde_yaml::from_str(set).unwrap();
    let knobs = set["knobs"].as_array().unwrap().iter();
    let mut declared: Vec<&str> = knobs.map(|k| k["name"].as_str().unwrap()).collect();
    let mut named = MODEL_KNOBS.to_vec();
    let mut given: Vec<&str> = with(json!({}))
        .unwrap()
        .knobs()
        .iter()
        .map(|k| k.0)
        .collect();
    declared.sort_unstable();
    named.sort_unstable();
    given.sort_unstable();
    assert_eq!((&declared, &given), (&named, &named));
}

#[test]
fn the_old_names_mean_the_same() {
    let text = r#"{ "model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_ctx": 1024, "n_positions": 1024,
        "n_inner": null, "vocab_size": 50257 }"#;
    let d = read_dimensions(text).unwrap();
    assert_eq!((d.layers, d.hidden, d.heads), (12.0, 768.0, 12.0));
    assert_eq!((d.intermediate, d.gated, d.tied), (3072.0, false, true));
}

#[test]
fn the_decoder_of_a_model_that_sees_is_nested() {
    let text = r#"{ "model_type": "gemma3", "vision_config":
            { "hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_hidden_layers": 27 },
        "text_config": { "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34 } }"#;
    let d = read_dimensions(text).unwrap();
    // Heads, their width and the words are the defaults of the class.
    assert_eq!(
        (d.heads, d.kv_heads, d.head_dim, d.vocab),
        (8.0, 4.0, 256.0, 262_208.0)
    );
    assert!(
        (d.params / 4_300_079_472.0 - 1.0).abs() < 0.01,
        "{}",
        d.params
    );
    assert!(
        d.remarks.iter().any(|r| r.contains("part that sees")),
        "{:?}",
        d.remarks
    );
    let missing = text.replace("\"num_hidden_layers\": 34", "\"num_hidden_layers\": null");
    let why = read_dimensions(&missing).unwrap_err().to_string();
    assert!(
        why.starts_with("text_config.num_hidden_layers: is required"),
        "{why}"
    );
}

#[test]
fn a_token_passes_the_chosen_and_the_shared_experts() {
    let tables = tables();
    let model = tables
        .iter()
        .find_map(|t| t.find("deepseek-ai/DeepSeek-V2-Lite"))
        .unwrap();
    let d = Dimensions::of(&model.config).unwrap();
    // 6 of 64 and 2 shared ones of 1408 in 26 layers, 10944 in the first.
    assert_eq!(
        (d.experts, d.intermediate),
        (64.0, ((10_944.0 + 26.0 * 8.0 * 1408.0) / 27.0f64).round())
    );
    assert_eq!(d.head_dim, 192.0);
}

#[test]
fn quantised_weights_are_told() {
    let quantised = |config| {
        with(json!({ "quantization_config": config }))
            .unwrap()
            .quantised
    };
    assert_eq!(
        quantised(json!({ "quant_method": "gptq", "bits": 4 })).as_deref(),
        Some("gptq, 4 bit")
    );
    let nf4 =
        json!({ "quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false });
    assert_eq!(quantised(nf4).as_deref(), Some("bitsandbytes, 4 bit"));
    assert_eq!(
        quantised(json!({ "quant_method": "fp8" })).as_deref(),
        Some("fp8")
    );
}

#[test]
fn a_family_that_is_not_known_is_counted_as_a_plain_decoder_and_says_so() {
    let d = with(json!({ "model_type": "novel" })).unwrap();
    assert_eq!(d.params, 8_030_261_248.0);
    assert_eq!(
        d.remarks,
        ["model_type novel is unknown; counted as a plain decoder"]
    );
    let d = with(json!({ "model_type": "novel", "tie_word_embeddings": null })).unwrap();
    assert!(d.remarks[1].starts_with("tie_word_embeddings is not given"));
}

/// Changes of Llama's file, a line each, and how what is said against them begins.
fn all_refused(cases: &str) {
    for case in cases.trim().lines() {
        let (changes, why) = case.trim().split_once(" => ").unwrap();
        let said = refused(serde_json::from_str(changes).unwrap());
        assert!(said.starts_with(why), "{changes}: {said}");
    }
}

#[test]
fn what_is_missing_odd_or_absurd_is_refused_by_its_key() {
    all_refused(
        r#"
        {"hidden_size": null} => hidden_size: is required
        {"hidden_size": 0} => hidden_size: 0 is no size
        {"hidden_size": -4096} => hidden_size: -4096 is not a whole number
        {"hidden_size": "4096"} => hidden_size: "4096" is not a whole number
        {"hidden_size": 4096.5} => hidden_size: 4096.5 is not a whole number
        {"num_hidden_layers": 32e9} => num_hidden_layers: 32000000000.0 is more than any model has
        {"intermediate_size": null} => intermediate_size: is required
        {"vocab_size": null} => vocab_size: is required
        {"tie_word_embeddings": "no"} => tie_word_embeddings: "no" is neither true nor false
        {"quantization_config": 4} => quantization_config: is no object
        {"hidden_size": 8000000, "intermediate_size": 9000000} => hidden_size: adds up to
        "#,
    );
    for text in ["[1]", ""] {
        let said = read_dimensions(text).unwrap_err().to_string();
        assert!(said.starts_with("config.json: is no JSON object"), "{said}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    all_refused(
        r#"
        {"n_layer": 24} => n_layer: 24 contradicts num_hidden_layers = 32
        {"num_key_value_heads": 5} => num_key_value_heads: 32 heads cannot share 5 key and value heads
        {"num_attention_heads": 33, "num_key_value_heads": 33} => num_attention_heads: a width of 4096 cannot be split
        {"num_local_experts": 8, "num_experts_per_tok": 9} => num_experts_per_tok: a token cannot pass 9 of 8
        {"num_local_experts": 8} => num_experts_per_tok: is required
        {"moe_num_experts": 16} => moe_num_experts: experts, but none of
        "#,
    );
}

#[test]
fn what_is_no_decoder_of_attention_is_refused() {
    all_refused(
        r#"
        {"is_encoder_decoder": true} => is_encoder_decoder:
        {"mamba_d_state": 128} => mamba_d_state:
        {"layer_types": ["linear_attention", "full_attention"]} => layer_types: layers of kind linear_attention
        {"audio_config": {}} => audio_config:
        {"vision_config": {}} => vision_config.depth: is required
        {"model_type": "dbrx"} => model_type:
        {"model_type": "bert"} => model_type:
        {"model_type": "novel", "architectures": ["NovelForTokenClassification"]} => architectures: NovelForTokenClassification is not a known decoder
        "#,
    );
}

#[test]
fn layers_without_experts_are_left_out() {
    let mixture = json!({ "num_experts": 8, "num_experts_per_tok": 1, "moe_intermediate_size": 1000, "intermediate_size": 5000 });
    let passed = |key: &str, value: serde_json::Value| {
        let mut changes = mixture.clone();
        changes[key] = value;
        with(changes).unwrap().intermediate
    };
    assert_eq!(passed("first_k_dense_replace", json!(0)), 1000.0);
    // Of 32 layers 8 have one MLP.
    assert_eq!(passed("first_k_dense_replace", json!(8)), 2000.0);
    assert_eq!(passed("decoder_sparse_step", json!(2)), 3000.0);
    // Layer 2 has no experts anyway, no layer 99, and one that is named twice counts once.
    let mut both = mixture.clone();
    both["decoder_sparse_step"] = json!(2);
    both["mlp_only_layers"] = json!([1, 1, 2, 3, 99]);
    let d = with(both).unwrap();
    assert_eq!(d.intermediate, (18.0 * 5000.0 + 14.0 * 1000.0) / 32.0);
}

/// Whatever stands under a key, the answer is a refusal or sizes that can be reckoned with.
#[test]
fn odd_values_never_become_odd_sizes() {
    let odd = [
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(7),
        json!(1e9),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!([]),
        json!([1]),
        json!({}),
        json!({ "hidden_size": 1 }),
        json!(true),
        json!(null),
    ];
    let tables = tables();
    let first_of_each_table = tables.iter().filter_map(|t| t.models.last());
    for model in first_of_each_table {
        for key in model.config.keys() {
            for value in &odd {
                let mut config = model.config.clone();
                config.insert(key.clone(), value.clone());
                let Ok(d) = Dimensions::of(&config) else {
                    continue;
                };
                let sizes = [
                    d.layers,
                    d.hidden,
                    d.heads,
                    d.kv_heads,
                    d.head_dim,
                    d.intermediate,
                    d.vocab,
                    d.params,
                ];
                let sound = |x: &f64| x.is_finite() && *x >= 1.0 && *x < 1e14;
                assert!(sizes.iter().all(sound), "{key} = {value}: {sizes:?}");
            }
        }
    }
}

#[test]
fn a_key_is_found_in_the_text_by_its_section() {
    let text = "{\n  \"vision_config\": {\n    \"hidden_size\": 1152\n  },\n  \"text_config\": {\n      \"hidden_size\": 0\n  }\n}";
    assert_eq!(place_of(text, "vision_config.hidden_size"), (3, 5));
    assert_eq!(place_of(text, "text_config.hidden_size"), (6, 7));
    assert_eq!(place_of(text, "num_hidden_layers"), (1, 1));
    assert_eq!(place_of(text, "text_config.num_hidden_layers"), (5, 3));
}

#[test]
fn a_gpu_is_known_by_its_gres_type_and_by_its_product_name() {
    let tables = gpus();
    let of = |name: &str| capacity(tables.iter(), name);
    for (name, memory) in [
        ("h100", "79.18GiB"),
        ("nvidia_h100_80gb_hbm3", "79.18GiB"),
        ("NVIDIA A100-SXM4-40GB", "39.39GiB"),
        ("nvidia_a100_80gb_pcie", "79.15GiB"),
        ("NVIDIA GeForce RTX 4090", "23.52GiB"),
        ("Tesla V100-SXM2-32GB", "31.73GiB"),
        ("AMD Instinct MI300X", "191.69GiB"),
    ] {
        assert!(
            matches!(of(name), Some(Capacity::Known(m, _)) if m == memory),
            "{name}: {:?}",
            of(name)
        );
    }
    let both = Capacity::Several(vec!["79.15GiB".to_owned(), "39.39GiB".to_owned()]);
    assert_eq!(of("a100"), Some(both));
    assert_eq!(of("nvidia_a100_80gb_pcie_1g.10gb"), None);
    assert_eq!(of("warp9"), None);
}

#[test]
fn every_capacity_can_be_read_and_every_name_is_in_the_tables_spelling() {
    for gpu in gpus().iter().flat_map(|t| &t.gpus) {
        assert!(
            oomctl_base::units::Bytes::parse(&gpu.memory.value).is_ok(),
            "{:?}",
            gpu.names
        );
        let found = |name: &String| capacity(gpus().iter(), name).is_some();
        assert!(gpu.names.iter().all(found), "{:?}", gpu.names);
    }
}

#[test]
fn a_published_context_is_that_of_a_card_and_has_its_bounds() {
    let tables = gpus();
    let all = any_context(tables.iter()).unwrap();
    for entry in tables.iter().flat_map(|t| &t.contexts) {
        assert!(entry.source.contains("github.com"), "{:?}", entry.source);
        for name in &entry.gpus {
            assert!(capacity(tables.iter(), name).is_some(), "no card {name}");
            let size = context(tables.iter(), name).unwrap();
            assert!(size.least_bytes <= size.most_bytes, "{name}");
            assert!(all.least_bytes <= size.least_bytes && size.most_bytes <= all.most_bytes);
        }
    }
    let h100 = context(tables.iter(), "NVIDIA H100 80GB HBM3").unwrap();
    assert_eq!((h100.cuda, h100.most_bytes >> 20), (Some(12), 665));
    assert_eq!(context(tables.iter(), "gb200"), None);
}

#[test]
fn a_card_has_its_processors_and_a_name_of_two_cards_has_none() {
    let tables = gpus();
    let of = |name: &str| processor(tables.iter(), name);
    assert_eq!(of("NVIDIA A100-SXM4-40GB"), Some(("8.0", 108)));
    assert_eq!(of("a100"), Some(("8.0", 108)));
    assert_eq!(of("rtx-6000"), None);
    assert_eq!(of("mi300x"), None);
}
