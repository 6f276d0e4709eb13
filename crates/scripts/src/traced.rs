//! Text of which every byte knows where it was written.
//!
//! A word of a launch may come from a script, over variables, from a here-document or from the command line. A
//! value that a knob has is found in such a text, and is changed where its bytes stand.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

/// Pieces of one text, and bytes of it, beyond which it is not traced any further.
const MAX_PARTS: usize = 4_096;
/// Bytes of one text.
const MAX_BYTES: usize = 1 << 20;
/// Variables through which a value is followed.
const MAX_USES: usize = 16;

/// Bytes of one file: where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Number of the file, in the order in which a `Reading` lists them.
    pub file: usize,
    /// First byte.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
}

impl Span {
    /// These bytes of a file.
    pub fn new(file: usize, bytes: Range<usize>) -> Self {
        let (start, end) = (bytes.start, bytes.end);
        Self { file, start, end }
    }

    /// The place before a byte of a file.
    pub fn empty(file: usize, at: usize) -> Self {
        Self::new(file, at..at)
    }

    /// The span of this file that begins here and ends where `last` ends.
    pub fn through(self, last: Self) -> Self {
        Self {
            end: last.end.max(self.start),
            ..self
        }
    }
}

/// In which quotes bytes stand, and so what may be put in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quote {
    /// A file's own text, in no shell's quotes.
    Raw,
    /// A word of a shell script without quotes.
    Bare,
    /// Between single quotes.
    Single,
    /// Between double quotes.
    Double,
    /// The body of a here-document in which variables are replaced.
    Here,
    /// Quotes within quotes.
    Nested,
}

impl Quote {
    /// The quotes around bytes that stand in `inner` quotes of a text that itself stands in these.
    pub fn around(self, inner: Self) -> Self {
        match (self, inner) {
            (Self::Raw, inner) => inner,
            (outer, Self::Raw) => outer,
            _ => Self::Nested,
        }
    }
}

/// A place at which a variable's value is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// Name of the variable; a number for an argument of a script.
    pub name: String,
    /// The bytes that name it (`${BS}`), without quotes.
    pub span: Span,
    /// The quotes around them.
    pub quote: Quote,
    /// All that it stands for there.
    pub whole: Rc<str>,
}

/// Why the text of a part is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// A command or a calculation of the shell.
    Code,
    /// A variable that no script sets.
    Environment,
    /// One of several values, depending on a condition.
    Condition,
    /// A variable that takes several values in a loop.
    Loop,
    /// More text than is followed.
    TooLong,
}

impl Why {
    /// The reason in the words of a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Code => "is computed there",
            Self::Environment => "comes from the job's environment",
            Self::Condition => "depends on a condition",
            Self::Loop => "takes several values in a loop",
            Self::TooLong => "is too long to read",
        }
    }
}

/// Where the text of a part comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartOrigin {
    /// These bytes. `exact` where the bytes are the text, and no escape for it.
    Literal {
        /// Where they stand.
        span: Span,
        /// In which quotes.
        quote: Quote,
        /// Whether the bytes are the text itself.
        exact: bool,
    },
    /// Code at this place, whose result is not known; the text is the code.
    Computed {
        /// Where it stands.
        span: Span,
        /// Why it is not known.
        why: Why,
    },
}

impl PartOrigin {
    /// The bytes that say what the text is.
    pub fn span(&self) -> Span {
        match self {
            Self::Literal { span, .. } | Self::Computed { span, .. } => *span,
        }
    }
}

/// A piece of text with one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPart {
    /// The text.
    pub text: String,
    /// Where it was written.
    pub from: PartOrigin,
    /// The variables through which it came, the outermost use first.
    pub via: Vec<Use>,
}

impl TracedPart {
    fn slice(&self, start: usize, end: usize) -> Option<Self> {
        let text = self.text.get(start..end)?.to_owned();
        let from = match &self.from {
            PartOrigin::Literal {
                span,
                quote,
                exact: true,
            } => PartOrigin::Literal {
                span: Span::new(span.file, span.start + start..span.start + end),
                quote: *quote,
                exact: true,
            },
            other => other.clone(),
        };
        Some(Self {
            text,
            from,
            via: self.via.clone(),
        })
    }
}

/// A text with its origins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traced {
    // Shared, because the variables of a script are copied wherever it branches.
    parts: Rc<Vec<TracedPart>>,
    bytes: usize,
}

impl Traced {
    /// A whole file.
    pub fn file(file: usize, text: &str) -> Self {
        Self::literal(file, 0, text, Quote::Raw)
    }

    /// Bytes of a file that begin at `start`.
    pub fn literal(file: usize, start: usize, text: &str, quote: Quote) -> Self {
        let span = Span::new(file, start..start + text.len());
        let from = PartOrigin::Literal {
            span,
            quote,
            exact: true,
        };
        Self::of(text, from)
    }

    /// Bytes that stand for another text.
    pub fn escape(span: Span, text: &str, quote: Quote) -> Self {
        let from = PartOrigin::Literal {
            span,
            quote,
            exact: false,
        };
        Self::of(text, from)
    }

    /// Something that is not known, with the code that stands for it.
    pub fn computed(code: &str, span: Span, why: Why) -> Self {
        Self::of(code, PartOrigin::Computed { span, why })
    }

    fn of(text: &str, from: PartOrigin) -> Self {
        Self {
            parts: Rc::new(vec![TracedPart {
                text: text.to_owned(),
                from,
                via: Vec::new(),
            }]),
            bytes: text.len(),
        }
    }

    /// Its pieces.
    pub fn parts(&self) -> &[TracedPart] {
        &self.parts
    }

    /// The text; code stands for what is computed.
    pub fn text(&self) -> String {
        self.as_text().into_owned()
    }

    /// The same, borrowed where it is of one part.
    pub(super) fn as_text(&self) -> Cow<'_, str> {
        match &self.parts[..] {
            [only] => Cow::Borrowed(&only.text),
            parts => parts.iter().map(|p| p.text.as_str()).collect(),
        }
    }

    /// Bytes of the text.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Bytes that a copy takes, roughly.
    pub(super) fn cost(&self) -> usize {
        let parts = self.parts.iter();
        parts.map(|p| p.text.len() + 64 * (1 + p.via.len())).sum()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text, where all of it is known.
    pub fn known(&self) -> Option<String> {
        self.unknown().is_none().then(|| self.text())
    }

    /// The first piece that is computed: its place and why.
    pub fn unknown(&self) -> Option<(Span, Why)> {
        self.parts.iter().find_map(|part| match part.from {
            PartOrigin::Computed { span, why } => Some((span, why)),
            PartOrigin::Literal { .. } => None,
        })
    }

    /// The place of its first byte.
    pub fn place(&self) -> Option<Span> {
        self.parts.first().map(|part| part.from.span())
    }

    /// Appends another text. What is too long becomes unknown.
    pub fn push(&mut self, other: &Self) {
        let parts = self.parts.len() + other.parts.len();
        if parts <= MAX_PARTS && self.len() + other.len() <= MAX_BYTES {
            Rc::make_mut(&mut self.parts).extend(other.parts.iter().cloned());
            self.bytes += other.bytes;
        } else if let Some(span) = self.place() {
            *self = Self::computed("", span, Why::TooLong);
        }
    }

    /// Bytes `start..end` of the text. Code is taken whole or not at all; an escape, too.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let mut parts = Vec::new();
        let mut at = 0;
        for part in self.parts.iter() {
            let (from, to) = (at, at + part.text.len());
            at = to;
            let inside = from < end && to > start;
            // Nothing at all has a place, too: the one behind the bytes before it.
            let empty = start == end && from <= start && start <= to && parts.is_empty();
            if inside || empty {
                let (a, b) = (start.max(from) - from, end.min(to) - from);
                parts.extend(part.slice(a, b.max(a)));
            }
        }
        let bytes = parts.iter().map(|p: &TracedPart| p.text.len()).sum();
        Self {
            parts: Rc::new(parts),
            bytes,
        }
    }

    /// The same in another pair of quotes.
    pub fn quoted(mut self, inner: Quote) -> Self {
        for part in Rc::make_mut(&mut self.parts) {
            if let PartOrigin::Literal { quote, .. } = &mut part.from {
                *quote = quote.around(inner);
            }
        }
        self
    }

    /// The same as the value of a variable that is used at a place.
    pub fn used(mut self, name: &str, span: Span, quote: Quote) -> Self {
        let whole: Rc<str> = self.text().into();
        for part in Rc::make_mut(&mut self.parts) {
            let here = Use {
                name: name.to_owned(),
                span,
                quote,
                whole: Rc::clone(&whole),
            };
            part.via.insert(0, here);
            part.via.truncate(MAX_USES);
        }
        self
    }

    /// The one stretch of bytes that all of the text is written in, its quotes, and the variables through
    /// which it came; None where it is put together from several places or computed.
    pub fn stretch(&self) -> Option<(Span, Quote, &[Use])> {
        let first = self.parts.first()?;
        let PartOrigin::Literal {
            mut span, quote, ..
        } = first.from
        else {
            return None;
        };
        for part in &self.parts[1..] {
            match part.from {
                PartOrigin::Literal {
                    span: next,
                    quote: same,
                    ..
                } if next.file == span.file
                    && next.start == span.end
                    && same == quote
                    && part.via == first.via =>
                {
                    span = span.through(next);
                }
                _ => return None,
            }
        }
        Some((span, quote, &first.via))
    }
}
