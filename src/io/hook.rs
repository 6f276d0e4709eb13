//! Telling somebody who does not watch: a program that is given a document, or a service that is given a message.
//!
//! Rule: an address is a secret. It comes from a variable or a private file, and goes to curl on standard input, so that
//! it is in no argument list, no log and no file of ours.

use std::ffi::OsString;
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde_json::{Value, json};

use super::files::read_text;
use super::scheduler::command::{CommandCall, CommandEnd, SearchPath, run_with};
use crate::core::request::{Address, Notices};
use oomctl_base::word_list;

/// Largest file with an address, in bytes.
const ADDRESS_MAX: u64 = 4_096;
/// Where sendmail is, besides PATH: many systems have it for the administrator.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// What is run for one of those to be told.
struct HookCall {
    /// Who, in a word.
    to: &'static str,
    program: PathBuf,
    arguments: Vec<OsString>,
    input: String,
}

/// Tells everybody. Returns what did not work, each in one line without addresses.
pub fn tell(notices: &Notices, document: &Value, project: &Path) -> Vec<String> {
    let done = errands(notices, document, project)
        .into_iter()
        .map(|delivery| delivery.and_then(|delivery| go(&delivery, project, notices.time_limit_s)));
    done.filter_map(Result::err).collect()
}

/// What keeps somebody from being told, as far as that is known before there is anything to tell. Nothing is sent.
pub fn faults(notices: &Notices, project: &Path) -> Vec<String> {
    let all = errands(notices, &Value::Null, project).into_iter();
    let runs = |delivery: HookCall| match access(&delivery.program, Access::EXEC_OK) {
        Ok(()) if delivery.program.is_file() => Ok(()),
        _ => Err(format!(
            "notice by {}: cannot run {}",
            delivery.to,
            delivery.program.display()
        )),
    };
    all.filter_map(|delivery| delivery.and_then(runs).err())
        .collect()
}

/// One for everybody, or why there is none.
fn errands(notices: &Notices, document: &Value, project: &Path) -> Vec<Result<HookCall, String>> {
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    let (title, text) = (text("title"), text("text"));
    let limit_s = notices.time_limit_s;
    let command = notices.command.split_first();
    let command = command.map(|(first, rest)| own(first, rest, document, project));
    let slack = notices
        .slack
        .as_ref()
        .map(|a| slack(a, &title, &text, limit_s));
    let ntfy = notices
        .ntfy
        .as_ref()
        .map(|a| ntfy(a, &title, &text, limit_s));
    let mail = notices.mail.as_ref().map(|to| mail(to, &title, &text));
    [command, slack, ntfy, mail].into_iter().flatten().collect()
}

fn go(delivery: &HookCall, project: &Path, limit_s: u64) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("notice by {}: {e}", delivery.to);
    let mut input = tempfile::tempfile().map_err(failed)?;
    input.write_all(delivery.input.as_bytes()).map_err(failed)?;
    input.rewind().map_err(failed)?;
    let call = CommandCall {
        program: delivery.program.clone(),
        arguments: delivery.arguments.clone(),
        environment: std::env::vars_os().collect(),
        folder: Some(project.to_owned()),
        deadline: Duration::from_secs(limit_s),
    };
    let answer = run_with(&call, Stdio::from(input));
    match answer.end {
        CommandEnd::Exited(0) => Ok(()),
        _ => Err(format!("notice by {}: {}", delivery.to, answer.describe())),
    }
}

/// A program of the user's own, found as a shell in the project's folder finds it.
fn own(first: &str, rest: &[String], document: &Value, project: &Path) -> Result<HookCall, String> {
    let program = match first.contains('/') {
        true => project.join(first),
        false => located(first).ok_or_else(|| format!("notice by command: {first} not found"))?,
    };
    Ok(HookCall {
        to: "command",
        program,
        arguments: rest.iter().map(OsString::from).collect(),
        input: format!("{document}\n"),
    })
}

fn slack(address: &Address, title: &str, text: &str, limit_s: u64) -> Result<HookCall, String> {
    // Of Slack's own marks only these three mean anything outside of words.
    let plain = |t: &str| {
        t.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let message = match title == text {
        true => plain(title),
        false => format!("*{}*\n{}", plain(title), plain(text)),
    };
    let body = json!({ "text": message }).to_string();
    curl(
        "slack",
        address,
        &[("Content-Type", "application/json")],
        &body,
        limit_s,
    )
}

fn ntfy(address: &Address, title: &str, text: &str, limit_s: u64) -> Result<HookCall, String> {
    curl("ntfy", address, &[("Title", &ascii(title))], text, limit_s)
}

/// curl, told on standard input where to send what.
fn curl(
    to: &'static str,
    address: &Address,
    headers: &[(&str, &str)],
    body: &str,
    limit_s: u64,
) -> Result<HookCall, String> {
    let program = located("curl").ok_or_else(|| format!("notice by {to}: curl not found"))?;
    let url = url(address).map_err(|e| format!("notice by {to}: {e}"))?;
    let mut input = format!("url = {}\n", quoted(&url));
    for (name, value) in headers {
        input.push_str(&format!(
            "header = {}\n",
            quoted(&format!("{name}: {value}"))
        ));
    }
    input.push_str(&format!("data-raw = {}\n", quoted(body)));
    let limit_s = limit_s.to_string();
    // -q first: no settings of the user's may add what is printed, or where it goes.
    let options = word_list::<6>("-q --silent --show-error --fail --output /dev/null");
    let more = [
        "--proto",
        "=http,https",
        "--max-time",
        &limit_s,
        "--config",
        "-",
    ];
    Ok(HookCall {
        to,
        program,
        arguments: options
            .into_iter()
            .chain(more)
            .map(OsString::from)
            .collect(),
        input,
    })
}

fn mail(to: &str, title: &str, text: &str) -> Result<HookCall, String> {
    let known = || {
        SENDMAIL
            .iter()
            .map(PathBuf::from)
            .find(|path| path.is_file())
    };
    let program = located("sendmail").or_else(known);
    let program = program.ok_or("notice by mail: sendmail not found")?;
    let input = format!(
        "To: {to}\nSubject: {}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; \
         charset=utf-8\n\n{text}\n",
        ascii(title)
    );
    Ok(HookCall {
        to: "mail",
        program,
        arguments: ["-i", "-t"].map(OsString::from).to_vec(),
        input,
    })
}

/// The address of a service.
fn url(address: &Address) -> Result<String, String> {
    let text = match address {
        Address::UrlEnv(name) => {
            std::env::var(name).map_err(|_| format!("{name} is not set in the environment"))?
        }
        Address::UrlFile(path) => private(&at_home(path))?,
    };
    let url = text.trim();
    let is_one = url.starts_with("https://") || url.starts_with("http://");
    match is_one && !url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        true => Ok(url.to_owned()),
        false => Err("its address is not a URL".to_owned()),
    }
}

/// The text of a file that nobody but its owner, who is us, can read.
fn private(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let meta = std::fs::metadata(path).map_err(|e| format!("{shown}: {e}"))?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !ours || meta.mode() & 0o077 != 0 {
        return Err(format!("others can read {shown}: chmod 600 {shown}"));
    }
    read_text(path, ADDRESS_MAX).map_err(|e| e.to_string())
}

fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

fn located(program: &str) -> Option<PathBuf> {
    SearchPath::Path(std::env::var_os("PATH")?).locate(program)
}

/// A header takes one line of ASCII.
fn ascii(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii() && !c.is_control() {
            c
        } else {
            '?'
        }
    };
    text.chars().map(plain).collect()
}

/// Text as a value in a configuration of curl's, which knows these escapes in quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\\' | '"' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\0' => {}
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_to_its_line_of_the_configuration() {
        assert_eq!(
            quoted("a\"\\\nurl = \"http://evil\""),
            r#""a\"\\\nurl = \"http://evil\"""#
        );
        assert_eq!(ascii("w: größer\r\nBcc: x"), "w: gr??er??Bcc: x");
    }

    #[test]
    fn an_address_in_a_file_that_others_can_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "https://example.org/hook\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        mode(0o640).unwrap();
        let address = Address::UrlFile(path.clone());
        assert!(url(&address).unwrap_err().contains("chmod 600"));
        mode(0o600).unwrap();
        assert_eq!(url(&address).unwrap(), "https://example.org/hook");
        std::fs::write(&path, "file:///etc/passwd").unwrap();
        assert!(url(&address).is_err());
        std::fs::write(&path, "https://a b\nproxy = x").unwrap();
        assert!(url(&address).is_err());
    }
}
