//! Who of this user's programs was promised which GPU of this machine.
//!
//! Rule: a claim is a locked file. The kernel drops the lock with the last process that holds it, so a claim
//! never outlives its program, whatever becomes of oomctl; process ids, which other containers count
//! differently, decide nothing.
//!
//! | file | what it is |
//! |---|---|
//! | `GPU-….lock` | locked while somebody looks at the GPU's claims and adds his own |
//! | `GPU-….claim-XXXXXX` | a claim: locked while it lives; in it the bytes, and who claims them |

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::{Deserialize, Serialize};

use super::disk;
use super::files::{FileError, io_error, make_private_dir, open_lock, open_to_read, runtime_dir};
use oomctl_base::units::Bytes;

/// How long a GPU's lock is waited for. Whoever holds it looks at one GPU and writes a line.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Largest claim that is read.
const CLAIM_MAX: u64 = 4_096;

/// What is in a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// Bytes of the GPU that the program may take.
    pub bytes: Bytes,
    /// The process that claims, for people and for telling its memory.
    pub pid: i32,
}

/// The claims of this user on this machine.
#[derive(Debug, Clone)]
pub struct Claims {
    folder: PathBuf,
}

/// A claim, given back when it is dropped.
#[derive(Debug)]
pub struct GpuClaim {
    /// UUID of the GPU.
    pub uuid: String,
    _name: Name,
    file: File,
}

/// The name of a claim's file. Daemons that a program left behind may hold the lock for ever; without its
/// name it claims nothing.
#[derive(Debug)]
struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The lock of a GPU, while its claims are counted and changed.
pub struct GpuClaimsLock<'a> {
    claims: &'a Claims,
    uuid: String,
    _lock: File,
}

impl Claims {
    /// The claims in `$XDG_RUNTIME_DIR`, or else in a folder of this user in `/tmp`. Programs see each
    /// other's only where they agree about the folder.
    ///
    /// # Errors
    /// When the folder cannot be made, or is not ours.
    pub fn open() -> Result<Self, FileError> {
        Self::open_in(&runtime_dir())
    }

    /// The claims in this folder.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_in(folder: &Path) -> Result<Self, FileError> {
        make_private_dir(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// What is promised of a GPU to programs that live.
    pub fn of(&self, uuid: &str) -> Vec<Promise> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let start = format!("{}.claim-", plain(uuid));
        entries
            .filter(|e| e.file_name().to_string_lossy().starts_with(&start))
            .filter_map(|e| living(&e.path()))
            .collect()
    }

    /// Takes the lock of a GPU. `None` while somebody else has it for longer than a look takes.
    ///
    /// # Errors
    /// When the lock's file cannot be opened.
    pub fn desk(&self, uuid: &str) -> Result<Option<GpuClaimsLock<'_>>, FileError> {
        let path = self.folder.join(format!("{}.lock", plain(uuid)));
        let file = open_lock(&path).map_err(io_error("open", &path))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(io_error("lock", &path)(e)),
            }
        }
        Ok(Some(GpuClaimsLock {
            claims: self,
            uuid: uuid.to_owned(),
            _lock: file,
        }))
    }
}

impl GpuClaimsLock<'_> {
    /// What is promised already.
    pub fn promises(&self) -> Vec<Promise> {
        self.claims.of(&self.uuid)
    }

    /// Claims so many bytes.
    ///
    /// # Errors
    /// When the claim cannot be written.
    pub fn claim(self, bytes: Bytes) -> Result<GpuClaim, FileError> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let folder = &self.claims.folder;
        let failed = || io_error("write a claim in", folder);
        // It gets the name that counts when it is locked: one that nobody holds is swept away.
        let named = disk::temporary(folder, ".new-", 0o600).map_err(failed())?;
        let mut file = named.as_file();
        let text = serde_json::to_vec(&Promise { bytes, pid }).unwrap_or_default();
        let written = file.lock().and_then(|()| file.write_all(&text));
        written.map_err(failed())?;
        let unique = named.path().file_name().unwrap_or_default();
        let unique = unique.to_string_lossy().replace(".new-", "");
        let path = folder.join(format!("{}.claim-{unique}", plain(&self.uuid)));
        let file = named.persist(&path).map_err(|e| failed()(e.error))?;
        Ok(GpuClaim {
            uuid: self.uuid.clone(),
            _name: Name(path),
            file,
        })
    }
}

impl GpuClaim {
    /// Starts something that holds the claim too: should oomctl be killed, the GPU stays claimed until the
    /// program ends.
    pub fn shared_with<T>(&self, start: impl FnOnce() -> T) -> T {
        let kept = fcntl_getfd(self.file.as_fd());
        let _ = fcntl_setfd(self.file.as_fd(), FdFlags::empty());
        let started = start();
        let _ = fcntl_setfd(self.file.as_fd(), kept.unwrap_or(FdFlags::CLOEXEC));
        started
    }
}

/// The promise in a claim that somebody holds; one that nobody holds is swept away.
fn living(path: &Path) -> Option<Promise> {
    let file = open_to_read(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = fs::remove_file(path);
            None
        }
        Err(_) => {
            let mut text = Vec::new();
            (&file).take(CLAIM_MAX).read_to_end(&mut text).ok()?;
            // One that cannot be read claims all there is.
            let all = Promise {
                bytes: Bytes(u64::MAX),
                pid: 0,
            };
            Some(serde_json::from_slice(&text).unwrap_or(all))
        }
    }
}

/// A UUID as part of a file's name.
fn plain(uuid: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let safe = uuid.chars().map(|c| if is_plain(c) { c } else { '_' });
    safe.take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> (tempfile::TempDir, Claims) {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::open_in(&folder.path().join("oomctl")).unwrap();
        (folder, claims)
    }

    fn claim(claims: &Claims, uuid: &str, bytes: u64) -> GpuClaim {
        let desk = claims.desk(uuid).unwrap().unwrap();
        desk.claim(Bytes(bytes)).unwrap()
    }

    fn promised(claims: &Claims, uuid: &str) -> Vec<u64> {
        let mut all: Vec<u64> = claims.of(uuid).iter().map(|p| p.bytes.0).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_claim_counts_while_it_is_held_and_for_its_gpu_only() {
        let (_folder, claims) = claims();
        let first = claim(&claims, "GPU-a", 10);
        let second = claim(&claims, "GPU-a", 20);
        assert_eq!(promised(&claims, "GPU-a"), [10, 20]);
        assert!(promised(&claims, "GPU-ab").is_empty());
        assert_eq!(claims.of("GPU-a")[0].pid, std::process::id() as i32);
        drop(first);
        assert_eq!(promised(&claims, "GPU-a"), [20]);
        drop(second);
        assert!(promised(&claims, "GPU-a").is_empty());
    }

    #[test]
    fn a_claim_that_nobody_holds_is_swept_away() {
        let (folder, claims) = claims();
        let path = folder.path().join("oomctl/GPU-a.claim-dead");
        fs::write(&path, r#"{"bytes":10,"pid":1}"#).unwrap();
        assert!(promised(&claims, "GPU-a").is_empty());
        assert!(!path.exists());
    }

    #[test]
    fn a_program_keeps_the_claim_of_an_oomctl_that_was_killed() {
        let (_folder, claims) = claims();
        let claim = claim(&claims, "GPU-a", 10);
        let start = || {
            let mut cat = std::process::Command::new("cat");
            cat.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let mut program = claim.shared_with(start);
        // What a kill does: the process's file is closed, its name stays.
        let GpuClaim {
            file, _name: name, ..
        } = claim;
        let path = name.0.clone();
        std::mem::forget(name);
        drop(file);
        assert_eq!(promised(&claims, "GPU-a"), [10]);
        program.stdin.take();
        program.wait().unwrap();
        assert!(promised(&claims, "GPU-a").is_empty());
        assert!(!path.exists());
    }

    #[test]
    fn claims_of_many_at_once_never_add_up_to_more_than_there_is() {
        let (_folder, claims) = claims();
        let most = 3;
        let held = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let desk = claims.desk("GPU-a").unwrap().unwrap();
                    if desk.promises().len() < most {
                        let claim = desk.claim(Bytes(1)).unwrap();
                        held.lock().unwrap().push(claim);
                    }
                });
            }
        });
        assert_eq!(held.lock().unwrap().len(), most);
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oomctl");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Claims::open_in(&path).is_err());
    }
}
