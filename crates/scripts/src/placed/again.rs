//! Whether copies start what the originals start.

use std::collections::BTreeMap;

use super::{CopyPlace, FileCopy};
use crate::adopt::Adoption;
use crate::containers::absolute;
use crate::context::SubmissionContext;
use crate::knobs::find;
use crate::walk::{Call, Submission, joined};

impl Adoption<'_> {
    /// Reads the copies as they will run: the same programs must be started, with the same values.
    pub(super) fn same_again(
        &self,
        copies: &[FileCopy],
        submission: &Submission,
        originals: &BTreeMap<String, String>,
        place: &CopyPlace<'_>,
    ) -> Result<(), String> {
        let meant = Adoption::read(SubmissionContext {
            submission,
            files: originals,
            ..self.given
        });
        let by_root = originals
            .iter()
            .map(|(path, text)| (absolute(path, place.workdir), text.clone()));
        let mut files: BTreeMap<String, String> = by_root.collect();
        files.extend(originals.clone());
        let here = place.folder.strip_prefix(&format!("{}/", place.workdir));
        for copy in copies.iter().skip(1) {
            for folder in [Some(place.folder), here].into_iter().flatten() {
                files.insert(format!("{folder}/{}", copy.name), copy.text.clone());
            }
        }
        if let Some(entry) = copies.first() {
            // Without the line of ours, whose exports the originals lack.
            let ours = place.head.map(|head| format!("{head}\n"));
            let text = ours.map_or(entry.text.clone(), |ours| entry.text.replacen(&ours, "", 1));
            files.insert(submission.script.clone(), text);
        }
        let is = Adoption::read(SubmissionContext {
            submission,
            files: &files,
            ..self.given
        });
        let stack = |a: &Adoption<'_>| a.stack.map(|s| s.name.clone());
        if stack(&meant) != stack(&is) || meant.calls().count() != is.calls().count() {
            return Err("a copy would start other programs".to_owned());
        }
        // A knob that names a file names its copy.
        let original = |call: &Call, text: String| {
            let outside = call.container.as_ref().and_then(|c| c.outside(&text));
            let text = outside.unwrap_or(text);
            let folder = call.folder.as_deref().unwrap_or_default();
            let path = absolute(&joined(folder, &text), place.workdir);
            let is = |copy: &&FileCopy| path == format!("{}/{}", place.folder, copy.name);
            let copied = copies.iter().find(is);
            copied.map_or(path.clone(), |copy| absolute(&copy.original, place.workdir))
        };
        let knobs = meant.stack.iter().flat_map(|s| &s.knobs);
        for knob in knobs {
            for (old, new) in meant.calls().zip(is.calls()) {
                let value = |a: &Adoption<'_>, call| {
                    find(&a.reading, call, knob)
                        .map(|f| (original(call, f.value.text()), f.way, f.maybe))
                };
                if value(&meant, old) != value(&is, new) {
                    let given = find(&meant.reading, old, knob).and_then(|f| f.place());
                    let at = given.and_then(|span| meant.reading.place(span));
                    let at = at.map_or_else(String::new, |at| format!(" ({at})"));
                    return Err(format!("in a copy, {}{at} would change, too", knob.name));
                }
            }
        }
        Ok(())
    }
}
