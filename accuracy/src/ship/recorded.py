"""Writes the minutes of recordings for simulate.py: FILE NAME=DIRECTORY..., each a data set of `memwright ship`."""

import sys

import duckdb

file, recordings = sys.argv[1], [recording.split("=", 1) for recording in sys.argv[2:]]
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
# The first and the last minute are not whole.
minutes = [
    f"""
    SELECT '{name}' AS recording, epoch_ms(recorded_at) // 60000 - first_value(epoch_ms(recorded_at) // 60000) OVER by_time AS minute,
        * EXCLUDE (recorded_at, host)
    FROM read_parquet('{directory}/minutes/**/*.parquet', hive_partitioning = false)
    WINDOW by_time AS (ORDER BY recorded_at)
    """
    for name, directory in recordings
]
minutes = " UNION ALL BY NAME ".join(f"({select})" for select in minutes)
db.execute(f"""
    COPY (
        SELECT * FROM ({minutes})
        QUALIFY minute > 0 AND minute < max(minute) OVER (PARTITION BY recording)
        ORDER BY recording, minute
    ) TO '{file}' (HEADER)
    """)
