//! Rows of a table, and their form as Parquet.

use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::sync::Arc;

/// A row group has at most so many rows: a day of minutes is one.
const ROWS_AT_ONCE: usize = 16_384;

/// Compression level: data that is written once and read for years may take its time.
const ZSTD_LEVEL: i32 = 12;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A moment in UTC, in milliseconds.
    Time,
    /// A signed number of 64 bits.
    Number,
    /// UTF-8.
    Text,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct FrameColumn {
    pub name: &'static str,
    pub kind: ColumnType,
    /// Its meaning, with its unit.
    pub about: &'static str,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    None,
    Number(i64),
    Text(String),
}

impl Cell {
    fn number(&self) -> Option<i64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    fn text(&self) -> Option<ByteArray> {
        if let Self::Text(text) = self { Some(ByteArray::from(text.as_str())) } else { None }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Rows of a table; each has a cell for every column.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) columns: Vec<FrameColumn>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Frame {
    /// The rows as a Parquet file.
    pub(crate) fn parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            // A column is a page or two, for which an index of pages is larger than what it saves.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!("memwright ", env!("CARGO_PKG_VERSION")).to_owned());
        for column in self.columns.iter().filter(|column| column.kind != ColumnType::Text) {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let (schema, mut file) = (Arc::new(self.schema()?), Vec::new());
        let mut writer =
            SerializedFileWriter::new(&mut file, schema, Arc::new(properties.build()))?;
        for rows in self.rows.chunks(ROWS_AT_ONCE) {
            let mut group = writer.next_row_group()?;
            for (place, column) in self.columns.iter().enumerate() {
                let cells = rows.iter().map(|row| row.get(place).unwrap_or(&Cell::None));
                match column.kind {
                    ColumnType::Text => put::<ByteArrayType>(&mut group, cells, Cell::text)?,
                    ColumnType::Time | ColumnType::Number => {
                        put::<Int64Type>(&mut group, cells, Cell::number)?
                    }
                }
            }
            group.close()?;
        }
        writer.close()?;
        Ok(file)
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let field = |column: &FrameColumn| {
            let (physical, logical) = match column.kind {
                ColumnType::Time => {
                    (Physical::INT64, LogicalType::timestamp(true, TimeUnit::MILLIS))
                }
                ColumnType::Number => (Physical::INT64, LogicalType::integer(64, true)),
                ColumnType::Text => (Physical::BYTE_ARRAY, LogicalType::String),
            };
            let field = Type::primitive_type_builder(column.name, physical)
                .with_logical_type(Some(logical))
                .with_repetition(Repetition::OPTIONAL);
            Ok(Arc::new(field.build()?))
        };
        let fields = self.columns.iter().map(field).collect::<Result<Vec<_>, ParquetError>>()?;
        Type::group_type_builder("memwright").with_fields(fields).build()
    }
}

/// Writes the values that `value` finds in the cells; the other cells are null.
fn put<'a, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    cells: impl Iterator<Item = &'a Cell>,
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let (mut values, mut there) = (Vec::new(), Vec::new());
    for cell in cells {
        let found = value(cell);
        there.push(i16::from(found.is_some()));
        values.extend(found);
    }
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&values, Some(&there), None)?;
    column.close()
}
