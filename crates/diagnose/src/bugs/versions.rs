//! Versions of the packages that a job runs with, as its log says them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};
use semver::Version;
use serde::{Deserialize, Serialize};

use super::number::WrittenVersion;
use crate::ascii::compiled;
use oomctl_base::has_word;

/// The engines of vLLM, by what a log says when one of them starts.
const V0: &str = "vllm-engine-v0";
const V1: &str = "vllm-engine-v1";

/// Bytes at the beginning of a log in which versions are looked for.
const HEAD: u64 = 256 << 10;
/// Versions of one package that are kept: two that differ are none that is known.
const MOST: usize = 2;
/// Lines longer than this are no list of packages and no announcement.
const LONGEST: usize = 2_000;

/// Packages whose versions are looked for, with the names under which they are printed and imported; the first is the
/// one that is installed.
const PACKAGES: &[(&str, &[&str])] = &[
    ("vllm", &["vllm"]),
    ("torch", &["torch", "pytorch"]),
    ("verl", &["verl"]),
    ("trl", &["trl"]),
    ("transformers", &["transformers"]),
    ("flash-attn", &["flash_attn", "flash-attn"]),
    ("sglang", &["sglang"]),
    ("deepspeed", &["deepspeed"]),
    ("accelerate", &["accelerate"]),
    ("peft", &["peft"]),
    ("openrlhf", &["openrlhf"]),
    ("ms-swift", &["ms-swift", "ms_swift", "swift"]),
    ("axolotl", &["axolotl"]),
    (
        "lightning",
        &["lightning", "pytorch-lightning", "pytorch_lightning"],
    ),
    ("slime", &["slime"]),
    ("nemo-rl", &["nemo-rl", "nemo_rl"]),
];

/// Words of a line that speaks of versions which are wanted, not of those which are there.
const WANTED: [&str; 6] = [
    "require",
    "upgrade",
    "recommend",
    "expected",
    "Found existing",
    "Uninstalling",
];

/// What a log says about the versions of packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Versions by package, as printed; none for one of which only the name was seen.
    told: BTreeMap<String, BTreeSet<String>>,
    /// Offset of the first line that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
}

/// What is known of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Telling {
    /// It is this version.
    One(Version),
    /// It is there, in a version that is not known.
    Seen,
    /// Nothing was seen of it.
    Nothing,
}

impl Versions {
    /// What is known of a package.
    pub fn of(&self, package: &str) -> Telling {
        let Some(told) = self.told.get(package) else {
            return Telling::Nothing;
        };
        let mut told = told.iter();
        let one = told.next().filter(|_| told.next().is_none());
        let number = one.and_then(|text| WrittenVersion::read(text));
        number.map_or(Telling::Seen, |number| Telling::One(number.version))
    }

    /// Adds a version of a package; an empty text says only that it is there.
    pub fn tell(&mut self, package: &str, version: &str) {
        let told = self.told.entry(package.to_owned()).or_default();
        if !version.is_empty() && told.len() < MOST {
            told.insert(version.to_owned());
        }
    }

    /// Adds what others say, where nothing is said here: a log knows best what it is of.
    pub fn or(&mut self, others: &Self) {
        for (package, told) in &others.told {
            let here = self.told.entry(package.clone()).or_default();
            if here.is_empty() {
                here.clone_from(told);
            }
        }
    }

    /// Without the packages that none of a job's own texts names. Every message of a GPU's allocator is of PyTorch.
    #[must_use]
    pub fn named_in(mut self, texts: &[&str]) -> Self {
        let is_named = |name: &&str| {
            texts
                .iter()
                .any(|text| has_word(text, name, |c| c.is_alphanumeric() || c == '_'))
        };
        let names = |package: &str| PACKAGES.iter().find(|(known, _)| *known == package);
        self.told.retain(|package, _| {
            package == "torch" || names(package).is_some_and(|(_, all)| all.iter().any(&is_named))
        });
        self
    }

    /// Adds all that another file of the same job says.
    pub(crate) fn and(&mut self, others: &Self) {
        for (package, told) in &others.told {
            self.tell(package, "");
            for version in told {
                self.tell(package, version);
            }
        }
    }

    /// Takes whole lines of a log, the first at `offset`.
    pub(crate) fn take(&mut self, lines: &[u8], offset: u64) {
        let end = self.from.get_or_insert(offset).saturating_add(HEAD);
        let head = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        if head == 0 {
            return;
        }
        // A line that begins in the head is looked at whole, however the bytes were cut.
        let head = match lines.get(..head) {
            Some(_) => memchr::memchr2(b'\n', b'\r', &lines[head - 1..])
                .map_or(lines.len(), |at| head + at),
            None => lines.len(),
        };
        in_lines(&lines[..head.min(lines.len())], |package, version| {
            self.tell(package, version);
        });
    }

    /// What the packages that are installed in an environment say, by the names of what lies in it.
    pub fn installed(names: &[String]) -> Self {
        let mut versions = Self::default();
        for name in names.iter().filter_map(|n| n.strip_suffix(".dist-info")) {
            if let Some((package, version)) = name.rsplit_once('-')
                && let Some(package) = installed_as(package)
            {
                versions.tell(package, version);
            }
        }
        versions
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

/// The version of a package that a line of a log says.
pub fn version_in<'l>(line: &'l str, package: &str) -> Option<&'l str> {
    let mut version = None;
    in_lines(line.as_bytes(), |known, number| {
        let at = line.find(number).unwrap_or_default();
        if same_package(known, package) && !number.is_empty() {
            version = version.or(line.get(at..at + number.len()));
        }
    });
    version
}

/// Names and versions in some lines: a list of packages, a line about a version, a path.
fn in_lines(lines: &[u8], mut found: impl FnMut(&'static str, &str)) {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        let names: Vec<String> = all_names().map(|name| name.replace('_', "[_-]")).collect();
        let names = names.join("|");
        let number = r"v?(?P<number>\d+\.\d+\.\d[0-9A-Za-z.+]*)";
        let between = r"(?: @ |==|-|\.__version__: |[_ ]version(?:: | \.+ | )| version | info: version=| info \.+ |: |[ \t]{2,}|\x{22}: \x{22})";
        compiled(&format!(
            r"(?im)(?:^|[^\w.-])(?P<name>{names})(?:`?{between}{number}|[/\\]\w)"
        ))
    });
    static ENGINE: LazyLock<Regex> = LazyLock::new(|| {
        compiled(
            r"(?P<which>V[01] )?(?P<name>LLM) engine \((?P<number>v\d[^)\s]*)\)|(?P<name2>vLLM) API server version (?P<number2>\d\S*)",
        )
    });
    for captures in NAMED.captures_iter(lines) {
        let text = |name| part(&captures, name);
        let line = line_around(lines, captures.get(0).map_or(0, |m| m.start()));
        if line.len() <= LONGEST
            && !speaks_of_wanted(line)
            && let Some(package) = imported_as(text("name"))
        {
            found(package, text("number"));
        }
    }
    for captures in ENGINE.captures_iter(lines) {
        let number = [part(&captures, "number"), part(&captures, "number2")].concat();
        found("vllm", &number);
        match part(&captures, "which") {
            "V0 " => found(V0, ""),
            "V1 " => found(V1, ""),
            _ => {}
        }
    }
}

fn part<'l>(captures: &Captures<'l>, name: &str) -> &'l str {
    let found = captures.name(name).map(|m| m.as_bytes());
    found
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .unwrap_or_default()
}

fn line_around(lines: &[u8], at: usize) -> &[u8] {
    // The character before a name can be the end of the line before.
    let at = (at + 1).min(lines.len());
    let start = memchr::memrchr2(b'\n', b'\r', &lines[..at]).map_or(0, |end| end + 1);
    let end = memchr::memchr2(b'\n', b'\r', &lines[start..]).map_or(lines.len(), |end| start + end);
    &lines[start..end]
}

fn speaks_of_wanted(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    WANTED.iter().any(|word| line.contains(word))
}

fn all_names() -> impl Iterator<Item = &'static str> {
    PACKAGES.iter().flat_map(|(_, names)| names.iter().copied())
}

/// The package that is printed or imported under a name.
fn imported_as(name: &str) -> Option<&'static str> {
    let named = |known: &&str| same_package(known, name);
    let found = PACKAGES.iter().find(|(_, names)| names.iter().any(&named));
    found.map(|(package, _)| *package)
}

/// The package that is installed under a name.
fn installed_as(name: &str) -> Option<&'static str> {
    imported_as(name).filter(|package| *package != "ms-swift" || !same_package(name, "swift"))
}

/// Whether two names are those of one package, as PEP 503 has it.
pub fn same_package(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.replace(['_', '.'], "-").to_ascii_lowercase();
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(log: &str) -> Versions {
        let mut versions = Versions::default();
        versions.take(log.as_bytes(), 0);
        versions
    }

    fn one(version: &str) -> Telling {
        Telling::One(Version::parse(version).unwrap())
    }

    #[test]
    fn a_log_says_versions_in_many_ways() {
        for (line, package, expected) in [
            ("vllm==0.8.1", "vllm", "0.8.1"),
            ("[pip3] torch==2.10.0+cu128", "torch", "2.10.0"),
            ("PyTorch version: 2.5.1+cu121", "torch", "2.5.1"),
            (
                "[INFO:swift] swift.__version__: 3.12.2",
                "ms-swift",
                "3.12.2",
            ),
            (
                "INFO 03-19 11:02:10 [core.py:53] Initializing a V1 LLM engine (v0.8.1) with config: model='m'",
                "vllm",
                "0.8.1",
            ),
            (
                "INFO 12-20 20:08:03 llm_engine.py:234] Initializing an LLM engine (v0.6.6.dev38+gd573aead) with config",
                "vllm",
                "0.6.6",
            ),
            (
                "INFO 06-01 10:00:00 [api_server.py:1034] vLLM API server version 0.8.5",
                "vllm",
                "0.8.5",
            ),
            ("transformers              4.51.3", "transformers", "4.51.3"),
            ("- `transformers` version: 4.50.3", "transformers", "4.50.3"),
            (
                "[2026-02-01 10:00:00,000] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed info: version=0.16.4, git-hash=unknown",
                "deepspeed",
                "0.16.4",
            ),
            (
                "deepspeed info ................... 0.16.4, unknown, unknown",
                "deepspeed",
                "0.16.4",
            ),
            (
                "Successfully installed accelerate-1.6.0 flash-attn-2.7.2.post1",
                "flash-attn",
                "2.7.2",
            ),
            (
                "Successfully installed accelerate-1.6.0 flash-attn-2.7.2.post1",
                "accelerate",
                "1.6.0",
            ),
            (
                "found /env/lib/python3.11/site-packages/flash_attn-2.7.2.dist-info",
                "flash-attn",
                "2.7.2",
            ),
            (
                "O^O/ \\_/ \\    Torch: 2.6.0+cu124. CUDA: 8.0",
                "torch",
                "2.6.0",
            ),
        ] {
            assert_eq!(versions(line).of(package), one(expected), "{line}");
        }
    }

    #[test]
    fn what_is_installed_and_never_named_is_left_out() {
        let mut all = Versions::default();
        for package in ["torch", "trl", "lightning", "flash-attn"] {
            all.tell(package, "1.0.0");
        }
        let left = all.named_in(&["import pytorch_lightning as pl", "control = 1  # no trl_x"]);
        assert_eq!(left.of("torch"), one("1.0.0"));
        assert_eq!(left.of("lightning"), one("1.0.0"));
        assert_eq!(left.of("trl"), Telling::Nothing);
        assert_eq!(left.of("flash-attn"), Telling::Nothing);
    }

    #[test]
    fn a_path_says_only_that_a_package_is_there() {
        let log = "  File \"/env/lib/python3.11/site-packages/vllm/worker/worker.py\", line 140, in wake_up\n";
        assert_eq!(versions(log).of("vllm"), Telling::Seen);
        assert_eq!(versions(log).of("torch"), Telling::Nothing);
    }

    #[test]
    fn what_is_wanted_or_disagrees_is_no_version() {
        for log in [
            "verl 0.4.0 requires vllm==0.8.2, but you have another one",
            "Please upgrade to vllm==0.9.0",
            "pip install vllm>=0.8",
            "Downloading vllm-project/models",
        ] {
            assert!(
                !matches!(versions(log).of("vllm"), Telling::One(_)),
                "{log}"
            );
        }
        let both = "vllm==0.8.1\nInitializing a V1 LLM engine (v0.8.2) with config\n";
        assert_eq!(versions(both).of("vllm"), Telling::Seen);
        let replaced = "Found existing installation: vllm 0.7.3\n  Uninstalling vllm-0.7.3:\nSuccessfully installed vllm-0.8.2\n";
        assert_eq!(versions(replaced).of("vllm"), one("0.8.2"));
    }

    #[test]
    fn only_the_head_is_looked_at_and_the_log_comes_before_the_environment() {
        let mut far = Versions::default();
        far.take(b"hello\n", 0);
        far.take(b"vllm==0.8.1\n", HEAD);
        assert_eq!(far.of("vllm"), Telling::Nothing);
        let names = ["vllm-0.8.2.dist-info", "torch-2.6.0.dist-info"].map(str::to_owned);
        let mut log = versions("vllm==0.8.1");
        log.or(&Versions::installed(&names));
        assert_eq!(log.of("vllm"), one("0.8.1"));
        assert_eq!(log.of("torch"), one("2.6.0"));
    }

    #[test]
    fn it_does_not_matter_how_lines_are_cut() {
        let line = "x".repeat(99) + "\n";
        let log = line.repeat(2_621)
            + "vllm==0.8.1 is what runs here, in the last line of the head\ntorch==2.6.0\n";
        let whole = versions(&log);
        let mut cut = Versions::default();
        let mut offset = 0;
        for line in log.split_inclusive('\n') {
            cut.take(line.as_bytes(), offset);
            offset += line.len() as u64;
        }
        assert_eq!(whole, cut);
        assert_eq!(whole.of("vllm"), one("0.8.1"));
        assert_eq!(whole.of("torch"), Telling::Nothing);
    }
}
