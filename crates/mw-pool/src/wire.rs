//! Encodes numbers and texts, little-endian, and decodes them with every length checked.

#[derive(Debug, Default)]
pub(crate) struct WireWriter(Vec<u8>);

impl WireWriter {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Writes at most 65,535 bytes of a text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let mut end = text.len().min(usize::from(u16::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = text.as_bytes().get(..end).unwrap_or_default();
        self.u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn numbers(&mut self, values: &[u32]) -> &mut Self {
        self.u16(u16::try_from(values.len()).unwrap_or(u16::MAX));
        for value in values.iter().take(usize::from(u16::MAX)) {
            self.u32(*value);
        }
        self
    }

    pub(crate) fn optional_u32(&mut self, value: Option<u32>) -> &mut Self {
        match value {
            Some(value) => self.u8(1).u32(value),
            None => self.u8(0),
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Every method is `None` if the bytes are malformed.
#[derive(Debug)]
pub(crate) struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    /// Reads 0 or 1.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn optional_u32(&mut self) -> Option<Option<u32>> {
        match self.flag()? {
            true => self.u32().map(Some),
            false => Some(None),
        }
    }

    /// Reads a text of at most `most` bytes.
    pub(crate) fn text(&mut self, most: usize) -> Option<String> {
        let bytes = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(bytes).filter(|_| bytes <= most)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }

    /// Reads at most `most` numbers.
    pub(crate) fn numbers(&mut self, most: usize) -> Option<Vec<u32>> {
        let count = Some(usize::from(self.u16()?)).filter(|count| *count <= most)?;
        (0..count).map(|_| self.u32()).collect()
    }

    /// Succeeds if nothing is left.
    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
