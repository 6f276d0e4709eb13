//! One value changes, and no other byte.

use std::ops::Range;

use proptest::prelude::*;

use super::Yaml;
use oomctl_base::Value;

const FILE: &str = "\
# A trainer's file.
training:
  fp16: false   # half precision
  seed: 42
  dtype: 'float32'
  name: \"a \\\"b\\\"\"
  nothing:
  rate: 1e-5
trainer:
  models:
    - _target_: x.y
      path: ${oc.env:MODEL_NAME, small} # which
  data: {samples: 2, empty: {}, seeds: [1, 2]}

last: 3";

fn keys(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

fn set(text: &str, path: &str, value: &Value) -> Result<String, String> {
    let yaml = Yaml::parse("f.yaml", text).map_err(|p| p.to_string())?;
    let new = yaml.set(&keys(path), value).map_err(|p| p.to_string())?;
    Ok(new.text().to_owned())
}

fn get(text: &str, path: &str) -> Option<String> {
    let yaml = Yaml::parse("f.yaml", text).unwrap();
    yaml.get(&keys(path)).unwrap()?.text
}

/// A value of `FILE` changes, and the file is that with `from` replaced by `to`.
#[track_caller]
fn check(path: &str, value: &Value, from: &str, to: &str) {
    assert_eq!(FILE.matches(from).count(), 1, "{from}");
    assert_eq!(
        set(FILE, path, value).unwrap(),
        FILE.replace(from, to),
        "{path}"
    );
}

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

#[test]
fn a_value_is_changed_in_the_style_that_it_has() {
    check(
        "training.fp16",
        &Value::Bool(true),
        "fp16: false ",
        "fp16: true ",
    );
    check("training.seed", &Value::Int(7), "42", "7");
    check(
        "training.dtype",
        &text("bfloat16"),
        "'float32'",
        "'bfloat16'",
    );
    check("training.dtype", &text("it's"), "'float32'", "'it''s'");
    check(
        "training.name",
        &text("c\"d\\"),
        "\"a \\\"b\\\"\"",
        "\"c\\\"d\\\\\"",
    );
    check("training.nothing", &Value::Int(1), "nothing:", "nothing: 1");
    check("last", &Value::Int(4), "last: 3", "last: 4");
    check(
        "trainer.models.0.path",
        &text("org/m-0.5B"),
        "${oc.env:MODEL_NAME, small}",
        "org/m-0.5B",
    );
    check(
        "trainer.data.samples",
        &Value::Int(1),
        "samples: 2",
        "samples: 1",
    );
    check("trainer.data.seeds.1", &Value::Int(9), "[1, 2]", "[1, 9]");
}

#[test]
fn what_python_would_read_as_something_else_is_written_so_that_it_does_not() {
    check(
        "training.rate",
        &Value::Float(0.000_001),
        "1e-5",
        "0.000001",
    );
    check("training.rate", &Value::Float(2.0), "1e-5", "2.0");
    for odd in [
        "no", "12:00", "1e-6", "", " a", "a: b", "a #b", "null", "0123", "[x]", "*x", "${a}", "a,b",
    ] {
        let new = set(FILE, "last", &text(odd)).unwrap();
        assert!(new.ends_with(&format!("last: '{odd}'")), "{new}");
        assert_eq!(get(&new, "last").as_deref(), Some(odd));
    }
    let new = set(FILE, "last", &text("two\nlines\u{7}")).unwrap();
    assert!(new.ends_with("last: \"two\\nlines\\u0007\""), "{new}");
    assert_eq!(
        set(FILE, "last", &Value::Null).unwrap(),
        FILE.replace("last: 3", "last: null")
    );
}

#[test]
fn a_key_that_is_missing_is_added_at_the_end_of_its_mapping() {
    check(
        "training.extra",
        &Value::Int(1),
        "  rate: 1e-5\n",
        "  rate: 1e-5\n  extra: 1\n",
    );
    check(
        "trainer.models.0.dtype",
        &text("no"),
        "# which\n",
        "# which\n      dtype: 'no'\n",
    );
    check(
        "trainer.data.extra",
        &Value::Int(1),
        "[1, 2]}",
        "[1, 2], extra: 1}",
    );
    check(
        "trainer.data.empty.x",
        &Value::Int(1),
        "empty: {}",
        "empty: {x: 1}",
    );
    check("new", &Value::Bool(true), "last: 3", "last: 3\nnew: true");
    // Under a block of text, and with the line ends that the file has.
    let block = "a:\r\n  doc: |\r\n    one\r\n    two\r\n\r\nb: 1\r\n";
    assert_eq!(
        set(block, "a.x", &Value::Int(1)).unwrap(),
        block.replace("two\r\n", "two\r\n  x: 1\r\n")
    );
}

#[test]
fn aliases_and_merged_mappings_are_read_and_only_changed_where_nothing_else_changes() {
    let file = "base: &base\n  batch: 8\n  deep: {x: 1}\njob:\n  <<: *base\n  name: j\nother: *base\none: &one 1\ntwo: *one\nfree: &free 5\n";
    assert_eq!(get(file, "job.batch").as_deref(), Some("8"));
    assert_eq!(get(file, "other.deep.x").as_deref(), Some("1"));
    // A key of one's own beats the merged one; an alias is replaced by a value; an anchor that nobody uses stays.
    assert_eq!(
        set(file, "job.batch", &Value::Int(4)).unwrap(),
        file.replace("name: j\n", "name: j\n  batch: 4\n")
    );
    assert_eq!(
        set(file, "two", &Value::Int(4)).unwrap(),
        file.replace("*one", "4")
    );
    assert_eq!(
        set(file, "free", &Value::Int(4)).unwrap(),
        file.replace("&free 5", "&free 4")
    );
    for (path, why) in [
        (
            "base.batch",
            "base has an anchor that line 5 uses too; a change would affect both (f.yaml:2: batch: 8)",
        ),
        (
            "other.batch",
            "other is an alias of a shared value; write the value out here (f.yaml:7: other: *base)",
        ),
        (
            "one",
            "one has an anchor that line 9 uses too; a change would affect both (f.yaml:8: one: &one 1)",
        ),
    ] {
        assert_eq!(set(file, path, &Value::Int(4)).unwrap_err(), why);
    }
}

#[test]
fn what_cannot_be_changed_alone_is_refused_with_its_line() {
    for (file, path, why) in [
        (
            "a: 1\nb: 2\na: 3\n",
            "a",
            "`a` is given twice, here and in line 1 (f.yaml:3: a: 3)",
        ),
        (
            "a: |\n  x\n",
            "a",
            "a is a block of text (`|` or `>`); change it by hand (f.yaml:2: x)",
        ),
        (
            "a: !!int '3'\n",
            "a",
            "a has a YAML tag; change it by hand (f.yaml:1: a: !!int '3')",
        ),
        (
            "a: [1]\n",
            "a",
            "a is a list or a mapping, not a single value (f.yaml:1: a: [1])",
        ),
        (
            "a: [1]\n",
            "a.1",
            "a has no `1`, in which a.1 would be (f.yaml:1: a: [1])",
        ),
        (
            "a: 1\n",
            "b.c",
            "the file has no `b`, in which b.c would be (f.yaml:1: a: 1)",
        ),
        (
            "a: 1\n",
            "a.c",
            "a is not a mapping, so it cannot hold `c` (f.yaml:1: a: 1)",
        ),
        (
            "# nothing\n",
            "a",
            "the file is empty, so there is no place for a (f.yaml:1: # nothing)",
        ),
        (
            "a: 1\n---\nb: 1\n",
            "a",
            "a second document begins here; oomctl edits only files with one (f.yaml:3: b: 1)",
        ),
    ] {
        assert_eq!(set(file, path, &Value::Int(4)).unwrap_err(), why);
    }
    let broken = set("a: [1\nb: {", "a", &Value::Int(1)).unwrap_err();
    assert!(broken.starts_with("not valid YAML: "), "{broken}");
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(
        set(&deep, "a", &Value::Int(1))
            .unwrap_err()
            .contains("more than 64 levels")
    );
    let list = Value::List(vec!["x".to_owned()]);
    assert!(
        set("a: 1\n", "a", &list)
            .unwrap_err()
            .contains("only single values")
    );
}

/// A file as it is written, and where its single values stand: path, bytes, whether they are text.
#[derive(Debug, Clone, Default)]
struct Written {
    text: String,
    values: Vec<(Vec<String>, Range<usize>)>,
    /// Paths of its mappings.
    maps: Vec<Vec<String>>,
}

/// What a generated file holds.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(usize),
    Flow(Vec<usize>),
    Map(Vec<Tree>),
    List(Vec<Tree>),
}

const LEAVES: [&str; 12] = [
    "1",
    "-0.5",
    "true",
    "word",
    "'it''s'",
    "\"a \\\" # b\"",
    "${a.b}",
    "\"\"",
    "'é: ü'",
    "~",
    "a b  c",
    "/path/x-1.yaml",
];
const REMARKS: [&str; 6] = ["", "", "  # why", " # a: 1", "   ", "\t# é"];
const LINES: [&str; 4] = ["", "\n", "# on its own: 'line\n", "      # indented\n\n"];

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (0..LEAVES.len()).prop_map(Tree::Leaf),
        prop::collection::vec(0..LEAVES.len(), 0..4).prop_map(Tree::Flow),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..5).prop_map(Tree::Map),
            prop::collection::vec(inner, 1..4).prop_map(Tree::List),
        ]
    })
}

impl Written {
    fn value(&mut self, leaf: usize, path: &[String]) {
        let start = self.text.len();
        self.text.push_str(LEAVES[leaf]);
        self.values.push((path.to_vec(), start..self.text.len()));
    }

    /// Writes a node behind `key:` or `-`, on the same line where it fits there.
    fn node(
        &mut self,
        tree: &Tree,
        indent: usize,
        path: &[String],
        noise: &mut impl Iterator<Item = usize>,
    ) {
        let remark = REMARKS[noise.next().unwrap() % REMARKS.len()];
        match tree {
            Tree::Leaf(leaf) => {
                self.text.push(' ');
                self.value(*leaf, path);
                self.text.push_str(remark);
                self.text.push('\n');
            }
            Tree::Flow(leaves) => {
                self.maps.push(path.to_vec());
                self.text.push_str(" {");
                for (at, leaf) in leaves.iter().enumerate() {
                    self.text.push_str(if at > 0 { ", " } else { "" });
                    self.text.push_str(&format!("f{at}: "));
                    // What ends a plain scalar here would be part of it in a block.
                    let leaf = if LEAVES[*leaf].starts_with("${") {
                        0
                    } else {
                        *leaf
                    };
                    self.value(leaf, &[path, &[format!("f{at}")]].concat());
                }
                self.text.push('}');
                self.text.push_str(remark);
                self.text.push('\n');
            }
            Tree::Map(children) | Tree::List(children) => {
                if matches!(tree, Tree::Map(_)) {
                    self.maps.push(path.to_vec());
                }
                self.text.push_str(remark);
                self.text.push('\n');
                for (at, child) in children.iter().enumerate() {
                    self.text
                        .push_str(LINES[noise.next().unwrap() % LINES.len()]);
                    self.text.push_str(&" ".repeat(indent));
                    let key = match tree {
                        Tree::Map(_) => format!("k{at}"),
                        _ => at.to_string(),
                    };
                    self.text.push_str(&if matches!(tree, Tree::Map(_)) {
                        format!("{key}:")
                    } else {
                        "-".to_owned()
                    });
                    self.node(child, indent + 2, &[path, &[key]].concat(), noise);
                }
            }
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e9..1e9).prop_map(Value::Float),
        "\\PC{0,12}".prop_map(Value::Text),
        "[ -~\\n\\t]{0,12}".prop_map(Value::Text),
    ]
}

proptest! {
    #[test]
    fn whatever_the_file_one_value_changes_and_no_other_byte(
        children in prop::collection::vec(tree(), 1..5),
        noise in prop::collection::vec(0_usize..100, 1..20),
        pick in any::<prop::sample::Index>(),
        value in value(),
        carriage in any::<bool>(),
    ) {
        let mut written = Written::default();
        written.node(&Tree::Map(children), 0, &[], &mut noise.iter().copied().cycle());
        prop_assume!(!written.values.is_empty());
        let (path, range) = written.values[pick.index(written.values.len())].clone();
        let (mut before, mut after) = (written.text[..range.start].to_owned(), written.text[range.end..].to_owned());
        if carriage {
            (before, after) = (before.replace('\n', "\r\n"), after.replace('\n', "\r\n"));
        }
        let file = format!("{before}{}{after}", &written.text[range]);
        let yaml = Yaml::parse("f.yaml", &file).unwrap();
        let new = yaml.set(&path, &value).unwrap();
        // What is before and behind it is as it was.
        let text = new.text();
        prop_assert!(text.starts_with(&before) && text.ends_with(&after) && text.len() >= before.len() + after.len(), "{file}\n{text}");
        // Another reader finds the value, and an unchanged one beside it.
        let told = new.get(&path).unwrap().unwrap().text.unwrap_or_else(|| "null".to_owned());
        match &value {
            Value::Float(x) => prop_assert_eq!(told.parse::<f64>().unwrap(), *x),
            other => prop_assert_eq!(told, other.to_string()),
        }
        for (other, _) in written.values.iter().filter(|(p, _)| *p != path) {
            prop_assert_eq!(new.get(other).unwrap().unwrap().text, yaml.get(other).unwrap().unwrap().text);
        }
        let parsed: Result<serde_json::Value, _> = serde_yaml::from_str(text);
        prop_assert!(parsed.is_ok(), "{text}");
    }

    #[test]
    fn whatever_the_file_one_key_is_added_and_no_other_byte_changes(
        children in prop::collection::vec(tree(), 1..5),
        noise in prop::collection::vec(0_usize..100, 1..20),
        pick in any::<prop::sample::Index>(),
        value in value(),
    ) {
        let mut written = Written::default();
        written.node(&Tree::Map(children), 0, &[], &mut noise.iter().copied().cycle());
        let mut path = written.maps[pick.index(written.maps.len())].clone();
        path.push("added".to_owned());
        let yaml = Yaml::parse("f.yaml", &written.text).unwrap();
        let new = yaml.set(&path, &value).unwrap();
        // All that was there is there still, around one piece that is new.
        let (old, text) = (written.text.as_bytes(), new.text().as_bytes());
        let before = old.iter().zip(text).take_while(|(a, b)| a == b).count();
        let behind = old.iter().rev().zip(text.iter().rev()).take_while(|(a, b)| a == b).count();
        prop_assert!(text.len() > old.len() && before + behind >= old.len(), "{}\n{}", written.text, new.text());
        prop_assert!(new.get(&path).unwrap().is_some());
        for (other, _) in &written.values {
            prop_assert_eq!(new.get(other).unwrap().unwrap().text, yaml.get(other).unwrap().unwrap().text);
        }
    }

    #[test]
    fn no_text_and_no_path_makes_it_panic(text in "\\PC{0,60}|[-a:{}\\[\\],&*!|>'\"#%~? \\n\\t]{0,60}", path in "[a-c0-2.]{0,6}") {
        drop(set(&text, &path, &Value::Int(1)));
    }
}
