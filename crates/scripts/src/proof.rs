//! By what a stack is recognised, for people.

use super::stack::{Stack, is_key};
use super::walk::{Call, CallTarget};

impl Stack {
    /// The class or option of a call that speaks for it, where its program is not one of the stack's own.
    pub fn proof(&self, call: &Call) -> Option<&str> {
        let recognise = &self.recognise;
        if self.is_own(call) {
            return None;
        }
        let words: Vec<String> = call.words.iter().map(|w| w.text.text()).collect();
        let names = call.names.as_ref();
        let mut classes = recognise.uses.iter();
        let class = classes.find(|class| names.is_some_and(|n| n.contains_key(*class)));
        let mut keys = recognise.keys.iter();
        let sign = class.or_else(|| keys.find(|key| words.iter().any(|word| is_key(word, key))));
        sign.map(String::as_str)
    }

    fn is_own(&self, call: &Call) -> bool {
        let recognise = &self.recognise;
        match &call.target {
            CallTarget::Script(path) => {
                let file = path.rsplit('/').next();
                recognise
                    .scripts
                    .iter()
                    .any(|own| Some(own.as_str()) == file)
            }
            CallTarget::Module(_) | CallTarget::Program(_) => true,
            CallTarget::Code => false,
        }
    }
}
