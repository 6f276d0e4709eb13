//! The server that the commands of PBS talk to.

use serde_json::Value;

/// A PBS server, as it tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PbsServer {
    /// Its name, by which it is found again.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Does it remember jobs that have ended?
    pub keeps_history: bool,
}

impl PbsServer {
    /// What `qstat -B -f -F json` says.
    ///
    /// # Errors
    /// What is wrong with its shape.
    pub fn read(stdout: &str) -> Result<Self, String> {
        let shape = |what: &str| format!("its answer has another shape: {what}");
        let answer: Value = serde_json::from_str(stdout).map_err(|e| shape(&e.to_string()))?;
        let name = answer["pbs_server"]
            .as_str()
            .filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| shape("no `pbs_server`"))?;
        let servers = answer["Server"].as_object();
        let server = servers.and_then(|servers| servers.values().next());
        let server = server.ok_or_else(|| shape("no `Server`"))?;
        Ok(Self {
            name: name.to_owned(),
            version: answer["pbs_version"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            keeps_history: server["job_history_enable"] == "True",
        })
    }
}
