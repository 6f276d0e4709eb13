//! How a program is started on phantom GPUs.

/// The shared library. It is empty where the program was built for another system than Linux.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libphantom.so"));

/// The Python files that record phases, allocations and values that were read, by their names in a folder on `PYTHONPATH`.
/// Python runs the first when it starts.
pub const RECORDER: [(&str, &str); 3] = [
    (
        "sitecustomize.py",
        include_str!("recorder/sitecustomize.py"),
    ),
    (
        "oomctl_phantom_drivers.py",
        include_str!("recorder/oomctl_phantom_drivers.py"),
    ),
    (
        "oomctl_phantom_phases.py",
        include_str!("recorder/oomctl_phantom_phases.py"),
    ),
];

/// The names under which a program looks for it: the library lies under the first, the others lead to it.
pub const LIBRARY_NAMES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"];

/// What a card says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhantomCard {
    /// Its name, as CUDA prints it.
    pub name: String,
    /// All of its memory, as PyTorch reports it.
    pub total_bytes: u64,
    /// What a context takes of it before the program asks for anything.
    pub context_bytes: u64,
    /// Compute capability, major and minor.
    pub capability: (u8, u8),
    /// Streaming multiprocessors.
    pub processors: u16,
}

/// Phantom GPUs, and how they answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phantom {
    /// The card; all are the same.
    pub card: PhantomCard,
    /// How many.
    pub devices: u16,
    /// Values that are read back are one instead of zero.
    pub ones: bool,
}

impl Phantom {
    /// The variables of a program that runs on them. `folder` holds the library under `LIBRARY_NAMES`, `report` is the file
    /// that names what was called and has no behaviour. `preload` and `library_path` are what `LD_PRELOAD` and `LD_LIBRARY_PATH`
    /// are without it.
    pub fn variables(
        &self,
        folder: &str,
        report: &str,
        preload: Option<&str>,
        library_path: Option<&str>,
    ) -> Vec<(String, String)> {
        let before = |first: String, rest: Option<&str>| match rest.filter(|rest| !rest.is_empty())
        {
            Some(rest) => format!("{first}:{rest}"),
            None => first,
        };
        let card = &self.card;
        let (major, minor) = card.capability;
        let library = format!("{folder}/{}", LIBRARY_NAMES[0]);
        let all = [
            ("LD_PRELOAD", before(library, preload)),
            ("LD_LIBRARY_PATH", before(folder.to_owned(), library_path)),
            ("OOMCTL_PHANTOM_NAME", card.name.clone()),
            ("OOMCTL_PHANTOM_TOTAL_BYTES", card.total_bytes.to_string()),
            (
                "OOMCTL_PHANTOM_CONTEXT_BYTES",
                card.context_bytes.to_string(),
            ),
            ("OOMCTL_PHANTOM_CAPABILITY", format!("{major}.{minor}")),
            ("OOMCTL_PHANTOM_PROCESSORS", card.processors.to_string()),
            ("OOMCTL_PHANTOM_DEVICES", self.devices.to_string()),
            ("OOMCTL_PHANTOM_ONES", u8::from(self.ones).to_string()),
            ("OOMCTL_PHANTOM_REPORT", report.to_owned()),
        ];
        all.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_before_what_is_preloaded_already() {
        let phantom = Phantom {
            card: PhantomCard {
                name: "NVIDIA A100-SXM4-40GB".to_owned(),
                total_bytes: 40 << 30,
                context_bytes: 0,
                capability: (8, 0),
                processors: 108,
            },
            devices: 8,
            ones: false,
        };
        let variables = phantom.variables("/tmp/p", "/tmp/p/report", Some("a.so"), Some(""));
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("LD_PRELOAD"), Some("/tmp/p/libcuda.so.1:a.so"));
        assert_eq!(value("LD_LIBRARY_PATH"), Some("/tmp/p"));
        assert_eq!(value("OOMCTL_PHANTOM_CAPABILITY"), Some("8.0"));
        assert_eq!(value("OOMCTL_PHANTOM_DEVICES"), Some("8"));
    }

    #[test]
    fn the_library_is_one_for_this_system() {
        assert!(LIBRARY.starts_with(b"\x7fELF"));
        let has = |name: &[u8]| LIBRARY.windows(name.len()).any(|part| part == name);
        for name in ["cudaMalloc", "cuMemCreate", "cublasSgemm_v2", "nvmlInit_v2"] {
            assert!(has(name.as_bytes()), "{name}");
        }
    }
}
