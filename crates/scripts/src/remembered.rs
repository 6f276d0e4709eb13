//! What was read last. A decision asks about the same scripts a hundred times and changes them twenty times.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::context::SubmissionContext;
use super::launchers::Launchers;
use super::stack::Stack;
use super::walk::{Reading, Submission};

/// Readings that are kept: as many as one decision asks for.
const KEPT: usize = 24;
/// Bytes of files that are kept with them.
const KEPT_BYTES: usize = 32 << 20;

thread_local! {
    static LAST: RefCell<VecDeque<Remembered>> = const { RefCell::new(VecDeque::new()) };
}

/// What a submission was understood to start.
#[derive(Debug, Clone)]
pub(super) struct Understood {
    pub reading: Rc<Reading>,
    /// Number of the stack, where one was recognised.
    pub stack: Option<usize>,
    /// Numbers of the calls that start it.
    pub calls: Vec<usize>,
    /// Options can be added to these calls.
    pub sure: bool,
}

#[derive(Debug)]
struct Remembered {
    submission: Submission,
    files: BTreeMap<String, String>,
    launchers: Launchers,
    stacks: Arc<Vec<Stack>>,
    understood: Understood,
}

impl Remembered {
    fn bytes(&self) -> usize {
        self.files.values().map(String::len).sum()
    }

    fn is_of(&self, given: &SubmissionContext<'_>) -> bool {
        Arc::ptr_eq(&self.stacks, given.stacks)
            && self.submission == *given.submission
            && self.files == *given.files
            && self.launchers == *given.launchers
    }
}

/// What was understood of a submission, or is `understood` now.
pub(super) fn remembered(
    given: SubmissionContext<'_>,
    understand: impl FnOnce() -> Understood,
) -> Understood {
    let known = LAST.with_borrow_mut(|last| {
        let at = last.iter().position(|r| r.is_of(&given))?;
        let found = last.remove(at)?;
        let understood = found.understood.clone();
        last.push_back(found);
        Some(understood)
    });
    known.unwrap_or_else(|| {
        let understood = understand();
        LAST.with_borrow_mut(|last| {
            last.push_back(Remembered {
                submission: given.submission.clone(),
                files: given.files.clone(),
                launchers: given.launchers.clone(),
                stacks: Arc::clone(given.stacks),
                understood: understood.clone(),
            });
            let bytes =
                |last: &VecDeque<Remembered>| last.iter().map(Remembered::bytes).sum::<usize>();
            while last.len() > KEPT || bytes(last) > KEPT_BYTES {
                last.pop_front();
            }
        });
        understood
    })
}
