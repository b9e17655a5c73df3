-- One file a day for all machines instead of one for each, for DuckDB in the directory of the data set, after duckdb.sql:
-- queries over a month of 1,000 machines then open 30 files and not 30,000. Days that are not over come out incomplete, and
-- whole at the next time.
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM minutes ORDER BY date, host, recorded_at) TO 'compacted/minutes' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM incidents ORDER BY date, host, recorded_at) TO 'compacted/incidents' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM holders ORDER BY date, host, recorded_at) TO 'compacted/holders' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
COPY (SELECT * EXCLUDE (hour, day), CAST(recorded_at AS DATE) AS date FROM facts ORDER BY date, host, recorded_at) TO 'compacted/facts' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (date), OVERWRITE_OR_IGNORE, FILENAME_PATTERN 'all');
