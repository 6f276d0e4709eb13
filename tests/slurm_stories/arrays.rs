//! Job arrays of the user's own scripts: six tasks of which two run out of GPU memory, one has a bug, and three succeed.

use std::collections::BTreeSet;
use std::fs;

use super::cluster::{answer, path, program};
use super::foreign::{ended, place, sbatch, state};
use super::place::{Job, Place};

/// What the script does beside training, by its index.
const TASKS: &str = r#"#SBATCH --array=0-5%2
echo "one of $SLURM_ARRAY_TASK_COUNT up to $SLURM_ARRAY_TASK_MAX"
case $SLURM_ARRAY_TASK_ID in
  1|4) ;;
  5) python3 -c 'raise ValueError("shard 5 has no rows")' || exit 1 ;;
  *) export SIM_GPU_GIB=140 ;;
esac
"#;

/// The end of each of the tasks, as the last lines of a list of runs tell it.
fn told(stdout: &str, group: &str) {
    let totals = format!(
        "6 runs: 1 failed, 5 succeeded\ncode_bug, now failed: 1 ({group}_5)\ncuda_oom, now succeeded: 2 ({group}_1, {group}_4)\n"
    );
    let (_, rest) = stdout.split_once(&totals).expect(stdout);
    let differ = "attention: the tasks did not train the same: 4 of 6 as submitted; 2 of 6 with ";
    // `watch` says it at the end, `status` does not.
    let at_the_end = rest.starts_with(differ) && rest.lines().count() == 1;
    assert!(rest.is_empty() || at_the_end, "{stdout}");
}

/// The jobs of the runs' attempts are those that sacct saw, each once, under the index of their run, and never more than
/// two at a time.
fn one_job_an_attempt(place: &Place, group: &str, first: Option<&str>) {
    let mut wanted = BTreeSet::new();
    for index in 0..6 {
        let run = format!("{group}_{index}");
        let attempts = place.attempts_of(&run);
        assert_eq!(attempts.len() > 1, [1, 4].contains(&index), "{attempts:?}");
        for attempt in &attempts {
            let job = attempt["job"].as_str().unwrap();
            assert!(job.ends_with(&format!("_{index}")), "{attempts:?}");
            wanted.insert(job.to_owned());
        }
        if attempts.len() > 1 {
            let log = format!(".oomctl/runs/{run}/attempt-{}/slurm.out", attempts.len());
            let log = place.text(&log);
            let told = format!("one of 6 up to 5\nname gems task {index}\n");
            assert!(log.contains(&told), "{log}");
        }
    }
    let array = first.map(|id| format!("{id}_"));
    let theirs = wanted
        .iter()
        .filter(|id| array.as_ref().is_some_and(|a| id.starts_with(a)));
    let ours = wanted.len() - theirs.count();
    let jobs: Vec<Job> = place.jobs_of(group, ours);
    let seen: BTreeSet<String> = jobs.iter().map(|job| job.id.clone()).collect();
    assert_eq!((seen.len(), jobs.len()), (ours, ours), "{jobs:?}");
    assert!(seen.is_subset(&wanted), "{jobs:?}");
    at_most_two_at_a_time(place, &wanted);
}

fn at_most_two_at_a_time(place: &Place, ids: &BTreeSet<String>) {
    let ids = ids.iter().cloned().collect::<Vec<_>>().join(",");
    let words = ["-X", "-n", "-P", "-j", &ids, "-o", "Start,End"];
    let rows = answer(&place.conf, "sacct", &words);
    let mut moments: Vec<(String, i32)> = Vec::new();
    for (start, end) in rows.lines().filter_map(|row| row.split_once('|')) {
        moments.extend([(start.to_owned(), 1), (end.to_owned(), -1)]);
    }
    // Of those in one second the ends come first: sacct rounds to seconds.
    moments.sort();
    let mut running = 0;
    for (at, change) in moments {
        running += change;
        assert!(running <= 2, "{running} at {at}:\n{rows}");
    }
}

#[test]
fn an_array_is_submitted_whole_and_its_failed_tasks_go_back_under_their_indices() {
    let Some(place) = place("own-array", TASKS) else {
        return;
    };
    let group = place.run();
    let plan = place
        .submit(&["--dry-run", "job.slurm", "d0"])
        .expect_code(0);
    plan.says(&format!(
        "array {group}: 6 tasks (0-5), 2 at a time; each is a run"
    ));
    let done = place
        .submit_and_watch(&["--yes", "job.slurm", "d0"])
        .expect_code(1);
    told(&done.stdout, group);
    one_job_an_attempt(&place, group, None);
    let status = place.oomctl(&["status", group]).expect_code(0);
    told(&status.stdout, group);
    // The user's own script and the logs where it asks for them.
    let job = place.attempts_of(&format!("{group}_4"));
    let array = job[1]["job"].as_str().unwrap().split('_').next().unwrap();
    let names = fs::read_dir(place.file("out")).unwrap();
    let names: Vec<String> = names
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    let ours = format!("gems-{array}_4_{array}_4.log");
    assert!(names.contains(&ours), "{names:?}");
}

#[test]
fn a_watch_of_an_array_is_killed_and_the_next_one_loses_no_task_and_submits_none_twice() {
    let Some(place) = place("array-taken", TASKS) else {
        return;
    };
    let array = sbatch(&place, &["job.slurm", "d0"]);
    let watch = place.start(&["watch", "--yes", &array]);
    watch.until_it_says("attempt 2  submitted as job");
    assert!(watch.kill(), "it was over before it was killed");
    let done = place.oomctl(&["watch", &array]).expect_code(1);
    let group = format!("job-{array}");
    told(&done.stdout, &group);
    one_job_an_attempt(&place, &group, Some(&array));
    let again = place.oomctl(&["watch", &group]).expect_code(1);
    told(&again.stdout, &group);
}

#[test]
fn an_array_whose_answer_was_lost_with_the_process_is_found_again_and_cancelled_by_its_id() {
    let Some(place) = place("array-lost", "#SBATCH --array=3,7\nsleep 600\n") else {
        return;
    };
    let dies = format!(
        "#!/bin/sh\n{} \"$@\"\nkill -9 $PPID\nsleep 5\n",
        program("sbatch").display()
    );
    let place = place.wrapping("sbatch", &dies);
    place.submit(&["--yes", "job.slurm", "d0"]).expect_code(-1);
    let place = place.set("PATH", &path());
    let group = place.run().to_owned();
    let watch = place.start(&["watch", &group]);
    watch.until_it_says("found again by its token");
    watch.until_it_says("_7  attempt 1  RUNNING");
    assert!(watch.kill());
    let job = place.attempts_of(&format!("{group}_3"))[0]["job"].clone();
    let array = job.as_str().unwrap().split('_').next().unwrap().to_owned();
    place.oomctl(&["cancel", &array]).expect_code(0);
    let status = place.oomctl(&["status", &array]).expect_code(0);
    assert!(
        status.stdout.ends_with("2 runs: 2 cancelled\n"),
        "{}",
        status.stdout
    );
    let ids: Vec<String> = place
        .jobs_of(&group, 2)
        .into_iter()
        .map(|job| job.id)
        .collect();
    assert_eq!(ids, [format!("{array}_3"), format!("{array}_7")]);
}

#[test]
fn a_heterogeneous_job_is_refused_with_what_to_do_and_may_be_followed() {
    let Some(place) = place("het", "#SBATCH hetjob\n#SBATCH --mem=100M\n") else {
        return;
    };
    let told = place.submit(&["--yes", "job.slurm", "d0"]).expect_code(2);
    told.says("the job requests --hetjob, which oomctl cannot run");
    let id = sbatch(&place, &["job.slurm", "d0"]);
    ended(&place, &id, "FAILED");
    let told = place.oomctl(&["watch", "--yes", &id]).expect_code(2);
    told.says(&format!("job {id} is heterogeneous"));
    place.oomctl(&["watch", "--watch-only", &id]).expect_code(1);
    assert_eq!(state(&place, &id), "FAILED");
}

#[test]
fn the_id_of_an_array_means_its_first_task_that_failed() {
    let tasks = "#SBATCH --array=0-2\n[ $SLURM_ARRAY_TASK_ID = 1 ] || exit 0\npython3 -c 'raise ValueError(\"shard 1 has no rows\")'; exit\n";
    let Some(place) = place("array-asked", tasks) else {
        return;
    };
    let array = sbatch(&place, &["job.slurm", "d0"]);
    for (index, end) in [(0, "COMPLETED"), (1, "FAILED"), (2, "COMPLETED")] {
        ended(&place, &format!("{array}_{index}"), end);
    }
    let told = place.oomctl(&["diagnose", &array]).expect_code(0);
    told.says(&format!(
        "{array} has 3 tasks, and 1 of them failed ({array}_1); this is about {array}_1"
    ));
    assert!(
        told.stdout.contains("shard 1 has no rows"),
        "{}",
        told.stdout
    );
}
