//! What the devices are: read from the environment once, when the program first asks.

/// The devices that the program sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PhantomSettings {
    pub(super) devices: usize,
    pub(super) name: String,
    pub(super) total_bytes: usize,
    pub(super) context_bytes: usize,
    pub(super) capability: (i32, i32),
    pub(super) processors: i32,
    /// Version of the CUDA runtime, as `cudaRuntimeGetVersion` has it: 12080 is 12.8.
    pub(super) runtime: i32,
    /// Values that are read back are one instead of zero.
    pub(super) ones: bool,
    /// The file that gets the names without behaviour that were called.
    pub(super) report: Option<String>,
}

impl Default for PhantomSettings {
    fn default() -> Self {
        Self {
            devices: 1,
            name: "Phantom".to_owned(),
            total_bytes: 80 << 30,
            context_bytes: 0,
            capability: (9, 0),
            processors: 132,
            runtime: 12080,
            ones: false,
            report: None,
        }
    }
}

/// More devices than any node has.
const MOST_DEVICES: usize = 64;

impl PhantomSettings {
    /// Reads variables through `variable`; one that cannot be understood keeps its default.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let default = Self::default();
        let number = |name: &str| variable(name).and_then(|text| text.parse::<usize>().ok());
        let small = |name: &str| variable(name).and_then(|text| text.parse::<i32>().ok());
        let capability = variable("OOMCTL_PHANTOM_CAPABILITY").and_then(|text| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let devices = number("OOMCTL_PHANTOM_DEVICES").unwrap_or(default.devices);
        Self {
            devices: devices.clamp(1, MOST_DEVICES),
            name: variable("OOMCTL_PHANTOM_NAME").unwrap_or(default.name),
            total_bytes: number("OOMCTL_PHANTOM_TOTAL_BYTES").unwrap_or(default.total_bytes),
            context_bytes: number("OOMCTL_PHANTOM_CONTEXT_BYTES").unwrap_or(default.context_bytes),
            capability: capability.unwrap_or(default.capability),
            processors: small("OOMCTL_PHANTOM_PROCESSORS").unwrap_or(default.processors),
            runtime: small("OOMCTL_PHANTOM_RUNTIME").unwrap_or(default.runtime),
            ones: variable("OOMCTL_PHANTOM_ONES").is_some_and(|text| text == "1"),
            report: variable("OOMCTL_PHANTOM_REPORT"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_and_nonsense_keeps_the_default() {
        let settings = PhantomSettings::read(|name| match name {
            "OOMCTL_PHANTOM_DEVICES" => Some("4".to_owned()),
            "OOMCTL_PHANTOM_CAPABILITY" => Some("8.0".to_owned()),
            "OOMCTL_PHANTOM_TOTAL_BYTES" => Some("much".to_owned()),
            "OOMCTL_PHANTOM_ONES" => Some("1".to_owned()),
            _ => None,
        });
        let wanted = PhantomSettings {
            devices: 4,
            capability: (8, 0),
            ones: true,
            ..PhantomSettings::default()
        };
        assert_eq!(settings, wanted);
        let none = PhantomSettings::read(|name| name.ends_with("DEVICES").then(|| "0".to_owned()));
        assert_eq!(none.devices, 1);
    }
}
