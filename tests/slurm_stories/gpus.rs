//! The GPUs of a job of the real cluster, on made-up GPUs: every node is this machine and sees the same.

use super::cluster::{Cluster, answer, lost_nodes, slurm, wait_for};
use super::nvml::Gpus;
use super::place::Place;

#[test]
fn the_gpus_of_a_job_on_two_nodes_are_shown_by_node_with_the_job_that_holds_them() {
    let Some(place) = Place::on(Cluster::Full, "gpus") else {
        return;
    };
    let gpu = "gpu uuid=GPU-a name=H100 total_mib=81920 used_mib=41000 util=90";
    let gpus = Gpus::new(&[gpu]);
    let variables = gpus.variables();
    let place = variables
        .iter()
        .fold(place, |place, (name, value)| place.set(name, value));
    let pid = place.file("pid").display().to_string();
    let asked = [
        "--parsable".to_owned(),
        "--nodes=2".to_owned(),
        "--ntasks-per-node=2".to_owned(),
        "--gres=gpu:2".to_owned(),
        "--mem=500".to_owned(),
        "--output=/dev/null".to_owned(),
        format!("--exclude={}", lost_nodes()),
        format!("--wrap=echo $$ >{pid}; sleep 600"),
    ];
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let job = answer(&place.conf, "sbatch", &asked).trim().to_owned();
    let pid = wait_for("the job's process", || {
        let pid = std::fs::read_to_string(place.file("pid")).ok()?;
        pid.trim().parse::<u32>().ok()
    });
    gpus.are(&[gpu, &format!("process gpu=0 pid={pid} used_mib=40960")]);
    let told = place.oomctl(&["gpus", "--job", &job, "--json"]);
    let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    slurm(&place.conf, "scancel", &[&job]);
    let told = told.expect_code(0);
    let view: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let nodes = view["nodes"].as_array().unwrap();
    assert_eq!(
        nodes.len(),
        2,
        "one task a node, whatever the job asked for"
    );
    assert_ne!(nodes[0]["node"], nodes[1]["node"]);
    for node in nodes {
        let process = &node["gpus"][0]["processes"][0];
        assert_eq!(process["pid"], pid);
        // Without cgroups nothing tells whose process it is.
        if cgroups.contains("/job_") {
            assert_eq!(process["job"], job.as_str(), "{cgroups}");
        }
    }
}
