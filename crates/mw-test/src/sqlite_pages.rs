//! Databases of SQLite whose pages are changed by hand, so that they say what SQLite itself would not write: pages that
//! are the children of many others, texts without an end. The format is that of <https://www.sqlite.org/fileformat2.html>.

/// As memwright writes them.
const PAGE_BYTES: usize = 4096;

/// The head of the database, on its first page.
const HEAD_BYTES: usize = 100;

/// The most bytes of a row on a leaf, the least of one that goes on elsewhere, and what a page of the rest has.
const MAX_LOCAL: usize = PAGE_BYTES - 35;
const MIN_LOCAL: usize = (PAGE_BYTES - 12) * 32 / 255 - 23;
const OVERFLOW_BYTES: usize = PAGE_BYTES - 4;

const INTERIOR: u8 = 5;
const LEAF: u8 = 13;
const INDEX_INTERIOR: u8 = 2;
const INDEX_LEAF: u8 = 10;

/// The children of a page that names one child as often as it can.
const CHILDREN: usize = 300;

/// A value of a row.
#[derive(Debug, Clone)]
pub enum SqliteValue {
    /// The row's number stands for its key.
    Key,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    /// A text of so many bytes that lie in one page, which follows itself.
    EndlessText(usize),
}

/// The pages of a database.
#[derive(Debug, Clone)]
pub struct SqlitePages(Vec<Vec<u8>>);

impl SqlitePages {
    /// The pages of a database that SQLite wrote.
    #[must_use]
    pub fn parse(database: &[u8]) -> Self {
        assert!(database.starts_with(b"SQLite format 3\0") && database[16..18] == [0x10, 0]);
        Self(database.chunks(PAGE_BYTES).map(<[u8]>::to_vec).collect())
    }

    /// The database.
    #[must_use]
    pub fn to_bytes(mut self) -> Vec<u8> {
        let count = u32::try_from(self.0.len()).unwrap();
        self.0[0][28..32].copy_from_slice(&count.to_be_bytes());
        self.0.concat()
    }

    /// Gives the rows of a table, or the entries of an index, some hundred times for each level.
    pub fn multiply(&mut self, name: &str, levels: usize) {
        let root = self.root(name);
        let leaf = self.page(root).to_vec();
        let parent = |child: u32| match leaf[0] {
            INDEX_LEAF => index_parent(child, &leaf),
            _ => interior(&[child; CHILDREN]),
        };
        let mut child = self.add(leaf.clone());
        for _ in 1..levels {
            child = self.add(parent(child));
        }
        *self.page_mut(root) = parent(child);
    }

    /// Gives the definitions of the tables 300 times for each level.
    pub fn multiply_definitions(&mut self, levels: usize) {
        let mut leaf = self.page(1).to_vec();
        leaf.copy_within(HEAD_BYTES..HEAD_BYTES + 8, 0);
        // Its cells are counted from the beginning of the page, which has moved.
        leaf.copy_within(HEAD_BYTES + 8..HEAD_BYTES + 8 + 2 * 64, 8);
        let mut child = self.add(leaf);
        for _ in 1..levels {
            child = self.add(interior(&[child; CHILDREN]));
        }
        let children = interior(&[child; CHILDREN - 20]);
        let first = self.page_mut(1);
        first[HEAD_BYTES..].copy_from_slice(&children[..PAGE_BYTES - HEAD_BYTES]);
        // The cells lie where they lay, from the beginning of the page.
        let cells = &children[cell_start(&children)..];
        first[PAGE_BYTES - cells.len()..].copy_from_slice(cells);
    }

    /// Replaces the rows of a table, which have the keys 1, 2 and so on.
    pub fn set_rows(&mut self, table: &str, rows: &[Vec<SqliteValue>]) {
        let root = self.root(table);
        let mut leaves = Vec::new();
        let mut cells: Vec<Vec<u8>> = Vec::new();
        for (row, key) in rows.iter().zip(1..) {
            let cell = self.cell(row, key);
            let used: usize = cells.iter().map(|cell| cell.len() + 2).sum();
            if used + cell.len() + 2 + 8 > PAGE_BYTES {
                leaves.push((self.add(leaf(&cells)), key - 1));
                cells.clear();
            }
            cells.push(cell);
        }
        if leaves.is_empty() {
            *self.page_mut(root) = leaf(&cells);
            return;
        }
        leaves.push((self.add(leaf(&cells)), rows.len() as u64));
        while leaves.len() > CHILDREN {
            let above = leaves.chunks(CHILDREN).map(|some| (some.to_vec(), some[some.len() - 1].1));
            let above: Vec<_> = above.collect();
            leaves = above.into_iter().map(|(some, key)| (self.add(keyed(&some)), key)).collect();
        }
        *self.page_mut(root) = keyed(&leaves);
    }

    /// The root page of a table or an index, by its definition on the first page.
    fn root(&self, table: &str) -> u32 {
        let first = self.page(1);
        assert_eq!(first[HEAD_BYTES], LEAF, "the definitions fit on a page");
        let count = usize::from(u16::from_be_bytes([first[HEAD_BYTES + 3], first[HEAD_BYTES + 4]]));
        let start = |at: usize| {
            let at = HEAD_BYTES + 8 + 2 * at;
            usize::from(u16::from_be_bytes([first[at], first[at + 1]]))
        };
        let found = (0..count).find_map(|at| definition(&first[start(at)..], table));
        found.unwrap_or_else(|| panic!("no table {table}"))
    }

    fn page(&self, number: u32) -> &[u8] {
        &self.0[number as usize - 1]
    }

    fn page_mut(&mut self, number: u32) -> &mut Vec<u8> {
        &mut self.0[number as usize - 1]
    }

    /// Adds a page; its number.
    fn add(&mut self, page: Vec<u8>) -> u32 {
        self.0.push(page);
        u32::try_from(self.0.len()).unwrap()
    }

    /// A row as it lies on a leaf; the rest of a long one on pages of its own.
    fn cell(&mut self, row: &[SqliteValue], key: u64) -> Vec<u8> {
        let (head, body, endless) = record(row);
        let payload = [head, body].concat();
        let bytes = payload.len() + endless;
        let mut cell = Vec::new();
        put(&mut cell, bytes as u64);
        put(&mut cell, key);
        let surplus = MIN_LOCAL + (bytes - MIN_LOCAL.min(bytes)) % OVERFLOW_BYTES;
        let local = match bytes {
            ..=MAX_LOCAL => bytes,
            _ if surplus <= MAX_LOCAL => surplus,
            _ => MIN_LOCAL,
        };
        let mut payload = payload;
        payload.resize(payload.len().max(local), b'x');
        cell.extend(&payload[..local]);
        if local < bytes {
            let next = if endless > 0 { self.endless() } else { self.chain(&payload[local..]) };
            cell.extend(next.to_be_bytes());
        }
        cell
    }

    /// A page that follows itself.
    fn endless(&mut self) -> u32 {
        let number = self.add(vec![b'x'; PAGE_BYTES]);
        self.page_mut(number)[..4].copy_from_slice(&number.to_be_bytes());
        number
    }

    /// Pages that follow one another.
    fn chain(&mut self, bytes: &[u8]) -> u32 {
        let mut next = 0_u32;
        for part in bytes.chunks(OVERFLOW_BYTES).rev() {
            let mut page = next.to_be_bytes().to_vec();
            page.extend(part);
            page.resize(PAGE_BYTES, 0);
            next = self.add(page);
        }
        next
    }
}

/// The types of a row, its values, and how many bytes of a text follow without being there.
fn record(row: &[SqliteValue]) -> (Vec<u8>, Vec<u8>, usize) {
    let (mut types, mut body, mut endless) = (Vec::new(), Vec::new(), 0);
    for value in row {
        match value {
            SqliteValue::Key => put(&mut types, 0),
            SqliteValue::Int(value) => {
                put(&mut types, 6);
                body.extend(value.to_be_bytes());
            }
            SqliteValue::Real(value) => {
                put(&mut types, 7);
                body.extend(value.to_be_bytes());
            }
            SqliteValue::Text(text) => {
                put(&mut types, 13 + 2 * text.len() as u64);
                body.extend(text.as_bytes());
            }
            SqliteValue::Blob(bytes) => {
                put(&mut types, 12 + 2 * bytes.len() as u64);
                body.extend(bytes);
            }
            SqliteValue::EndlessText(bytes) => {
                put(&mut types, 13 + 2 * *bytes as u64);
                endless += bytes;
            }
        }
    }
    let mut head = Vec::new();
    put(&mut head, types.len() as u64 + 1);
    head.extend(types);
    (head, body, endless)
}

fn leaf(cells: &[Vec<u8>]) -> Vec<u8> {
    table_page(LEAF, 0, cells)
}

/// A page of children, each with the largest key below it.
fn keyed(children: &[(u32, u64)]) -> Vec<u8> {
    let (last, others) = children.split_last().unwrap();
    let cell = |(child, key): &(u32, u64)| {
        let mut cell = child.to_be_bytes().to_vec();
        put(&mut cell, *key);
        cell
    };
    let cells: Vec<Vec<u8>> = others.iter().map(cell).collect();
    table_page(INTERIOR, last.0, &cells)
}

/// A page of children whose keys nobody looks at.
fn interior(children: &[u32]) -> Vec<u8> {
    let children: Vec<(u32, u64)> = children.iter().map(|child| (*child, 1)).collect();
    keyed(&children)
}

fn table_page(kind: u8, last_child: u32, cells: &[Vec<u8>]) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    let number = |value: usize| u16::try_from(value).unwrap().to_be_bytes();
    let is_interior = [INTERIOR, INDEX_INTERIOR].contains(&kind);
    let mut at = if is_interior { 12 } else { 8 };
    let mut start = PAGE_BYTES;
    for cell in cells {
        start -= cell.len();
        page[start..start + cell.len()].copy_from_slice(cell);
        page[at..at + 2].copy_from_slice(&number(start));
        at += 2;
    }
    assert!(at <= start, "the cells fit on a page");
    page[0] = kind;
    page[3..5].copy_from_slice(&number(cells.len()));
    page[5..7].copy_from_slice(&number(start));
    if is_interior {
        page[8..12].copy_from_slice(&last_child.to_be_bytes());
    }
    page
}

fn cell_start(page: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([page[5], page[6]]))
}

/// A page of an index that names one child as often as it can, each time with the first entry of a leaf.
fn index_parent(child: u32, leaf: &[u8]) -> Vec<u8> {
    let start = usize::from(u16::from_be_bytes([leaf[8], leaf[9]]));
    let mut rest = &leaf[start..];
    let bytes = take(&mut rest) as usize;
    let mut cell = child.to_be_bytes().to_vec();
    put(&mut cell, bytes as u64);
    cell.extend(&rest[..bytes]);
    let count = (PAGE_BYTES - 12) / (cell.len() + 2);
    table_page(INDEX_INTERIOR, child, &vec![cell; count])
}

/// The root page of a table, where a row of the definitions is of it.
fn definition(cell: &[u8], table: &str) -> Option<u32> {
    let mut rest = cell;
    let (_bytes, _key) = (take(&mut rest), take(&mut rest));
    let record = rest;
    let head_bytes = take(&mut rest) as usize;
    let mut types = &record[record.len() - rest.len()..head_bytes];
    let mut body = &record[head_bytes..];
    let mut values = Vec::new();
    while !types.is_empty() {
        let kind = take(&mut types) as usize;
        let bytes = match kind {
            0..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            8 | 9 => 0,
            _ => (kind - 12) / 2,
        };
        // The definition itself may go on elsewhere.
        let (value, more) = body.split_at(bytes.min(body.len()));
        values.push(value);
        body = more;
    }
    let root = values[3].iter().fold(0, |root, byte| root << 8 | u32::from(*byte));
    let is_tree = values[0] == b"table" || values[0] == b"index";
    (is_tree && values[1] == table.as_bytes()).then_some(root)
}

/// Seven bits a byte, the highest first; the eighth bit says that more follow.
fn put(bytes: &mut Vec<u8>, value: u64) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    assert!(groups <= 8, "no test has larger numbers");
    for group in (0..groups).rev() {
        let more = if group > 0 { 0x80 } else { 0 };
        bytes.push((value >> (7 * group)) as u8 & 0x7f | more);
    }
}

fn take(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    loop {
        let (byte, more) = rest.split_first().unwrap();
        *rest = more;
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return value;
        }
    }
}
