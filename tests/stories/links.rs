//! Pages of trackers that a log names, and attempts as a group in one of them.

use super::place::Place;
use super::weaver;

/// Two attempts, each with a page; the second prints that of MLflow as its last words.
const TRAINER: &str = r#"#!/bin/bash
/usr/bin/env >"env.$OOMCTL_ATTEMPT"
printf 'wandb: \360\237\232\200 View run at \033[34m\033[4mhttps://wandb.ai/lab/loom/runs/id%s\033[0m\n' "$OOMCTL_ATTEMPT" >&2
if ((OOMCTL_ATTEMPT == 1)); then
  echo "Traceback (most recent call last):" >&2
  echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB." >&2
  exit 1
fi
echo "woven 3 of 3"
printf '\360\237\217\203 View run calm-loom-7 at: http://tracking:5000/#/experiments/1/runs/0a1b?token=S3CRET\n'
"#;

fn run(place: &Place) -> String {
    place.write("trainer.sh", TRAINER);
    let words = ["submit", "--backend", "local", "--watch", "--run", "w"];
    place.run(&words).ends(0).err
}

#[test]
fn pages_of_trackers_are_told_shown_and_kept_without_what_may_be_secret() {
    let place = weaver::project("");
    let told = run(&place);
    for line in [
        "attempt 1  W&B https://wandb.ai/lab/loom/runs/id1",
        "attempt 2  W&B https://wandb.ai/lab/loom/runs/id2",
        "attempt 2  MLflow http://tracking:5000/#/experiments/1/runs/0a1b",
    ] {
        let times = told.lines().filter(|l| *l == line).count();
        assert_eq!(times, 1, "{line}\n{told}");
    }
    let shown = place.run(&["status", "w"]).ends(0).out;
    assert!(
        shown.contains("\n      W&B https://wandb.ai/lab/loom/runs/id1\n"),
        "{shown}"
    );
    let view = place.run(&["status", "w", "--json"]).json();
    let links = &view["runs"][0]["attempts"][1]["links"];
    assert_eq!(links[1]["tracker"], "mlflow");
    assert_eq!(links.as_array().unwrap().len(), 2);
    for format in ["html", "markdown", "text"] {
        let page = place
            .run(&["report", "w", "--format", format, "--to", "-"])
            .ends(0)
            .out
            .replace("&#x2f;", "/");
        assert!(
            page.contains("https://wandb.ai/lab/loom/runs/id2"),
            "{format}: {page}"
        );
        assert!(!page.contains("S3CRET"), "{format}: {page}");
    }
    assert!(
        !place
            .read(".oomctl/runs/w/ledger.jsonl")
            .contains("token=S3CRET")
    );
}

#[test]
fn attempts_are_a_group_each_with_its_name_unless_the_user_says_otherwise() {
    let mut place = weaver::project("");
    run(&place);
    let second = place.read("env.2");
    for line in ["WANDB_RUN_GROUP=w", "WANDB_NAME=w-attempt-2"] {
        assert!(second.lines().any(|l| l == line), "{second}");
    }
    place.set("WANDB_RUN_GROUP", "paper");
    place
        .run(&["submit", "--backend", "local", "--watch", "--run", "x"])
        .ends(0);
    assert!(
        place
            .read("env.1")
            .lines()
            .any(|l| l == "WANDB_RUN_GROUP=paper")
    );
}
