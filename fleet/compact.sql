-- One file a day for all machines instead of one for each, as a second data set in the directory 'compacted', for DuckDB in the
-- directory of the first, after duckdb.sql: queries over a month of 1,000 machines then open 30 files of a table and not
-- 30,000. Days that are not over come out incomplete, and whole at the next time. With SET VARIABLE since = DATE '2026-11-01'
-- before it, it leaves earlier days as they are.
-- The columns of tables that have no rows yet.
COPY (SELECT * EXCLUDE (hour, day) FROM minutes LIMIT 0) TO 'compacted/minutes' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'columns');
COPY (SELECT * EXCLUDE (hour, day) FROM hours LIMIT 0) TO 'compacted/hours' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'columns');
COPY (SELECT * EXCLUDE (hour, day) FROM incidents LIMIT 0) TO 'compacted/incidents' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'columns');
COPY (SELECT * EXCLUDE (hour, day) FROM holders LIMIT 0) TO 'compacted/holders' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'columns');
COPY (SELECT * EXCLUDE (hour, day) FROM facts LIMIT 0) TO 'compacted/facts' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'columns');
-- The rows.
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM minutes WHERE recorded_at >= coalesce(getvariable('since'), DATE '1970-01-01') ORDER BY date, host, recorded_at) TO 'compacted/minutes' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 9, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM hours WHERE recorded_at >= coalesce(getvariable('since'), DATE '1970-01-01') ORDER BY date, host, recorded_at) TO 'compacted/hours' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 9, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM incidents WHERE recorded_at >= coalesce(getvariable('since'), DATE '1970-01-01') ORDER BY date, host, recorded_at) TO 'compacted/incidents' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 9, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM holders WHERE recorded_at >= coalesce(getvariable('since'), DATE '1970-01-01') ORDER BY date, host, recorded_at) TO 'compacted/holders' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 9, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM facts WHERE recorded_at >= coalesce(getvariable('since'), DATE '1970-01-01') ORDER BY date, host, recorded_at) TO 'compacted/facts' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 9, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
