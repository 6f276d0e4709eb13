//! Scripts and what is read of them.

use super::{ScriptBlock, ShellScript, SimpleCommand, Word, WordPiece, read};

fn commands(blocks: &[ScriptBlock]) -> Vec<&SimpleCommand> {
    let mut all = Vec::new();
    for block in blocks {
        match block {
            ScriptBlock::Command(command) => all.push(command),
            ScriptBlock::Branches { branches, .. } => {
                all.extend(branches.iter().flat_map(|b| commands(b)));
            }
            ScriptBlock::Loop {
                condition, body, ..
            } => {
                all.extend(commands(condition));
                all.extend(commands(body));
            }
            ScriptBlock::Subshell(inner)
            | ScriptBlock::Maybe(inner)
            | ScriptBlock::Redirected { inner, .. } => all.extend(commands(inner)),
            ScriptBlock::Pipeline(parts) => {
                parts.iter().for_each(|part| all.extend(commands(part)));
            }
            ScriptBlock::Test { .. } => {}
            ScriptBlock::Function { body, .. } => all.extend(commands(body)),
        }
    }
    all
}

/// A word as its pieces: text as it is, `<escape>`, `${name}`, `(code)`.
fn shown(word: &Word, text: &str) -> String {
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text { start, end, .. } => text[*start..*end].to_owned(),
        WordPiece::Escape { text, .. } => format!("<{text}>"),
        WordPiece::Variable(variable) => format!("${{{}}}", variable.name),
        WordPiece::Code { start, end, .. } => format!("({})", &text[*start..*end]),
    };
    let mut all: String = word.pieces.iter().map(piece).collect();
    if let Some(list) = &word.list {
        let list: Vec<String> = list.iter().map(|w| shown(w, text)).collect();
        all += &format!("[{}]", list.join("|"));
    }
    all
}

fn check(text: &str, expected: &[&str]) -> ShellScript {
    let script = read(text);
    let of = |command: &SimpleCommand| {
        let assigned = command.assignments.iter();
        let mut words: Vec<String> = assigned
            .map(|a| {
                let sign = if a.append { "+=" } else { "=" };
                format!("{}{sign}{}", a.name, shown(&a.value, text))
            })
            .collect();
        words.extend(command.words.iter().map(|w| shown(w, text)));
        words.join(" ")
    };
    let found: Vec<String> = commands(&script.blocks).into_iter().map(of).collect();
    assert_eq!(found, expected, "{text}");
    script
}

#[test]
fn words_are_read_through_quotes_escapes_and_continued_lines() {
    check(
        "python train.py \\\n    --bs 32 # no\n",
        &["python train.py --bs 32"],
    );
    check("a 'x y' \"b $c\" d\\ e ''", &["a x y b ${c} d< >e "]);
    check(
        "a --x=\"${B}\"'c'$(date +%s)`id`",
        &["a --x=${B}c($(date +%s))(`id`)"],
    );
    check(
        "a ${B:-32} ${B%%.*} ${#B[@]} ${!B}",
        &["a ${B} ${B} (${#B[@]}) (${!B})"],
    );
    check("a \"$(echo \")\" ')')\" b", &["a ($(echo \")\" ')')) b"]);
    check("a \"x \\\n  y\"\r\nb\r\n", &["a x   y", "b"]);
    check("a $((4 * (2+1))) é=ü $", &["a ($((4 * (2+1)))) é=ü $"]);
}

#[test]
fn assignments_lists_and_streams_are_no_words() {
    check(
        "ARGS=(\n  --a 1 # one\n  \"$B\"\n)\nARGS+=(--c)\n",
        &["ARGS=[--a|1|${B}]", "ARGS+=[--c]"],
    );
    check("A=1 B='2 3' run x=4 >log 2>&1 &", &["A=1 B=2 3 run x=4"]);
    check("export A=1", &["export A=1"]);
    check("A=; B=\"\"", &["A=", "B="]);
}

#[test]
fn here_documents_are_bodies_and_no_commands() {
    let text = "cat > c.json <<EOF\n{\"a\": $A}\nEOF\ncat <<-'X' | sh\n\tls $B\n\tX\nend\n";
    let script = check(text, &["cat", "cat", "sh", "end"]);
    let bodies: Vec<String> = script
        .heres
        .iter()
        .map(|pieces| {
            let word = Word {
                pieces: pieces.clone(),
                ..Word::default()
            };
            shown(&word, text)
        })
        .collect();
    assert_eq!(bodies, ["{\"a\": ${A}}\n", "ls $B\n"]);
}

#[test]
fn blocks_are_read_with_what_they_depend_on() {
    check(
        "if [ -z \"$A\" ]; then a; elif b; then c; else d; fi",
        &["[ -z ${A} ]", "a", "b", "c", "d"],
    );
    check("for x in 1 2; do a $x; done; b", &["a ${x}", "b"]);
    check(
        "while [[ $# -gt 0 && ( a || b ) ]]; do\ncase $1 in\n --x|-x) A=$2; shift 2 ;;\n *) exit 1;;\nesac\ndone\nb",
        &["A=${2}", "shift 2", "exit 1", "b"],
    );
    check(
        "run() {\n a \"$@\"\n}\nfunction go { b; }\nrun 1 && go || c",
        &["a ${@}", "b", "run 1", "go", "c"],
    );
    check(
        "(cd x; a) | tee log; (( i++ )); b",
        &["cd x", "a", "tee log", "b"],
    );
}

#[test]
fn what_is_no_shell_is_a_fault_and_ends() {
    for text in [
        "a 'b",
        "a \"b",
        "a $(b",
        "a ${b",
        "if a; then b",
        "fi",
        "}",
        ")",
        "case",
        "case x in",
        "a <<EOF\nb",
        "for",
        "a=(b",
        "((",
        "a ((b",
        "[[ a",
        "<",
        "`",
    ] {
        assert!(!read(text).faults.is_empty(), "{text}");
    }
    for nested in ["(", "${a:-", "$(", "if ", "{ ", "a=(", "\"$(", "while "] {
        let _ = read(&nested.repeat(20_000));
    }
}
