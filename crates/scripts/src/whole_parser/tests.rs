use super::*;

fn read(texts: &[&str]) -> Option<WholeParser> {
    let all: Vec<_> = texts.iter().map(|text| tokens(text)).collect();
    let files: Vec<_> = all.iter().map(|tokens| &**tokens).collect();
    WholeParser::of(&files)
}

/// What is said to each of these words.
fn refused<'w>(texts: &[&str], words: &[&'w str]) -> Vec<(&'w str, String)> {
    let parser = read(texts).unwrap();
    let refused = words.iter().filter_map(|word| {
        let meant = parser.refused(word)?;
        Some((*word, meant.unwrap_or_default().to_owned()))
    });
    refused.collect()
}

const ARGPARSE: &str = "import argparse\ndef parse():\n  p = argparse.ArgumentParser()\n  \
    p.add_argument('--batch-size', '-b', type=int)\n  p.add_argument('--epochs')\n  \
    p.add_argument('--amp', action=argparse.BooleanOptionalAction)\n  g = p.add_argument_group('more')\n  \
    g.add_argument('data')\n  return p.parse_args()\nargs = parse()\n";

#[test]
fn a_word_is_refused_that_is_no_option_and_no_beginning_of_one() {
    let words = [
        "--batch-size",
        "--batch-size=3",
        "--batch",
        "--batch_size",
        "--batchsize=3",
        "--epocs",
        "--no-amp",
        "--help",
        "-b",
        "-x",
        "data",
        "--",
        "--zzzzzzzzzzzz",
        "--a b",
    ];
    let said = [
        ("--batch_size", "--batch-size"),
        ("--batchsize=3", "--batch-size"),
        ("--epocs", "--epochs"),
        ("--zzzzzzzzzzzz", ""),
    ];
    let said = said.map(|(word, meant)| (word, meant.to_owned()));
    assert_eq!(refused(&[ARGPARSE], &words), said);
    let strict = ARGPARSE.replace("ArgumentParser()", "ArgumentParser(allow_abbrev=False)");
    assert_eq!(refused(&[&strict], &["--batch"])[0].0, "--batch");
}

#[test]
fn click_and_typer_take_no_beginnings() {
    let click = "import click\n@click.command()\n@click.option('--batch-size', default=4)\n\
        @click.option('--amp/--no-amp')\ndef main(batch_size, amp): pass\n";
    let typer = "import typer\napp = typer.Typer()\n@app.command()\ndef main(batch_size: int = 4, amp: bool = True): pass\n";
    for text in [click, typer] {
        let words = [
            "--batch-size",
            "--amp",
            "--no-amp",
            "--help",
            "--batch_size",
            "--batch",
        ];
        let said = refused(&[text], &words);
        let said: Vec<&str> = said.iter().map(|(word, _)| *word).collect();
        assert_eq!(said, ["--batch_size", "--batch"], "{text}");
    }
    for open in [
        click.replace("@click.option('--amp", "@common\n@click.option('--amp"),
        click.replace("command()", "command(context_settings=C)"),
        click.replace("'--amp/--no-amp'", "NAME"),
        click.replace("command()", "group()"),
        format!("{click}@click.command()\ndef other(): pass\n"),
    ] {
        assert_eq!(read(&[&open]), None, "{open}");
    }
}

#[test]
fn a_parser_that_other_code_may_fill_or_that_is_not_reached_is_not_whole() {
    for (here, other) in [
        ("p.parse_args()", "p.parse_known_args()"),
        ("p.parse_args()", "p.parse_args(words)"),
        ("p.parse_args()", "p.parse_args() if x else None"),
        ("ArgumentParser()", "ArgumentParser(parents=[base])"),
        ("p.add_argument('--epochs')", "lib.add(p)"),
        ("p.add_argument('--epochs')", "add(p)"),
        ("p.add_argument('--epochs')", "p.add_argument(f'--{n}')"),
        ("p.add_argument('--epochs')", "p.add_argument('-e', LONG)"),
        (
            "p.add_argument('--epochs')",
            "p.add_argument('rest', nargs='...')",
        ),
        ("p.add_argument('--epochs')", "add = p.add_argument"),
        ("args = parse()", "import hydra"),
        ("args = parse()", "q = argparse.ArgumentParser()"),
        ("args = parse()", "import sys; sys.argv = []"),
        ("argparse.ArgumentParser()", "make()"),
    ] {
        let open = ARGPARSE.replace(here, other);
        assert_ne!(open, ARGPARSE, "{other}");
        assert_eq!(read(&[&open]), None, "{open}");
    }
    let own = ARGPARSE.replace("p.add_argument('--epochs')", "add(p)");
    let adds = "def add(p):\n  p.add_argument('--lr')\n";
    assert!(read(&[&own, adds]).is_some());
    let handed_on = "def add(p):\n  p.add_argument('--lr')\n  lib.add(p)\n";
    assert_eq!(read(&[&own, handed_on]), None);
    // A file that is imported is not started, and its functions are called by others.
    let own = ARGPARSE.replace("args = parse()", "");
    assert!(read(&["from args import parse\nargs = parse()\n", &own]).is_some());
    assert_eq!(read(&["import args\nimport fire\n", &own]), None);
    // A function of its own may have the name of the parser's.
    let own = ARGPARSE.replace("def parse()", "def parse_args()");
    assert!(read(&[&own.replace("= parse()", "= parse_args()")]).is_some());
    assert_eq!(read(&[&own.replace("= parse()", "= other()")]), None);
    let margin = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x')\nif __name__ == '__main__':\n  p.parse_args()\n";
    assert!(read(&[margin]).is_some());
    assert_eq!(read(&["import args\n", margin]), None);
}

#[test]
fn all_options_are_known_where_one_parser_has_them_and_nobody_adds_more() {
    let whole = "p = ArgumentParser()\np.add_argument('--bs', '-b')\np.add_argument('data')\np.parse_args()\n";
    let all = vec!["--bs".to_owned(), "-b".to_owned()];
    assert_eq!(all_options(whole), Some(all));
    for open in [
        whole.replace("parse_args", "parse_known_args"),
        whole.replace("ArgumentParser()", "ArgumentParser(parents=[base])"),
        whole.replace("'data'", "f'--{name}'"),
        whole.replace("ArgumentParser()", "make()"),
        "HfArgumentParser(Own).parse_args_into_dataclasses()".to_owned(),
    ] {
        assert_eq!(all_options(&open), None, "{open}");
    }
}
