-- The tables of the data set for DuckDB, which is started in its directory. hour and day are counted from 1970, in UTC.
SET TimeZone = 'UTC';
CREATE OR REPLACE VIEW minutes AS SELECT *, epoch_ms(recorded_at) // 3600000 AS hour, epoch_ms(recorded_at) // 86400000 AS day FROM read_parquet('minutes/**/*.parquet', union_by_name = true, hive_partitioning = false);
CREATE OR REPLACE VIEW hours AS SELECT *, epoch_ms(recorded_at) // 3600000 AS hour, epoch_ms(recorded_at) // 86400000 AS day FROM read_parquet('hours/**/*.parquet', union_by_name = true, hive_partitioning = false);
CREATE OR REPLACE VIEW incidents AS SELECT *, epoch_ms(recorded_at) // 3600000 AS hour, epoch_ms(recorded_at) // 86400000 AS day FROM read_parquet('incidents/**/*.parquet', union_by_name = true, hive_partitioning = false);
CREATE OR REPLACE VIEW holders AS SELECT *, epoch_ms(recorded_at) // 3600000 AS hour, epoch_ms(recorded_at) // 86400000 AS day FROM read_parquet('holders/**/*.parquet', union_by_name = true, hive_partitioning = false);
CREATE OR REPLACE VIEW facts AS SELECT *, epoch_ms(recorded_at) // 3600000 AS hour, epoch_ms(recorded_at) // 86400000 AS day FROM read_parquet('facts/**/*.parquet', union_by_name = true, hive_partitioning = false);
