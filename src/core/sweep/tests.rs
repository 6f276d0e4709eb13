use proptest::prelude::*;

use super::repair::SweepContext;
use super::*;
use crate::core::config::{parse_knob_set, parse_preset};
use crate::core::recipe::{
    ClusterFacts, Layer, LayerKind, Preset, Recipe, Setting, Shape, resolve,
};
use oomctl_base::{Origin, Value, word_list};

const SWEEP: &str = include_str!("../../../examples/path-star/sweep.yaml");
const GIB: f64 = 1_073_741_824.0;

pub(super) fn preset() -> Preset {
    let file = include_str!("../../../examples/path-star/presets/path-star.yaml");
    let set = include_str!("../../../presets/sets/slurm.yaml");
    let file = parse_preset("path-star.yaml", file).unwrap();
    let set = parse_knob_set("slurm.yaml", set).unwrap();
    Preset::assemble(file, vec![set], None).unwrap()
}

fn layer(kind: LayerKind, values: &[(&str, Value)]) -> Layer {
    let mut layer = Layer::new(kind);
    for (name, value) in values {
        let origin = Origin::Flag {
            text: (*name).to_owned(),
        };
        let value = value.clone();
        layer
            .settings
            .insert((*name).to_owned(), Setting { value, origin });
    }
    layer
}

pub(super) fn below(preset: &Preset) -> (Layer, Recipe) {
    let gpu = Value::Text("15.48GiB".to_owned());
    let layer = layer(LayerKind::Project, &[("gpu_memory", gpu)]);
    let recipe = resolve(
        preset,
        std::slice::from_ref(&layer),
        &ClusterFacts::default(),
    )
    .unwrap();
    (layer, recipe)
}

/// Judges the cells of a sweep; the verdicts, and the fullest cell's phase and terms.
fn judged(text: &str) -> (Vec<CellVerdict>, CellDetail, f64) {
    let preset = preset();
    let (_, recipe) = below(&preset);
    let cluster = ClusterFacts::default();
    let sweep = parse("s.yaml", text).unwrap();
    let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
    let cells = Cells::new(&sweep, &judge);
    let briefs: Vec<Brief> = cells.cells.iter().map(|c| judge.brief(c)).collect();
    let fullest = cells.cells.iter().zip(&briefs);
    let (cell, brief) = fullest
        .max_by(|a, b| a.1.bytes.unwrap().total_cmp(&b.1.bytes.unwrap()))
        .unwrap();
    let verdicts = briefs.iter().map(|b| b.verdict).collect();
    (verdicts, judge.detail(cell), brief.bytes.unwrap())
}

fn fixed(text: &str, given: Vec<SweepChange>, sweep: &Sweep) -> (Repair, Result<String, String>) {
    let preset = preset();
    let (_, recipe) = below(&preset);
    let cluster = ClusterFacts::default();
    let context = SweepContext {
        preset: &preset,
        recipe: &recipe,
        cluster: &cluster,
        profile: None,
    };
    let original = parse("s.yaml", text).unwrap();
    let repair = repair(&context, sweep, given).unwrap();
    let written = apply("s.yaml", text, &original, &repair);
    (repair, written)
}

#[test]
fn the_case_from_the_field_is_found_by_arithmetic() {
    let (verdicts, detail, bytes) = judged(SWEEP);
    assert!(
        verdicts.iter().all(|v| *v == CellVerdict::DoesNotFit),
        "{verdicts:?}"
    );
    let gib = |name: &str| {
        let term = detail.terms.iter().find(|(n, _)| n == name).unwrap();
        (term.1 / GIB * 100.0).round() / 100.0
    };
    assert_eq!(detail.phase, "evaluation");
    assert_eq!((gib("embedding"), gib("output projection")), (2.38, 2.38));
    assert_eq!(gib("logits").round(), 1490.0);
    assert!(bytes / GIB > 1490.0);
}

#[test]
fn a_failed_request_is_told_in_rows_of_logits() {
    let preset = preset();
    let (_, recipe) = below(&preset);
    let cluster = ClusterFacts::default();
    let sweep = parse("s.yaml", SWEEP).unwrap();
    let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
    let cell = Cells::new(&sweep, &judge).cells.remove(0);
    let units = judge.units(&cell, 7.45 * GIB);
    let rows = units
        .iter()
        .find(|(u, _)| u == "rows of fp32 logits")
        .unwrap();
    assert_eq!(rows.1.round(), 200.0);
}

#[test]
fn a_broken_rule_names_the_largest_admissible_value() {
    let text =
        "parameters:\n  graph_d: {values: [1000, 10000]}\n  graph_vocab_size: {value: 10000}\n";
    let preset = preset();
    let (_, recipe) = below(&preset);
    let cluster = ClusterFacts::default();
    let sweep = parse("s.yaml", text).unwrap();
    let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
    let cells = Cells::new(&sweep, &judge).cells;
    assert_eq!(judge.brief(&cells[0]).verdict, CellVerdict::Fits);
    assert_eq!(judge.brief(&cells[1]).verdict, CellVerdict::BreaksRule);
    let blame = Blame::of(&mut judge, &cells[1]).unwrap();
    let bound = |name: &str| {
        let axis = sweep.axis(name).unwrap();
        let culprit = blame.culprits.iter().find(|c| c.axis == axis).unwrap();
        culprit.bound.clone().unwrap()
    };
    assert_eq!(bound("graph_d"), ValueLimit::AtMost(Value::Int(2499)));
    assert_eq!(
        bound("graph_vocab_size"),
        ValueLimit::AtLeast(Value::Int(40001))
    );
    let why = judge.detail(&cells[1]).why.unwrap();
    assert!(why.contains("40001"), "{why}");
}

#[test]
fn a_repaired_sweep_runs_in_every_cell_and_keeps_its_comments() {
    let sweep = parse("s.yaml", SWEEP).unwrap();
    let (repair, written) = fixed(SWEEP, Vec::new(), &sweep);
    assert_eq!(repair.left, None);
    let written = written.unwrap();
    assert!(judged(&written).0.iter().all(|v| *v == CellVerdict::Fits));
    for kept in [
        "# room for the largest graph",
        "# paths that leave the centre",
        "metric: {name: eval/accuracy, goal: maximize}",
    ] {
        assert!(written.contains(kept), "{written}");
    }
    assert!(written.contains("eval_batch_size:"), "{written}");
}

#[test]
fn what_the_user_sets_is_where_the_repair_begins() {
    let mut sweep = parse("s.yaml", SWEEP).unwrap();
    let axis = sweep.axis("graph_vocab_size").unwrap();
    sweep.axes[axis].values = vec![Value::Int(10_000)];
    let set = SweepChange::Cap {
        name: "graph_vocab_size".to_owned(),
        from: Value::Int(10_000_000),
        to: Value::Int(10_000),
        why: "--set".to_owned(),
    };
    let (repair, written) = fixed(SWEEP, vec![set], &sweep);
    let d = repair.sweep.axis("graph_d").unwrap();
    let kept: Vec<Value> = [250, 500, 1000].map(Value::Int).to_vec();
    assert_eq!(repair.sweep.axes[d].values, kept);
    let (verdicts, _, bytes) = judged(&written.unwrap());
    assert!(verdicts.iter().all(|v| *v == CellVerdict::Fits));
    assert!(bytes / GIB < 1.0, "{bytes}");
}

#[test]
fn a_value_outside_its_bounds_is_said_and_mended() {
    let text = "parameters:\n  graph_d: {values: [250, 0]}\n  graph_holdout: {values: [0.2, 5]}\n";
    let (verdicts, _, _) = judged(text);
    let broken = verdicts
        .iter()
        .filter(|v| **v == CellVerdict::BreaksRule)
        .count();
    assert_eq!((verdicts.len(), broken), (4, 3));
    let (repair, written) = fixed(text, Vec::new(), &parse("s.yaml", text).unwrap());
    assert_eq!(repair.left, None);
    assert!(
        judged(&written.unwrap())
            .0
            .iter()
            .all(|v| *v == CellVerdict::Fits)
    );
}

#[test]
fn numbers_may_be_written_in_the_other_way() {
    let text = "parameters:\n  graph_vocab_size: {values: [10000.0, 1e9]}\n";
    let (repair, written) = fixed(text, Vec::new(), &parse("s.yaml", text).unwrap());
    assert_eq!(repair.left, None);
    let written = written.unwrap();
    assert!(written.contains("values: [10000.0]"), "{written}");
}

#[test]
fn a_value_that_is_listed_twice_goes_twice() {
    let text = "parameters:\n  graph_vocab_size: {values: [90000000, 10000, 90000000]}\n";
    let (_, written) = fixed(text, Vec::new(), &parse("s.yaml", text).unwrap());
    let written = written.unwrap();
    assert!(written.contains("{values: [10000]}"), "{written}");
}

#[test]
fn the_upper_end_of_a_range_is_capped_where_it_stands() {
    let text = "method: random\nparameters:\n  graph_vocab_size:\n    distribution: q_log_uniform\n    min: 9.0  # e^9\n    max: 18.0  # e^18\n";
    let (repair, written) = fixed(text, Vec::new(), &parse("s.yaml", text).unwrap());
    assert_eq!(repair.left, None);
    let written = written.unwrap();
    assert!(written.contains("min: 9.0  # e^9\n"), "{written}");
    assert!(
        judged(&written).0.iter().all(|v| *v == CellVerdict::Fits),
        "{written}"
    );
}

#[test]
fn of_too_many_cells_the_largest_is_judged() {
    let values: Vec<String> = (1..=8).map(|i| (i * 1000).to_string()).collect();
    let mixed = format!("[{}, 20000000, 9000]", values.join(", "));
    let text = format!(
        "parameters:\n  graph_d: {{values: {mixed}}}\n  graph_vocab_size: {{values: {mixed}}}\n  batch_size: {{values: {mixed}}}\n  embedding_dim: {{values: {mixed}}}\n  eval_samples: {{values: {mixed}}}\n  paths_repeated: {{values: {mixed}}}\n"
    );
    let preset = preset();
    let (_, recipe) = below(&preset);
    let cluster = ClusterFacts::default();
    let sweep = parse("s.yaml", &text).unwrap();
    let judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
    let cells = Cells::new(&sweep, &judge);
    assert!(cells.sampled);
    assert!(cells.cells.contains(&vec![8; 6]));
}

#[test]
fn every_distribution_is_read() {
    let text = "method: bayes\nparameters:\n  a: {min: 1, max: 4}\n  b: {min: 0.5, max: 1.5}\n  c: {distribution: q_uniform, min: 8, max: 24, q: 8}\n  d: {distribution: log_uniform, min: 0, max: 2}\n  e: {distribution: log_uniform_values, min: 1, max: 100}\n  f: {distribution: normal, mu: 5, sigma: 1}\n  g: {parameters: {h: {values: [x, null]}}}\n";
    let sweep = parse("s.yaml", text).unwrap();
    let values = |name: &str| sweep.axes[sweep.axis(name).unwrap()].values.clone();
    assert_eq!(sweep.method, Method::Bayes);
    assert_eq!(values("a"), [1, 2, 3, 4].map(Value::Int));
    assert_eq!(values("b").first(), Some(&Value::Float(0.5)));
    assert_eq!(values("c"), [8, 16, 24].map(Value::Int));
    let last = values("d").pop().unwrap();
    assert!(matches!(last, Value::Float(x) if (x - 2_f64.exp()).abs() < 1e-9));
    assert_eq!(values("e").last(), Some(&Value::Float(100.0)));
    assert_eq!(values("f").last(), Some(&Value::Float(8.0)));
    assert_eq!(values("g.h"), [Value::Text("x".to_owned()), Value::Null]);
}

#[test]
fn overrides_are_read_as_hydra_reads_them() {
    let words = word_list::<7>(
        "+a=1,2 b=choice(x,'y,z') c=range(1,4) d=interval(0,1) e=[1,2],[3]
         f=tag(t,shuffle(1e-3,.5)) ~g",
    );
    let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    let sweep = parse_overrides(&words).unwrap();
    let values = |name: &str| sweep.axes[sweep.axis(name).unwrap()].values.clone();
    assert_eq!(values("a"), [Value::Int(1), Value::Int(2)]);
    assert_eq!(
        values("b"),
        [Value::Text("x".to_owned()), Value::Text("y,z".to_owned())]
    );
    assert_eq!(values("c"), [1, 2, 3].map(Value::Int));
    assert!(sweep.axes[sweep.axis("d").unwrap()].sampled);
    assert_eq!(values("e").len(), 2);
    assert_eq!(values("f"), [Value::Float(1e-3), Value::Float(0.5)]);
    for bad in ["a", "a=range(3,1)", "a='x", "a=glob(*)"] {
        assert!(parse_overrides(&[bad.to_owned()]).is_err(), "{bad}");
    }
}

#[test]
fn faults_name_their_place() {
    let line = |text: &str| parse("s.yaml", text).unwrap_err().line;
    assert_eq!(line("method: grids\nparameters: {}\n"), Some(1));
    assert_eq!(line("parameters:\n  a: {values: []}\n"), Some(2));
    assert_eq!(
        line("parameters:\n  a: {distribution: unifrom, min: 1, max: 2}\n"),
        Some(2)
    );
    assert_eq!(line("parameters:\n  a: {min: 3, max: 1}\n"), Some(2));
    assert_eq!(line("hydra: {sweeper: 1}\n"), Some(1));
    let many: String = (0..300)
        .map(|i| format!("  a{i}: {{value: 1}}\n"))
        .collect();
    assert_eq!(line(&format!("parameters:\n{many}")), Some(1));
    let tiny = "parameters:\n  a: {distribution: q_uniform, min: 1, max: 1, q: 1e-300}\n";
    assert_eq!(parse("s.yaml", tiny).unwrap().axes[0].values.len(), 1);
    assert!(parse_overrides(&["a=range(0,10,0)".to_owned()]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The cells are judged by expressions that are evaluated once; the same must come out as from resolving
    /// each configuration by itself.
    #[test]
    fn a_cell_is_judged_as_its_configuration_would_be(
        d in 1_i64..2_000_000, l in 2_i64..9, vocab in 1_i64..20_000_000,
        eval in prop::option::of(1_i64..50_000),
    ) {
        let preset = preset();
        let (project, recipe) = below(&preset);
        let cluster = ClusterFacts::default();
        let eval_text = eval.map_or("null".to_owned(), |e| e.to_string());
        let text = format!("parameters:\n  graph_d: {{values: [7, {d}]}}\n  graph_l: {{values: [{l}, 3]}}\n  graph_vocab_size: {{values: [11, {vocab}]}}\n  eval_batch_size: {{value: {eval_text}}}\n");
        let sweep = parse("s.yaml", &text).unwrap();
        let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
        for cell in Cells::new(&sweep, &judge).cells {
            let names = ["graph_d", "graph_l", "graph_vocab_size", "eval_batch_size"];
            let values: Vec<(&str, Value)> = names.iter().map(|n| (*n, judge.value(sweep.axis(n).unwrap(), cell[sweep.axis(n).unwrap()]).clone())).collect();
            let layers = [project.clone(), layer(LayerKind::Sweep, &values)];
            let legal = Shape::new(&preset, &layers, &cluster, None).is_ok();
            prop_assert_eq!(judge.brief(&cell).rule.is_none(), legal);
        }
    }

    /// Whatever the sweep, a repair either says what is left or gives a file whose cells all run, and lines
    /// that it did not have to change stay as they were.
    #[test]
    fn a_repair_is_right_or_says_so(
        ds in prop::collection::vec(1_i64..3_000_000, 1..6),
        vocabs in prop::collection::vec(2_i64..30_000_000, 1..4),
        block in any::<bool>(),
    ) {
        let list = |all: &[i64]| match block {
            true => all.iter().map(|x| format!("\n      - {x}  # kept {x}")).collect::<String>(),
            false => format!(" {all:?}  # a list"),
        };
        let text = format!("# head\nparameters:\n  graph_d:\n    values:{}\n  seed: {{values: [1, 2]}}  # stays\n  graph_vocab_size:\n    values:{}\n", list(&ds), list(&vocabs));
        let sweep = parse("s.yaml", &text).unwrap();
        let (repair, written) = fixed(&text, Vec::new(), &sweep);
        if repair.left.is_none() {
            let written = written.unwrap();
            let (verdicts, _, _) = judged(&written);
            prop_assert!(verdicts.iter().all(|v| *v == CellVerdict::Fits), "{}", written);
            for line in text.lines().filter(|l| !l.contains("values:") && !l.contains("- ") || l.contains("stays")) {
                prop_assert!(written.lines().any(|w| w == line), "{}\n{}", line, written);
            }
        }
    }
}

/// Bytes of path-star's fuller phase by arithmetic, not by the preset's formulas.
fn path_star_bytes(d: i64, l: i64, vocab: i64, width: i64, batch: i64, eval: i64) -> f64 {
    let (table, row) = ((vocab * width * 4) as f64, (vocab * 4) as f64);
    let training = 8.0 * table + 2.0 * batch as f64 * row + (d * 16 * l * 8) as f64;
    let evaluation = 6.0 * table + eval.min(40_000) as f64 * row;
    training.max(evaluation) + 800.0 * f64::from(1 << 20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A sweep of any values, with a parameter whose name may be mistaken: whatever is said to fit does.
    #[test]
    fn what_is_said_to_fit_fits(
        (d, l, vocab) in (1_i64..3_000, 2_i64..9, 1_i64..4_000_000),
        (width, batch, eval) in (1_i64..4_096, 1_i64..2_000, 1_i64..60_000),
        other in prop::sample::select(vec!["seed", "graph_holdout", "n_embd", "embeding_dim", "embedding_dim2", "model.embedding_dim"]),
    ) {
        let text = format!("parameters:\n  graph_d: {{values: [1, {d}]}}\n  graph_l: {{value: {l}}}\n  graph_vocab_size: {{values: [100, {vocab}]}}\n  embedding_dim: {{values: [{width}, 8]}}\n  batch_size: {{value: {batch}}}\n  eval_batch_size: {{values: [{eval}]}}\n  {other}: {{values: [0, 1]}}\n");
        let preset = preset();
        let (_, recipe) = below(&preset);
        let cluster = ClusterFacts::default();
        let sweep = parse("s.yaml", &text).unwrap();
        let mut judge = Judge::new(&preset, &recipe, &cluster, None, &sweep).unwrap();
        let names = ["graph_d", "graph_l", "graph_vocab_size", "embedding_dim", "batch_size", "eval_batch_size"];
        for cell in Cells::new(&sweep, &judge).cells {
            if judge.brief(&cell).verdict != CellVerdict::Fits {
                continue;
            }
            prop_assert!(["seed", "graph_holdout"].contains(&other), "{other} may be anything");
            let value = |name: &str| match judge.value(sweep.axis(name).unwrap(), cell[sweep.axis(name).unwrap()]) {
                Value::Int(value) => *value,
                other => panic!("{name}: {other:?}"),
            };
            let [d, l, vocab, width, batch, eval] = names.map(value);
            prop_assert!(vocab > d * (l - 1), "a rule is broken");
            prop_assert!(path_star_bytes(d, l, vocab, width, batch, eval) <= 15.48 * GIB, "{cell:?} of {text}");
        }
    }
}
