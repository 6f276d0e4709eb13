//! The environment of a run's jobs: what is written down, what is only named, what stays here.

use std::collections::BTreeMap;

use oomctl_base::word_list;

/// Prefixes of variables that belong to the process that submits, not to the job: an outer job's
/// Slurm variables change what sbatch does, the others describe a terminal or login that the job has
/// not.
const NOT_THE_JOBS: [&str; 16] = word_list(
    "SLURM_ SLURMD_ SBATCH_ SALLOC_ SRUN_ SQUEUE_ SACCT_ SCANCEL_ SINFO_ SSH_ XDG_SESSION
     XDG_RUNTIME_DIR DBUS_ TMUX OOMCTL_ STY",
);
/// Whole names of the same kind.
const NOT_THE_JOBS_EXACTLY: [&str; 8] = [
    "_", "TERM", "COLUMNS", "LINES", "DISPLAY", "WINDOWID", "OLDPWD", "PWD",
];
/// Slurm variables that a job keeps.
const KEPT: [&str; 1] = ["SLURM_CONF"];
/// Words in a name that tell of a secret.
const SECRET_WORDS: [&str; 9] =
    word_list("TOKEN SECRET PASSWORD PASSWD PASSPHRASE API_KEY APIKEY CREDENTIAL PRIVATE_KEY");
/// Endings of a name that tell of a secret.
const SECRET_ENDINGS: [&str; 3] = ["_KEY", "_PAT", "_AUTH"];

/// An environment split by what may be written to disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SplitEnvironment {
    /// Variables with their values.
    pub variables: BTreeMap<String, String>,
    /// Names of secrets: every later submission takes their values from its own environment.
    pub secrets: Vec<String>,
}

/// Splits the environment of the first submission. `declared` names are secrets whatever they look
/// like, and are wanted even when they are not set now.
pub fn split(all: &BTreeMap<String, String>, declared: &[String]) -> SplitEnvironment {
    let mut split = SplitEnvironment {
        secrets: declared.to_vec(),
        ..SplitEnvironment::default()
    };
    for (name, value) in all {
        if declared.contains(name) || stays_here(name) || name.contains(['(', '%', '=']) {
            continue;
        }
        if looks_secret(name, value) {
            split.secrets.push(name.clone());
        } else {
            split.variables.insert(name.clone(), value.clone());
        }
    }
    split.secrets.sort();
    split.secrets.dedup();
    split
}

fn stays_here(name: &str) -> bool {
    !KEPT.contains(&name)
        && (NOT_THE_JOBS_EXACTLY.contains(&name)
            || NOT_THE_JOBS.iter().any(|p| name.starts_with(p)))
}

/// A name that tells of a secret, or a value with a password in an address. An empty value is none.
fn looks_secret(name: &str, value: &str) -> bool {
    let upper = name.to_uppercase();
    let by_name = SECRET_WORDS.iter().any(|w| upper.contains(w))
        || SECRET_ENDINGS.iter().any(|e| upper.ends_with(e));
    let switch = matches!(value, "" | "0" | "1" | "true" | "false");
    let in_address = value
        .split_once("://")
        .and_then(|(_, rest)| rest.split(['/', '?']).next())
        .is_some_and(|host| host.contains('@') && host.contains(':'));
    (by_name && !switch) || in_address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_named_and_never_kept() {
        let pairs = [
            ("WANDB_API_KEY", "abc"),
            ("HF_TOKEN", "hf_x"),
            ("MY_DB", "postgres://me:pw@db/x"),
            ("TOKENIZERS_PARALLELISM", "true"),
            ("PATH", "/bin"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_CONF", "/etc/slurm.conf"),
            ("SSH_AUTH_SOCK", "/tmp/x"),
            ("BASH_FUNC_module()", "() { :; }"),
        ];
        let all = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let split = split(&all, &["LICENCE".to_owned()]);
        assert_eq!(
            split.secrets,
            ["HF_TOKEN", "LICENCE", "MY_DB", "WANDB_API_KEY"]
        );
        let kept: Vec<&str> = split.variables.keys().map(String::as_str).collect();
        assert_eq!(kept, ["PATH", "SLURM_CONF", "TOKENIZERS_PARALLELISM"]);
    }
}
