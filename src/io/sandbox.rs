//! Where a program is measured: without a network, its writes in a folder of memory that goes with it, and none of its
//! processes after it. What the kernel does not allow is left out and said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use rustix::fs::{Access, access};

use crate::core::render::shell_word;
use oomctl_base::word_list;

/// The most folders whose writes are kept apart.
const MOST_PLACES: usize = 16;
/// Of the memory that the program may take of this machine, the part that its files may take.
const SHARE_OF_FILES: u64 = 4;
/// The name of the script that sets the sandbox up.
const SCRIPT: &str = "start.sh";
/// What is the program's own: its mounts, its network, its processes; or its network alone.
const WHOLE: [&str; 6] = word_list("--mount --net --pid --fork --kill-child --mount-proc");
const NETWORK: [&str; 1] = ["--net"];
/// How each is asked for as root, and as another user.
const WHOLE_AS: [&[&str]; 2] = [&[], &["--map-root-user"]];
const NETWORK_AS: [&[&str]; 2] = [&[], &["--map-current-user", "--keep-caps"]];

/// What is run in it.
#[derive(Debug, Clone, Copy)]
pub struct Sandboxed<'a> {
    /// The program and its words.
    pub command: &'a [String],
    /// The folder in which it runs.
    pub folder: &'a Path,
    /// Files that it finds.
    pub files: &'a [(PathBuf, String)],
    /// The most memory of this machine that it may take.
    pub host_bytes: u64,
}

/// What stands before a program, and what that changes.
#[derive(Debug, Default)]
pub struct Sandbox {
    /// The words before the program.
    pub words: Vec<String>,
    /// It has no network but the machine itself.
    pub network_off: bool,
    /// What it writes goes with it.
    pub scratch: bool,
    /// What differs from a run without it, for people.
    pub said: Vec<String>,
}

impl Sandbox {
    /// The strongest that works here. `folder` is ours, and holds what it needs.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(asked: &Sandboxed<'_>, folder: &Path) -> io::Result<Self> {
        let mut made = Self::default();
        let places = places(asked);
        let script = folder.join(SCRIPT);
        let refused = refusal(&places, folder);
        if refused.is_none() {
            fs::write(&script, setup(asked, folder, &places)?)?;
        }
        let start = |user: &&[&str]| {
            let mut words = unshare(user, &WHOLE);
            words.extend(["sh".to_owned(), script.display().to_string()]);
            words
        };
        let whole = WHOLE_AS
            .iter()
            .map(start)
            .find(|words| refused.is_none() && works(words));
        made.scratch = whole.is_some();
        let network = || {
            NETWORK_AS
                .iter()
                .map(|user| unshare(user, &NETWORK))
                .find(|words| works(words))
        };
        made.words = whole.or_else(network).unwrap_or_default();
        made.network_off = !made.words.is_empty();
        if !made.scratch {
            let folder = asked.folder.display().to_string();
            made.words.extend(owned(&["env", "-C", &folder]));
        }
        made.say(&places, refused);
        if works(&owned(&["nice", "-n", "10"])) {
            made.words.extend(owned(&["nice", "-n", "10"]));
        }
        Ok(made)
    }

    fn say(&mut self, places: &[PathBuf], refused: Option<String>) {
        let network = match self.network_off {
            true => "network: off, but for the machine itself",
            false => "network: left on, for this kernel does not let us turn it off",
        };
        let names: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        let why = refused.unwrap_or_else(|| "this kernel allows no mounts of our own".to_owned());
        let files = match self.scratch {
            true => format!(
                "files: what is written below {} is gone afterwards",
                names.join(", ")
            ),
            false => format!("files: written where the program writes them, for {why}"),
        };
        self.said.extend([network.to_owned(), files]);
    }
}

fn unshare(user: &[&str], own: &[&str]) -> Vec<String> {
    owned(&[&["unshare"], user, own, &["--"]].concat())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Does it run a program that does nothing, with these words before it?
pub fn works(words: &[String]) -> bool {
    let Some((program, rest)) = words.split_first() else {
        return false;
    };
    let tried = Command::new(program)
        .args(rest)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// The folders in which the program writes, as far as can be seen: its own, that of the user, and those that its words name.
fn places(asked: &Sandboxed<'_>) -> Vec<PathBuf> {
    let words = asked.command.iter().skip(1).filter_map(|word| {
        let value = word
            .split_once('=')
            .map_or(word.as_str(), |(_, value)| value);
        value.starts_with('/').then(|| PathBuf::from(value))
    });
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let named = [asked.folder.to_owned()]
        .into_iter()
        .chain(home)
        .chain(words);
    let mut all: Vec<PathBuf> = Vec::new();
    for path in named {
        let Some(folder) = path
            .ancestors()
            .find(|p| p.is_dir())
            .and_then(|p| p.canonicalize().ok())
        else {
            continue;
        };
        let writable = access(&folder, Access::WRITE_OK).is_ok();
        if writable
            && folder.parent().is_some()
            && !all.iter().any(|known| folder.starts_with(known))
        {
            all.retain(|known| !known.starts_with(&folder));
            all.push(folder);
        }
    }
    all.truncate(MOST_PLACES);
    all
}

/// Why these folders cannot be kept apart.
fn refusal(places: &[PathBuf], ours: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .collect();
    places.iter().find_map(|place| {
        let shown = place.display();
        let mount = mounts
            .iter()
            .find(|m| Path::new(m) != place && Path::new(m).starts_with(place));
        match () {
            () if ours.starts_with(place) => Some(format!(
                "our temporary folder lies in {shown}; TMPDIR names another"
            )),
            () if shown.to_string().contains([',', ':', '\\', '\n']) => {
                Some(format!("the name of {shown} cannot be an option of mount"))
            }
            () => mount.map(|mount| format!("{mount} is mounted below {shown}")),
        }
    })
}

/// The script that sets the sandbox up and starts what stands behind it.
fn setup(asked: &Sandboxed<'_>, folder: &Path, places: &[PathBuf]) -> io::Result<String> {
    let quoted = |path: &Path| {
        let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        shell_word(text).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    let scratch = quoted(&folder.join("scratch"))?;
    let size = asked.host_bytes / SHARE_OF_FILES;
    let mut text = format!(
        "set -e\numask 022\nip link set lo up 2>/dev/null || :\nmkdir -p {scratch}\n\
         mount -t tmpfs -o size={size} oomctl {scratch}\n"
    );
    for (number, place) in places.iter().enumerate() {
        let place = quoted(place)?;
        let layer = format!("{scratch}/{number}");
        let _ = writeln!(
            text,
            "mkdir -p {layer}/up {layer}/work\no=lowerdir={place},upperdir={layer}/up,workdir={layer}/work\n\
             mount -t overlay -o $o,userxattr oomctl {place} 2>/dev/null || mount -t overlay -o $o oomctl {place}"
        );
    }
    fs::create_dir_all(folder.join("files"))?;
    for (number, (path, content)) in asked.files.iter().enumerate() {
        let copy = folder.join("files").join(number.to_string());
        fs::write(&copy, content)?;
        let parent = path.parent().unwrap_or(path);
        let (copy, path, parent) = (quoted(&copy)?, quoted(path)?, quoted(parent)?);
        let _ = writeln!(text, "mkdir -p {parent}\ncp {copy} {path}");
    }
    let _ = write!(
        text,
        "cd {}\nset +e\n\"$@\"\nexit $?\n",
        quoted(asked.folder)?
    );
    Ok(text)
}
