//! Expressions in presets: arithmetic between knobs, written in the template engine's language so
//! that presets and templates share one notation.

mod scope;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use minijinja::{Environment, Error, ErrorKind, Expression, UndefinedBehavior, Value as Jinja};

use oomctl_base::Value;
use oomctl_base::units::{Bytes, parse_duration_s, slurm_mem};

pub use scope::Scope;

/// Steps that one expression or template may take; a loop of a million ends in an error.
const FUEL: u64 = 500_000;
/// Bytes of one expression, or of a message with values in it. The engine goes down a level of the stack
/// for each link of a chain (`a.b.c`, `a|b|c`) and has no limit of its own for these.
const LONGEST: usize = 4_096;
/// Nesting that one expression or template may have.
const RECURSION: usize = 64;

/// A template environment with our functions and limits and no template in it.
pub fn environment(version: Option<&semver::Version>) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(RECURSION);
    let version = version.cloned();
    env.add_function("version_at_least", move |least: String| {
        at_least(version.as_ref(), &least)
    });
    env.add_function("ceil", |x: f64| whole(x.ceil()));
    env.add_function("floor", |x: f64| whole(x.floor()));
    env.add_function("gcd", gcd);
    env.add_function("lcm", |a: i64, b: i64| match gcd(a, b) {
        0 => 0,
        g => (a / g).saturating_mul(b).saturating_abs(),
    });
    env.add_function("bytes", |text: String| {
        Bytes::parse(&text).map(|b| b.0).map_err(bad)
    });
    env.add_function("seconds", |text: String| {
        parse_duration_s(&text).map_err(bad)
    });
    env.add_function("mib", slurm_mem);
    env
}

fn bad(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn whole(x: f64) -> i64 {
    x as i64
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.saturating_abs(), b.saturating_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn at_least(version: Option<&semver::Version>, least: &str) -> Result<bool, Error> {
    let least = semver::Version::parse(least)
        .map_err(|e| bad(format!("version_at_least(\"{least}\"): {e}")))?;
    Ok(version.is_none_or(|v| *v >= least))
}

/// A knob's value for expressions and templates: null is `none`, sizes and durations stay text.
pub fn to_jinja(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(b) => Jinja::from(*b),
        Value::Int(i) => Jinja::from(*i),
        Value::Float(x) => Jinja::from(*x),
        Value::Text(t) => Jinja::from(t.as_str()),
        Value::List(items) => Jinja::from(items.clone()),
        Value::Map(map) => Jinja::from(map.clone()),
    }
}

/// The result of an expression as a knob's value; `None` where it is no value of ours.
pub fn from_jinja(value: &Jinja) -> Option<Value> {
    match serde_json::to_value(value).ok()? {
        serde_json::Value::Null => Some(Value::Null),
        serde_json::Value::Bool(b) => Some(Value::Bool(b)),
        serde_json::Value::Number(n) => match n.as_i64() {
            Some(i) => Some(Value::Int(i)),
            None => n.as_f64().map(Value::Float),
        },
        serde_json::Value::String(t) => Some(Value::Text(t)),
        serde_json::Value::Array(items) => items
            .into_iter()
            .map(|i| i.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .map(Value::List),
        serde_json::Value::Object(_) => None,
    }
}

/// The names that an expression uses: of a dotted name the first two parts, as knobs are named.
pub fn names(expression: &Expression<'_, '_>) -> BTreeSet<String> {
    expression
        .undeclared_variables(true)
        .into_iter()
        .map(|n| n.splitn(3, '.').take(2).collect::<Vec<_>>().join("."))
        .collect()
}

/// Checks that an expression, or a message with values in it, is not too long.
///
/// # Errors
/// How long it is, and how it begins.
pub fn check_length(text: &str) -> Result<(), String> {
    if text.len() <= LONGEST {
        return Ok(());
    }
    let start: String = text.chars().take(40).collect();
    let length = text.len();
    Err(format!(
        "`{start}…` has {length} bytes; the limit is {LONGEST}"
    ))
}

/// Evaluates `text` in `scope`.
///
/// # Errors
/// The engine's own message, with the expression.
pub fn evaluate(env: &Environment<'_>, text: &str, scope: &Scope) -> Result<Jinja, String> {
    check_length(text)?;
    env.compile_expression_owned(text.to_owned())
        .and_then(|e| e.eval(scope.context()))
        .map_err(|e| describe(text, &e))
}

/// Expressions that are compiled once, when they are first asked for.
pub struct Expressions<'a> {
    env: &'a Environment<'static>,
    known: RefCell<BTreeMap<String, CompiledExpression<'a>>>,
}

/// A compiled expression; `None` for a text that is none.
pub type CompiledExpression<'a> = Option<Rc<Expression<'a, 'static>>>;

impl<'a> Expressions<'a> {
    /// In an environment.
    pub fn new(env: &'a Environment<'static>) -> Self {
        Self {
            env,
            known: RefCell::default(),
        }
    }

    /// The expression of a text.
    pub fn of(&self, text: &str) -> CompiledExpression<'a> {
        let mut known = self.known.borrow_mut();
        if let Some(compiled) = known.get(text) {
            return compiled.clone();
        }
        let compiled = check_length(text).ok().and_then(|()| {
            let compiled = self.env.compile_expression_owned(text.to_owned());
            compiled.ok().map(Rc::new)
        });
        known.insert(text.to_owned(), compiled.clone());
        compiled
    }

    /// The expression of a text that is evaluated in many scopes.
    pub fn prepared(&self, text: &'a str) -> Prepared<'a> {
        Prepared {
            text,
            env: self.env,
            compiled: self.of(text),
        }
    }

    /// As [`evaluate`].
    ///
    /// # Errors
    /// As there.
    pub fn evaluate(&self, text: &str, scope: &Scope) -> Result<Jinja, String> {
        value(self.env, text, self.of(text).as_deref(), scope)
    }

    /// As [`holds`].
    ///
    /// # Errors
    /// As there.
    pub fn holds(&self, text: &str, scope: &Scope) -> Result<bool, String> {
        self.evaluate(text, scope).map(|v| v.is_true())
    }
}

/// An expression that is compiled once for many scopes.
pub struct Prepared<'a> {
    text: &'a str,
    env: &'a Environment<'static>,
    compiled: CompiledExpression<'a>,
}

impl Prepared<'_> {
    /// As [`evaluate`].
    ///
    /// # Errors
    /// As `evaluate`.
    pub fn evaluate(&self, scope: &Scope) -> Result<Jinja, String> {
        value(self.env, self.text, self.compiled.as_deref(), scope)
    }
}

/// The value of a text that was compiled, or what is wrong with it where it could not be.
fn value(
    env: &Environment<'_>,
    text: &str,
    compiled: Option<&Expression<'_, '_>>,
    scope: &Scope,
) -> Result<Jinja, String> {
    let Some(compiled) = compiled else {
        return evaluate(env, text, scope);
    };
    let value = compiled.eval(scope.context());
    value.map_err(|e| describe(text, &e))
}

/// Evaluates `text` as a yes or no.
///
/// # Errors
/// As `evaluate`.
pub fn holds(env: &Environment<'_>, text: &str, scope: &Scope) -> Result<bool, String> {
    evaluate(env, text, scope).map(|v| v.is_true())
}

/// An engine error in one line, with the expression it happened in.
pub fn describe(text: &str, error: &Error) -> String {
    let detail = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    format!("in expression `{text}`: {detail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let mut s = Scope::default();
        s.set("train_batch", Jinja::from(1024));
        s.set("rollout.n", Jinja::from(5));
        s.set("mem", Jinja::from("2G"));
        s
    }

    #[test]
    fn dotted_names_are_groups_and_integers_stay_integers() {
        let env = environment(None);
        let value = evaluate(&env, "train_batch * rollout.n // 3", &scope()).unwrap();
        assert_eq!(from_jinja(&value), Some(Value::Int(1706)));
        let e = env.compile_expression("train_batch % rollout.n").unwrap();
        assert_eq!(
            names(&e).into_iter().collect::<Vec<_>>(),
            ["rollout.n", "train_batch"]
        );
    }

    #[test]
    fn functions_and_errors() {
        let env = environment(Some(&semver::Version::new(0, 6, 1)));
        let s = scope();
        assert!(holds(&env, "lcm(8, 12) == 24 and ceil(7 / 2) == 4", &s).unwrap());
        assert!(holds(&env, "bytes(mem) == 2147483648", &s).unwrap());
        assert!(holds(&env, "version_at_least('0.6.0')", &s).unwrap());
        assert!(!holds(&env, "version_at_least('0.7.0')", &s).unwrap());
        assert!(evaluate(&env, "nothing_here + 1", &s).is_err());
        let endless = "[x for x in y]";
        assert!(evaluate(&env, endless, &s).is_err());
        assert!(evaluate(&env, "1 % 0", &s).is_err());
        let chain = format!("mem{}", "|e".repeat(100_000));
        assert!(evaluate(&env, &chain, &s).unwrap_err().contains("limit"));
    }
}
