//! Notices: who is told what, and that nothing is told twice.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::place::{Done, Place, install};
use super::weaver;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];
/// Keeps what it is given, a document a line.
const TELL: &str = "#!/bin/bash\ncat >>told.jsonl\n";

fn submit(place: &Place, run: &str) -> Done {
    place.run(&[&WATCH[..], &["--run", run]].concat())
}

/// A project that tells a program.
fn telling(more: &str) -> Place {
    let yaml = format!("notices: {{ command: [./tell.sh]{more} }}");
    let place = weaver::project(&yaml);
    install(&place.path("tell.sh"), TELL);
    place
}

fn told(place: &Place) -> Vec<Value> {
    let text = place.has("told.jsonl").then(|| place.read("told.jsonl"));
    let text = text.unwrap_or_default();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// What happened, over all documents.
fn events(documents: &[Value]) -> Vec<String> {
    let all = documents
        .iter()
        .flat_map(|d| d["events"].as_array().unwrap());
    let word = |e: &Value| {
        format!(
            "{} {}",
            e["run"].as_str().unwrap(),
            e["event"].as_str().unwrap()
        )
    };
    all.map(word).collect()
}

/// A service that takes posts and answers like the real ones; the requests that it got.
fn service() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook/T0P-S3CRET", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0_u8; 4_096]);
            loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = head
                        .lines()
                        .find_map(|l| l.strip_prefix("Content-Length: "));
                    if body.len() >= length.map_or(0, |l| l.parse().unwrap()) {
                        break;
                    }
                }
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    n => request.extend_from_slice(&buffer[..n]),
                }
            }
            let request = String::from_utf8(request).unwrap();
            kept.lock().unwrap().push(request);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    (address, requests)
}

#[test]
fn a_command_gets_what_happened_as_json_once_and_no_secret() {
    let mut place = telling("");
    place.set("WANDB_API_KEY", "hunter2222");
    submit(&place, "w").ends(0);
    let documents = told(&place);
    // The first at once, what followed within its pause together at the end.
    assert_eq!(documents.len(), 2, "{documents:?}");
    assert_eq!(
        events(&documents),
        ["w escalated", "w escalated", "w succeeded"]
    );
    let first = &documents[0];
    assert_eq!(first["schema_version"], 1);
    assert_eq!(first["title"], first["text"]);
    let event = &first["events"][0];
    assert_eq!(
        (&event["attempt"], &event["rungs"][0]),
        (&1.into(), &"thin".into())
    );
    assert_eq!(event["changes"][0]["knob"], "threads");
    let headline = event["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("GPU 0 ran out of memory"),
        "{headline}"
    );
    assert_eq!(documents[1]["events"][1]["exit_code"], 0);
    assert_eq!(documents[1]["title"], "w: 1 escalated, 1 succeeded");
    assert!(!place.read("told.jsonl").contains("hunter2222"));
    // The ledger remembers.
    place.run(&["watch", "w"]).ends(0);
    place.run(&["watch", "w", "--once"]).ends(0);
    assert_eq!(told(&place).len(), 2);
}

#[test]
fn a_run_that_gives_up_says_why_and_one_that_is_cancelled_says_nothing() {
    let mut place = telling(", on: [gave_up]");
    place.set("WEAVER", "fail");
    submit(&place, "w").ends(1);
    let documents = told(&place);
    assert_eq!(events(&documents), ["w gave_up"]);
    assert_eq!(documents[0]["events"][0]["outcome"], "failed");
    place.set("WEAVER", "sleep");
    place
        .run(&["submit", "--backend", "local", "--run", "x"])
        .ends(0);
    place.run(&["cancel", "x"]).ends(0);
    assert_eq!(told(&place).len(), 1);
}

/// A project that tells by the program of the examples, in this way.
fn by_example(way: &str) -> Place {
    let place = weaver::project(&format!(
        "notices: {{ command: [./tell.py, {way}], on: [succeeded] }}\nknobs: {{ threads: 2 }}"
    ));
    install(
        &place.path("tell.py"),
        include_str!("../../examples/notices/tell.py"),
    );
    place
}

#[test]
fn the_example_posts_to_slack_and_ntfy_at_addresses_that_only_the_user_can_read() {
    let says = "w: succeeded after 1 attempt";
    for (way, head, end) in [
        (
            "slack",
            "Content-Type: application/json".to_owned(),
            format!("{{\"text\": \"{says}\"}}"),
        ),
        ("ntfy", format!("Title: {says}"), says.to_owned()),
    ] {
        let (address, requests) = service();
        let place = by_example(&format!("{way}, ~/.{way}"));
        let file = place.home.join(format!(".{way}"));
        std::fs::write(&file, format!("{address}\n")).unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode));
        mode(0o640).unwrap();
        submit(&place, "v")
            .ends(0)
            .says(&["notice by command", "chmod 600"]);
        mode(0o600).unwrap();
        let done = submit(&place, "w").ends(0);
        assert!(!done.err.contains("trouble:"), "{}", done.told());
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), 1);
        assert!(
            requests[0].contains(&format!("\r\n{head}\r\n")),
            "{requests:?}"
        );
        assert!(
            requests[0].ends_with(&format!("\r\n\r\n{end}")),
            "{requests:?}"
        );
        let found = std::process::Command::new("grep")
            .args(["-rl", "S3CRET", "."])
            .current_dir(&place.root)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
}

#[test]
fn the_document_of_the_page_is_real() {
    let page = include_str!("../../docs/notices.md");
    let text = page.split_once("```json\n").unwrap().1;
    let shown: Value = serde_json::from_str(text.split_once("```").unwrap().0).unwrap();
    let place = telling(", on: [escalated]");
    submit(&place, "w").ends(0);
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let real = &told(&place)[0];
    assert_eq!(
        real["title"],
        "w: attempt 1 failed: GPU 0 ran out of memory: 20.00 GiB requested, 1.00 GiB free of 79.18 GiB. Next: thin (threads 8 -> 4, bundles 1 -> 2)"
    );
    assert_eq!(keys(&shown), keys(real));
    assert_eq!(keys(&shown["events"][0]), keys(&real["events"][0]));
    let change = |v: &Value| keys(&v["events"][0]["changes"][0]);
    assert_eq!(change(&shown), change(real));
}

#[test]
fn the_example_mails_through_sendmail() {
    let mut place = by_example("mail, me@example.org");
    let bin = place.path("bin");
    std::fs::create_dir(&bin).unwrap();
    install(
        &bin.join("sendmail"),
        "#!/bin/bash\necho \"$@\" >mail.argv\ncat >mail\n",
    );
    place.first_on_path = vec![bin];
    submit(&place, "w").ends(0);
    assert_eq!(place.read("mail.argv"), "-i -t\n");
    let mail = place.read("mail");
    assert!(
        mail.starts_with("To: me@example.org\nSubject: w: succeeded after 1 attempt\n"),
        "{mail}"
    );
    assert!(
        mail.ends_with("\n\nw: succeeded after 1 attempt\n"),
        "{mail}"
    );
}

#[test]
fn what_does_not_work_is_one_line_and_changes_nothing() {
    let place = telling("");
    std::fs::remove_file(place.path("tell.sh")).unwrap();
    let done = submit(&place, "w").ends(0);
    assert_eq!(
        done.err.matches("notice by command").count(),
        1,
        "{}",
        done.told()
    );
    let place = telling(", time_limit: 1s");
    install(&place.path("tell.sh"), "#!/bin/bash\nexec sleep 60\n");
    let done = submit(&place, "w").ends(0);
    done.says(&["notice by command: no answer before the deadline"]);
}

#[test]
fn a_notice_during_which_the_watch_is_killed_is_not_given_again() {
    let mut place = telling(", on: [escalated, succeeded]");
    let tell = "#!/bin/bash\ncat >>told.jsonl\nuntil [ -e go ]; do sleep 0.05; done\n";
    install(&place.path("tell.sh"), tell);
    place.set("WEAVER", "fits 4");
    let watch = place.start(&[&WATCH[..], &["--run", "w"]].concat());
    place.written("told.jsonl");
    watch.kill();
    place.write("go", "");
    place.run(&["watch", "w"]).ends(0);
    assert_eq!(events(&told(&place)), ["w escalated", "w succeeded"]);
}

#[test]
fn many_runs_are_told_of_in_few_notices() {
    let mut place = telling(", on: [succeeded]");
    place.set("WEAVER", "wait");
    let names: Vec<String> = (1..=6).map(|n| format!("w{n}")).collect();
    for name in &names {
        place
            .run(&["submit", "--backend", "local", "--run", name])
            .ends(0);
    }
    place.write("go", "");
    let words: Vec<&str> = std::iter::once("watch")
        .chain(names.iter().map(String::as_str))
        .collect();
    place.run(&words).ends(0);
    let documents = told(&place);
    assert!(documents.len() <= 2, "{documents:?}");
    let mut events = events(&documents);
    events.sort();
    let expected: Vec<String> = names.iter().map(|n| format!("{n} succeeded")).collect();
    assert_eq!(events, expected);
}

#[test]
fn a_section_that_tells_nobody_or_of_nothing_known_is_refused_and_a_users_file_counts() {
    for (section, says) in [
        ("{ on: [escalated] }", "has no `command`"),
        (
            "{ slack: { url_env: X } }",
            "write `command: [./tell.py, slack, FILE]` (a file with the URL)",
        ),
        (
            "{ mail: me@example.org }",
            "write `command: [./tell.py, mail, ADDRESS]`",
        ),
        ("{ command: [x], on: [exploded] }", "gave_up"),
        ("{ comand: [x] }", "did you mean `command`?"),
    ] {
        let place = weaver::project(&format!("notices: {section}"));
        let done = place.run(&["submit", "--backend", "local"]).ends(5);
        done.says(&["oomctl.yaml:2:", says]);
    }
    let place = weaver::project("knobs: { threads: 2 }");
    install(&place.path("tell.sh"), TELL);
    let user = "notices: { command: [./tell.sh] }\n";
    std::fs::create_dir_all(place.home.join(".config/oomctl")).unwrap();
    std::fs::write(place.home.join(".config/oomctl/config.yaml"), user).unwrap();
    submit(&place, "w").ends(0);
    assert_eq!(events(&told(&place)), ["w succeeded"]);
}
