//! Micro batches that are padded to their longest row, before a model of the program's own.
//!
//! Rule: what a row comes to may not depend on how much it is padded. A model that is handed a mask or lengths, and that takes no mean,
//! extreme or last place along the rows without it, is believed. A mean over rows without a mask was measured 20 to 50 % off.

use std::collections::BTreeSet;

use super::super::python::{PythonToken, TokenKind, bracket, line, line_of, rest_of_line};
use super::lines::assignment;
use super::means::axes;
use super::{DoubtPlace, LoopProgram};
use oomctl_base::word_list;

const PADDED: &str = "this pads a micro batch to its longest row, and the model was not seen to leave padding out everywhere";

/// Calls that pad to the longest row.
const PADS: [&str; 2] = ["pad_sequence", "DataCollatorWithPadding"];
/// Reductions of which padding changes the outcome, whatever its value is.
const REDUCES: [&str; 7] = word_list("mean max min amax amin median logsumexp");
/// Layers that reduce along the rows and take no mask.
const POOLS: [&str; 6] = word_list(
    "AdaptiveAvgPool1d AdaptiveMaxPool1d adaptive_avg_pool1d adaptive_max_pool1d AvgPool1d MaxPool1d",
);

impl LoopProgram<'_, '_> {
    /// Where rows are padded, if a model of the program's own was not seen to leave the padding out.
    pub(super) fn padded(&self) -> Option<DoubtPlace> {
        let (file, at) = self.pads()?;
        let models = self.bodies("forward");
        if models.is_empty() {
            return None;
        }
        let minds = |(file, lines): &(usize, Vec<usize>)| {
            let tokens = self.files[*file];
            let mut all = lines
                .iter()
                .flat_map(|at| *at..at + rest_of_line(&tokens[*at..]).len());
            all.any(|at| tells_padding(&tokens[at]) && is_handed_on(tokens, at))
        };
        let reduces = |(file, lines): &(usize, Vec<usize>)| reduced(self.files[*file], lines);
        let pools = || POOLS.iter().any(|name| !self.places(name).is_empty());
        let left_out = models.iter().any(minds) && !models.iter().any(reduces) && !pools();
        (!left_out).then_some((PADDED, file, at))
    }

    /// Where rows are padded, in a loop of one's own that hands no mask to anybody: a model of transformers then sees the padding.
    pub(super) fn unmasked(&self) -> Option<DoubtPlace> {
        let (file, at) = self.pads()?;
        let handed = |t: &PythonToken<'_>| t.text.contains("mask") || tells_padding(t);
        let hands_all = |tokens: &&[PythonToken<'_>]| {
            let unpacks = |w: &[PythonToken<'_>]| w[0].is("*") && w[1].is("*");
            tokens.iter().any(handed) || tokens.windows(2).any(unpacks)
        };
        let hidden = !self.files.iter().any(hands_all);
        hidden.then_some((PADDED, file, at))
    }

    fn pads(&self) -> Option<(usize, usize)> {
        let called = |(file, at): &&(usize, usize)| {
            let next = self.files[*file].get(at + 1);
            next.is_some_and(|t| t.is("("))
        };
        let by_call = PADS.iter().flat_map(|name| self.places(name)).find(called);
        // A tokenizer pads as `padding=True` or `"longest"` says.
        let by_tokenizer = || {
            let mut places = self.places("padding").iter();
            places.find(|(file, at)| match &self.files[*file][at + 1..] {
                [equals, value, ..] => equals.is("=") && (value.is("True") || value.is("longest")),
                _ => false,
            })
        };
        by_call.or_else(by_tokenizer).copied()
    }
}

/// Whether a name tells which places are padding.
fn tells_padding(token: &PythonToken<'_>) -> bool {
    let name = token.text.to_lowercase();
    let parts = ["mask", "length", "lens", "pack_padded", "cu_seqlens"];
    token.kind == TokenKind::Name && parts.iter().any(|part| name.contains(part))
}

/// Whether a layer is handed a name, or it masks something: `m = mask.float()` alone does nothing.
fn is_handed_on(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let line = line(tokens, at);
    bracket(tokens, at).is_some()
        || line.iter().any(|t| t.is("*"))
        || tokens[at].is("pack_padded_sequence")
}

/// Whether some lines reduce along the rows, or take the last place, of what is not masked there or before.
fn reduced(tokens: &[PythonToken<'_>], lines: &[usize]) -> bool {
    let mut told: BTreeSet<&str> = BTreeSet::new();
    lines.iter().any(|begin| {
        let line = rest_of_line(&tokens[*begin..]);
        let tells = |t: &PythonToken<'_>| tells_padding(t) || told.contains(t.text);
        let (targets, value) = match assignment(line) {
            Some(sign) => (&line[..sign], &line[sign + 1..]),
            None => (&[][..], line),
        };
        let minds = masks(value, tells);
        if minds || value.first().is_some_and(tells) {
            told.extend(targets.iter().map(|t| t.text));
        }
        // A mean over zeros in place of padding still counts them.
        let of_masked = minds || line.iter().any(|t| told.contains(t.text));
        let fine = |at: usize| of_masked && !tokens[at].is("mean");
        let mut places = *begin..begin + line.len();
        places.any(|at| reduces(tokens, at) && !fine(at) || takes_last(&tokens[at..]))
    })
}

/// `h * mask`, `h.masked_fill(~mask, -1e9)`, `h[mask]`: a layer that is handed a mask gives places of padding back.
fn masks(value: &[PythonToken<'_>], tells: impl Fn(&PythonToken<'_>) -> bool) -> bool {
    let acts = |t: &PythonToken<'_>| t.is("*") || t.is("masked_fill") || t.is("where");
    let picks = value.windows(2).any(|w| w[0].is("[") && tells(&w[1]));
    picks || value.iter().any(acts) && value.iter().any(tells)
}

/// `h.mean(1)`, `torch.max(h, dim=-2)`
fn reduces(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let begins_call = tokens.get(at + 1).is_some_and(|t| t.is("("));
    if !begins_call || !REDUCES.contains(&tokens[at].text) || line_of(tokens, at) == at {
        return false;
    }
    // The last axis, -1, is that of features.
    axes(tokens, at).any(|(_, value)| match value {
        [one] | [_, one, _] => one.is("1"),
        [minus, axis] => minus.is("-") && axis.is("2"),
        _ => false,
    })
}

/// `h[:, -1]`
fn takes_last(tokens: &[PythonToken<'_>]) -> bool {
    let [open, all, comma, minus, one, next, ..] = tokens else {
        return false;
    };
    let ends = next.is("]") || next.is(",");
    open.is("[") && all.is(":") && comma.is(",") && minus.is("-") && one.is("1") && ends
}

#[cfg(test)]
mod tests {
    use super::super::super::python::tokens;
    use super::*;

    fn is_padded(forward: &str, collate: &str) -> bool {
        let text = format!(
            "def collate(rows):\n    return {collate}\nclass Net(nn.Module):\n    def forward(self, x, mask):\n        {forward}\n"
        );
        let tokens = tokens(&text);
        let files = [&*tokens];
        let program = LoopProgram::new(&files, Vec::new());
        program.padded().is_some()
    }

    #[test]
    fn padding_that_a_model_of_ones_own_may_see_is_a_doubt() {
        let pads = "pad_sequence(rows, batch_first=True)";
        for forward in [
            "return self.head(self.enc(self.emb(x)).mean(1))",
            "h = self.enc(x, src_key_padding_mask=~mask)\n        return self.head(h.max(dim=1).values)",
            "h = self.enc(x, src_key_padding_mask=~mask)\n        return self.head(h[:, -1])",
            "h = self.enc(x, src_key_padding_mask=~mask)\n        return torch.mean(h, dim=-2)",
            "h, _ = self.lstm(self.emb(x))\n        return h[:, 0]",
            "m = mask.float()\n        return self.head(self.enc(x)[:, 0])",
            "return self.head(self.enc(x, src_key_padding_mask=~mask).mean(1))",
            "h = self.enc(x, src_key_padding_mask=~mask)\n        h = h * mask\n        return h.mean(1)",
            "h = self.conv(x, mask)\n        return nn.functional.adaptive_avg_pool1d(h, 1)",
        ] {
            assert!(is_padded(forward, pads), "{forward}");
        }
        for forward in [
            "h = self.enc(x, src_key_padding_mask=~mask)\n        m = mask.unsqueeze(-1)\n        return (h * m).sum(1) / m.sum(1)",
            "h = self.enc(x, src_key_padding_mask=~mask)\n        h = h.masked_fill(~mask, -1e9)\n        return h.max(1).values",
            "return self.bert(x, attention_mask=mask).last_hidden_state[:, 0]",
            "packed = pack_padded_sequence(x, lengths)\n        return self.lstm(packed)[1][-1]",
        ] {
            assert!(!is_padded(forward, pads), "{forward}");
        }
        let unmasked = "return self.enc(self.emb(x)).mean(1)";
        assert!(is_padded(unmasked, "tokenizer(rows, padding=True)"));
        assert!(!is_padded(
            unmasked,
            "tokenizer(rows, padding='max_length')"
        ));
        assert!(!is_padded(unmasked, "torch.stack(rows)"));
    }
}
