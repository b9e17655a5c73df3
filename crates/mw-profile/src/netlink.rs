//! The little of generic netlink (RFC 3549, linux/genetlink.h) that taskstats needs: a request, an
//! answer, attributes.

/// Room for an answer; the kernel's are below 1 KiB.
pub(crate) const ANSWER_BYTES: usize = 8192;
const HEADER_BYTES: usize = 16;
const GENERIC_BYTES: usize = 4;
const ATTRIBUTE_BYTES: usize = 4;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// The bits of an attribute's type that are flags.
const FLAGS: u16 = 0xc000;

/// A request of a family with one attribute.
pub(crate) fn request(family: u16, command: u8, attribute: u16, payload: &[u8]) -> Vec<u8> {
    let attribute_bytes = ATTRIBUTE_BYTES + payload.len();
    let padding = attribute_bytes.next_multiple_of(4) - attribute_bytes;
    let bytes = HEADER_BYTES + GENERIC_BYTES + attribute_bytes + padding;
    let mut request = Vec::with_capacity(bytes);
    request.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence and port: there is one request under way, and the kernel knows who asks.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(u16::try_from(attribute_bytes).unwrap_or(u16::MAX).to_ne_bytes());
    request.extend(attribute.to_ne_bytes());
    request.extend(payload);
    request.extend(vec![0; padding]);
    request
}

/// The attributes of an answer, or the number of the error that it is.
pub(crate) fn answer(bytes: &[u8]) -> Result<&[u8], i32> {
    let malformed = rustix::io::Errno::BADMSG.raw_os_error();
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let size = word(0).and_then(|size| usize::try_from(size).ok()).ok_or(malformed)?;
    let kind = bytes.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    if kind == Some(ERROR) {
        return Err(word(HEADER_BYTES).map_or(malformed, |error| -error.cast_signed()));
    }
    bytes.get(HEADER_BYTES + GENERIC_BYTES..size).ok_or(malformed)
}

/// The payload of the first attribute of a type.
pub(crate) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let size = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?) & !FLAGS;
        let payload = attributes.get(ATTRIBUTE_BYTES..size)?;
        if kind == wanted {
            return Some(payload);
        }
        attributes = attributes.get(size.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_padded_and_says_its_size() {
        let request = request(16, 3, 2, b"TASKSTATS\0");
        assert_eq!((request.len(), request[0]), (36, 36));
        assert_eq!(attribute(&request[20..], 2), Some(&b"TASKSTATS\0"[..]));
        assert_eq!(attribute(&request[20..], 1), None);
        assert_eq!(answer(&request), Ok(&request[20..]));
    }

    #[test]
    fn an_error_is_reported_by_its_number() {
        let mut error = request(ERROR, 0, 0, &[]);
        error[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(answer(&error), Err(1));
        assert_eq!(answer(&[]), Err(74));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind: u16) {
            let _ = answer(&bytes);
            let _ = attribute(&bytes, kind);
        }
    }
}
