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
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::tests::start::request;
    use super::*;
    use crate::core::adopt::Scripts;

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
    #[test]
    fn tasks_of_one_array_share_what_was_read_of_their_scripts_and_other_arguments_do_not() {
        let mut stacks = Stacks::new();
        let text = "#!/bin/bash\n#SBATCH --array=0-3\n./embed \"$1\"\n";
        let job = |args: &[&str]| Inputs {
            scripts: Some(Scripts {
                script: "job.sh".to_owned(),
                args: args.iter().map(|a| (*a).to_owned()).collect(),
                files: BTreeMap::from([("job.sh".to_owned(), text.to_owned())]).into(),
                ..Scripts::default()
            }),
            ..request("a", &[], &[]).inputs().clone()
        };
        let whole = Request::new(job(&["gems"])).unwrap();
        let list = whole.array().unwrap();
        let task = |index| {
            let task = whole.task(&format!("a_{index}"), index, list.as_ref());
            let stored = serde_json::to_string(task.inputs()).unwrap();
            serde_json::from_str(&stored).unwrap()
        };
        let [first, second] = [0, 3].map(|index| stacks.request(task(index)).unwrap());
        assert!(std::ptr::eq(first.preset(), second.preset()));
        let files = |r: &Request| Arc::clone(&r.inputs().scripts.as_ref().unwrap().files);
        assert!(Arc::ptr_eq(&files(&first), &files(&second)));
        let list = |r: &Request| r.array().unwrap();
        assert_eq!((list(&first), list(&second)), (None, None));
        let handed = second.own_handed(&[]).unwrap().unwrap();
        assert_eq!(handed.options, ["--array=3"]);
        let other = stacks.request(job(&["coals"])).unwrap();
        assert!(!std::ptr::eq(first.preset(), other.preset()));
    }
}
