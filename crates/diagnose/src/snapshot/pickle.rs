//! Bytes of a pickle to plain values: numbers, texts, lists and dictionaries.
//!
//! Rule: nothing in it is imported, called or built. An instruction that asks for that is an error, and so is a value too
//! many. No step recurses, so depth costs nothing; a value that is used twice is stored once.
//!
//! Source: CPython `Lib/pickletools.py`, protocols 2 to 5; PyTorch `torch/csrc/jit/serialization/pickler.h`, which writes protocol 2.

/// Values that one file may hold: a snapshot has some sixteen for each allocation that was recorded.
const MOST_VALUES: usize = 12_000_000;

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// It would run code.
    #[error("it asks Python to run code; a memory snapshot never does")]
    RunsCode,
    /// It has an instruction that snapshots have not.
    #[error("byte {at} does not belong to a memory snapshot")]
    Unknown {
        /// Offset in bytes.
        at: usize,
    },
    /// It is cut off, or its instructions do not fit each other.
    #[error("it is truncated or damaged at byte {at}")]
    Damaged {
        /// Offset in bytes.
        at: usize,
    },
    /// It holds too much.
    #[error("it holds more than {MOST_VALUES} values: record less history (max_entries)")]
    TooLarge,
    /// It is a pickle of something else.
    #[error("this is not a snapshot of PyTorch's allocator: it has no segments")]
    NoSnapshot,
}

/// One value; texts and containers by where they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PickleValue {
    /// `None`, and numbers that fit nowhere.
    Nothing,
    Bool(bool),
    Int(i64),
    Text {
        at: u32,
        len: u32,
    },
    List(u32),
    Dict(u32),
}

/// All values of a file, and the one that it is.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    bytes: &'a [u8],
    lists: Vec<Vec<PickleValue>>,
    /// Keys and values in turn.
    dicts: Vec<Vec<PickleValue>>,
    pub root: PickleValue,
}

impl<'a> Pickle<'a> {
    /// Reads a file.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PickleError> {
        let mut machine = PickleMachine {
            at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            values: 0,
            pickle: Self {
                bytes,
                lists: Vec::new(),
                dicts: Vec::new(),
                root: PickleValue::Nothing,
            },
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(PickleError::TooLarge);
        }
        while !machine.step()? {}
        machine.pickle.root = machine.pop()?;
        Ok(machine.pickle)
    }

    /// The text of a value, where it is one in UTF-8.
    pub fn text(&self, value: PickleValue) -> Option<&'a str> {
        let PickleValue::Text { at, len } = value else {
            return None;
        };
        let start = at as usize;
        std::str::from_utf8(self.bytes.get(start..start + len as usize)?).ok()
    }

    /// What a list or a tuple holds; nothing of what is none.
    pub fn items(&self, value: PickleValue) -> &[PickleValue] {
        match value {
            PickleValue::List(at) => &self.lists[at as usize],
            _ => &[],
        }
    }

    /// What a dictionary holds under a name.
    pub fn get(&self, value: PickleValue, name: &str) -> Option<PickleValue> {
        let PickleValue::Dict(at) = value else {
            return None;
        };
        let pairs = self.dicts[at as usize].chunks_exact(2);
        let mut named = pairs.filter(|pair| self.text(pair[0]) == Some(name));
        named.next_back().map(|pair| pair[1])
    }

    /// A number that a dictionary holds under a name and that counts something.
    pub fn count(&self, value: PickleValue, name: &str) -> Option<u64> {
        match self.get(value, name)? {
            PickleValue::Int(number) => number.try_into().ok(),
            _ => None,
        }
    }
}

struct PickleMachine<'a> {
    at: usize,
    stack: Vec<PickleValue>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: Vec<PickleValue>,
    values: usize,
    pickle: Pickle<'a>,
}

impl PickleMachine<'_> {
    /// One instruction; true for the last.
    fn step(&mut self) -> Result<bool, PickleError> {
        let at = self.at;
        let code = self.take(1)?[0];
        match code {
            b'.' => return Ok(true),
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => {
                self.count()?;
                self.marks.push(self.stack.len());
            }
            b'0' => drop(self.pop()?),
            b'1' => drop(self.above_mark()?),
            b'c' | 0x93 | b'R' | b'i' | b'o' | b'b' | 0x81 | 0x92 | b'P' | b'Q' | 0x82..=0x84 => {
                return Err(PickleError::RunsCode);
            }
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(code)?,
            b']' | b')' | b'}' | b't' | b'l' | b'd' | 0x85..=0x87 => self.container(code)?,
            b'a' | b'e' | b's' | b'u' => self.fill(code)?,
            _ => {
                let value = self.plain(code)?.ok_or(PickleError::Unknown { at })?;
                self.push(value)?;
            }
        }
        Ok(false)
    }

    /// A number, a text, or one of the constants.
    fn plain(&mut self, code: u8) -> Result<Option<PickleValue>, PickleError> {
        Ok(Some(match code {
            b'N' => PickleValue::Nothing,
            0x88 => PickleValue::Bool(true),
            0x89 => PickleValue::Bool(false),
            b'K' => self.whole(1)?,
            b'M' => self.whole(2)?,
            b'J' => {
                let bytes = self.take(4)?;
                PickleValue::Int(
                    i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
                )
            }
            0x8a => {
                let len = self.length(1)?;
                self.long(len)?
            }
            0x8b => {
                let len = self.length(4)?;
                self.long(len)?
            }
            b'G' => {
                self.take(8)?;
                PickleValue::Nothing
            }
            0x8c | b'U' | b'C' => self.string(1)?,
            b'X' | b'T' | b'B' => self.string(4)?,
            0x8d | 0x8e => self.string(8)?,
            _ => return Ok(None),
        }))
    }

    fn take(&mut self, len: usize) -> Result<&[u8], PickleError> {
        let damaged = PickleError::Damaged { at: self.at };
        let end = self.at.checked_add(len).ok_or(damaged)?;
        let taken = self.pickle.bytes.get(self.at..end).ok_or(damaged)?;
        self.at = end;
        Ok(taken)
    }

    /// A number without sign, least byte first.
    fn length(&mut self, len: usize) -> Result<usize, PickleError> {
        let bytes = self.take(len)?.iter().rev();
        let number = bytes.fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        usize::try_from(number).map_err(|_| PickleError::Damaged { at: self.at })
    }

    fn whole(&mut self, len: usize) -> Result<PickleValue, PickleError> {
        let number = self.length(len)?;
        Ok(i64::try_from(number).map_or(PickleValue::Nothing, PickleValue::Int))
    }

    /// A number with sign in so many bytes.
    fn long(&mut self, len: usize) -> Result<PickleValue, PickleError> {
        let bytes = self.take(len)?;
        let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
        let mut whole = [if negative { 0xff } else { 0 }; 8];
        if len > whole.len() {
            return Ok(PickleValue::Nothing);
        }
        whole[..len].copy_from_slice(bytes);
        Ok(PickleValue::Int(i64::from_le_bytes(whole)))
    }

    fn string(&mut self, len: usize) -> Result<PickleValue, PickleError> {
        let len = self.length(len)?;
        let at = self.at;
        self.take(len)?;
        let place = |n: usize| u32::try_from(n).map_err(|_| PickleError::TooLarge);
        Ok(PickleValue::Text {
            at: place(at)?,
            len: place(len)?,
        })
    }

    fn count(&mut self) -> Result<(), PickleError> {
        self.values += 1;
        match self.values > MOST_VALUES {
            true => Err(PickleError::TooLarge),
            false => Ok(()),
        }
    }

    fn push(&mut self, value: PickleValue) -> Result<(), PickleError> {
        self.count()?;
        self.stack.push(value);
        Ok(())
    }

    /// The uppermost value above the last mark.
    fn pop(&mut self) -> Result<PickleValue, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let damaged = PickleError::Damaged { at: self.at };
        match self.stack.len() > floor {
            true => self.stack.pop().ok_or(damaged),
            false => Err(damaged),
        }
    }

    /// All above the last mark, which goes.
    fn above_mark(&mut self) -> Result<Vec<PickleValue>, PickleError> {
        let damaged = PickleError::Damaged { at: self.at };
        let floor = self.marks.pop().ok_or(damaged)?;
        Ok(self.stack.split_off(floor))
    }

    /// A value into the memo, or out of it.
    fn remember(&mut self, code: u8) -> Result<(), PickleError> {
        let damaged = PickleError::Damaged { at: self.at };
        let place = match code {
            0x94 => self.memo.len(),
            b'q' | b'h' => self.length(1)?,
            _ => self.length(4)?,
        };
        if matches!(code, b'h' | b'j') {
            let value = *self.memo.get(place).ok_or(damaged)?;
            return self.push(value);
        }
        // Nothing is remembered twice, so no place lies beyond the values there are.
        if place > self.values {
            return Err(damaged);
        }
        let value = *self.stack.last().ok_or(damaged)?;
        if place >= self.memo.len() {
            self.memo.resize(place + 1, PickleValue::Nothing);
        }
        self.memo[place] = value;
        Ok(())
    }

    fn container(&mut self, code: u8) -> Result<(), PickleError> {
        let items = match code {
            b']' | b')' | b'}' => Vec::new(),
            0x85..=0x87 => {
                let wanted = usize::from(code - 0x84);
                let floor = self.stack.len().checked_sub(wanted);
                let floor = floor.ok_or(PickleError::Damaged { at: self.at })?;
                self.stack.split_off(floor)
            }
            _ => self.above_mark()?,
        };
        let dict = matches!(code, b'}' | b'd');
        let all = match dict {
            true => &mut self.pickle.dicts,
            false => &mut self.pickle.lists,
        };
        let place = u32::try_from(all.len()).map_err(|_| PickleError::TooLarge)?;
        all.push(items);
        self.push(match dict {
            true => PickleValue::Dict(place),
            false => PickleValue::List(place),
        })
    }

    /// Adds to the list or the dictionary below.
    fn fill(&mut self, code: u8) -> Result<(), PickleError> {
        let mut items = match code {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.above_mark()?,
        };
        let container = self.stack.last();
        match (code, container) {
            (b'a' | b'e', Some(PickleValue::List(at))) => {
                self.pickle.lists[*at as usize].append(&mut items);
            }
            (b's' | b'u', Some(PickleValue::Dict(at))) if items.len() % 2 == 0 => {
                self.pickle.dicts[*at as usize].append(&mut items);
            }
            _ => return Err(PickleError::Damaged { at: self.at }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> PickleError {
        Pickle::read(bytes).expect_err("it must not be read")
    }

    #[test]
    fn whoever_asks_for_code_is_refused() {
        // os.system("id"), as protocols 0 and 4 write it; and an object that is built.
        for bytes in [
            &b"cos\nsystem\n(X\x02\x00\x00\x00idtR."[..],
            b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
            b"\x80\x02}(X\x08\x00\x00\x00segmentsccollections\nOrderedDict\n)Rs.",
        ] {
            assert_eq!(error(bytes), PickleError::RunsCode);
        }
    }

    #[test]
    fn what_is_cut_off_or_does_not_fit_is_refused() {
        for bytes in [
            &b""[..],
            b"\x80\x04]",
            b"\x80\x02X\xff\xff\xff\xffabc.",
            b"\x80\x04e.",
            b"\x80\x02}(K\x01u.",
            b"\x80\x02h\x09.",
            b"\x80\x02Nr\xff\xff\xff\xff.",
            b"\x80\x02K\x01(0.",
            b"\x80\x02K\x01a.",
        ] {
            assert!(
                matches!(error(bytes), PickleError::Damaged { .. }),
                "{bytes:?}"
            );
        }
        assert_eq!(error(b"not a pickle"), PickleError::Unknown { at: 0 });
    }

    #[test]
    fn values_have_a_bound_and_depth_costs_nothing() {
        let mut many = b"\x80\x02(".to_vec();
        many.resize(MOST_VALUES + 8, b'N');
        assert_eq!(error(&many), PickleError::TooLarge);
        let mut deep = b"\x80\x02".to_vec();
        deep.resize(1_000_000, b']');
        deep.resize(2_000_000 - 3, b'a');
        deep.push(b'.');
        assert!(Pickle::read(&deep).is_ok());
        // Each list holds the one before twice, which is stored once.
        let mut doubled = b"\x80\x02]q\x00".to_vec();
        for _ in 0..10_000 {
            doubled.extend(b"h\x00h\x00\x86q\x00");
        }
        doubled.push(b'.');
        assert!(Pickle::read(&doubled).is_ok());
    }

    #[test]
    fn numbers_have_their_sign() {
        let bytes = b"\x80\x02(K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x02\x00\x80\x8a\x06\x00\x00\x00\x00\x01\x7f\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01l.";
        let pickle = Pickle::read(bytes).unwrap();
        let numbers = [255, 65_535, -1, -32_768, 0x7f01_0000_0000].map(PickleValue::Int);
        assert_eq!(pickle.items(pickle.root)[..5], numbers);
        assert_eq!(pickle.items(pickle.root)[5], PickleValue::Nothing);
    }
}
