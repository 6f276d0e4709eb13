//! What stands of all that was learned, and what it says about a job.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::LearnedEntry;
use super::job::JobFeatures;

/// Most differences between two jobs of which one is told beside the other.
const DIFFERENCES_MAX: usize = 3;

/// Entries that do not contradict each other, in the order of time. Of two that do, the later one stands.
#[derive(Debug, Clone, Default)]
pub struct LearnedEntries {
    entries: Vec<LearnedEntry>,
    /// The same of the site's other projects: asked only of jobs of which the project itself knows nothing.
    site: Vec<LearnedEntry>,
}

impl LearnedEntries {
    /// What stands of these entries, in any order.
    pub fn new(mut entries: Vec<LearnedEntry>) -> Self {
        entries.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        let mut seen = BTreeSet::new();
        entries.retain(|e| seen.insert(e.id.clone()));
        // Only jobs that are alike in everything but sizes can say something about each other.
        let mut alike: BTreeMap<&BTreeMap<String, String>, Vec<usize>> = BTreeMap::new();
        let mut stands = vec![true; entries.len()];
        for (now, entry) in entries.iter().enumerate() {
            let others = alike.entry(&entry.job.same).or_default();
            others.retain(|before| {
                stands[*before] = !replaces(entry, &entries[*before]);
                stands[*before]
            });
            others.push(now);
        }
        let mut stands = stands.into_iter();
        entries.retain(|_| stands.next().unwrap_or(true));
        Self {
            entries,
            site: Vec::new(),
        }
    }

    /// The same with what projects of the site shared, each told of as `of_site`.
    pub fn with_site(self, site: Self) -> Self {
        Self {
            site: site.entries,
            ..self
        }
    }

    /// All that stands, the site's first, each in the order of time.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &LearnedEntry> {
        self.site.iter().chain(&self.entries)
    }

    /// All that stands, in the order of time.
    pub fn entries(&self) -> &[LearnedEntry] {
        &self.entries
    }

    /// What stands of the newest entries, `most` at most: what is worth keeping.
    pub fn newest(mut self, most: usize) -> Self {
        let surplus = self.entries.len().saturating_sub(most);
        self.entries.drain(..surplus);
        self
    }

    /// The latest attempt that says that this job does not fit: it was no larger, and failed. What the project itself saw
    /// counts before what the site's others did.
    pub fn failed(&self, job: &JobFeatures) -> Option<&LearnedEntry> {
        let own = failed(&self.entries, job);
        own.or_else(|| match fitted(&self.entries, job) {
            None if !self.site.is_empty() => failed(&self.site, &job.anonymous()),
            _ => None,
        })
    }

    /// The latest attempt that says that this job fits: it was no smaller, and fitted. As above.
    pub fn fitted(&self, job: &JobFeatures) -> Option<&LearnedEntry> {
        let own = fitted(&self.entries, job);
        own.or_else(|| match failed(&self.entries, job) {
            None if !self.site.is_empty() => fitted(&self.site, &job.anonymous()),
            _ => None,
        })
    }
}

fn failed<'e>(entries: &'e [LearnedEntry], job: &JobFeatures) -> Option<&'e LearnedEntry> {
    let mut latest = entries.iter().rev();
    latest.find(|e| !e.fitted() && e.job.within(job))
}

fn fitted<'e>(entries: &'e [LearnedEntry], job: &JobFeatures) -> Option<&'e LearnedEntry> {
    let mut latest = entries.iter().rev();
    latest.find(|e| e.fitted() && job.within(&e.job))
}

/// What makes another job of it.
const OTHER_JOB: [&str; 2] = ["program", "model"];

/// Evidence that does not count: a job of the same preset that fitted, but on another backend, GPU or stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Elsewhere<'a> {
    /// The attempt that fitted.
    pub entry: &'a LearnedEntry,
    /// What is different: name, its value there, its value here.
    pub differs: Vec<(String, String, String)>,
}

impl Elsewhere<'_> {
    /// In a sentence.
    pub fn describe(&self) -> String {
        let differs =
            self.differs.iter().map(
                |(name, there, here)| match (there.as_str(), here.as_str()) {
                    ("", here) => format!("without {name} {here}"),
                    (there, "") => format!("with {name} {there}"),
                    (there, here) => format!("with {name} {there} (here {here})"),
                },
            );
        let differs: Vec<String> = differs.collect();
        format!(
            "{} fitted, but {}",
            self.entry.told_by(),
            differs.join(", ")
        )
    }
}

impl LearnedEntries {
    /// The latest attempt that fitted and says nothing of this job, because they differ in something other than
    /// sizes; of several the one that differs least.
    pub fn fitted_elsewhere(&self, job: &JobFeatures) -> Option<Elsewhere<'_>> {
        let differs = |entry: &LearnedEntry| -> Vec<(String, String, String)> {
            let names: BTreeSet<&String> = job.same.keys().chain(entry.job.same.keys()).collect();
            let value =
                |of: &JobFeatures, name: &String| of.same.get(name).cloned().unwrap_or_default();
            names
                .into_iter()
                .map(|n| (n.clone(), value(&entry.job, n), value(job, n)))
                .filter(|(_, there, here)| there != here)
                .chain(job.described_otherwise(&entry.job))
                .collect()
        };
        let preset = |of: &JobFeatures| of.same.get("preset").cloned();
        let mut fitted: Vec<&LearnedEntry> =
            self.entries.iter().rev().filter(|e| e.fitted()).collect();
        fitted.retain(|e| preset(&e.job) == preset(job));
        let all = fitted.into_iter().map(|entry| Elsewhere {
            entry,
            differs: differs(entry),
        });
        // With other words, another program or another model, it is another job, and not this one elsewhere.
        let is_other = |name: &str| name.starts_with("given ") || OTHER_JOB.contains(&name);
        all.filter(|e| (1..=DIFFERENCES_MAX).contains(&e.differs.len()))
            .filter(|e| !e.differs.iter().any(|(name, ..)| is_other(name)))
            .min_by_key(|e| e.differs.len())
    }
}

/// Does a later entry take the place of an earlier one: because it says the same of the same job, or the
/// opposite of what the earlier one implies?
fn replaces(later: &LearnedEntry, earlier: &LearnedEntry) -> bool {
    match (later.fitted(), earlier.fitted()) {
        (true, false) => earlier.job.within(&later.job),
        (false, true) => later.job.within(&earlier.job),
        _ => later.job == earlier.job && later.rungs == earlier.rungs,
    }
}
