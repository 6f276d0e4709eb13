//! Half an hour of a second stranger: words that misled, and facts of one partition that stopped jobs of another.

use super::place::Place;

/// Clients of a cluster whose partitions differ in all but CPUs.
const TWO_PARTITIONS: &str = r#"mkdir bin
printf '#!/bin/sh\necho "gpu*|1-00:00:00|8|64|1000000|gpu:a100:4"\necho "h100|7-00:00:00|4|64|2000000|gpu:h100:8"\n' > bin/sinfo
printf '#!/bin/sh\n' > bin/scontrol
cp bin/scontrol bin/sacctmgr
cp bin/scontrol bin/sbatch
chmod +x bin/*"#;

const PRETRAIN: &str = "#!/bin/bash
#SBATCH -p h100
#SBATCH --gres=gpu:8
#SBATCH --time=2-00:00:00
torchrun --nproc_per_node 8 train.py --batch_size 32
";

#[test]
fn the_profile_of_a_cluster_refuses_no_job_of_another_partition() {
    let mut place = Place::bare();
    place.shell(TWO_PARTITIONS).ends(0);
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", place.path("bin").display()));
    place.run(&["init", "--cluster", "mine"]).ends(0);
    let profile = place.read("presets/clusters/mine.yaml");
    for line in [
        "  # gpus_per_node differs: gpu 4, h100 8\n",
        "  # node_memory differs: gpu 1000000M, h100 2000000M\n",
        "  # time_limit differs: gpu '1-00:00:00', h100 '7-00:00:00'\n",
        "  # gpu_type differs: gpu a100, h100 h100\n",
        "\n  cpus_per_node: 64\n",
    ] {
        assert!(profile.contains(line), "{line}{profile}");
    }
    place.write("job.sh", PRETRAIN);
    let plan = place.run(&["plan", "--cluster", "mine", "job.sh"]).ends(0);
    plan.says(&["batch_size 32 -> 1 "]);
}
