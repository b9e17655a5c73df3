-- The tables of the data set for ClickHouse: clickhouse-local or chdb, started in its directory. hour and day are counted from
-- 1970, in UTC.
SET join_use_nulls = 1;
-- Machines with an older memwright lack the columns that were added since.
SET schema_inference_mode = 'union';
SET schema_inference_make_columns_nullable = 1;
CREATE OR REPLACE VIEW minutes AS SELECT *, intDiv(toUnixTimestamp64Milli(recorded_at), 3600000) AS hour, intDiv(toUnixTimestamp64Milli(recorded_at), 86400000) AS day FROM file('minutes/**/*.parquet', Parquet);
CREATE OR REPLACE VIEW hours AS SELECT *, intDiv(toUnixTimestamp64Milli(recorded_at), 3600000) AS hour, intDiv(toUnixTimestamp64Milli(recorded_at), 86400000) AS day FROM file('hours/**/*.parquet', Parquet);
CREATE OR REPLACE VIEW incidents AS SELECT *, intDiv(toUnixTimestamp64Milli(recorded_at), 3600000) AS hour, intDiv(toUnixTimestamp64Milli(recorded_at), 86400000) AS day FROM file('incidents/**/*.parquet', Parquet);
CREATE OR REPLACE VIEW holders AS SELECT *, intDiv(toUnixTimestamp64Milli(recorded_at), 3600000) AS hour, intDiv(toUnixTimestamp64Milli(recorded_at), 86400000) AS day FROM file('holders/**/*.parquet', Parquet);
CREATE OR REPLACE VIEW facts AS SELECT *, intDiv(toUnixTimestamp64Milli(recorded_at), 3600000) AS hour, intDiv(toUnixTimestamp64Milli(recorded_at), 86400000) AS day FROM file('facts/**/*.parquet', Parquet);
