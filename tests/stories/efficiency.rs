//! What a job used of what it held, as seff tells it: from the samplers, and from the scheduler's accounting.

use super::place::Place;
use super::slurm::Slurm;
use super::weaver;

/// Of 800 MiB and 4 CPUs for 10 s.
const USED: &str = "cpu=00:00:09,energy=0,fs/disk=8277,mem=314360K,pages=16,vmem=326720K";

/// Lines about what was used.
fn used(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| line.starts_with("used")).collect()
}

fn watched(accounting_knows: bool) -> (Place, Slurm) {
    let mut place = weaver::project("");
    place.set("WEAVER", "fits 4");
    let slurm = Slurm::before(&mut place);
    if accounting_knows {
        slurm.tell("used", USED);
    }
    place.run(&["submit", "--run", "loom", "--watch"]).ends(0);
    (place, slurm)
}

#[test]
fn what_accounting_says_late_is_shown_by_status_and_report_and_unknown_is_not_zero() {
    let (place, slurm) = watched(false);
    let before = place.run(&["status", "loom"]).ends(0).out;
    assert_eq!(used(&before), Vec::<&str>::new());
    slurm.tell("used", USED);
    let line = "used 38% of host memory (0.3 of 0.8 GiB), 22% of CPU time";
    for arguments in [
        &["status", "loom"][..],
        &["status"],
        &["report", "loom", "--format", "text"],
    ] {
        let calls = slurm.calls("sacct").len();
        let out = place.run(arguments).ends(0).out;
        assert_eq!(used(&out), [line, line], "{arguments:?}: {out}");
        assert_eq!(
            slurm.calls("sacct").len(),
            calls + 1,
            "one question for all attempts"
        );
    }
    // `history` asks nobody.
    let row = place.run(&["history", "-P", "--columns", "host-memory,cpu"]);
    assert_eq!(row.ends(0).out, "host-memory|cpu\n|\n|\n");
}

#[test]
fn what_accounting_said_at_the_end_of_a_job_is_kept_for_status_history_and_prometheus() {
    let (place, slurm) = watched(true);
    slurm.forget("used");
    let calls = slurm.calls("sacct").len();
    let status = place.run(&["status", "loom"]).ends(0).out;
    assert_eq!(used(&status).len(), 2, "{status}");
    let rows = place
        .run("history -P --columns state,gpu-utilization,host-memory,cpu")
        .ends(0)
        .out;
    let metrics = place.run(&["history", "--prometheus", "-"]).ends(0).out;
    assert_eq!(slurm.calls("sacct").len(), calls, "the ledger says it");
    let shown = metrics.lines().filter(|line| line.contains("efficiency"));
    let shown: Vec<&str> = shown.collect();
    insta::assert_snapshot!(format!("{rows}\n{}", shown.join("\n")));
}
