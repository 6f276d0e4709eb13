//! Values of knobs under trial.

use std::rc::Rc;

use oomctl_base::Value;

/// Values of knobs by their names. A decision tries thousands of them beside each other, so the names are one list that
/// all of them share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// In their order.
    names: Rc<Vec<String>>,
    values: Vec<Value>,
}

/// Where some knobs stand among values that share their names.
#[derive(Debug, Clone, Default)]
pub struct KnobPlaces {
    names: Rc<Vec<String>>,
    places: Vec<Option<usize>>,
}

impl Values {
    /// The value of a knob.
    pub fn get(&self, knob: &str) -> Option<&Value> {
        let at = self.place(knob).ok()?;
        self.values.get(at)
    }

    /// Gives a knob a value; returns the one that it had.
    pub fn set(&mut self, knob: &str, value: Value) -> Option<Value> {
        match self.place(knob) {
            Ok(at) => self.values.get_mut(at).map(|v| std::mem::replace(v, value)),
            Err(at) => {
                Rc::make_mut(&mut self.names).insert(at, knob.to_owned());
                self.values.insert(at, value);
                None
            }
        }
    }

    /// The same knobs with other values.
    pub fn with(&self, value: impl Fn(&str) -> Value) -> Self {
        Self {
            names: Rc::clone(&self.names),
            values: self.names.iter().map(|name| value(name)).collect(),
        }
    }

    /// The values of these knobs, null for one that is not here. `places` remembers where they are for the next time.
    pub fn of(&self, knobs: &[String], places: &mut KnobPlaces) -> Vec<&Value> {
        static NULL: Value = Value::Null;
        if !Rc::ptr_eq(&self.names, &places.names) {
            *places = KnobPlaces {
                names: Rc::clone(&self.names),
                places: knobs.iter().map(|knob| self.place(knob).ok()).collect(),
            };
        }
        let value = |at: &Option<usize>| at.and_then(|at| self.values.get(at)).unwrap_or(&NULL);
        places.places.iter().map(value).collect()
    }

    /// Where a knob stands, or would.
    fn place(&self, knob: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|name| name.as_str().cmp(knob))
    }
}

impl FromIterator<(String, Value)> for Values {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(all: I) -> Self {
        let mut values = Self::default();
        for (knob, value) in all {
            values.set(&knob, value);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[(&str, i64)]) -> Values {
        let all = all.iter().map(|(k, v)| ((*k).to_owned(), Value::Int(*v)));
        all.collect()
    }

    #[test]
    fn a_value_that_is_set_in_a_copy_is_not_seen_in_the_other() {
        let first = values(&[("b", 2), ("a", 1)]);
        let mut second = first.clone();
        assert_eq!(second.set("a", Value::Int(3)), Some(Value::Int(1)));
        assert_eq!(second.set("c", Value::Int(4)), None);
        assert_eq!(first, values(&[("a", 1), ("b", 2)]));
        assert_eq!(second, values(&[("a", 3), ("b", 2), ("c", 4)]));
        assert_eq!(
            (first.get("c"), second.get("c")),
            (None, Some(&Value::Int(4)))
        );
    }

    #[test]
    fn places_that_are_remembered_follow_other_names() {
        let knobs = ["c", "x", "a"].map(str::to_owned);
        let mut places = KnobPlaces::default();
        let first = values(&[("a", 1), ("b", 2), ("c", 3)]);
        let mut second = first.clone();
        second.set("b", Value::Int(5));
        second.set("aa", Value::Int(6));
        for values in [&first, &second, &first.with(|_| Value::Int(3))] {
            let seen = values.of(&knobs, &mut places);
            let get = |knob: &String| values.get(knob).unwrap_or(&Value::Null);
            assert_eq!(seen, knobs.iter().map(get).collect::<Vec<_>>());
        }
    }
}
