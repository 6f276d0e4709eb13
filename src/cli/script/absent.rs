//! Programs that a script starts and that are not there, or cannot begin.
//!
//! Rule: a path that the script may make, or that lies in another file system, is not known to be missing.

use std::collections::BTreeMap;
use std::path::Path;

use super::read::nearest_file;
use crate::core::request::Request;
use oomctl_base::word_list;
use oomctl_scripts::{Adoption, Call, CallTarget, SCRIPT, directives, is_shell};

/// What starts a program elsewhere.
const ELSEWHERE: [&str; 14] = word_list(
    "apptainer singularity docker podman enroot shifter ch-run kubectl ssh --container
    --chdir --directory --cwd -D",
);

/// Commands that may put a file where a later one looks for it.
const MAKERS: [&str; 14] =
    word_list("git cp mv ln tar unzip wget curl rsync scp sbcast rclone jupyter make");

/// Commands, and scripts that are sourced, which put no file where a program is looked for.
const HARMLESS: [&str; 56] = word_list(
    "nvidia-smi rocm-smi nvcc hostname date mkdir rm sleep env printenv which type command lscpu free df du pwd ls whoami id
    uname conda mamba micromamba pip pip3 scontrol squeue sinfo seff head tail cat sort grep awk sed cut wc tr seq bc
    basename dirname realpath logger kill stty tput activate conda.sh mamba.sh .bashrc bashrc profile",
);

/// What is said of each of them behind its path: the place that names it, and the file that may be meant.
pub fn absent(request: &Request, adoption: &Adoption<'_>) -> BTreeMap<String, String> {
    let workdir = Path::new(&request.inputs().workdir);
    let reading = &adoption.reading;
    let scripts = shell_texts(adoption);
    if scripts.iter().any(|text| makes(text)) {
        return BTreeMap::new();
    }
    let missing = reading.calls.iter().filter_map(|call| {
        let path = call.program.as_ref()?;
        let made = reading.created.contains_key(path) || scripts.iter().any(|s| asks(s, path));
        if made || path.contains('$') || is_elsewhere(call) || !is_nowhere(workdir, path) {
            return None;
        }
        let place = call.start.and_then(|span| reading.place(span));
        let word = call.words.get(call.args.checked_sub(1)?)?.text.place();
        let place = word.and_then(|span| reading.place(span)).or(place);
        let place: String = place.map(|p| format!(" ({p})")).unwrap_or_default();
        let meant = meant(&workdir.join(path)).unwrap_or_default();
        Some((path.clone(), format!("{place}{meant}")))
    });
    missing.collect()
}

/// Why none of the programs of a job can begin, where that is certain: it is not there, it refuses a word, or is given a file of
/// settings that is not there and that nothing else in the scripts names.
pub fn fails_at_once(request: &Request, adoption: &Adoption<'_>) -> Option<String> {
    if is_open(adoption) {
        return None;
    }
    let workdir = Path::new(&request.inputs().workdir);
    let absent = absent(request, adoption);
    let scripts = shell_texts(adoption);
    let reading = &adoption.reading;
    let missing = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let named = scripts.iter().map(|text| text.matches(name).count());
        named.sum::<usize>() <= 1 && is_of_job(path) && is_missing(&workdir.join(path))
    };
    let why = |call: &Call| {
        let program = call.program.as_ref()?;
        if is_elsewhere(call) || reading.rewritten.contains(program) || !is_of_job(program) {
            return None;
        }
        if let Some(said) = absent.get(program) {
            // Of a program of which nothing is here nobody knows that the nodes lack it, too.
            let is_near = meant(&workdir.join(program)).is_some();
            return is_near.then(|| format!("file not found: {program}{said}"));
        }
        let refused = adoption.refused_of(call).into_iter().next();
        refused.or_else(|| {
            let path = adoption.missing_settings(call).find(missing)?;
            let meant = meant(&workdir.join(path)).unwrap_or_default();
            Some(format!("file not found: {path}{meant}"))
        })
    };
    let calls = reading.calls.iter().filter(|call| !is_harmless(call));
    let reasons: Option<Vec<String>> = calls.map(why).collect();
    reasons?.into_iter().next()
}

/// Whether a file has the script; one that sbatch got with `--wrap` has none.
pub fn is_in_file(request: &Request) -> bool {
    let scripts = request.inputs().scripts.as_ref();
    scripts.is_some_and(|s| request.workdir().join(&s.script).is_file())
}

/// Whether a job may find other files than those that are here now: something may make them, or it begins in another folder, in
/// a container, or after another job.
fn is_open(adoption: &Adoption<'_>) -> bool {
    let reading = &adoption.reading;
    let unknown = |name: &String| !HARMLESS.contains(&name.as_str());
    let option =
        |name: &str| ["dependency", "chdir"].contains(&name) || name.starts_with("container");
    reading.cut
        || !reading.faults.is_empty()
        || reading.unfollowed.iter().any(unknown)
        || directives(reading).iter().any(|d| option(&d.option))
        || shell_texts(adoption).iter().any(|text| makes(text))
}

/// Whether a path is the job's own, from the folder in which it begins.
fn is_of_job(path: &str) -> bool {
    !path.starts_with(['/', '~']) && !path.contains('$')
}

fn is_harmless(call: &Call) -> bool {
    matches!(&call.target, CallTarget::Program(name) if HARMLESS.contains(&name.as_str()))
}

/// The shell scripts of a job.
fn shell_texts<'a>(adoption: &'a Adoption<'_>) -> Vec<&'a str> {
    let scripts = adoption.reading.sources.iter().skip(SCRIPT);
    let scripts = scripts.map(|source| source.text.as_str());
    scripts.filter(|text| is_shell(text)).collect()
}

/// Whether a folder is here and such a file is not in it.
fn is_missing(path: &Path) -> bool {
    let folder = path.parent().is_some_and(Path::is_dir);
    folder && matches!(path.try_exists(), Ok(false))
}

/// The same of a path that may be the job's own: its folder may be missing too, where the job's is here.
fn is_nowhere(workdir: &Path, path: &str) -> bool {
    let full = workdir.join(path);
    let is_own = is_of_job(path) && workdir.is_dir();
    is_missing(&full) || is_own && matches!(full.try_exists(), Ok(false))
}

fn makes(text: &str) -> bool {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let mut words = code.flat_map(|line| line.split([' ', '\t', ';', '(', '&', '|', '`']));
    words.any(|word| MAKERS.contains(&word.rsplit('/').next().unwrap_or(word)))
}

/// Whether a script looks whether the file is there.
fn asks(text: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut lines = text.lines().filter(|line| line.contains(name));
    lines.any(|line| line.contains("[ ") || line.contains("test "))
}

fn is_elsewhere(call: &Call) -> bool {
    let before = call.words.iter().take(call.args);
    let mut before = before.chain(&call.around).map(|word| word.text.text());
    before.any(|word| ELSEWHERE.iter().any(|name| word.contains(name)))
}

/// What is said of the file of the same kind beside it that may be meant.
fn meant(path: &Path) -> Option<String> {
    let folder = std::fs::read_dir(path.parent()?).ok()?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ending = path.extension();
    let names = names.filter(|name| Path::new(name).extension() == ending);
    let mut names: Vec<String> = names.collect();
    names.sort();
    nearest_file(path, &names).map(|name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_makes_files_or_looks_for_them_leaves_open_what_is_there() {
        for text in [
            "git clone x && cd x",
            "a;cp b c",
            "x=$(/usr/bin/curl u)",
            "tar xf a.tar",
        ] {
            assert!(makes(text), "{text}");
        }
        for text in ["# cp a b", "python cp.py", "echo scp_host"] {
            assert!(!makes(text), "{text}");
        }
        assert!(asks("[ -f train.py ] || exit 1", "a/train.py"));
        assert!(!asks("python train.py", "a/train.py"));
    }
}
