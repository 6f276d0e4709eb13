//! Whose a process is.

/// The Slurm job that a process belongs to, by its `/proc/PID/cgroup`.
///
/// Slurm's plugins write, by version of cgroups and with or without several slurmd on a node
/// (cgroup.conf(5), "cgroup v2 plugin" of Slurm's documentation):
///
/// ```text
/// 4:memory:/slurm/uid_1000/job_4711/step_0/task_0
/// 4:memory:/slurm_node1/uid_1000/job_4711/step_batch
/// 0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0
/// 0::/system.slice/node1_slurmstepd.scope/job_4711/step_extern/user/task_special
/// 0::/../job_4711/step_0/user                    seen from inside another cgroup namespace
/// ```
pub fn slurm_job(cgroups: &str) -> Option<String> {
    cgroups.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let mut before = "";
        let mut words = path.split('/').peekable();
        while let Some(word) = words.next() {
            let of_slurm = before.contains("slurm") || before.starts_with("uid_");
            let has_steps = words.peek().is_some_and(|w| w.starts_with("step_"));
            if let Some(id) = word.strip_prefix("job_")
                && (of_slurm || has_steps)
                && !id.is_empty()
                && id.bytes().all(|b| b.is_ascii_digit())
            {
                return Some(id.to_owned());
            }
            before = word;
        }
        None
    })
}

/// The name of a user id in the lines of passwd(5).
pub fn user_name(passwd: &str, uid: u32) -> Option<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|n| !n.is_empty())?;
        let id: u32 = fields.nth(1)?.parse().ok()?;
        (id == uid).then(|| name.to_owned())
    };
    passwd.lines().find_map(name)
}

/// A command line as people read it, from the bytes of `/proc/PID/cmdline`: at most `most` characters, without
/// control characters. `None` where there is none, as for a process that has ended.
pub fn command_line(bytes: &[u8], most: usize) -> Option<String> {
    let words: Vec<_> = bytes
        .split(|b| *b == 0)
        .filter(|word| !word.is_empty())
        .map(String::from_utf8_lossy)
        .collect();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = words.join(" ").chars().map(plain).take(most).collect();
    (!line.trim().is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_found_in_every_form_of_slurms_cgroups() {
        for line in [
            "4:memory:/slurm/uid_1000/job_4711/step_0/task_0",
            "9:devices:/slurm_node1/uid_1000/job_4711/step_batch",
            "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0",
            "0::/system.slice/node1_slurmstepd.scope/job_4711/step_extern/user/task_special",
            "0::/../job_4711/step_0/user",
            "12:cpuset:/\n4:memory:/slurm/uid_0/job_4711\n1:name=systemd:/system.slice/slurmd.service",
        ] {
            assert_eq!(slurm_job(line).as_deref(), Some("4711"), "{line}");
        }
    }

    #[test]
    fn other_cgroups_are_no_jobs() {
        for line in [
            "",
            "0::/",
            "0::/user.slice/user-1000.slice/session-3.scope",
            "0::/user.slice/job_7",
            "0::/slurm/uid_1000/job_x",
            "0::/slurm/uid_1000/job_",
            "0::/docker/4711",
            "nonsense",
        ] {
            assert_eq!(slurm_job(line), None, "{line}");
        }
    }

    #[test]
    fn users_have_the_names_of_passwd() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nbroken\n:x:5:\nanna:x:1000:1000::/home/anna:\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("anna"));
        assert_eq!(user_name(passwd, 5), None);
        assert_eq!(user_name(passwd, 7), None);
    }

    #[test]
    fn a_command_line_is_one_bounded_line() {
        let line = |bytes| command_line(bytes, 12);
        assert_eq!(line(b"python\0train.py\0").as_deref(), Some("python train"));
        assert_eq!(line(b"a\x1b[2J\0\0b\n").as_deref(), Some("a [2J b "));
        assert_eq!(line(b""), None);
        assert_eq!(line(b"\0\0"), None);
    }
}
