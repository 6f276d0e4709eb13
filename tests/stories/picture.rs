//! The picture of the README: the report of a run of the example, as this program draws it.

use std::fs;
use std::path::Path;

use super::place::Place;

/// Where the run is kept: what a report reads of it. Its GPUs were made up, as its trainer is.
const RUN: &str = "tests/fixtures/picture";
const PICTURE: &str = "docs/report.svg";

/// `INSTA_UPDATE=always cargo test --test stories picture` draws it anew.
#[test]
fn the_picture_in_the_readme_is_drawn_by_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = Place::bare();
    place.copy_project(&root.join(RUN));
    fs::create_dir_all(place.path(".oomctl")).unwrap();
    fs::rename(place.path("runs"), place.path(".oomctl/runs")).unwrap();
    place.run(&["report", "--to", "drawn.svg"]).ends(0);
    let drawn = place.read("drawn.svg");
    roxmltree::Document::parse(&drawn).unwrap();
    for words in ["attempt 3", "capacity 79.6 GiB", "GPU 0 ran out of memory"] {
        assert!(drawn.contains(words), "{words} is not in\n{drawn}");
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        fs::write(root.join(PICTURE), &drawn).unwrap();
    }
    let kept = fs::read_to_string(root.join(PICTURE)).unwrap();
    assert_eq!(drawn, kept, "INSTA_UPDATE=always draws {PICTURE} anew");
    assert!(
        fs::read_to_string(root.join("README.md"))
            .unwrap()
            .contains(PICTURE)
    );
}
