use super::*;
use proptest::prelude::*;

const TEXT: u64 = 0x40_1000;
/// Bytes in front of the table in its file.
const BEFORE: u64 = 24;
const NAMES: [&str; 3] = ["main.main", "main.(*Cache).insert", "runtime.gcBgMarkWorker"];

/// A table of three functions of 0x100 bytes each.
fn table(magic: u32) -> Vec<u8> {
    let mut names: Vec<u8> = Vec::new();
    let mut places: Vec<u64> = Vec::new();
    for name in NAMES {
        places.push(names.len() as u64);
        names.extend(name.bytes().chain([0]));
    }
    let words: &[u64] = match magic {
        0xffff_fffb => &[3],
        0xffff_fffa => &[3, 1, 64, 0, 0, 0, 64 + names.len() as u64],
        _ => &[3, 1, TEXT, 72, 0, 0, 0, 72 + names.len() as u64],
    };
    let mut bytes = magic.to_le_bytes().to_vec();
    bytes.extend([0, 0, 1, 8]);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let is_small = !matches!(magic, 0xffff_fffb | 0xffff_fffa);
    let number = |number: u64| {
        let bytes = number.to_le_bytes();
        if is_small { bytes[..4].to_vec() } else { bytes.to_vec() }
    };
    let begin = |index: u64| index * 0x100 + if is_small { 0 } else { TEXT };
    if magic == 0xffff_fffb {
        // Descriptions and names follow the entries, and count from the beginning.
        let descriptions = 16 + 3 * 16 + 8;
        let names_begin = descriptions + 3 * 12;
        for index in 0..3 {
            bytes.extend(number(begin(index)));
            bytes.extend(number(descriptions + index * 12));
        }
        bytes.extend(number(begin(3)));
        for (index, place) in (0..3).zip(&places) {
            bytes.extend(number(begin(index)));
            bytes.extend(&(names_begin + place).to_le_bytes()[..4]);
        }
        bytes.extend(names);
        return bytes;
    }
    bytes.extend(names);
    let size = number(0).len() as u64;
    let descriptions = 3 * 2 * size + size;
    for index in 0..3 {
        bytes.extend(number(begin(index)));
        bytes.extend(number(descriptions + index * (size + 4)));
    }
    bytes.extend(number(begin(3)));
    for (index, place) in (0..3).zip(&places) {
        bytes.extend(number(begin(index)));
        bytes.extend(&place.to_le_bytes()[..4]);
    }
    bytes
}

fn names(table: &[u8], addresses: &[u64]) -> Option<Vec<Option<String>>> {
    let file = [&[0xff; BEFORE as usize], table].concat();
    let table = FunctionTable::new(file.as_slice(), (BEFORE, table.len() as u64))?;
    Some(addresses.iter().map(|address| table.name(*address)).collect())
}

const VERSIONS: [u32; 4] = [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1];

/// Promise (Tracing: why): Functions of a stripped Go program are named by the table that it unwinds its own stacks by.
#[test]
fn functions_of_each_version_are_named() {
    let addresses = [TEXT - 1, TEXT, TEXT + 0xff, TEXT + 0x100, TEXT + 0x2ff, TEXT + 0x300];
    for magic in VERSIONS {
        let found = names(&table(magic), &addresses).unwrap();
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        let [main, insert, mark] = NAMES.map(Some);
        assert_eq!(found, [None, main, main, insert, mark, None], "{magic:x}");
    }
}

#[test]
fn what_is_no_table_is_refused() {
    assert_eq!(names(&[], &[TEXT]), None);
    assert_eq!(names(&table(0xffff_fff7), &[TEXT]), None);
    let mut of_32_bits = table(0xffff_fff1);
    of_32_bits[7] = 4;
    assert_eq!(names(&of_32_bits, &[TEXT]), None);
}

proptest! {
    #[test]
    fn damaged_tables_are_read(
        version in 0_usize..4,
        changes in proptest::collection::vec((0_usize..200, any::<u8>()), 0..20),
        length in 0_usize..250,
    ) {
        let mut table = table(VERSIONS[version]);
        for (at, byte) in changes {
            if let Some(old) = table.get_mut(at) {
                *old = byte;
            }
        }
        table.truncate(length);
        names(&table, &[0, TEXT, TEXT + 0x250, u64::MAX]);
    }
}
