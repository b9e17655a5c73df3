//! The head of an x86 kernel image, as the kernel's Documentation/arch/x86/boot.rst lays it out.

/// Position of the magic word, and its value.
const MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
/// Position of the offset of the version's text; 0x200 has to be added to it.
const VERSION_AT: usize = 0x20e;
const VERSION_BASE: usize = 0x200;
const MAX_RELEASE_BYTES: usize = 128;

/// So much of the image is enough: the text lies within 64 KiB and something.
pub(crate) const HEAD_BYTES: u64 = 0x1_0400;

/// Output of `uname -r` under the kernel whose image begins so; `None`: this is no kernel.
pub(crate) fn release(head: &[u8]) -> Option<String> {
    let (at, magic) = MAGIC;
    if head.get(at..at + magic.len())? != magic {
        return None;
    }
    let offset: [u8; 2] = head.get(VERSION_AT..VERSION_AT + 2)?.try_into().ok()?;
    let text = head.get(usize::from(u16::from_le_bytes(offset)) + VERSION_BASE..)?;
    let text = text.get(..text.len().min(MAX_RELEASE_BYTES))?;
    let word = text.split(|byte| matches!(byte, b' ' | 0)).next()?;
    let word = std::str::from_utf8(word).ok()?;
    let well = |c: char| c.is_ascii_alphanumeric() || "-._+~".contains(c);
    (!word.is_empty() && word.chars().all(well)).then(|| word.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The beginning of an image with this magic, and this text at this offset.
    pub(crate) fn head(magic: &[u8], offset: u16, text: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 0x400];
        head[0x202..0x206].copy_from_slice(magic);
        head[VERSION_AT..VERSION_AT + 2].copy_from_slice(&offset.to_le_bytes());
        let from = usize::from(offset) + VERSION_BASE;
        if let Some(place) = head.get_mut(from..from + text.len()) {
            place.copy_from_slice(text);
        }
        head
    }

    #[test]
    fn the_release_is_read() {
        let debian = head(b"HdrS", 0x100, b"6.1.0-18-amd64 (debian-kernel@lists.debian.org) #1\0");
        assert_eq!(release(&debian).as_deref(), Some("6.1.0-18-amd64"));
    }

    #[test]
    fn what_is_no_kernel_has_none() {
        assert_eq!(release(b""), None);
        assert_eq!(release(&head(b"Hdr?", 0x100, b"6.1.0\0")), None);
        assert_eq!(release(&head(b"HdrS", 0x100, b"\0")), None);
        assert_eq!(release(&head(b"HdrS", 0x100, b"../../etc\0")), None);
        assert_eq!(release(&head(b"HdrS", u16::MAX, b"")), None);
    }
}
