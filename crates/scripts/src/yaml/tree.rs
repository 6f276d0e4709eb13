//! A YAML text as a tree that knows which bytes each node came from.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_yaml::granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

/// Nodes inside one another at most.
const MAX_DEPTH: usize = 64;

/// A node with its place.
#[derive(Debug, Clone)]
pub(super) struct YamlNode {
    pub content: YamlContent,
    /// Its bytes; of a block collection, and of an empty scalar, only where it begins.
    pub range: Range<usize>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// Number of the anchor on it, 0 without one.
    pub anchor: usize,
    pub tagged: bool,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(super) enum YamlContent {
    Scalar {
        text: String,
        style: ScalarStyle,
    },
    Alias(usize),
    List {
        items: Vec<YamlNode>,
        flow: bool,
    },
    Map {
        entries: Vec<(YamlNode, YamlNode)>,
        flow: bool,
    },
}

/// Why a text is no tree that could be edited.
pub(super) struct Fault {
    pub what: String,
    pub line: u32,
    pub column: u32,
}

impl YamlNode {
    fn of(content: YamlContent, span: &Span, anchor: usize, tagged: bool) -> Self {
        Self {
            content,
            range: span.byte_range().unwrap_or_default(),
            line: small(span.start.line()),
            column: small(span.start.col() + 1),
            anchor,
            tagged,
        }
    }

    pub(super) fn fault(&self, what: impl Into<String>) -> Fault {
        Fault {
            what: what.into(),
            line: self.line,
            column: self.column,
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Nothing is written where the value would be.
    pub(super) fn is_empty(&self) -> bool {
        matches!(
            &self.content,
            YamlContent::Scalar {
                style: ScalarStyle::Plain,
                ..
            }
        ) && self.range.is_empty()
    }

    fn children(&self) -> Vec<&Self> {
        match &self.content {
            YamlContent::Scalar { .. } | YamlContent::Alias(_) => Vec::new(),
            YamlContent::List { items, .. } => items.iter().collect(),
            YamlContent::Map { entries, .. } => entries.iter().flat_map(|(k, v)| [k, v]).collect(),
        }
    }

    /// Every node, itself first.
    pub(super) fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        let mut next = 0;
        while let Some(node) = all.get(next).copied() {
            all.extend(node.children());
            next += 1;
        }
        all
    }

    /// Where the last byte of it ends that is not blank or a comment.
    pub(super) fn end(&self) -> usize {
        self.all().iter().map(|n| n.range.end).max().unwrap_or(0)
    }

    /// The lines of the first alias of each anchor.
    pub(super) fn aliases(&self) -> BTreeMap<usize, u32> {
        let mut lines = BTreeMap::new();
        for node in self.all() {
            if let YamlContent::Alias(anchor) = node.content {
                let line = lines.entry(anchor).or_insert(node.line);
                *line = node.line.min(*line);
            }
        }
        lines
    }

    /// The node with an anchor.
    pub(super) fn anchored(&self, anchor: usize) -> Option<&Self> {
        let mut all = self.all().into_iter();
        all.find(|n| anchor != 0 && n.anchor == anchor)
    }

    /// The same content, wherever it stands.
    pub(super) fn alike(&self, other: &Self) -> bool {
        if (self.anchor, self.tagged) != (other.anchor, other.tagged) {
            return false;
        }
        let same = match (&self.content, &other.content) {
            (YamlContent::Scalar { text, style }, YamlContent::Scalar { text: t, style: s }) => {
                text == t && style == s
            }
            (YamlContent::Alias(a), YamlContent::Alias(b)) => a == b,
            (YamlContent::List { flow: a, .. }, YamlContent::List { flow: b, .. })
            | (YamlContent::Map { flow: a, .. }, YamlContent::Map { flow: b, .. }) => a == b,
            _ => false,
        };
        let (mine, others) = (self.children(), other.children());
        same && mine.len() == others.len() && mine.iter().zip(others).all(|(a, b)| a.alike(b))
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A collection that is not closed yet, and the key that waits for its value.
struct OpenCollection {
    node: YamlNode,
    key: Option<YamlNode>,
}

/// The only document of a text; `None` where it is empty.
pub(super) fn parse(text: &str) -> Result<Option<YamlNode>, Fault> {
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut root: Option<YamlNode> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| Fault {
            what: format!("not valid YAML: {}", e.info()),
            line: small(e.marker().line()),
            column: small(e.marker().col() + 1),
        })?;
        let done = match event {
            Event::Scalar(value, style, anchor, tag) => {
                let text = value.into_owned();
                YamlNode::of(
                    YamlContent::Scalar { text, style },
                    &span,
                    anchor,
                    tag.is_some(),
                )
            }
            Event::Alias(anchor) => YamlNode::of(YamlContent::Alias(anchor), &span, 0, false),
            Event::SequenceStart(style, anchor, tag) => {
                let content = YamlContent::List {
                    items: Vec::new(),
                    flow: style == StructureStyle::Flow,
                };
                push(
                    &mut open,
                    YamlNode::of(content, &span, anchor, tag.is_some()),
                )?;
                continue;
            }
            Event::MappingStart(style, anchor, tag) => {
                let content = YamlContent::Map {
                    entries: Vec::new(),
                    flow: style == StructureStyle::Flow,
                };
                push(
                    &mut open,
                    YamlNode::of(content, &span, anchor, tag.is_some()),
                )?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(OpenCollection { mut node, .. }) => {
                    if matches!(
                        &node.content,
                        YamlContent::List { flow: true, .. } | YamlContent::Map { flow: true, .. }
                    ) {
                        node.range.end = span.byte_range().map_or(node.range.end, |r| r.end);
                    }
                    node
                }
                None => continue,
            },
            _ => continue,
        };
        match open.last_mut() {
            Some(parent) => parent.take(done),
            None if root.is_some() => {
                return Err(
                    done.fault("a second document begins here; oomctl edits only files with one")
                );
            }
            None => root = Some(done),
        }
    }
    Ok(root)
}

fn push(open: &mut Vec<OpenCollection>, node: YamlNode) -> Result<(), Fault> {
    if open.len() >= MAX_DEPTH {
        return Err(node.fault(format!("more than {MAX_DEPTH} levels inside one another")));
    }
    open.push(OpenCollection { node, key: None });
    Ok(())
}

impl OpenCollection {
    fn take(&mut self, child: YamlNode) {
        match &mut self.node.content {
            YamlContent::List { items, .. } => items.push(child),
            YamlContent::Map { entries, .. } => match self.key.take() {
                None => self.key = Some(child),
                Some(key) => entries.push((key, child)),
            },
            YamlContent::Scalar { .. } | YamlContent::Alias(_) => {}
        }
    }
}
