//! What requests have in common: thousands of runs of a few stacks hold the texts of each stack, and what was made of
//! them, once.

use super::inputs::Inputs;
use super::request::Request;
use oomctl_base::Refusal;

/// Most stacks that are kept in mind. A project has a few; the runs of one more than this hold their own.
const STACKS_MAX: usize = 32;

/// The stacks that were met so far, one request of each.
#[derive(Debug, Default)]
pub struct Stacks {
    known: Vec<Request>,
}

impl Stacks {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The request of these inputs, which shares with those before it what it has in common with them.
    ///
    /// # Errors
    /// As [`Request::new`].
    pub fn request(&mut self, inputs: Inputs) -> Result<Request, Refusal> {
        if let Some(like) = self
            .known
            .iter()
            .find(|r| r.inputs().is_same_stack(&inputs))
        {
            return Ok(like.sibling(inputs));
        }
        let request = Request::new(inputs)?;
        if self.known.len() < STACKS_MAX {
            self.known.push(request.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::start::request;
    use super::*;

    #[test]
    fn runs_of_one_stack_share_it_and_another_stack_is_its_own() {
        let mut stacks = Stacks::new();
        let inputs = |run: &str| Inputs {
            run: run.to_owned(),
            ..request(run, &[], &[]).inputs().clone()
        };
        let first = stacks.request(inputs("a")).unwrap();
        let second = stacks.request(inputs("b")).unwrap();
        assert!(std::ptr::eq(first.preset(), second.preset()));
        assert_eq!(
            (first.inputs().run.as_str(), second.inputs().run.as_str()),
            ("a", "b")
        );
        let mut other = inputs("c");
        let mut templates = (*other.templates).clone();
        templates
            .values_mut()
            .for_each(|text| text.push_str("# another\n"));
        other.templates = templates.clone().into();
        let third = stacks.request(other).unwrap();
        assert!(!std::ptr::eq(first.preset(), third.preset()));
        assert_eq!(*third.inputs().templates, templates);
        assert_ne!(*first.inputs().templates, templates);
        let fourth = stacks.request(inputs("d")).unwrap();
        assert!(
            std::ptr::eq(first.preset(), fourth.preset()),
            "the first is still known"
        );
        let stored = serde_json::to_string(fourth.inputs()).unwrap();
        assert_eq!(stored, serde_json::to_string(&inputs("d")).unwrap());
    }
}
