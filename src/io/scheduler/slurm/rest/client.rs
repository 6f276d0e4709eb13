//! One question to slurmrestd and its answer, whatever it is about.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use ureq::http::Request;
use ureq::{Agent, AsSendBody};

use super::super::super::NoAnswer;
use super::place::{RestAddress, RestPlace};
use super::unix_socket::{NoNames, UnixConnector};

/// Versions of the API whose answers are understood, as the last number of `v0.0.44`: 38 is that of Slurm 22.05 and 23.02, 45 that
/// of 26.05. The one between, 39, no release has alone.
pub(super) const KNOWN: [u32; 7] = [38, 40, 41, 42, 43, 44, 45];
/// Longest answer, in bytes. 22.05 writes 4 kB a job, 26.05 11 kB: 20,000 jobs are 220 MB.
const MAX_ANSWER: u64 = 256 << 20;
/// Numbers of complaints that only say that something is not there any more: `ESLURM_INVALID_JOB_ID`, `ESLURM_ALREADY_DONE`, and slurmrestd's
/// `ESLURM_REST_EMPTY_RESULT`.
const GONE: [i64; 3] = [2017, 2021, 9003];

/// A slurmrestd.
#[derive(Debug, Clone)]
pub struct RestClient {
    pub(super) place: RestPlace,
    agent: Agent,
    /// None before the first question, and after the daemon forgot it.
    agreed: Arc<Mutex<Option<RestVersion>>>,
}

/// What was agreed on with a slurmrestd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RestVersion {
    /// The last number of `v0.0.44`.
    pub number: u32,
    /// Does it answer for the accounting? Without slurmdbd it has no such paths.
    pub accounting: bool,
}

/// What slurmrestd answered.
#[derive(Debug, Default)]
pub(super) struct RestAnswer {
    /// All of it.
    pub body: Value,
    /// What it complains of.
    pub faults: Vec<RestFault>,
}

/// A complaint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RestFault {
    /// Slurm's number for it.
    pub number: i64,
    /// Slurm's words.
    pub words: String,
}

impl RestAnswer {
    /// Does it only say that there is no such job?
    pub fn knows_nothing(&self) -> bool {
        let gone = |fault: &RestFault| GONE.contains(&fault.number);
        !self.faults.is_empty() && self.faults.iter().all(gone)
    }

    /// All complaints.
    pub fn words(&self) -> String {
        let words = self.faults.iter().map(|fault| fault.words.as_str());
        words.collect::<Vec<_>>().join("; ")
    }
}

impl RestClient {
    /// The slurmrestd there.
    pub fn at(place: RestPlace) -> Self {
        // A status other than 200 comes with an explanation; a proxy or another host must not get the token.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let agent = match &place.address {
            RestAddress::Port(_) => Agent::new_with_config(config),
            RestAddress::Socket(path) => {
                Agent::with_parts(config, UnixConnector(path.clone()), NoNames)
            }
        };
        Self {
            place,
            agent,
            agreed: Arc::default(),
        }
    }

    /// The version of the API that both sides know.
    pub(super) fn version(&self, deadline: Duration) -> Result<RestVersion, NoAnswer> {
        if let Some(agreed) = *self.agreed() {
            return Ok(agreed);
        }
        let answer = self.exchange("GET", "/openapi", None, deadline)?;
        let versions = offered(&answer.body, "slurm");
        let Some(number) = versions.iter().rev().find(|v| KNOWN.contains(v)).copied() else {
            return Err(match versions[..] {
                [] => self.no_answer("its answer names no version of the API"),
                _ => {
                    let (theirs, ours) = (names(&versions), names(&KNOWN));
                    self.no_answer(format!("it offers {theirs}; oomctl knows {ours}"))
                }
            });
        };
        let accounting = offered(&answer.body, "slurmdb").contains(&number);
        Ok(*self.agreed().insert(RestVersion { number, accounting }))
    }

    fn agreed(&self) -> MutexGuard<'_, Option<RestVersion>> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks under a path of the controller (`slurm`) or the accounting (`slurmdb`).
    pub(super) fn ask(
        &self,
        method: &str,
        (part, path): (&str, &str),
        body: Option<&Value>,
        deadline: Duration,
    ) -> Result<RestAnswer, NoAnswer> {
        let version = self.version(deadline)?.number;
        let path = format!("/{part}/v0.0.{version}/{path}");
        self.exchange(method, &path, body, deadline)
    }

    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        deadline: Duration,
    ) -> Result<RestAnswer, NoAnswer> {
        let token = self.place.token().map_err(|why| self.no_answer(why))?;
        let user = token.user.clone().or_else(|| std::env::var("USER").ok());
        let host = match &self.place.address {
            RestAddress::Port(address) => address,
            RestAddress::Socket(_) => "http://localhost",
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{host}{path}"))
            .header("X-SLURM-USER-NAME", user.unwrap_or_default())
            .header("X-SLURM-USER-TOKEN", token.text)
            .header("Content-Type", "application/json")
            .header("Connection", "close");
        let answer = match body {
            Some(body) => self.send(request.body(body.to_string()), deadline),
            None => self.send(request.body(()), deadline),
        };
        let answer = answer.and_then(|(status, text)| self.read(status, &text, path));
        // 22.05 has no word of its own for a token that is over: "Unspecified error", "Zero Bytes were transmitted".
        let failed = !answer
            .as_ref()
            .is_ok_and(|a| a.faults.is_empty() || a.knows_nothing());
        let over = token.expires.filter(|end| *end <= Timestamp::now());
        match (answer, over) {
            (_, Some(end)) if failed => {
                let origin = self.place.token_origin();
                let how = "`scontrol token` makes a new one";
                Err(self.no_answer(format!("the token in {origin} expired at {end}: {how}")))
            }
            (answer, _) => answer.map_err(|why| self.no_answer(why)),
        }
    }

    fn send<B: AsSendBody>(
        &self,
        request: Result<Request<B>, ureq::http::Error>,
        deadline: Duration,
    ) -> Result<(u16, String), String> {
        let request = request.map_err(|e| e.to_string())?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_global(Some(deadline)).build();
        let mut response = self.agent.run(request).map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER);
        let bytes = body
            .read_to_vec()
            .map_err(|e| format!("a cut answer: {e}"))?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read(&self, status: u16, text: &str, path: &str) -> Result<RestAnswer, String> {
        if status == 401 {
            let origin = self.place.token_origin();
            return Err(format!(
                "the token in {origin} was refused (HTTP 401): `scontrol token` makes a new one"
            ));
        }
        let body: Value = match serde_json::from_str(text) {
            Ok(body) => body,
            Err(_) if status == 404 => {
                *self.agreed() = None;
                return Err(format!("it knows no {path} (HTTP 404)"));
            }
            Err(error) => return Err(format!("HTTP {status} without whole JSON: {error}")),
        };
        let faults = faults(&body);
        match (status, &faults[..]) {
            (200, _) => Ok(RestAnswer { body, faults }),
            (_, []) => Err(format!("HTTP {status} without a reason")),
            _ => Ok(RestAnswer { body, faults }),
        }
    }

    pub(super) fn no_answer(&self, why: impl Into<String>) -> NoAnswer {
        NoAnswer::of(format!("slurmrestd at {}", self.place.address), why)
    }
}

/// The versions of which the description of the API has paths of this part, lowest first.
fn offered(description: &Value, part: &str) -> Vec<u32> {
    let begin = format!("/{part}/v0.0.");
    let paths = description["paths"].as_object();
    let paths = paths.into_iter().flat_map(|paths| paths.keys());
    let version = |path: &String| {
        let rest = path.strip_prefix(&begin)?;
        rest.split('/').next()?.parse().ok()
    };
    let mut versions: Vec<u32> = paths.filter_map(version).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

fn names(versions: &[u32]) -> String {
    let names = versions.iter().map(|v| format!("v0.0.{v}"));
    names.collect::<Vec<_>>().join(", ")
}

/// The number stands under two names in 22.05, and words may be missing. A cancellation since v0.0.41 says of each job what came of it.
fn faults(body: &Value) -> Vec<RestFault> {
    let list = |name: &str| body[name].as_array().into_iter().flatten();
    let of_jobs = list("status").map(|status| &status["error"]);
    let failed = of_jobs.filter(|error| error["code"].as_i64().is_some_and(|code| code != 0));
    list("errors").chain(failed).map(fault).collect()
}

fn fault(error: &Value) -> RestFault {
    let numbers = ["error_number", "error_code", "code"];
    let number = numbers.iter().find_map(|name| error[name].as_i64());
    let words = ["error", "string", "description"];
    let words = words.iter().filter_map(|name| error[name].as_str());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    RestFault {
        number: number.unwrap_or(-1),
        words: words.join(": "),
    }
}
