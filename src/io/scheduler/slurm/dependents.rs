//! Jobs of the user's that wait for the end of one of ours.
//!
//! With `afterok` on a job that failed they wait for ever (`DependencyNeverSatisfied`); what they wait for can be changed all the
//! same (Slurm 22.05, tests/slurm).

use super::super::{Dependent, NoAnswer};
use super::clients::{Clients, on_cluster};
use super::parse;
use oomctl_base::job::{JobId, JobRef};

/// Names of jobs that are ours: an attempt that waits for the one before, a watch job.
const OURS: &str = "oomctl-";

/// The jobs that wait for `job`; none where squeue does not answer.
pub(super) fn waiting(clients: &Clients, job: &JobRef) -> Vec<Dependent> {
    let mut words = on_cluster(job.cluster.as_deref());
    words.extend(["-h", "--me", "-t", "PD", "-o", "%i|%E|%j"].map(str::to_owned));
    let text = clients.answer("squeue", &words);
    text.map_or_else(|_| Vec::new(), |text| read(&text, &job.id))
}

/// Lets a job wait for `to` where it waits for `from`.
pub(super) fn redirect(
    clients: &Clients,
    dependent: &Dependent,
    from: &JobId,
    to: &JobRef,
) -> Result<(), NoAnswer> {
    let mut words = on_cluster(to.cluster.as_deref());
    words.extend([
        "update".to_owned(),
        format!("JobId={}", dependent.id),
        format!(
            "Dependency={}",
            redirected(&dependent.waits_for, from, &to.id)
        ),
    ]);
    clients.answer("scontrol", &words).map(drop)
}

fn read(text: &str, job: &JobId) -> Vec<Dependent> {
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, '|');
        let (id, waits_for, name) = (fields.next()?, fields.next()?, fields.next()?);
        let theirs = parse::is_job_id(id) && !name.starts_with(OURS);
        (theirs && conditions(waits_for).any(|c| c.of == Some(&job.0))).then(|| Dependent {
            id: JobId(id.to_owned()),
            waits_for: waits_for.to_owned(),
        })
    });
    rows.collect()
}

/// One condition of a dependency as squeue prints it.
struct Condition<'a> {
    /// `afterok`, or the whole of it where it names no job (`singleton`).
    kind: &'a str,
    /// The job.
    of: Option<&'a str>,
    /// Minutes after that, with their sign (`+5`).
    delay: &'a str,
    /// What separates it from the next.
    separator: &'a str,
}

fn conditions(text: &str) -> impl Iterator<Item = Condition<'_>> {
    text.split_inclusive([',', '?']).map(|part| {
        let end = part.len() - usize::from(part.ends_with([',', '?']));
        let (part, separator) = part.split_at(end);
        // How it stands with it comes in brackets.
        let asked = part.split('(').next().unwrap_or_default();
        let (kind, job) = asked.split_once(':').unwrap_or((asked, ""));
        let (of, delay) = job.split_at(job.find('+').unwrap_or(job.len()));
        Condition {
            kind,
            of: Some(of).filter(|of| !of.is_empty()),
            delay,
            separator,
        }
    })
}

/// The dependency in sbatch's form, with another job in the place of `from`.
fn redirected(text: &str, from: &JobId, to: &JobId) -> String {
    let asked = conditions(text).map(|condition| {
        let Condition {
            kind,
            of,
            delay,
            separator,
        } = condition;
        match of {
            Some(of) if of == from.0 => format!("{kind}:{to}{delay}{separator}"),
            Some(of) => format!("{kind}:{of}{delay}{separator}"),
            None => format!("{kind}{separator}"),
        }
    });
    asked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::table;

    /// As squeue of 22.05 prints them (`-o '%i|%E|%j'`).
    const PENDING: &str = "\
2239|afterok:2238(failed)|evaluate
2240|afterok:2238(failed),afternotok:9(unfulfilled)|report|of
2241|(null)|other
2242|afterok:22380(unfulfilled)|not this one
2243|afterany:2238(unfulfilled)|oomctl-watch-nightly
2244|singleton(unfulfilled)|one at a time
";

    #[test]
    fn jobs_of_others_that_wait_are_found_and_ours_are_not() {
        let found = read(PENDING, &JobId("2238".into()));
        let ids: Vec<&str> = found.iter().map(|d| d.id.0.as_str()).collect();
        assert_eq!(ids, ["2239", "2240"]);
    }

    #[test]
    fn a_dependency_keeps_everything_but_the_job_that_was_replaced() {
        let (from, to) = (JobId("2238".into()), JobId("2250".into()));
        for [printed, asked] in table::<2, 5>(
            "
            afterok:2238(failed) | afterok:2250
            afterok:2238(failed),afternotok:9(unfulfilled) | afterok:2250,afternotok:9
            afterok:22380(unfulfilled)?afterany:2238(unfulfilled) | afterok:22380?afterany:2250
            singleton(unfulfilled),afterok:2238(failed) | singleton,afterok:2250
            after:2238+5(unfulfilled),aftercorr:9_*(unfulfilled) | after:2250+5,aftercorr:9_*
            ",
        ) {
            assert_eq!(redirected(printed, &from, &to), asked);
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in [
            "",
            "|",
            "1||",
            "1|:|x",
            "1|,,?|x",
            "1|a:(|x",
            "é|é:é|é",
            "1|a:,b",
        ] {
            read(text, &JobId("1".into()));
            redirected(text, &JobId("1".into()), &JobId("2".into()));
        }
    }
}
