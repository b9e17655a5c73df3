//! Parquet: a row group for every few thousand rows.

use super::sink::{AT, ExportError, Sink};
use mw_model::{NO_VALUE, Table};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

pub(super) struct Parquet<W: Write + Send> {
    out: SerializedFileWriter<W>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(names: &[String], out: W) -> Result<Self, ExportError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED)
            .set_created_by(concat!("memwright ", env!("CARGO_PKG_VERSION")).to_owned());
        let schema = Arc::new(schema(names)?);
        Ok(Self { out: SerializedFileWriter::new(out, schema, Arc::new(properties.build()))? })
    }
}

fn schema(names: &[String]) -> Result<Type, ParquetError> {
    let instant = LogicalType::timestamp(true, TimeUnit::MILLIS);
    let number = LogicalType::integer(64, false);
    let mut fields = vec![field(AT, instant, Repetition::REQUIRED)?];
    for name in names {
        fields.push(field(name, number.clone(), Repetition::OPTIONAL)?);
    }
    Type::group_type_builder("recording").with_fields(fields).build()
}

fn field(
    name: &str,
    logical: LogicalType,
    repetition: Repetition,
) -> Result<Arc<Type>, ParquetError> {
    let field = Type::primitive_type_builder(name, Physical::INT64)
        .with_logical_type(Some(logical))
        .with_repetition(repetition);
    Ok(Arc::new(field.build()?))
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn write(&mut self, table: &Table) -> Result<(), ExportError> {
        let mut group = self.out.next_row_group()?;
        let times: Vec<i64> = table.at_unix_ms.iter().map(|at| signed(*at)).collect();
        put(&mut group, &times, None)?;
        let (mut values, mut there) = (Vec::new(), Vec::new());
        for column in &table.columns {
            there.clear();
            there.extend(column.values.iter().map(|value| i16::from(*value != NO_VALUE)));
            values.clear();
            values.extend(column.values.iter().filter(|v| **v != NO_VALUE).map(|v| *v as i64));
            put(&mut group, &values, Some(&there))?;
        }
        group.close()?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        self.out.close()?;
        Ok(())
    }
}

fn put<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[i64],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<Int64Type>().write_batch(values, there, None)?;
    column.close()
}

fn signed(unix_ms: u64) -> i64 {
    i64::try_from(unix_ms).unwrap_or(i64::MAX)
}
