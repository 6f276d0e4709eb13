//! What a job dies of before its program begins, or without a word of the program: the node's own files, Python's
//! search for a module, the shell, containers.

use super::row::{SPECIFIC, Signature, weight};

/// What ends a script at once, unless something heavier is said.
const START: Signature = Signature {
    weight: weight::NETWORK,
    any_level: true,
    ..SPECIFIC
};

const CONFIG: Signature = Signature {
    kind: "config",
    phase: Some("init"),
    ..START
};

pub(super) const TABLE: &[Signature] = &[
    Signature {
        id: "node_lost_the_script",
        kind: "node_failure",
        literals: &["error: execve(): "],
        pattern: Some(r"error: execve\(\): \S*/slurm_script: "),
        phase: Some("init"),
        source: "slurmstepd, 2.x to 26.05: the copy of the script in the node's own folder is gone or cannot be run",
        example: "slurmstepd: error: execve(): /var/spool/slurmd/job04711/slurm_script: No such file or directory",
        ..START
    },
    Signature {
        id: "python_no_module",
        literals: &[
            "No module named ",
            "Error while finding module specification for ",
        ],
        pattern: Some(
            r"^\S*python\S*: (?:No module named \S|Error while finding module specification for )",
        ),
        source: "CPython 3.x runpy.py, of `python -m`",
        example: "/usr/bin/python3: No module named verl",
        ..CONFIG
    },
    Signature {
        id: "shell_unbound_variable",
        kind: "code_bug",
        literals: &[": unbound variable", ": parameter not set"],
        pattern: Some(r"^\S+: .*\w\]?: (?:unbound variable|parameter not set)\s*$"),
        source: "bash, dash and zsh with `set -u`",
        example: "/var/spool/slurmd/job04711/slurm_script: line 12: DATA_DIR: unbound variable",
        ..START
    },
    Signature {
        id: "container_not_started",
        literals: &[
            "FATAL:   ",
            "error: pyxis: ",
            "docker: Error response from daemon: ",
            "OCI runtime create failed",
            "OCI runtime exec failed",
        ],
        pattern: Some(
            r"^FATAL:   \S|error: pyxis: |^docker: Error response from daemon: |OCI runtime (?:create|exec) failed",
        ),
        source: "Apptainer and Singularity 3 and 4; pyxis 0.11 to 0.20; Docker and runc",
        example: "FATAL:   could not open image /scratch/images/torch.sif: failed to retrieve path for /scratch/images/torch.sif: lstat /scratch/images/torch.sif: no such file or directory",
        ..CONFIG
    },
    Signature {
        id: "bus_error",
        weight: weight::SPECIFIC,
        literals: &[
            "Bus error",
            "Signals.SIGBUS",
            "Signal 7 (SIGBUS)",
            "(exitcode: -7)",
        ],
        pattern: Some(
            r"^\s*Bus error(?: \(core dumped\))?\s*$|: +(?:line \d+: +)?\d+ Bus error\b|error: Bus error|SIGBUS|exitcode: -7",
        ),
        source: "bash, CPython faulthandler and subprocess, torchrun: memory that a file or a device stands behind could not be read",
        example: "/var/spool/slurmd/job04711/slurm_script: line 31: 48151 Bus error               (core dumped) python3 train.py",
        ..START
    },
];
