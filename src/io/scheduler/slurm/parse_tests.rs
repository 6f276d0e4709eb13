//! Output as Slurm 22.05 printed it on a cluster of our own (tests/slurm), names changed.

use super::super::record::job_name;
use super::*;
use oomctl_base::job::{HostUse, Token};
use oomctl_base::units::Bytes;

#[test]
fn a_running_job_in_squeue_is_read_whole() {
    let text = "2|2|RUNNING|0|0|0|1795235178|1795235190|1795236978|node[1-2]|None|oomctl-a-1-00ff00ff|oomctl-a-1-00ff00ff\n";
    let record = &read_squeue(text)[0];
    assert_eq!(record.status.state, JobState::Running);
    assert_eq!(record.status.nodes, ["node1", "node2"]);
    assert_eq!(record.status.started.unwrap().as_second(), 1_795_235_190);
    assert_eq!(
        (record.status.ended, record.status.expected_start),
        (None, None)
    );
    assert_eq!(record.status.reason, None);
    assert!(record.carries(&Token("oomctl-a-1-00ff00ff".into())));
    assert!(!record.carries(&Token("oomctl-a-1".into())));
}

#[test]
fn the_start_of_a_pending_job_is_an_expectation() {
    let text = "9|9|PENDING|0|0|1|1795235178|1795238778|1795240578||BeginTime|(null)|x\n";
    let status = &read_squeue(text)[0].status;
    assert_eq!(status.expected_start.unwrap().as_second(), 1_795_238_778);
    assert_eq!((status.started, status.ended), (None, None));
    assert_eq!(status.restarts, 1);
    assert_eq!(status.reason.as_deref(), Some("BeginTime"));
}

#[test]
fn bars_in_names_and_commas_in_reasons_move_nothing() {
    let text =
        "3|3|PENDING|0|0|0|1795235178|N/A|N/A||ReqNodeNotAvail, UnavailableNodes:node2|a|b|c\n";
    let record = &read_squeue(text)[0];
    assert_eq!(record.status.state, JobState::Pending);
    assert_eq!(
        record.status.reason.as_deref(),
        Some("ReqNodeNotAvail, UnavailableNodes:node2")
    );
    assert_eq!(record.name, "b|c");
}

#[test]
fn banners_and_torn_lines_are_left_out() {
    let text = "*** Maintenance on Monday | see the web page ***\n4|4|RUNN\n\nslurm_load_jobs|||||||||||\n5|5|FAILED|0|0|0|1795235178|1795235178|1795235179|node1|NonZeroExitCode|(null)|x\n";
    let records = read_squeue(text);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].raw_id, "5");
    assert_eq!(records[0].status.ended.unwrap().as_second(), 1_795_235_179);
}

#[test]
fn array_tasks_are_found_by_both_of_their_ids() {
    let text =
        "17_3|20|RUNNING|0|0|0|1|1|1|n|None||x\n17_[4-6%2]|17|PENDING|0|0|0|1|1|1||Resources||x\n";
    let records = read_squeue(text);
    assert!(records[0].has_id(&JobId("17_3".into())) && records[0].has_id(&JobId("20".into())));
    assert_eq!(records[1].status.id.0, "17_[4-6%2]");
}

#[test]
fn a_task_of_an_array_carries_the_arrays_token_under_its_own_index_only() {
    let array = Token("oomctl-s-1-1-00ff00ff".into());
    let text = "17_3|20|RUNNING|0|0|0|1|1|1|n|None|(null)|oomctl-s-1-1-00ff00ff\n21|21|PENDING|0|0|0|1|1|1||None|(null)|oomctl-s-1-1-00ff00ff_4\n";
    let [task, alone] = &read_squeue(text)[..] else {
        panic!()
    };
    assert!(task.carries(&array.task(3)) && !task.carries(&array.task(4)));
    // One whose array was never accepted may be a job of its own.
    assert!(alone.carries(&array.task(4)) && !alone.carries(&array.task(3)));
    assert_eq!(job_name(&task.status.id, &array.task(3)), array);
    assert_eq!(job_name(&alone.status.id, &array.task(4)), array.task(4));
}

#[test]
fn the_limit_of_arrays_stands_in_the_configuration() {
    let text = "Configuration data as of 2026-11-21T01:00:00\nMaxArraySize            = 1001\nMaxDBDMsgs              = 20020\n";
    assert_eq!(read_array_limit(text), Some(1001));
    assert_eq!(read_array_limit("slurm_load_ctl_conf error\n"), None);
}

#[test]
fn a_cancelled_job_in_sacct_says_who_did_it() {
    let text = "2|2|CANCELLED by 1000|0:0|0:0|1795235178|1795235178|1795235206|node[1-2]|None|||tok-1|tok-1\n2.batch|2.batch|CANCELLED|0:15||1795235178|1795235178|1795235207|node1|||||batch\n";
    let records = read_sacct(text);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].status.state, JobState::Cancelled);
    assert_eq!(records[0].status.cancelled_by.as_deref(), Some("1000"));
    assert_eq!(records[0].status.exit, Some(ExitStatus::default()));
}

#[test]
fn an_out_of_memory_step_is_seen_under_a_completed_job() {
    let text = "6|6|COMPLETED|0:0|0:125|10|10|20|node1|None||||t\n6.batch|6.batch|COMPLETED|0:0||10|10|20|node1|||||batch\n6.0|6.0|OUT_OF_MEMORY|0:125||10|10|20|node1|||||python\n";
    let status = &read_sacct(text)[0].status;
    assert_eq!(status.state, JobState::Completed);
    assert!(status.step_out_of_memory);
    assert_eq!(status.derived_exit, Some(ExitStatus::of(0, 125)));
}

/// The lines that Slurm 22.05.8 printed of a job with 4 CPUs and 800M, whose batch step used 300 MiB and whose srun was over
/// before anybody looked at it.
#[test]
fn what_a_job_used_of_its_nodes_is_the_largest_step_beside_what_it_was_given() {
    let job = |state: &str, given: &str| {
        format!("6|6|{state}|0:0|0:0|10|10|15|node1|None|{given}||t|t\n")
    };
    let step = |name: &str, used: &str| {
        format!("6.{name}|6.{name}|COMPLETED|0:0||10|10|15|node1|||{used}||{name}\n")
    };
    let given = "billing=4,cpu=4,gres/gpu=1,mem=800M,node=1";
    let batch = step(
        "batch",
        "cpu=00:00:04,energy=0,fs/disk=8277,mem=314360K,pages=16,vmem=326720K",
    );
    let short = step(
        "0",
        "cpu=00:00:00,energy=0,fs/disk=0,mem=0,pages=4,vmem=728K",
    );
    let host = |text: &str| read_sacct(text).remove(0).status.host.map(|host| *host);
    let used = host(&(job("COMPLETED", given) + &batch + &short)).unwrap();
    assert_eq!(
        used,
        HostUse {
            memory_peak: Some(Bytes(314_360 << 10)),
            memory_given: Some(Bytes(800 << 20)),
            cpu_s: Some(4),
            cpu_given_s: Some(20),
        }
    );
    // Nobody measures: what was used is unknown, not 0.
    let unmeasured = host(&(job("COMPLETED", given) + &short)).unwrap();
    assert_eq!(
        (unmeasured.memory_share(), unmeasured.cpu_share()),
        (None, None)
    );
    // Not started, still running, a site that counts no memory.
    assert_eq!(host(&job("PENDING", "")), None);
    assert_eq!(host(&(job("RUNNING", given) + &batch)), None);
    let uncounted = host(&(job("FAILED", "cpu=4,mem=0,node=1") + &batch)).unwrap();
    assert_eq!(
        (uncounted.memory_share(), uncounted.cpu_share()),
        (None, Some(0.2))
    );
}

#[test]
fn the_last_run_of_a_requeued_job_counts_and_the_others_are_restarts() {
    let text = "6|6|NODE_FAIL|0:0|0:0|10|10|20|node1|None|||t|t\n6.batch|6.batch|CANCELLED|0:0||10|10||node1|||||batch\n6|6|RUNNING|0:0|0:0|20|150|Unknown|node2|None|||t|t\n";
    let records = read_sacct(text);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].status.state, JobState::Running);
    assert_eq!(records[0].status.restarts, 1);
    assert_eq!(records[0].status.ran_before_s, Some(10));
    assert_eq!(records[0].status.nodes, ["node2"]);
}

#[test]
fn what_the_parts_of_a_requeued_job_ran_is_added_up_in_whatever_order_they_come() {
    let parts = [
        "6|6|NODE_FAIL|0:0|0:0|10|10|20|node1|None|||t|t\n",
        "6|6|PREEMPTED|0:0|0:0|30|60|65|node1|None|||t|t\n",
        "6|6|REQUEUED|0:0|0:0|70|Unknown|75|node1|None|||t|t\n",
        "6|6|RUNNING|0:0|0:0|90|150|Unknown|node2|None|||t|t\n",
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]] {
        let text: String = order.map(|part| parts[part]).concat();
        let status = read_sacct(&text).remove(0).status;
        assert_eq!(
            (status.restarts, status.ran_before_s),
            (3, Some(15)),
            "{order:?}"
        );
        assert_eq!(status.state, JobState::Running);
    }
}

#[test]
fn a_reused_id_gives_two_jobs() {
    let text = "6|6|COMPLETED|0:0|0:0|10|10|20|node1|None||||ours\n6|6|RUNNING|0:0|0:0|90|90|Unknown|node1|None||||theirs\n";
    let names: Vec<_> = read_sacct(text)
        .into_iter()
        .map(|record| record.name)
        .collect();
    assert_eq!(names, ["ours", "theirs"]);
}

#[test]
fn a_failed_job_whose_exit_code_has_not_arrived_has_none() {
    let text = "4|4|FAILED|0:0|0:0|10|10|20|node1|None||||t\n";
    assert_eq!(read_sacct(text)[0].status.exit, None);
    let text = "4|4|FAILED|9:0|9:0|10|10|20|node1|None||||t\n";
    assert_eq!(read_sacct(text)[0].status.exit, Some(ExitStatus::of(9, 0)));
}

const SCONTROL: &str = "\
JobId=9 JobName=two words
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=4294901753 Nice=0 Account=lab QOS=normal
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=137:0
   DerivedExitCode=0:125
   SubmitTime=1795235396 EligibleTime=1795235396
   StartTime=1795235397 EndTime=1795235399 Deadline=N/A
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=node[1-2]
   BatchHost=node1
   Command=/home/ada/my job.sh
   WorkDir=/home/ada/a b
   Comment=some words = more
   StdErr=/home/ada/a b/x-9.out
   StdIn=/dev/null
   StdOut=/home/ada/a b/x-9.out
";

#[test]
fn scontrol_is_read_with_blanks_in_names_and_paths() {
    let job = read_scontrol(SCONTROL).unwrap();
    assert_eq!(job.record.name, "two words");
    assert_eq!(job.record.status.state, JobState::Failed);
    assert_eq!(job.record.status.exit, Some(ExitStatus::of(137, 0)));
    assert!(job.record.status.step_out_of_memory);
    assert_eq!(job.record.status.restarts, 2);
    assert_eq!(job.record.status.nodes, ["node1", "node2"]);
    assert_eq!(job.record.status.reason.as_deref(), Some("NonZeroExitCode"));
    assert_eq!(job.stdout.as_deref(), Some("/home/ada/a b/x-9.out"));
    assert_eq!(job.record.comment.as_deref(), Some("some words = more"));
    assert_eq!(
        (job.user.as_deref(), job.batch_host.as_deref()),
        (Some("ada"), Some("node1"))
    );
}

#[test]
fn an_array_task_in_scontrol_is_named_as_squeue_names_it() {
    let text = "JobId=18 ArrayJobId=17 ArrayTaskId=3 JobName=x\n   JobState=PENDING Reason=User's group not permitted to use this partition (closed) Dependency=(null)\n";
    let job = read_scontrol(text).unwrap();
    assert_eq!(
        (job.record.raw_id.as_str(), job.record.status.id.0.as_str()),
        ("18", "17_3")
    );
    assert_eq!(
        job.record.status.reason.as_deref(),
        Some("User's group not permitted to use this partition (closed)")
    );
}

#[test]
fn a_line_break_in_a_name_cannot_forge_the_state() {
    let text = "JobId=9 JobName=x\n   JobState=COMPLETED Reason=None Dependency=(null)\n   JobState=RUNNING Reason=None Dependency=(null)\n";
    assert_eq!(
        read_scontrol(text).unwrap().record.status.state,
        JobState::Running
    );
}

#[test]
fn text_without_a_job_is_none() {
    for text in [
        "",
        "slurm_load_jobs error: Invalid job id specified",
        "JobId= JobName=",
        "No jobs in the system",
    ] {
        assert_eq!(read_scontrol(text), None, "{text}");
    }
}

#[test]
fn the_id_line_is_found_among_banners() {
    let cases = [
        ("4711\n", Some(("4711", None))),
        ("4711;oomtest\n", Some(("4711", Some("oomtest")))),
        (
            "Welcome to Stampede3\n-- 2 jobs left --\n4711\nthat is all\n",
            Some(("4711", None)),
        ),
        ("4711\r\n", Some(("4711", None))),
        ("4711\n4711\n", Some(("4711", None))),
        ("4711\n4712\n", None),
        ("Submitted batch job 4711\n", None),
        ("4711; rm\n", None),
        ("4711;\n", None),
        ("", None),
        ("99999999999999\n", None),
    ];
    for (text, expected) in cases {
        let found = read_submission(text);
        let found = found
            .as_ref()
            .map(|(id, cluster)| (id.0.as_str(), cluster.as_deref()));
        assert_eq!(found, expected, "{text:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in "([0-9_]{0,3}[|]|JobId=|JobState=|Reason=|.|\n){0,60}") {
        let _ = (read_squeue(&text), read_sacct(&text), read_scontrol(&text), read_submission(&text));
    }
}

#[test]
fn many_lists_of_nodes_are_not_all_written_out() {
    let line = "9|9|RUNNING|0|0|0|1795235178|1795235190|1795236978|n[1-16384]|None||x\n";
    let records = read_squeue(&line.repeat(40));
    let nodes: usize = records.iter().map(|r| r.status.nodes.len()).sum();
    assert_eq!(nodes, MAX_ANSWER_NODES + 24);
    assert_eq!(records[39].status.nodes, ["n[1-16384]"]);
}
