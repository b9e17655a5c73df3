//! Decompression by the magic number, within limits of memory.

use std::io::{BufRead, Read};

/// The most memory for the dictionary of xz, in KiB: `xz -9` needs 65 MiB.
const MAX_XZ_KIB: u32 = 80 << 10;

/// True for what `memwright capture` writes.
pub(super) fn is_zstd(head: &[u8]) -> bool {
    head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// A reader of what was compressed by gzip or xz, or of `reader` itself.
pub(super) fn decoder<'a>(head: &[u8], reader: impl BufRead + 'a) -> Box<dyn Read + 'a> {
    match head {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(lzma_rust2::XzReader::new_mem_limit(reader, true, MAX_XZ_KIB))
        }
        _ => Box::new(reader),
    }
}
