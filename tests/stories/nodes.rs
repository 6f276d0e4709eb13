//! Nodes that fail jobs by themselves: two jobs of a project prove it, and the next attempt stays away.

use std::fs;

use super::place::{Place, install};
use super::slurm::Slurm;
use super::{own_scripts, weaver};

/// Looms that weave 8 threads on n2, and twice fail so on n1.
fn looms(supervision: &str, fails: &str) -> (Place, Slurm) {
    let mut place = weaver::project("limits: { attempts: 1 }\nknobs: { gpu_type: a100 }");
    let yaml = place
        .read("oomctl.yaml")
        .replace("supervision: {", &format!("supervision: {{ {supervision}"));
    place.write("oomctl.yaml", &yaml);
    let slurm = Slurm::before(&mut place);
    for (run, node, weaver) in [
        ("good", "n2", "fits 8"),
        ("first", "n1", fails),
        ("second", "n1", fails),
    ] {
        slurm.tell("node", node);
        place.set("WEAVER", weaver);
        let submit = ["submit", "--fresh", "--run", run, "--watch"];
        assert_eq!(place.run(&submit).code == 0, run == "good");
    }
    slurm.tell("node", "n2");
    place.set("WEAVER", "fits 8");
    (place, slurm)
}

/// What the script of a run's first attempt asks Slurm to leave out.
fn excluded(place: &Place, run: &str) -> Vec<String> {
    let script = place.read(&format!(".oomctl/runs/{run}/attempt-1/job.sbatch"));
    let lines = script.lines().filter(|l| l.contains("--exclude"));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_node_where_memory_ran_out_twice_that_sufficed_elsewhere_is_excluded_and_told_with_the_two_jobs()
 {
    let (place, _slurm) = looms("", "fits 4");
    assert_eq!(excluded(&place, "second"), Vec::<String>::new());
    let submit = ["submit", "--fresh", "--run", "third", "--watch"];
    let done = place.run(&submit).ends(0);
    let sentence = "n1 is excluded: job 102 (run first, cuda_oom) and job 103 (run second, cuda_oom) failed there; \
                    the same configuration fitted on n2 (job 101)";
    done.says(&[&format!("attempt 1  {sentence}")]);
    assert_eq!(excluded(&place, "third"), ["#SBATCH --exclude=n1"]);
    let status = place.run(&["status", "third"]).ends(0);
    status.says(&[sentence]);
    let json = place.json("status third --json");
    assert_eq!(json["runs"][0]["attempts"][0]["excluded"][0]["node"], "n1");
}

#[test]
fn nothing_is_excluded_where_that_is_switched_off_or_the_file_is_damaged() {
    let (place, _slurm) = looms("exclude_bad_nodes: false,", "fits 4");
    let submit = |run| place.run(&["submit", "--fresh", "--run", run, "--watch"]);
    submit("off").ends(0);
    assert_eq!(excluded(&place, "off"), Vec::<String>::new());
    let yaml = place.read("oomctl.yaml").replace("false", "true");
    place.write("oomctl.yaml", &yaml);
    let known = place.read(".oomctl/nodes.jsonl");
    place.write(".oomctl/nodes.jsonl", &known.replace("\"n1\"", "\"n7\""));
    submit("damaged").ends(0);
    assert_eq!(excluded(&place, "damaged"), Vec::<String>::new());
    place.write(".oomctl/nodes.jsonl", &known);
    submit("on").ends(0);
    assert_eq!(excluded(&place, "on"), ["#SBATCH --exclude=n1"]);
}

#[test]
fn host_memory_that_ran_out_is_not_the_nodes() {
    let (place, _slurm) = looms("", "host_oom");
    let submit = ["submit", "--fresh", "--run", "third", "--watch"];
    place.run(&submit).ends(0);
    assert_eq!(excluded(&place, "third"), Vec::<String>::new());
}

const TORCHRUN: &str = "#!/bin/bash
[ ! -e broken ] || { echo 'NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.' >&2; exit 1; }
";

#[test]
fn a_script_of_ones_own_keeps_the_nodes_that_it_excludes_and_one_that_names_its_nodes_is_left_alone()
 {
    let mut place = own_scripts::place();
    let slurm = Slurm::before(&mut place);
    place.first_on_path.push(place.home.join("bin"));
    install(&place.home.join("bin/torchrun"), TORCHRUN);
    let with = |option: &str| {
        let job = place.read("job.slurm").replace(
            "#SBATCH --gres",
            &format!("#SBATCH {option}\n#SBATCH --gres"),
        );
        place.write("own.slurm", &job);
    };
    with("--exclude=n9,n8");
    let submit = |run: &str, code| {
        let words = ["submit", "--yes", "--watch", "--run", run, "own.slurm"];
        place.run(&words).ends(code)
    };
    submit("good", 0);
    slurm.tell("node", "n2");
    place.write("broken", "");
    submit("first", 1);
    submit("second", 1);
    fs::remove_file(place.path("broken")).unwrap();
    submit("third", 0).says(&["n2 is excluded: job 102 (run first, hw_error) and job 103 (run second, hw_error) failed there"]);
    let exclude = |call: &String| {
        let words: Vec<&str> = call
            .split(' ')
            .filter(|w| w.starts_with("--exclude"))
            .collect();
        words.join(" ")
    };
    let calls: Vec<String> = slurm.calls("sbatch").iter().map(exclude).collect();
    assert_eq!(calls, ["", "", "", "--exclude=n9,n8,n2"]);
    with("--nodelist=n2");
    submit("pinned", 0);
    assert_eq!(exclude(slurm.calls("sbatch").last().unwrap()), "");
}
