//! The page of `oomctl report` as a browser shows it: quiet, complete, by keyboard, readable, narrow, on paper.

#![allow(
    dead_code,
    reason = "the stories, whose places these are, use more of them"
)]

mod chromium;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::place::Place;
use crate::weaver;
use chromium::Browser;
use serde_json::{Value, json};

/// A run whose GPUs were sampled, the one of the README's picture.
const KEPT: &str = "tests/fixtures/picture";
/// All text, as somebody reads it who opens everything.
const TEXT: &str =
    "document.querySelectorAll('details').forEach(d => d.open = true), document.body.innerText";
const CONTRAST: &str = include_str!("contrast.js");
/// What is cut off at the side, and does not scroll by itself.
const CUT_OFF: &str = "[...document.body.querySelectorAll('*')]
    .filter(e => !e.matches('.skip') && !e.parentElement.closest('figure, table, pre'))
    .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth)
    .map(e => e.outerHTML)";
/// Pictures of which a part must be scrolled into view.
const SCROLLED: &str = "[...document.querySelectorAll('figure')]
    .filter(f => f.scrollWidth > f.clientWidth).map(f => f.getAttribute('aria-label'))";
/// Words of a time line that lie on its bars or on each other.
const OVERLAPPING: &str = "[...document.querySelectorAll('figure svg')].flatMap(svg => {
        const words = [...svg.querySelectorAll('text')].filter(t => t.getBoundingClientRect().width > 0);
        const marks = [...words, ...svg.querySelectorAll('rect')];
        const hit = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return words.filter(w => marks.some(m => m !== w
            && (m.localName === 'rect' || m.textContent !== w.textContent)
            && hit(w.getBoundingClientRect(), m.getBoundingClientRect())
            && Math.abs(w.getBoundingClientRect().top - m.getBoundingClientRect().top) < 8)).map(w => w.textContent);
    })";
/// Which part has the focus, as its first words and whether it can be seen that it has.
const FOCUSED: &str = "(e => e === document.body ? '' : [
        e.localName, e.getAttribute('aria-label') ?? e.innerText.trim().split('\\n')[0],
        getComputedStyle(e).outlineStyle !== 'none' && e.getBoundingClientRect().left >= 0 ? 'seen' : 'unseen',
    ].join(': '))(document.activeElement)";

/// A page, and what it is to show.
struct Page {
    place: Place,
    shows: Value,
}

impl Page {
    fn of(place: Place, runs: &[&str]) -> Self {
        let shows = place.run(&[&["report", "--json"], runs].concat()).ends(0);
        let page = [&["report", "--to", "page.html"], runs].concat();
        place.run(&page).ends(0);
        Self {
            shows: shows.json(),
            place,
        }
    }

    fn path(&self) -> PathBuf {
        self.place.path("page.html")
    }
}

/// A run that ran out of memory twice, a sweep, and a run whose GPUs were sampled.
fn pages() -> &'static [Page; 3] {
    static PAGES: OnceLock<[Page; 3]> = OnceLock::new();
    PAGES.get_or_init(|| {
        let submit = ["submit", "--backend", "local", "--watch"];
        let run = weaver::project("knobs: { motto: 'ein <langes> Wort: Übermaß 織物' }");
        run.run(&submit).ends(0);
        let mut sweep = weaver::project("");
        sweep.set("WEAVER", "fits 1");
        let cells = ["--max-running", "4", "threads=1,4", "cloth=64,16"];
        let sweep_submit = [&["sweep"], &submit[..], &cells].concat();
        sweep.run(&sweep_submit).ends(0);
        let sampled = Place::bare();
        sampled.copy_project(&Path::new(env!("CARGO_MANIFEST_DIR")).join(KEPT));
        fs::create_dir_all(sampled.path(".oomctl")).unwrap();
        fs::rename(sampled.path("runs"), sampled.path(".oomctl/runs")).unwrap();
        [
            Page::of(run, &[]),
            Page::of(sweep, &["sweep-1"]),
            Page::of(sampled, &[]),
        ]
    })
}

/// What the browser complained of, and what the page asked for beside itself.
fn noise(browser: &Browser) -> Vec<String> {
    let logged = browser.events("Log.entryAdded").map(|p| &p["entry"]);
    let logged = logged.filter(|e| e["level"] == "warning" || e["level"] == "error");
    let said = browser.events("Runtime.consoleAPICalled");
    let said = said.filter(|c| c["type"] == "warning" || c["type"] == "error");
    let thrown = browser.events("Runtime.exceptionThrown");
    let asked = browser.events("Network.requestWillBeSent");
    let asked = asked.filter(|r| r["type"] != "Document");
    let all = logged.chain(said).chain(thrown).chain(asked);
    all.map(Value::to_string).collect()
}

#[test]
fn nothing_is_asked_of_a_network_and_the_browser_complains_of_nothing() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for page in pages() {
        browser.open(&page.path());
        assert_eq!(noise(&browser), [""; 0], "{:?}", page.path());
    }
}

#[test]
fn the_story_and_every_attempt_are_on_the_page_with_scripts_and_without() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for page in pages() {
        let mut shown = Vec::new();
        for without in [false, true] {
            let value = json!({ "value": without });
            browser.call("Emulation.setScriptExecutionDisabled", value);
            browser.open(&page.path());
            shown.push(browser.text(TEXT));
        }
        assert_eq!(shown[0], shown[1]);
        let words: Vec<&str> = shown[0].split_whitespace().collect();
        let words = words.join(" ");
        let has = |what: &str| assert!(words.contains(what), "{what:?} is not in\n{words}");
        for run in page.shows["runs"].as_array().unwrap() {
            for sentence in run["story"].as_array().unwrap() {
                has(sentence.as_str().unwrap());
            }
            for attempt in run["attempts"].as_array().unwrap() {
                let job = attempt["job"].as_str().unwrap();
                has(&format!("Attempt {} · job {job}", attempt["attempt"]));
            }
        }
        for line in page.shows["overview"].as_array().unwrap() {
            has(line["run"].as_str().unwrap());
        }
    }
}

#[test]
fn headings_are_in_order_and_every_picture_has_a_name() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for page in pages() {
        browser.open(&page.path());
        let levels = "[...document.querySelectorAll('h1, h2, h3, h4')].map(h => h.localName[1])";
        let levels = browser.texts(levels);
        let levels: Vec<u32> = levels.iter().map(|l| l.parse().unwrap()).collect();
        assert_eq!(levels.iter().filter(|l| **l == 1).count(), 1);
        assert!(levels.windows(2).all(|l| l[1] <= l[0] + 1), "{levels:?}");
        let tree = browser.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let pictures = nodes.filter(|n| n["role"]["value"] == "image");
        let names: Vec<&str> = pictures
            .map(|n| n["name"]["value"].as_str().unwrap())
            .collect();
        assert!(
            !names.is_empty() && names.iter().all(|n| !n.is_empty()),
            "{names:?}"
        );
    }
}

#[test]
fn every_part_that_does_something_is_reached_and_used_by_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let tab = |browser: &mut Browser| {
        browser.press("Tab", 9, "");
        browser.text(FOCUSED)
    };
    let [_, sweep, sampled] = pages();
    browser.open(&sampled.path());
    let mut reached = Vec::new();
    loop {
        let part = tab(&mut browser);
        if part.is_empty() || reached.len() > 100 {
            break;
        }
        if part.starts_with("summary") {
            let open = "document.activeElement.parentElement.open";
            browser.press("Enter", 13, "\r");
            assert_eq!(browser.value(open), true, "{part}");
            browser.press(" ", 32, " ");
            assert_eq!(browser.value(open), false, "{part}");
        }
        reached.push(part);
    }
    assert!(
        reached.iter().all(|part| part.ends_with(": seen")),
        "{reached:#?}"
    );
    assert_eq!(reached[0], "a: Skip to the report: seen");
    let parts = "document.querySelectorAll('a[href], summary, figure').length";
    let parts = usize::try_from(browser.value(parts).as_u64().unwrap()).unwrap();
    let those = ["a: ", "summary: ", "figure: "];
    let those = |part: &&String| those.iter().any(|kind| part.starts_with(kind));
    assert_eq!(reached.iter().filter(those).count(), parts, "{reached:#?}");
    // From the overview to a run.
    browser.open(&sweep.path());
    while !tab(&mut browser).starts_with("a: sweep-1.") {}
    let run = browser.text("document.activeElement.innerText");
    browser.press("Enter", 13, "\r");
    assert_eq!(browser.text("location.hash"), format!("#{run}"));
}

#[test]
fn text_and_pictures_stand_out_from_what_is_behind_them_in_light_in_dark_and_on_paper() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for page in pages() {
        browser.open(&page.path());
        browser.value(TEXT);
        let mut papers = Vec::new();
        for (medium, scheme) in [("screen", "light"), ("screen", "dark"), ("print", "dark")] {
            browser.media(medium, scheme);
            let faint = browser.texts(CONTRAST);
            assert_eq!(faint, [""; 0], "{scheme} on {medium}: {:?}", page.path());
            let paper = "getComputedStyle(document.body).backgroundColor";
            papers.push(browser.text(paper));
        }
        assert_ne!(papers[0], papers[1]);
        assert_eq!(papers[0], papers[2], "what is printed is dark on white");
    }
}

#[test]
fn nothing_is_wider_than_a_telephone_or_a_window() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for page in pages() {
        for width in [360, 1280] {
            browser.width(width);
            browser.open(&page.path());
            browser.value(TEXT);
            let wider =
                "document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(browser.value(wider), false, "{width}: {:?}", page.path());
            assert_eq!(browser.texts(CUT_OFF), [""; 0], "{width}");
            assert_eq!(browser.texts(SCROLLED), [""; 0], "{width}");
            assert_eq!(browser.texts(OVERLAPPING), [""; 0], "{width}");
        }
    }
}

#[test]
fn the_sums_of_a_site_are_quiet_readable_and_narrow_too() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let place = crate::history::site();
    place.run(&["history", ".", "--html", "site.html"]).ends(0);
    for width in [360, 1280] {
        browser.width(width);
        browser.open(&place.path("site.html"));
        let wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(browser.value(wider), false, "{width}");
        assert_eq!(browser.texts(CUT_OFF), [""; 0], "{width}");
        assert_eq!(browser.texts(CONTRAST), [""; 0], "{width}");
    }
    assert_eq!(noise(&browser), [""; 0]);
}

#[test]
fn it_prints_with_all_that_is_folded_on_screen() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for page in pages() {
        browser.open(&page.path());
        let printed = browser.call("Page.printToPDF", json!({ "printBackground": false }));
        let data = printed["data"].as_str().unwrap();
        let sheets = format!(r"atob('{data}').match(/^%PDF-|\/Type \/Page\b/g).length - 1");
        assert!(browser.value(&sheets).as_u64().unwrap() >= 1);
        browser.media("print", "light");
        let folded = "[...document.querySelectorAll('details td')]
            .filter(e => !e.checkVisibility() || e.getBoundingClientRect().height === 0)
            .map(e => e.textContent)";
        assert_eq!(browser.texts(folded), [""; 0], "{:?}", page.path());
        let colourless = "[...document.querySelectorAll('.dot')]
            .filter(e => getComputedStyle(e).printColorAdjust !== 'exact')
            .map(e => e.parentElement.innerText)";
        assert_eq!(browser.texts(colourless), [""; 0], "{:?}", page.path());
        browser.media("screen", "light");
    }
}

/// Each look above sees what it looks for.
#[test]
fn a_page_with_faults_is_found_out() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let place = Place::bare();
    place.write(
        "page.html",
        "<!doctype html><p style='color: #888'>faint</p><p style='background: #000; color: #fff'>clear</p>
        <div style='width: 2000px'>wide</div><svg><path class='curve' d='M0 0h9' stroke='#eee'/></svg>
        <img src='missing.png' alt=''><script>console.warn('beware'); nowhere()</script>",
    );
    browser.width(360);
    browser.open(&place.path("page.html"));
    let noise = noise(&browser).join("\n");
    for fault in [
        "beware",
        "nowhere is not defined",
        "missing.png",
        "ERR_FILE_NOT_FOUND",
    ] {
        assert!(noise.contains(fault), "{fault} is not in\n{noise}");
    }
    let faint = browser.texts(CONTRAST);
    assert_eq!(faint, ["3.54 < 4.5: faint", "1.16 < 3: path curve"]);
    assert_eq!(browser.texts(CUT_OFF).len(), 1);
}
