//! What commands print: text and JSON of the same thing, for people, pipes and programs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::place::{Done, Place};
use super::weaver;

#[test]
fn the_starter_file_loads_and_every_line_that_is_switched_on_does_too() {
    let mut place = Place::bare();
    place
        .shell("mkdir -p venv/lib/python3.12/site-packages/verl-0.8.0.dist-info")
        .ends(0);
    place.set("VIRTUAL_ENV", &place.path("venv").display().to_string());
    let done = place.run(&["init"]).ends(0);
    assert!(
        done.out.trim_end().ends_with("oomctl.yaml"),
        "{}",
        done.told()
    );
    // What only the user can know is asked for by name, and nothing else is wrong.
    let missing = place.run(&["plan"]).ends(5);
    insta::assert_snapshot!(missing.told());
    place.run(&["plan", "--dataset", "diamonds-seed0"]).ends(0);
    place.says("init", 5, &["already exists", "--force"]);
    let starter = place.read("oomctl.yaml");
    let loud: Vec<String> = starter
        .lines()
        .skip(1) // It is for editors.
        .map(|line| {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let key = bare.trim_start().split(':').next().unwrap_or("");
            let is_yaml =
                bare.starts_with("  ") || (bare.contains(':') && !key.contains([' ', '`', '.']));
            if is_yaml {
                bare.to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    place.write("oomctl.yaml", &loud.join("\n"));
    let done = place.run(&["plan"]);
    assert_eq!(done.code, 0, "{}\n{}", loud.join("\n"), done.told());
    assert!(
        loud.iter().any(|l| l.starts_with("limits:"))
            && loud.iter().any(|l| l.starts_with("policy:"))
    );
}

#[test]
fn a_name_that_nothing_has_is_told_for_all_that_can_be_shown() {
    let place = Place::bare();
    place.says("presets torchrn", 5, &[
        "no preset, dataset profile, cluster profile, knob set, model table or GPU table named \"torchrn\"",
        "did you mean torchrun?",
    ]);
    place
        .run("presets something-else-entirely")
        .ends(5)
        .says(&["`oomctl presets` lists all of them"]);
    place.says("presets slurm", 0, &["set: slurm"]);
}

#[test]
fn presets_are_listed_and_shown() {
    let place = Place::bare();
    let mut text = place.run(&["presets"]).ends(0).out;
    text.push_str(&place.run(&["presets", "--json"]).ends(0).out);
    text.push_str(&place.run(&["presets", "diamonds-seed0"]).ends(0).out);
    insta::assert_snapshot!(place.steady(&text));
    place.says("presets diamonds", 5, &["diamonds"]);
}

#[test]
fn a_preset_profile_and_template_of_the_project_wins_over_the_built_in_one() {
    let place = Place::example();
    let own = "dataset: diamonds-seed0\nsummary: mine\npreset: verl-grpo\nknobs: { train_batch_size: 64, ppo_mini_batch_size: 64, n_gpus_per_node: 4, train_files: a, val_files: b, model.path: c }\n";
    place.write("presets/datasets/diamonds-seed0.yaml", own);
    place
        .run("explain train_batch_size")
        .ends(0)
        .says(&["64", "presets/datasets/diamonds-seed0.yaml"]);
    place.write("templates/verl/run_grpo.sh.j2", "#!/bin/bash\necho mine\n");
    place.says("render", 0, &["echo mine"]);
}

#[test]
fn explain_tells_where_a_value_came_from_and_what_it_beat() {
    let mut place = weaver::project("knobs: { threads: 4 }");
    let mut text = place.run(&["explain", "threads"]).ends(0).out;
    place.set("OOMCTL_THREADS", "16");
    text.push_str(
        &place
            .run(&["explain", "threads", "--set", "threads=2"])
            .ends(0)
            .out,
    );
    text.push_str(
        &place
            .run(&["explain", "threads", "--json", "--set", "threads=2"])
            .ends(0)
            .out,
    );
    insta::assert_snapshot!(place.steady(&text));
    place.says("explain thread", 5, &["did you mean threads?"]);
}

#[test]
fn plan_and_render_print_text_and_json() {
    let place = weaver::project("pin: [cloth]");
    let mut text = String::new();
    for arguments in [
        &["plan"][..],
        &["plan", "--json"],
        &["render", "--backend", "local"],
    ] {
        text.push_str(&format!(
            "$ oomctl {}\n{}",
            arguments.join(" "),
            place.run(arguments).ends(0).out
        ));
    }
    insta::assert_snapshot!(place.steady(&text));
    let json = place.json("render --json");
    assert!(
        json["files"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("#!/bin/bash")
    );
    let dry = place
        .run(&["submit", "--dry-run", "--backend", "local"])
        .ends(0);
    assert_eq!(
        dry.out,
        place.run(&["render", "--backend", "local"]).ends(0).out
    );
    assert!(!place.has(".oomctl"));
}

#[test]
fn the_decision_after_a_log_shows_memory_by_phase_and_speed() {
    let place = Place::bare();
    place.write(
        "died.err",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free.\n",
    );
    for policy in ["ladder", "predict"] {
        let words = ["plan", "--dataset", "diamonds-seed0", "--cluster"];
        let more = ["example-h100", "--policy", policy, "--after", "died.err"];
        let words = [&words[..], &more].concat();
        place.run(&words).ends(0).says(&[
            "Memory of the fullest GPU by phase",
            "as it was",
            "after this log",
        ]);
        let json = place.run(&[&words[..], &["--json"]].concat()).ends(0);
        let json = json.json();
        let phases = |of: &serde_json::Value| of["phases"].as_array().map_or(0, Vec::len);
        let told = phases(&json["now"]);
        assert!(told > 5, "{json}");
        assert_eq!(phases(&json["expects"]), told);
        for step in json["steps"].as_array().unwrap() {
            assert_eq!(phases(&step["memory"]), told, "{step}");
        }
    }
}

#[test]
fn status_prints_a_list_a_run_and_json() {
    let place = weaver::project("");
    let mut text = place.run(&["status"]).ends(0).told();
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    text.push_str(&place.run(&["status"]).ends(0).told());
    text.push_str(&place.run(&["status", "weaver-1"]).ends(0).told());
    insta::assert_snapshot!(place.steady(&text));
    let json = place.json("status --json");
    let run = &json["runs"][0];
    assert_eq!(run["state"], "succeeded");
    assert_eq!(run["exit_code"], 0);
    assert_eq!(run["attempts"][0]["rungs"][0], "thin");
    assert_eq!(run["attempts"][0]["changes"][0]["from"], 8);
    assert_eq!(run["attempts"][2]["state"], "COMPLETED");
}

#[test]
fn watch_with_json_prints_one_document_and_nothing_else_on_stdout() {
    let place = weaver::project("");
    let done = place
        .run(&["submit", "--backend", "local", "--watch", "--json"])
        .ends(0);
    let json = done.json();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["runs"][0]["attempts"].as_array().unwrap().len(), 3);
    let json = place.json("submit --backend local --json");
    assert_eq!(json["runs"][0]["attempts"][0]["job"], "4");
}

#[test]
fn a_pipe_gets_no_colours_and_no_color_is_honoured_where_colours_are_forced() {
    let mut place = weaver::project("");
    place
        .run(&["submit", "--backend", "local", "--watch"])
        .ends(0);
    let escape = |done: &Done| done.out.contains('\u{1b}') || done.err.contains('\u{1b}');
    for arguments in [
        &["status", "weaver-1"][..],
        &["plan"],
        &["explain", "threads"],
        &["watch", "nobody"],
    ] {
        assert!(!escape(&place.run(arguments)), "{arguments:?}");
    }
    place.set("CLICOLOR_FORCE", "1");
    assert!(
        escape(&place.run(&["status", "weaver-1"])),
        "colours can be forced"
    );
    for arguments in [
        &["status", "--json"][..],
        &["plan", "--json"],
        &["explain", "threads", "--json"],
    ] {
        let done = place.run(arguments).ends(0);
        assert!(!done.out.contains('\u{1b}'), "{arguments:?}");
        done.json();
    }
    place.variables.retain(|(n, _)| n != "CLICOLOR_FORCE");
    place.set("NO_COLOR", "1");
    assert!(!escape(&place.run(&["status", "weaver-1"])));
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let place = Place::example();
    let mut child = place
        .command(&["presets", "verl-grpo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.told());
}

#[test]
fn help_of_every_command_names_its_options() {
    let place = Place::bare();
    let help = place.run(&["--help"]).ends(0).out;
    for command in [
        "submit", "watch", "status", "cancel", "diagnose", "retry", "plan", "explain", "presets",
        "init",
    ] {
        assert!(help.contains(&format!("  {command} ")), "{help}");
        place.says(&[command, "--help"], 0, &["Usage: oomctl", "Options:"]);
    }
    // What is answered before the arguments are parsed is what parsing them would have answered.
    for (at_once, parsed) in [
        (&["--version"][..], &["--version", "status"][..]),
        (&["completions", "bash"], &["completions", "--", "bash"]),
    ] {
        let at_once = place.run(at_once).ends(0).out;
        assert!(at_once.contains("oomctl"), "{at_once}");
        assert_eq!(at_once, place.run(parsed).ends(0).out);
    }
}
