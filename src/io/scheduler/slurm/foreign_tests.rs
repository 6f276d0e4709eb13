//! What Slurm's commands print of a job, by release.
//!
//! The text of 26.05 is what 26.05.3 printed on a cluster of our own (tests/slurm with `CLUSTER_PREFIX`), names and times changed. The
//! others have the fields, and their order, of `slurm_sprint_job_info` at the release's tag (`src/api/job_info.c`; from 25.05 on
//! `src/scontrol/info_job.c`).

use super::*;
use oomctl_base::word_list;

const IN_23_11: &str = "JobId=42 JobName=job.slurm
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=lab QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:03 TimeLimit=00:20:00 TimeMin=N/A
   SubmitTime=1795235178 EligibleTime=1795235178
   AccrueTime=1795235178
   StartTime=1795235178 EndTime=1795236378 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=1795235178 Scheduler=Backfill
   Partition=debug AllocNode:Sid=login1:28336
   ReqNodeList=(null) ExcNodeList=node[8-12]
   NodeList=node1
   BatchHost=node1
   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=1,mem=600M,node=1,billing=1,gres/gpu=2
   AllocTRES=cpu=1,mem=600M,node=1,billing=1,gres/gpu=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:h100:2
     Nodes=node1 CPU_IDs=0 Mem=600 GRES=gpu:h100:2(IDX:0-1)
   MinCPUsNode=1 MinMemoryNode=600M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ada/run/job.slurm
   WorkDir=/home/ada/run
   Comment=a b 
   StdErr=/home/ada/run/job.slurm-42.log
   StdIn=/dev/null
   StdOut=/home/ada/run/job.slurm-42.log
   Power=
   TresPerNode=gres/gpu:h100:2
";

/// The text of 23.11 as a later release has it.
fn later(changes: &[(&str, &str)]) -> String {
    changes
        .iter()
        .fold(IN_23_11.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        })
}

#[test]
fn a_job_is_read_from_what_each_release_prints_of_it() {
    // 24.05 has no power management any more, 25.05 tells licences twice.
    let in_24_05 = later(&[("   Power=\n", "")]);
    let licenses = "Licenses=(null) LicensesAlloc=(null) Network";
    let in_25_05 = later(&[("   Power=\n", ""), ("Licenses=(null) Network", licenses)]);
    let line = "   SubmitLine=sbatch --parsable --exclude=node[8-12] --time=20 --comment=a b job.slurm dia monds x\n   WorkDir=";
    let in_26_05 = later(&[
        ("   Power=\n", ""),
        ("   UserId=", "   SLUID=s3WDM84PPYRH00\n   UserId="),
        (
            "OverSubscribe=NO Contiguous=0 Licenses=(null) Network",
            &format!("OverSubscribe=NO Exclusive=NO Contiguous=0 {licenses}"),
        ),
        ("   WorkDir=", line),
        ("Comment=a b \n", "Comment=a b\n"),
        ("StdErr=/home/ada/run/job.slurm-42.log", "StdErr="),
    ]);
    let lines = [
        (IN_23_11.to_owned(), None),
        (in_24_05, None),
        (in_25_05, None),
        (
            in_26_05,
            Some(
                "sbatch --parsable --exclude=node[8-12] --time=20 --comment=a b job.slurm dia monds x",
            ),
        ),
    ];
    for (text, line) in lines {
        let job = told(&text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(
            (job.id.0.as_str(), job.uid, job.gpus),
            ("42", Some(1000), 2)
        );
        assert_eq!(
            job.command.as_deref(),
            Some("/home/ada/run/job.slurm"),
            "the path alone"
        );
        assert_eq!(job.submit_line.as_deref(), line);
        let log = PathBuf::from("/home/ada/run/job.slurm-42.log");
        assert_eq!(job.logs, Some((log.clone(), log)));
        assert_eq!(
            job.asked,
            word_list::<8>(
                "--partition=debug --account=lab --qos=normal --time=00:20:00 --nodes=1
                 --exclude=node[8-12] --mem=600M --gpus-per-node=h100:2",
            )
        );
    }
}

#[test]
fn what_accounting_says_of_a_job_is_read() {
    let line = "17_3|19|1000|ada|billing=1,cpu=4,gres/gpu=8,mem=1000M,node=2|/home/ada/run|grpo|sbatch --mem=64G -p gpu job.sh a|b";
    let job = read_accounted(line).unwrap();
    assert_eq!((job.id.0.as_str(), job.gpus), ("17_3", 8));
    assert_eq!(job.user.as_deref(), Some("ada"));
    assert_eq!(
        job.submit_line.as_deref(),
        Some("sbatch --mem=64G -p gpu job.sh a|b")
    );
    assert_eq!(read_accounted("nothing"), None);
    let before = read_accounted("5|5|1000|ada||/w|x").unwrap();
    assert_eq!((before.submit_line, before.gpus), (None, 0));
}

#[test]
fn a_script_that_accounting_keeps_is_found_and_one_that_it_does_not_is_none() {
    let kept = "Batch Script for 9\n--------\n#!/bin/bash\necho x\n\n";
    assert_eq!(read_kept(kept).as_deref(), Some("#!/bin/bash\necho x\n"));
    assert_eq!(read_kept("Batch Script for 1\n--------\nNONE\n\n"), None);
    assert_eq!(read_kept(""), None);
}
