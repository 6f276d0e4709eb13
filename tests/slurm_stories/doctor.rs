//! `doctor` before a Slurm that is really there.

use super::cluster::Cluster;
use super::place::Place;

#[test]
fn the_doctor_finds_the_cluster_and_whether_it_keeps_accounts() {
    for (cluster, story, accounting) in [
        (Cluster::Full, "doctor", "sacct answers"),
        (Cluster::Plain, "doctor-plain", "off on this cluster"),
    ] {
        let Some(place) = Place::on(cluster, story) else {
            return;
        };
        let told = place.oomctl(&["doctor"]).expect_code(0);
        for part in [
            "Slurmctld(primary)",
            "partitions take jobs from here",
            accounting,
        ] {
            assert!(told.stdout.contains(part), "{part}: {}", told.stdout);
        }
    }
}
