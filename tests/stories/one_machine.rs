//! The example `one-machine`: the recipes of its Justfile, run on made-up GPUs. They are read here, so that the
//! tests need no `just`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::launch::{gpu, place};
use super::nvml::Gpus;
use super::place::{Done, Place};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/one-machine");

/// What of a Justfile the example uses: variables, and recipes with parameters.
struct Justfile {
    variables: BTreeMap<String, String>,
    recipes: BTreeMap<String, (Vec<String>, Vec<String>)>,
}

impl Justfile {
    fn read() -> Self {
        let text = std::fs::read_to_string(Path::new(FOLDER).join("Justfile")).unwrap();
        let mut just = Self {
            variables: BTreeMap::new(),
            recipes: BTreeMap::new(),
        };
        let mut recipe = String::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("    ") {
                let lines = &mut just.recipes.get_mut(&recipe).unwrap().1;
                lines.push(command.trim_start_matches('@').to_owned());
            } else if let Some((name, value)) = line.split_once(" := ") {
                let text = match value.strip_prefix("env(") {
                    Some(_) => env!("CARGO_BIN_EXE_oomctl").to_owned(),
                    None => value.trim_matches('"').to_owned(),
                };
                just.variables.insert(name.to_owned(), text);
            } else if let Some(head) = line.strip_suffix(':') {
                let mut words = head.split(' ').map(str::to_owned);
                recipe = words.next().unwrap();
                just.recipes
                    .insert(recipe.clone(), (words.collect(), Vec::new()));
            } else {
                assert!(line.is_empty() || line.starts_with('#'), "{line}");
            }
        }
        just
    }

    /// The lines of a recipe with its values in place, as `just` hands them to the shell.
    fn lines(&self, recipe: &str, arguments: &[&str]) -> Vec<String> {
        let (parameters, lines) = &self.recipes[recipe];
        assert_eq!(parameters.len(), arguments.len(), "{recipe}");
        let values = parameters
            .iter()
            .map(String::as_str)
            .zip(arguments.iter().copied());
        let mut values: BTreeMap<&str, &str> = values.collect();
        values.extend(self.variables.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let fill = |line: &String| {
            let filled = values.iter().fold(line.clone(), |l, (n, v)| {
                l.replace(&format!("{{{{{n}}}}}"), v)
            });
            assert!(!filled.contains("{{"), "{filled}");
            // The only recipe that calls another one.
            match filled.strip_prefix("just ") {
                Some(rest) => {
                    let (name, rest) = rest.split_once(' ').unwrap();
                    format!("({}) {rest}", self.lines(name, &[]).join("; "))
                }
                None => filled,
            }
        };
        lines.iter().map(fill).collect()
    }
}

fn example(gpus: &Gpus) -> Place {
    let mut place = place(gpus);
    let trainer = std::fs::read_to_string(Path::new(FOLDER).join("train.py")).unwrap();
    place.write("train.py", &trainer);
    place.set("SIM_STEP_S", "0.001");
    place
}

fn just(place: &Place, recipe: &str, arguments: &[&str]) -> Done {
    let mut last = None;
    for line in Justfile::read().lines(recipe, arguments) {
        let mut shell = Command::new("sh");
        // Nobody waits half a minute for a GPU in a test.
        shell.args(["-c", &line.replace("--check-every 30s", "--check-every 1s")]);
        place.at_home(&mut shell);
        last = Some(Done::from(shell.output().unwrap()));
    }
    last.unwrap()
}

#[test]
fn a_lora_run_goes_from_out_of_memory_to_success_with_the_same_effective_batch() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 0)]);
    let place = example(&gpus);
    let done = just(&place, "lora", &["flowers"]).ends(0);
    done.says(&[
        "batch 128 x 1",
        "batch 16 x 8",
        "effective batch 128",
        "19.1 GiB allocated",
    ]);
    assert_eq!(done.out.matches("simulated trainer").count(), 4);
    let done = just(&place, "probe", &["pets"]).ends(0);
    assert_eq!(done.out.matches("simulated trainer").count(), 1);
    let done = just(&place, "lora-small", &["satellite"]).ends(0);
    done.says(&["smaller-lora-rank", "on the CPU"]);
}

#[test]
fn all_runs_one_after_the_other_and_as_gpus_come_free() {
    let gpus = Gpus::new(&[&gpu("GPU-a", 0), &gpu("GPU-b", 0)]);
    let place = example(&gpus);
    let done = just(&place, "sequential", &[]).ends(0);
    assert_eq!(done.out.matches("effective batch 128").count(), 6);
    let done = just(&place, "parallel", &[]).ends(0);
    assert_eq!(done.out.matches("effective batch 128").count(), 6);
    assert!(done.err.contains("on GPU 0 (") && done.err.contains("on GPU 1 ("));
}
