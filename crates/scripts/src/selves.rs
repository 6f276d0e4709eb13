//! Where a script asks for its own name: `$0`, `${0%/*}`, `${BASH_SOURCE[0]}`.

use std::ops::Range;

use super::shell::{self, WordPiece, in_name};
use super::traced::Quote;

/// A place at which a script asks for its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SelfReference {
    /// First byte of what is replaced.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// The name within braces, which stay; else all of it.
    pub braced: bool,
    /// `$0`, which in a file that is taken over is another's name.
    pub is_zero: bool,
}

/// What the text is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Bare,
    Double,
    /// A here-document in which variables are replaced; quotes are text.
    Document,
    /// `$( … )`, with the parentheses that are open in it.
    Code(usize),
}

/// The body of a here-document.
struct HereDocument {
    start: usize,
    end: usize,
    /// Nothing in it is replaced.
    quoted: bool,
}

/// The bodies of a script's here-documents, in order; None where not all of them are seen.
fn documents(text: &str) -> Option<Vec<HereDocument>> {
    let heres = shell::read(text).heres;
    // A here-string (`<<<`) is none.
    if text.replace("<<<", "").matches("<<").count() != heres.len() {
        return None;
    }
    let documents = heres.iter().filter_map(|pieces| {
        let quoted = |p: &WordPiece| {
            matches!(
                p,
                WordPiece::Text {
                    quote: Quote::Raw,
                    ..
                }
            )
        };
        let (first, last) = (pieces.first()?, pieces.last()?);
        Some(HereDocument {
            start: bytes(first).0,
            end: bytes(last).1,
            quoted: quoted(first),
        })
    });
    Some(documents.collect())
}

fn bytes(piece: &WordPiece) -> (usize, usize) {
    match piece {
        WordPiece::Variable(variable) => (variable.start, variable.end),
        WordPiece::Text { start, end, .. }
        | WordPiece::Escape { start, end, .. }
        | WordPiece::Code { start, end, .. } => (*start, *end),
    }
}

/// The places outside single quotes, comments and quoted here-documents, in order; None where the script is not clear enough
/// to tell.
pub(super) fn own_names(text: &str) -> Option<Vec<SelfReference>> {
    let documents = documents(text)?;
    let (mut found, mut from) = (Vec::new(), 0);
    for document in documents {
        find(text, from..document.start, Inside::Bare, &mut found);
        if !document.quoted {
            let body = document.start..document.end;
            find(text, body, Inside::Document, &mut found);
        }
        from = document.end;
    }
    find(text, from..text.len(), Inside::Bare, &mut found);
    Some(found)
}

/// Those in a stretch of the text.
fn find(text: &str, stretch: Range<usize>, outside: Inside, found: &mut Vec<SelfReference>) {
    let bytes = &text.as_bytes()[..stretch.end];
    let (mut inside, mut at) = (vec![outside], stretch.start);
    while at < bytes.len() {
        let now = inside.last().copied().unwrap_or(outside);
        let quoted = matches!(now, Inside::Double | Inside::Document);
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' if !quoted => at = past(bytes, at + 1, b'\''),
            b'"' if now == Inside::Double => drop(inside.pop()),
            b'"' if !quoted => inside.push(Inside::Double),
            b'#' if !quoted && begins_word(bytes, at) => at = past(bytes, at, b'\n'),
            b'$' if bytes.get(at + 1) == Some(&b'(') => {
                inside.push(Inside::Code(0));
                at += 1;
            }
            b'$' => {
                if let Some(own) = own_name(text, at) {
                    at = own.end - 1;
                    found.push(own);
                }
            }
            other => parentheses(other, &mut inside),
        }
        at += 1;
    }
}

/// Counts parentheses within code; the last one ends it.
fn parentheses(byte: u8, inside: &mut Vec<Inside>) {
    match (byte, inside.last_mut()) {
        (b'(', Some(Inside::Code(open))) => *open += 1,
        (b')', Some(Inside::Code(0))) => drop(inside.pop()),
        (b')', Some(Inside::Code(open))) => *open -= 1,
        _ => {}
    }
}

fn past(bytes: &[u8], from: usize, mark: u8) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    memchr::memchr(mark, rest).map_or(bytes.len(), |length| from + length)
}

fn begins_word(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1)
        .is_none_or(|before| bytes[before].is_ascii_whitespace() || bytes[before] == b';')
}

/// The name that a `$` begins, where it is the script's own.
fn own_name(text: &str, at: usize) -> Option<SelfReference> {
    let rest = &text[at + 1..];
    let braced = rest.starts_with('{');
    let name = rest.strip_prefix('{').unwrap_or(rest);
    let goes_on = |rest: &str| rest.starts_with(in_name);
    let (length, is_zero) = match (name.strip_prefix('0'), name.strip_prefix("BASH_SOURCE")) {
        (Some(rest), _) if !braced || !goes_on(rest) => (1, true),
        (_, Some(rest)) if !goes_on(rest) => match rest.strip_prefix("[0]") {
            Some(_) if braced => ("BASH_SOURCE[0]".len(), false),
            _ if braced && rest.starts_with('[') => return None,
            _ => ("BASH_SOURCE".len(), false),
        },
        _ => return None,
    };
    let start = if braced { at + 2 } else { at };
    let end = at + 1 + usize::from(braced) + length;
    Some(SelfReference {
        start,
        end,
        braced,
        is_zero,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> String {
        let mut out = text.to_owned();
        for own in own_names(text).unwrap().into_iter().rev() {
            let name = if own.braced { "me" } else { "${me}" };
            out.replace_range(own.start..own.end, name);
        }
        out
    }

    #[test]
    fn a_scripts_own_name_is_found_in_every_form_and_awks_record_is_not() {
        let cases = [
            ("cd \"$(dirname \"$0\")\"", "cd \"$(dirname \"${me}\")\""),
            ("D=${0%/*}; echo $0", "D=${me%/*}; echo ${me}"),
            (
                "$(cd $(dirname ${BASH_SOURCE[0]}) && pwd)",
                "$(cd $(dirname ${me}) && pwd)",
            ),
            ("\"${BASH_SOURCE}\" $BASH_SOURCE", "\"${me}\" ${me}"),
            (
                "awk '{ print $0 }' x # it's $0",
                "awk '{ print $0 }' x # it's $0",
            ),
            (
                "echo \"it's $0\" \\$0 ${01} ${BASH_SOURCE[1]}",
                "echo \"it's ${me}\" \\$0 ${01} ${BASH_SOURCE[1]}",
            ),
            (
                "x=${#a} y=$(awk '{print $0}' f) $0",
                "x=${#a} y=$(awk '{print $0}' f) ${me}",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(replaced(text), wanted);
        }
    }

    #[test]
    fn a_here_document_is_left_alone_where_nothing_in_it_is_replaced() {
        let text = "cd ${0%/*}\ncat <<'EOF' > a.sh\ncd ${0%/*} # it's\nEOF\ncat <<EOF\n\"$0 it's \\$0 $(dirname $0)\nEOF\necho $0\n";
        let wanted = "cd ${me%/*}\ncat <<'EOF' > a.sh\ncd ${0%/*} # it's\nEOF\ncat <<EOF\n\"${me} it's \\$0 $(dirname ${me})\nEOF\necho ${me}\n";
        assert_eq!(replaced(text), wanted);
        assert!(own_names("x=$(cat <<A\n$0\nA\n)\n").is_none());
        assert!(own_names("echo $((1<<2)) $0\n").is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[$0{}()'\"\\\\#a é\n]{0,40}|(\\$\\{?(0|BASH_SOURCE)(\\[0\\])?){0,5}") {
            let _ = own_names(&text);
        }
    }
}
