//! By what a stack is recognised, for people.

use super::given_keys::GivenKeys;
use super::stack::{Stack, any};
use super::walk::{Call, CallTarget};

impl Stack {
    /// The class or option of a call that speaks for it, where its program is not one of the stack's own.
    pub fn proof(&self, call: &Call) -> Option<&str> {
        let recognise = &self.recognise;
        if self.is_own(call) {
            return None;
        }
        let given = GivenKeys::of_call(call);
        let names = call.names.as_ref();
        let mut classes = recognise.uses.iter();
        let class = classes.find(|class| names.is_some_and(|n| n.contains_key(*class)));
        let mut keys = recognise.keys.iter();
        let sign = class.or_else(|| keys.find(|key| given.has(key)));
        sign.map(String::as_str)
    }

    fn is_own(&self, call: &Call) -> bool {
        match &call.target {
            CallTarget::Script(path) => {
                let file = path.rsplit('/').next().unwrap_or_default();
                any(&self.recognise.scripts, file)
            }
            CallTarget::Module(_) | CallTarget::Program(_) => true,
            CallTarget::Code => false,
        }
    }
}
