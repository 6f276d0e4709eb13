//! Slurm's commands as scripts on PATH: jobs run to their end inside sbatch, and every call is noted.

use std::fs;
use std::path::PathBuf;

use super::place::{Place, install};

/// Common to all: where things are, and no file size limit, for a story may have set one for oomctl.
const HEAD: &str = "#!/bin/bash\nF=@F@\nulimit -S -f unlimited\nprintf '%s\\n' \"$*\" >>$F/$(/usr/bin/basename \"$0\").calls\n";

/// `node` names the node of the next jobs (n1), `start` is when squeue says that jobs start. `array-size` is what arrays are limited to, `mute` loses the next answer, `impossible` is what --test-only says. `refuse` holds what sbatch says instead of accepting; `state.N` the end of the N-th job, which then
/// does not run; `before.N` and `after.N` kill the process named in `victim` around the moment at which
/// attempt N is accepted.
const SBATCH: &str = r#"
[[ " $* " != *" --test-only "* ]] || [ ! -e $F/impossible ] || { cat $F/impossible >&2; exit $(grep -q "Invalid --" $F/impossible && echo 255 || echo 1); }
[[ " $* " != *" --test-only "* ]] || { echo "sbatch: Job 9 to start at $(date +%s) using 1 processors on nodes n1 in partition debug" >&2; exit; }
[ ! -e $F/refuse ] || { cat $F/refuse >&2; exit 1; }
for word; do case $word in
  --job-name=*) name=${word#*=} ;;
  --chdir=*) folder=${word#*=} ;;
  --output=*) out=${word#*=} ;;
  --error=*) err=${word#*=} ;;
  --array=*) array=${word#*=} ;;
  --exclude=*) ;;
  *) script=$word ;;
esac; done
attempt=${name%-*}; attempt=${attempt##*-}
kill_victim() {
  [ -e $F/$1.$attempt ] || return 0
  until [ -s $F/victim ]; do sleep 0.01; done
  mv $F/$1.$attempt $F/$1.$attempt.done
  kill -9 "$(<$F/victim)"
}
kill_victim before
exec 9>$F/lock; flock 9
first=$(($(ls $F/jobs | wc -l) + 101))
# One job: its id, and where it is a task of an array, its index.
job() {
  id=$1
  n=$(($(ls $F/jobs | wc -l) + 1))
  now=$(date +%s)
  mkdir $F/new
  echo "$name" >$F/new/name
  echo "$now" >$F/new/submit
  cat $F/node >$F/new/node 2>/dev/null || echo n1 >$F/new/node
  mv $F/new $F/jobs/$id
  state=COMPLETED code=0:0
  if [ -e $F/state.$n ]; then
    read -r state code <$F/state.$n
  else
    (cd "$folder" && SLURM_JOB_ID=$id SLURM_ARRAY_TASK_ID=$2 bash "$script" >>"${out/\%a/$2}" 2>>"${err/\%a/$2}" 9>&-)
    rc=$?
    ((rc == 0)) || { state=FAILED; code=$rc:0; }
  fi
  echo "$state" >$F/jobs/$id/state
  echo "$code" >$F/jobs/$id/code
}
if [ -n "${array:-}" ]; then
  for range in $(echo "${array%\%*}" | tr , ' '); do
    for task in $(seq "${range%-*}" "${range#*-}"); do job "${first}_$task" "$task"; done
  done
else
  job "$first" ""
fi
kill_victim after
flock -u 9
[ ! -e $F/mute ] || { mv $F/mute $F/muted; echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; }
echo $first
"#;

/// `used` holds the TRES of each job's batch step, as accounting has them once it has heard of the step. Jobs took ten seconds then.
const SACCT: &str = r#"
for job in $F/jobs/*/state; do
  [ -e "$job" ] || continue
  d=${job%/state}; id=${d##*/}
  submit=$(<$d/submit)
  end=$submit
  [ ! -e $F/used ] || end=$((submit + 10))
  echo "$id|$id|$(<$d/state)|$(<$d/code)|$(<$d/code)|$submit|$submit|$end|$(<$d/node)|None|cpu=4,mem=800M,node=1|||$(<$d/name)"
  [ ! -e $F/used ] || echo "$id.batch|$id.batch|COMPLETED|0:0||$submit|$submit|$end|$(<$d/node)|||$(<$F/used)||batch"
done
"#;

const SQUEUE: &str = r#"
[ ! -e $F/down ] || { cat $F/down >&2; exit 1; }
for job in $F/jobs/*/state; do
  [ -e "$job" ] || continue
  d=${job%/state}; id=${d##*/}
  IFS=: read -r code signal <$d/code
  start=$(cat $F/start 2>/dev/null || cat $d/submit)
  echo "$id|$id|$(<$d/state)|$((code * 256 + signal))|0|0|$(<$d/submit)|$start|$(<$d/submit)|$(<$d/node)|None|(null)|$(<$d/name)"
done
"#;

const SCONTROL: &str = r#"
for word; do id=$word; done
[ $id != config ] || { echo "MaxArraySize            = $(<$F/array-size)"; exit; }
d=$F/jobs/$id
[ -d $d ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
echo "JobId=$id JobName=$(<$d/name)"
echo "   UserId=u(1000) GroupId=u(1000) MCS_label=N/A"
echo "   JobState=$(<$d/state) Reason=None Dependency=(null)"
echo "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=$(<$d/code)"
echo "   DerivedExitCode=$(<$d/code)"
echo "   SubmitTime=$(<$d/submit) EligibleTime=$(<$d/submit)"
echo "   StartTime=$(<$d/submit) EndTime=$(<$d/submit) Deadline=N/A"
echo "   NodeList=$(<$d/node)"
echo "   BatchHost=$(<$d/node)"
"#;

const SCANCEL: &str = r#"
for word; do
  [ ! -d "$F/jobs/$word" ] || echo CANCELLED >$F/jobs/$word/state
done
"#;

/// A scripted Slurm.
pub struct Slurm {
    folder: tempfile::TempDir,
}

impl Slurm {
    /// Puts one on the PATH of a place.
    pub fn before(place: &mut Place) -> Self {
        let slurm = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(slurm.path("jobs")).unwrap();
        fs::create_dir(slurm.path("bin")).unwrap();
        slurm.tell("array-size", "1001\n");
        for (name, body) in [
            ("sbatch", SBATCH),
            ("squeue", SQUEUE),
            ("scontrol", SCONTROL),
            ("sacct", SACCT),
            ("scancel", SCANCEL),
        ] {
            let head = HEAD.replace("@F@", &slurm.folder.path().display().to_string());
            install(&slurm.path("bin").join(name), &format!("{head}{body}"));
        }
        place.first_on_path = vec![slurm.path("bin")];
        place.set("OOMCTL_BACKEND", "slurm");
        slurm
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn tell(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn forget(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// Lines of calls of a command.
    pub fn calls(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(&format!("{name}.calls")))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// The attempt that each accepted job belongs to, in order of acceptance.
    pub fn accepted(&self) -> Vec<u32> {
        let mut jobs: Vec<_> = fs::read_dir(self.path("jobs"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        jobs.sort();
        jobs.iter()
            .map(|job| {
                let token = fs::read_to_string(job.join("name")).unwrap();
                let mut parts = token.trim().rsplit('-');
                parts.next();
                parts.next().unwrap().parse().unwrap()
            })
            .collect()
    }
}
