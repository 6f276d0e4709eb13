//! The files of an attempt of a user's own script.

use super::array::TaskList;
use crate::core::render::{AttemptPlace, RenderedFile, shell_word};
use oomctl_scripts::{
    Adoption, CopyPlace, DIFF_CONTEXT, Patch, PatchError, Placed, SCRIPT, is_shell, unified_diff,
};

/// Name of the file that lets one job an attempt begin.
pub const CLAIM: &str = "claim.sh";
/// Name of the file that starts the sampler of the GPUs' memory.
const SAMPLER: &str = "sampler.sh";
/// Name of the file that shows what was changed.
pub const PATCH: &str = "patch.diff";
/// Names in an attempt's folder that copies of scripts do not get.
const TAKEN: [&str; 13] = [
    CLAIM,
    SAMPLER,
    PATCH,
    "claim",
    "changes.diff",
    "recipe.json",
    "verdict.json",
    "follow.jsonl",
    "slurm.out",
    "slurm.err",
    "peaks.json",
    "sampler.log",
    "watch.log",
];

/// The script that lets one job an attempt begin: the first to create the file goes on. A requeued job finds its own
/// id. It is run by a shell of its own, so that nothing stays in the user's script.
const CLAIM_TEXT: &str = r#"# One job an attempt. A submission whose answer was lost may have made two.
claim="${0%/*}/claim"
id="${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID:-}}"
id="${id:-${SLURM_JOB_ID:-${OOMCTL_JOB_ID:-${FLUX_ENCLOSING_ID:-${PBS_JOBID:-}}}}}"
# Flux writes its ids with this letter where the locale has it.
case "$id" in ƒ*) id="f${id#ƒ}" ;; esac
why="$( (set -C && printf '%s\n' "$id" >"$claim") 2>&1)" && exit 0
# On a full disk the file is there and empty.
if [ ! -s "$claim" ]; then
  printf 'oomctl: cannot write %s: %s\n' "$claim" "${why##*: }" >&2
  exit 1
fi
read -r first <"$claim"
if [ "$first" != "$id" ]; then
  printf 'oomctl: this attempt is already claimed by job %s; this duplicate ends\n' "$first" >&2
  exit 1
fi
"#;

/// The script that starts the sampler on every node, for as long as the process runs whose number it is told. Whatever
/// becomes of it, the job does not notice; the samplers of several nodes end with the job.
const SAMPLER_TEXT: &str = r#"# Samples of the GPUs' memory go into this folder.
folder="${0%/*}"
nodes="${SLURM_JOB_NUM_NODES:-1}"
[ -x "$oomctl" ] || exit 0
if [ "$nodes" -gt 1 ] 2>/dev/null; then
  (srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --cpus-per-task=1 --overlap --export=ALL --mpi=none \
    --input=none --kill-on-bad-exit=0 --wait=0 "$oomctl" probe --dir "$folder" &) </dev/null >>"$folder/sampler.log" 2>&1
else
  ("$oomctl" probe --dir "$folder" --pid "$1" &) </dev/null >>"$folder/sampler.log" 2>&1
fi
exit 0
"#;

/// The files of an attempt: the submitted script first, copies of what is changed, and the diff. `name` is what the job
/// was to be called, `array` the list of its array's tasks, `sampled` whether the memory of its GPUs is sampled.
///
/// # Errors
/// Scripts that cannot call copies of each other.
pub fn files(
    adoption: &Adoption<'_>,
    patch: &Patch,
    at: &AttemptPlace,
    (name, array): (&str, Option<&str>),
    sampled: bool,
) -> Result<Vec<RenderedFile>, Vec<PatchError>> {
    let script = adoption.reading.sources.get(SCRIPT);
    let shell = script.is_some_and(|s| is_shell(&s.text));
    let refused = |why| vec![PatchError::new("", why)];
    let sampler = at.program.as_ref().filter(|_| shell && sampled);
    let head = match shell {
        true => Some(head(at, (name, array), sampler.is_some()).map_err(refused)?),
        false => None,
    };
    let sampler = sampler.map(|program| sampler_text(program)).transpose();
    let sampler = sampler.map_err(refused)?;
    let place = CopyPlace {
        folder: &at.dir,
        workdir: &at.workdir,
        taken: &TAKEN,
        head: head.as_deref(),
        runs_in_place: !["slurm", "flux", "pbs"].contains(&at.backend.as_str()),
    };
    let placed = adoption.placed(patch, &place)?;
    let mut files = Vec::new();
    for (number, copy) in placed.files.iter().enumerate() {
        files.push(RenderedFile {
            name: copy.name.clone(),
            text: copy.text.clone(),
            entry: number == 0,
            original: Some(copy.original.clone()),
        });
    }
    let further = [
        (CLAIM, shell.then(|| CLAIM_TEXT.to_owned())),
        (SAMPLER, sampler),
        (PATCH, Some(diff(patch, &placed))),
    ];
    for (name, text) in further {
        files.extend(text.map(|text| RenderedFile {
            name: name.to_owned(),
            text,
            entry: false,
            original: None,
        }));
    }
    Ok(files)
}

fn sampler_text(program: &str) -> Result<String, String> {
    let text = SAMPLER_TEXT.replacen(
        "folder=",
        &format!("oomctl={}\nfolder=", shell_word(program)?),
        1,
    );
    Ok(text)
}

/// The line that a script gets. The scheduler knows the job by its token; the script by the name that it was given.
fn head(
    at: &AttemptPlace,
    (name, array): (&str, Option<&str>),
    sampled: bool,
) -> Result<String, String> {
    let claim = shell_word(&format!("{}/{CLAIM}", at.dir))?;
    let run = format!(
        "OOMCTL_RUN={} OOMCTL_ATTEMPT={}",
        shell_word(&at.run)?,
        at.number
    );
    let named = match at.backend.as_str() {
        "slurm" => {
            let array = array.and_then(TaskList::read).and_then(|l| l.variables());
            let array = array.map_or_else(String::new, |told| format!(" {told}"));
            format!("export SLURM_JOB_NAME={}{array} {run}; ", shell_word(name)?)
        }
        _ => format!("export {run}; "),
    };
    let sampler = match sampled {
        true => {
            let (folder, file) = (
                shell_word(&at.dir)?,
                shell_word(&format!("{}/{SAMPLER}", at.dir))?,
            );
            format!("; export OOMCTL_ATTEMPT_DIR={folder}; sh {file} \"$$\"")
        }
        false => String::new(),
    };
    Ok(format!(
        "{named}sh {claim} || exit 75{sampler} # oomctl: attempt {}, {}",
        at.number, at.token
    ))
}

/// What differs from the user's own files, and from how they were submitted.
fn diff(patch: &Patch, placed: &Placed) -> String {
    let mut all = patch.submission_diff();
    for copy in &placed.files {
        let names = (copy.original.as_str(), copy.name.as_str());
        all += &unified_diff(names, &copy.before, &copy.text, DIFF_CONTEXT);
    }
    all
}
