//! Nodes that fail by themselves, by what a project's jobs met on them.
//!
//! Rule: two jobs prove it, one after the other, or nothing is said. An out-of-memory proves nothing by itself: the same
//! configuration must have fitted on other nodes, and on none of its failures' nodes. A hardware failure counts whatever ran.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::job::JobFeatures;
use crate::core::recipe::Layer;
use oomctl_base::units::Bytes;

/// A failure counts for so long: nodes are repaired.
const COUNTS_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Of so many nodes on which jobs ran one is excluded at most, and one at least where there are others.
const NODES_FOR_ONE: usize = 4;
/// Capacities are the same that differ by less than one part in so many: PyTorch and the driver count differently.
const SAME_SIZE: u64 = 50;
/// Failures of a node that are looked at, the newest first: each is compared with each.
const FAILURES_MAX: usize = 20;

/// How a job ended, as far as its nodes go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum NodeEnd {
    /// It did its work, or trained for long enough.
    Fitted,
    /// Memory of a GPU ran out.
    Memory {
        /// Kind of the incident.
        kind: String,
    },
    /// The hardware failed, by its log or by the scheduler's word.
    Hardware {
        /// Kind of the incident.
        kind: String,
    },
}

/// What one job met on its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeEntry {
    /// Id of the job.
    pub job: String,
    /// The run.
    pub run: String,
    /// When it started, or before that; none where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// When it ended.
    pub at: Timestamp,
    /// Its nodes.
    pub nodes: Vec<String>,
    /// How it ended.
    #[serde(flatten)]
    pub end: NodeEnd,
    /// Its configuration; none where too little is known of it to compare it with another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<JobFeatures>,
    /// Capacity of its GPUs: as the sampler saw it, or as the message of the failure has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Bytes>,
}

impl NodeEntry {
    fn ran_on(&self, node: &str) -> bool {
        self.nodes.iter().any(|n| n == node)
    }

    /// Do both have one node in common, and no other?
    fn meets_only_on(&self, other: &Self, node: &str) -> bool {
        let mut common = self.nodes.iter().filter(|n| other.ran_on(n));
        common.next().is_some_and(|n| n == node) && common.next().is_none()
    }

    /// Did it fail after the other, by itself? A node that goes down ends all of its jobs at once.
    fn is_another_failure_than(&self, earlier: &Self) -> bool {
        self.job != earlier.job && self.began.is_some_and(|began| began >= earlier.at)
    }

    /// Had both GPUs of one size: as they were seen, else as both asked for one type?
    fn has_gpus_of(&self, other: &Self) -> bool {
        match (self.gpu, other.gpu) {
            (Some(a), Some(b)) => a.0.abs_diff(b.0) <= a.0.max(b.0) / SAME_SIZE,
            _ => self
                .configuration
                .as_ref()
                .is_some_and(JobFeatures::names_gpu),
        }
    }

    /// `job 4711 (run a, cuda_oom)`.
    fn named(&self) -> String {
        let kind = match &self.end {
            NodeEnd::Fitted => "fitted",
            NodeEnd::Memory { kind } | NodeEnd::Hardware { kind } => kind,
        };
        format!("job {} (run {}, {kind})", self.job, self.run)
    }
}

/// A node that fails by itself, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadNode {
    /// Its name.
    pub node: String,
    /// Why, in one sentence.
    pub reason: String,
}

impl std::fmt::Display for BadNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is excluded: {}", self.node, self.reason)
    }
}

/// Nodes that are excluded from an attempt on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodesExcluded {
    /// The nodes, each with the evidence.
    pub nodes: Vec<BadNode>,
    /// The layer that keeps attempts away from them.
    pub layer: Layer,
}

/// Nodes that a run is to exclude besides those that it does, with the newest evidence first. Never more than one in four of
/// the nodes on which the project's jobs ran (of fewer than eight, one). Where only one is known it may be the cluster's only
/// one: it is excluded by a run whose own jobs it failed, and by no other.
pub fn bad_nodes(
    entries: &[NodeEntry],
    run: &str,
    excluded: &[String],
    now: Timestamp,
) -> Vec<BadNode> {
    let seen: BTreeSet<&String> = entries.iter().flat_map(|e| &e.nodes).collect();
    let alone = seen.len() == 1;
    let most = (seen.len() / NODES_FOR_ONE).max(1);
    let left = most.saturating_sub(excluded.iter().filter(|n| seen.contains(n)).count());
    let open = seen.into_iter().filter(|n| !excluded.contains(n));
    let counted: Vec<&NodeEntry> = entries.iter().filter(|e| !alone || e.run == run).collect();
    let mut bad: Vec<(Timestamp, BadNode)> = open
        .filter_map(|node| judged(&counted, node, now))
        .collect();
    bad.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    bad.into_iter().take(left).map(|(_, bad)| bad).collect()
}

/// The verdict on one node, and when its newest failure was.
fn judged(entries: &[&NodeEntry], node: &str, now: Timestamp) -> Option<(Timestamp, BadNode)> {
    let recent = |e: &&&NodeEntry| now.duration_since(e.at) <= COUNTS_FOR && e.ran_on(node);
    let mut failures: Vec<(&NodeEntry, Option<&NodeEntry>)> = entries
        .iter()
        .rev()
        .filter(recent)
        .filter_map(|e| Some((*e, proof(entries, e, node)?)))
        .collect();
    failures.sort_by_key(|(e, _)| std::cmp::Reverse(e.at));
    failures.truncate(FAILURES_MAX);
    let mut pairs = failures.iter().enumerate().flat_map(|(at, later)| {
        let earlier = failures[at + 1..].iter();
        earlier.map(move |earlier| (later, earlier))
    });
    let (later, earlier) =
        pairs.find(|(a, b)| a.0.is_another_failure_than(b.0) && a.0.meets_only_on(b.0, node))?;
    let elsewhere = earlier.1.or(later.1).map_or_else(String::new, |fitted| {
        let nodes = fitted.nodes.join(",");
        format!(
            "; the same configuration fitted on {nodes} (job {})",
            fitted.job
        )
    });
    let reason = format!(
        "{} and {} failed there{elsewhere}",
        earlier.0.named(),
        later.0.named()
    );
    let node = node.to_owned();
    Some((later.0.at, BadNode { node, reason }))
}

/// What makes a failure the node's: nothing more for the hardware, for memory a job of the same configuration that fitted
/// elsewhere. None where it may be the configuration's.
fn proof<'a>(
    entries: &[&'a NodeEntry],
    failure: &NodeEntry,
    node: &str,
) -> Option<Option<&'a NodeEntry>> {
    match &failure.end {
        NodeEnd::Fitted => None,
        NodeEnd::Hardware { .. } => Some(None),
        NodeEnd::Memory { .. } => {
            let configuration = failure.configuration.as_ref()?;
            let mut fitted = entries.iter().copied().filter(|e| {
                e.end == NodeEnd::Fitted
                    && e.configuration.as_ref() == Some(configuration)
                    && failure.has_gpus_of(e)
            });
            let elsewhere = fitted.clone().find(|e| !e.ran_on(node))?;
            (!fitted.any(|e| e.ran_on(node))).then_some(Some(elsewhere))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(hours_ago: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1_000 - hours_ago)
    }

    /// A job of an hour on these nodes (`n1+n2`), that ended so many hours ago: `fit`, `oom` or `xid`, of a configuration by its letter.
    fn job(id: u32, nodes: &str, end: &str, configuration: char, hours_ago: i64) -> NodeEntry {
        let same = BTreeMap::from([("model".to_owned(), configuration.to_string())]);
        let (same, sizes) = (same, BTreeMap::new());
        NodeEntry {
            job: id.to_string(),
            run: format!("r{id}"),
            began: Some(at(hours_ago + 1)),
            at: at(hours_ago),
            nodes: nodes.split('+').map(str::to_owned).collect(),
            end: match end {
                "fit" => NodeEnd::Fitted,
                "oom" => NodeEnd::Memory {
                    kind: "cuda_oom".to_owned(),
                },
                _ => NodeEnd::Hardware {
                    kind: "hw_error".to_owned(),
                },
            },
            gpu: Some(Bytes(80 << 30)),
            configuration: (configuration != '?').then_some(JobFeatures {
                same,
                sizes,
                ..JobFeatures::default()
            }),
        }
    }

    /// Two configurations that run out of memory on n1, and fit on n2.
    fn fails_on_n1() -> [NodeEntry; 4] {
        [
            job(1, "n1", "oom", 'a', 5),
            job(2, "n2", "fit", 'a', 4),
            job(3, "n1", "oom", 'b', 3),
            job(4, "n2", "fit", 'b', 2),
        ]
    }

    fn bad(entries: &[NodeEntry], excluded: &[&str]) -> Vec<String> {
        let excluded: Vec<String> = excluded.iter().map(|n| (*n).to_owned()).collect();
        let found = bad_nodes(entries, "new", &excluded, at(0)).into_iter();
        found.map(|b| format!("{}: {}", b.node, b.reason)).collect()
    }

    /// What a run excludes that lost two jobs on these nodes, one after the other.
    fn lost(first: &str, second: &str) -> Vec<String> {
        let mine = [job(1, first, "xid", '?', 5), job(2, second, "xid", '?', 3)].map(|mut job| {
            job.run = "mine".to_owned();
            job
        });
        let found = bad_nodes(&mine, "mine", &[], at(0)).into_iter();
        found.map(|b| b.node).collect()
    }

    #[test]
    fn memory_that_ran_out_on_one_node_alone_is_the_nodes_and_is_told_with_both_jobs() {
        let jobs = fails_on_n1();
        assert_eq!(
            bad(&jobs, &[]),
            [
                "n1: job 1 (run r1, cuda_oom) and job 3 (run r3, cuda_oom) failed there; the same configuration fitted on n2 (job 2)"
            ]
        );
        assert_eq!(
            bad(&jobs[..3], &[]),
            Vec::<String>::new(),
            "b fitted nowhere"
        );
        let also_here = [&jobs[..], &[job(5, "n1", "fit", 'a', 9)]].concat();
        assert_eq!(
            bad(&also_here, &[]),
            Vec::<String>::new(),
            "a fits on n1 too"
        );
        let unknown = jobs.map(|j| NodeEntry {
            configuration: None,
            ..j
        });
        assert_eq!(bad(&unknown, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_smaller_gpu_is_no_bad_node() {
        let of = |gpus: [Option<u64>; 4]| {
            let mut jobs = fails_on_n1();
            for (job, gib) in jobs.iter_mut().zip(gpus) {
                job.gpu = gib.map(|gib| Bytes(gib << 30));
            }
            jobs
        };
        assert_eq!(
            bad(&of([Some(79), Some(80), Some(79), Some(80)]), &[]).len(),
            1
        );
        assert!(bad(&of([Some(40), Some(80), Some(40), Some(80)]), &[]).is_empty());
        assert!(bad(&of([Some(80), None, Some(80), None]), &[]).is_empty());
        let typed = of([Some(80), None, Some(80), None]).map(|mut job| {
            let features = job.configuration.as_mut().unwrap();
            features
                .same
                .insert("gpu_type".to_owned(), "a100".to_owned());
            job
        });
        assert_eq!(bad(&typed, &[]).len(), 1);
    }

    #[test]
    fn hardware_counts_whatever_ran_and_one_job_proves_nothing() {
        let xids = [
            job(1, "n1", "xid", '?', 5),
            job(2, "n2", "oom", '?', 4),
            job(3, "n1", "xid", 'b', 3),
        ];
        assert_eq!(
            bad(&xids, &[]),
            ["n1: job 1 (run r1, hw_error) and job 3 (run r3, hw_error) failed there"]
        );
        assert_eq!(
            bad(&xids, &["n1"]),
            Vec::<String>::new(),
            "it is excluded already"
        );
        let twice = [xids[0].clone(), xids[0].clone(), xids[1].clone()];
        assert_eq!(bad(&twice, &[]), Vec::<String>::new());
        let long_ago = job(3, "n1", "xid", 'b', 7 * 24 + 1);
        let old = [xids[0].clone(), xids[1].clone(), long_ago];
        assert_eq!(bad(&old, &[]), Vec::<String>::new());
    }

    #[test]
    fn of_several_nodes_only_the_one_that_both_jobs_had_is_named() {
        let apart = [
            job(1, "n1+n2", "xid", '?', 5),
            job(2, "n1+n3", "xid", '?', 4),
        ];
        assert_eq!(bad(&apart, &[]).len(), 1);
        assert!(bad(&apart, &[])[0].starts_with("n1: "));
        let together = [
            job(1, "n1+n2", "xid", '?', 5),
            job(2, "n1+n2", "xid", '?', 4),
        ];
        assert_eq!(bad(&together, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_run_keeps_away_from_a_node_that_its_own_jobs_lost_also_where_no_other_is_known() {
        assert_eq!(lost("n1", "n1"), ["n1"]);
        assert_eq!(lost("n1", "n2"), [""; 0]);
        assert_eq!(lost("n1+n2", "n2+n3"), ["n2"]);
        assert_eq!(lost("n1+n2", "n1+n2"), [""; 0], "nobody knows which");
        let of_others = [1, 2].map(|id| job(id, "n1", "xid", '?', i64::from(9 - 2 * id)));
        assert_eq!(bad(&of_others, &[]), [""; 0]);
    }

    #[test]
    fn a_node_that_ends_two_jobs_at_once_failed_once() {
        let mut jobs = [
            job(1, "n1", "xid", '?', 5),
            job(2, "n1", "xid", '?', 3),
            job(3, "n2", "fit", '?', 2),
        ];
        assert_eq!(bad(&jobs, &[]).len(), 1);
        jobs[1].began = Some(at(6));
        assert_eq!(bad(&jobs, &[]), [""; 0]);
        jobs[1].began = None;
        assert_eq!(bad(&jobs, &[]), [""; 0]);
    }

    #[test]
    fn no_more_than_one_in_four_nodes_is_excluded_and_none_without_another() {
        let fail = |node: &str, from: u32| {
            [from, from + 1].map(|id| job(id, node, "xid", '?', i64::from(2 * id)))
        };
        assert_eq!(bad(&fail("n1", 1), &[]), Vec::<String>::new());
        let mut jobs = [fail("n1", 1), fail("n2", 3), fail("n3", 5)].concat();
        assert_eq!(bad(&jobs, &[]).len(), 1);
        assert_eq!(bad(&jobs, &["n3"]), Vec::<String>::new());
        jobs.extend((4..=8).map(|n| job(n + 10, &format!("n{n}"), "fit", 'a', 1)));
        let names: Vec<String> = bad(&jobs, &[]).iter().map(|b| b[..2].to_owned()).collect();
        assert_eq!(names, ["n1", "n2"]);
    }
}
