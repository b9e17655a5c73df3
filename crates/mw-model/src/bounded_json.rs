//! JSON from elsewhere: a recording, another machine, a server.
//!
//! A limit on the length of the text does not limit what becomes of it: each `{}` of three bytes may become a structure
//! of some hundred. So what a text may become is estimated from its punctuation before it is read.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Upper bound of the memory of an object, with the growth of the list that it is in.
const OBJECT_BYTES: usize = 512;

/// Upper bound of the memory of a list, a number, a text without its characters, or the name of a field.
const VALUE_BYTES: usize = 64;

/// JSON that was not read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("it would take {bytes} bytes of memory, more than the limit of {limit}")]
    TooLarge { bytes: usize, limit: usize },
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

/// Reads JSON whose structures take at most about `limit` bytes of memory.
///
/// # Errors
/// It is larger than that, or is not JSON of this type.
pub fn from_slice<T: DeserializeOwned>(json: &[u8], limit: usize) -> Result<T, JsonError> {
    borrowed(json, limit)
}

/// As [`from_slice`], for types that borrow from the text.
///
/// # Errors
/// As [`from_slice`].
pub fn borrowed<'a, T: Deserialize<'a>>(json: &'a [u8], limit: usize) -> Result<T, JsonError> {
    match estimated_bytes(json) {
        bytes if bytes > limit => Err(JsonError::TooLarge { bytes, limit }),
        _ => Ok(serde_json::from_slice(json)?),
    }
}

/// The memory that a JSON text may take once it is read.
pub fn estimated_bytes(json: &[u8]) -> usize {
    let mut bytes = json.len();
    let mut rest = json.iter();
    while let Some(byte) = rest.next() {
        let more = match byte {
            b'{' => OBJECT_BYTES,
            b'[' | b',' | b':' => VALUE_BYTES,
            b'"' => {
                skip_text(&mut rest);
                0
            }
            _ => 0,
        };
        bytes = bytes.saturating_add(more);
    }
    bytes
}

/// Goes behind the quote that ends a text.
fn skip_text(rest: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_in_texts_does_not_count() {
        assert_eq!(estimated_bytes(br#"",,{[\",,""#), 10);
        assert_eq!(estimated_bytes(br#"{"a":[1,2]}"#), 11 + OBJECT_BYTES + 3 * VALUE_BYTES);
        // A text that does not end is no JSON.
        assert_eq!(estimated_bytes(b"\"\\"), 2);
    }

    #[test]
    fn empty_objects_are_counted_and_not_read() {
        let json = format!("[{}{{}}]", "{},".repeat(1000));
        let error = from_slice::<Vec<crate::Role>>(json.as_bytes(), 500_000).unwrap_err();
        assert!(matches!(error, JsonError::TooLarge { limit: 500_000, .. }), "{error}");
        let read: Vec<crate::Role> = from_slice(json.as_bytes(), 1_000_000).unwrap();
        assert_eq!(read.len(), 1001);
        assert!(matches!(from_slice::<u8>(b"x", 9), Err(JsonError::Malformed(_))));
    }
}
