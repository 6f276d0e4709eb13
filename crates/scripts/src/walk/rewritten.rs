//! Files that commands of a script write before its program reads them, with text that is not known.

use super::Walker;
use super::call::Arg;
use super::doc::Doc;
use crate::shell::{RedirectTarget, SimpleCommand};
use crate::traced::Traced;

/// Files that are remembered.
const MAX_REWRITTEN: usize = 4_096;

/// Commands that write the last file that they name.
const TO_THE_LAST: [&str; 5] = ["cp", "mv", "install", "ln", "rsync"];

/// Commands that change files in their place, where an option says so.
const IN_PLACE: [&str; 4] = ["sed", "yq", "perl", "gawk"];

/// Beginnings of options behind which a program is told where to write, beside `-o`.
const OUTPUT: [&str; 2] = ["--out", "--save"];

impl Walker<'_> {
    /// Remembers the files that a command writes.
    pub(super) fn remember_rewritten(&mut self, command: &SimpleCommand, args: &[Arg], doc: &Doc) {
        let mut written: Vec<Traced> = Vec::new();
        for redirect in &command.redirects {
            if let (true, RedirectTarget::File(word)) =
                (redirect.operator.contains('>'), &redirect.target)
            {
                written.push(self.text_of(&word.pieces, doc));
            }
        }
        written.extend(written_by(args).into_iter().map(|arg| arg.text.clone()));
        for word in written {
            let Some(mut path) = self.resolved(&word, doc) else {
                continue;
            };
            // Into a folder the file goes under its own name.
            if word.text().ends_with('/') {
                let from = args.iter().rev().nth(1).map(|arg| arg.text.text());
                let name = from.as_deref().and_then(|from| from.rsplit('/').next());
                path = format!(
                    "{}/{}",
                    path.trim_end_matches('/'),
                    name.unwrap_or_default()
                );
            }
            if self.out.rewritten.len() < MAX_REWRITTEN {
                self.out.created.remove(&path);
                self.out.rewritten.insert(path);
            }
        }
    }
}

/// The words of a command that name what it writes.
fn written_by(args: &[Arg]) -> Vec<&Arg> {
    let Some((first, rest)) = args.split_first() else {
        return Vec::new();
    };
    let name = first.text.text();
    let name = name.rsplit('/').next().unwrap_or_default();
    let in_place = |arg: &Arg| {
        let text = arg.text.text();
        text.starts_with("-i") || text.starts_with("--in-place") || text.starts_with("--inplace")
    };
    if name == "tee" || IN_PLACE.contains(&name) && rest.iter().any(in_place) {
        let is_option = |arg: &&Arg| arg.text.text().starts_with('-');
        return rest.iter().filter(|arg| !is_option(arg)).collect();
    }
    if TO_THE_LAST.contains(&name) {
        return rest.last().into_iter().collect();
    }
    let is_output = |arg: &Arg| {
        let text = arg.text.text();
        text == "-o" || OUTPUT.iter().any(|option| text.starts_with(option))
    };
    let pairs = rest.windows(2).filter(|pair| is_output(&pair[0]));
    pairs.map(|pair| &pair[1]).collect()
}
