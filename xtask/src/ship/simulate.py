"""Makes the data set of a fleet: DIRECTORY MACHINES DAYS. Values are noise around those of a quiet server, with some
conditions of which the queries have to tell:

- n0003 fragments: a GiB of its blocks of 2 MiB is lost in a day
- n0005 waits for memory from three to four every night
- n0007 is flooded by dd at two every night
- n0009 has a cgroup that grows by a GiB a day, towards 64 GiB
- n0001 to n0004 got another kernel in the middle, and stall since
- n0011 is silent for the last two days
"""

import os
import sys

import duckdb

directory, machines, days = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
db.execute("SET threads = 2")
db.execute("CREATE MACRO noise(m, t, salt, most) AS hash(m * 1000003 + t * 101 + salt) % most")
# lpad cuts what is longer.
db.execute("CREATE MACRO named(m) AS 'n' || lpad(m::VARCHAR, greatest(4, length(m::VARCHAR))::INTEGER, '0')")
GIB = 1 << 30

# Of each column: its least value, and how far noise goes; in pages, where it is of memory.
GAUGES = {
    "free_bytes_min": (4 * GIB, GIB), "available_bytes_min": (100 * GIB, GIB), "cache_bytes": (90 * GIB, GIB),
    "dirty_bytes_max": (10 << 20, 64 << 20), "writeback_bytes_max": (0, 8 << 20), "anon_bytes": (20 * GIB, GIB // 4),
    "anon_huge_bytes": (8 * GIB, GIB // 8), "shmem_bytes": (2 * GIB, 1 << 20), "unevictable_bytes": (64 << 20, 1),
    "slab_unreclaimable_bytes": (GIB, 16 << 20), "page_table_bytes": (200 << 20, 1 << 20),
    "committed_bytes": (40 * GIB, GIB), "swap_free_bytes_min": (8 * GIB, 1), "hugetlb_bytes": (0, 1),
    "huge_pages_free_min": (0, 1),
}
COUNTERS = {
    "memory_full_us": 20, "io_some_us": 400_000, "io_full_us": 200_000, "cpu_some_us": 900_000,
    "kswapd_scanned_pages": 40_000, "kswapd_reclaimed_pages": 38_000, "direct_scanned_pages": 40,
    "direct_reclaimed_pages": 38, "allocation_stalls": 2, "compaction_stalls": 3, "compaction_failures": 1,
    "swapped_in_pages": 1, "swapped_out_pages": 1, "refaulted_file_pages": 900, "refaulted_anon_pages": 1,
    "major_faults": 60, "thp_faults": 300, "thp_fallbacks": 20, "zone_reclaim_failures": 1, "cache_drops": 1,
    "oom_kills": 1, "disk_read_bytes": 200 << 20, "disk_written_bytes": 300 << 20, "probe_worst_us": 4000,
    "probe_failures": 1,
}


def save(table: str, day: int, select: str) -> None:
    """One file for the day, as compact.sql makes it."""
    date = db.execute(f"SELECT (DATE '2026-10-01' + {day})::VARCHAR").fetchone()[0]
    folder = os.path.join(directory, table, f"date={date}")
    os.makedirs(folder, exist_ok=True)
    db.execute(f"COPY ({select}) TO '{folder}/all.parquet' (FORMAT parquet, COMPRESSION zstd)")


def minutes(day: int) -> str:
    columns = ["make_timestamptz(2026, 10, 1, 0, 0, 0) + to_minutes(t) AS recorded_at", "named(m) AS host", "60 AS rows"]
    salt = 0
    for name, (least, most) in GAUGES.items():
        salt += 1
        columns.append(f"({least} + 4096 * noise(m, t, {salt}, {-(-most // 4096)}))::BIGINT AS {name}")
    for name, most in COUNTERS.items():
        salt += 1
        step = 4096 if name.endswith("_bytes") else 1
        columns.append(f"({step} * noise(m, t, {salt}, {-(-most // step)}))::BIGINT AS {name}")
    fall = f"CASE WHEN m = 3 THEN t * {GIB // 1440} ELSE 0 END"
    columns.append(f"({60 * GIB} - {fall} + 4096 * noise(m, t, 90, {GIB // 40960}))::BIGINT AS free_2m_bytes_min")
    nightly = "CASE WHEN m = 5 AND t % 1440 // 60 = 3 THEN 30000000 ELSE 0 END"
    columns.append(f"(noise(m, t, 91, 40) + {nightly})::BIGINT AS memory_some_us")
    silent = f"NOT (m = 11 AND t >= {(days - 2) * 1440})"
    return (
        f"SELECT {', '.join(columns)} FROM range(1, {machines + 1}) AS hosts(m), "
        f"range({day * 1440}::BIGINT, {(day + 1) * 1440}::BIGINT) AS times(t) WHERE {silent} ORDER BY host, recorded_at"
    )


def incidents(day: int) -> str:
    return f"""
        SELECT make_timestamptz(2026, 10, 1, 0, 0, 0) + to_days({day}) + to_seconds(s) AS recorded_at, named(m) AS host,
            row_number() OVER ()::BIGINT AS incident, 'closed' AS state, lasted::BIGINT AS lasted_ms, 'probe' AS trigger_kind,
            'db' AS trigger_name, (lasted * 900)::BIGINT AS worst_us, cause, 90::BIGINT AS confidence_percent, subject,
            NULL::VARCHAR AS failure, 'db did not answer' AS verdict, '6.1.0' AS kernel, '0.1.0' AS memwright,
            64::BIGINT AS cpus, {128 * GIB}::BIGINT AS memory_bytes
        FROM (
            SELECT 7 AS m, 7200 + 60 * n AS s, 30000 AS lasted, 'page-cache-flood' AS cause, 'process dd' AS subject
            FROM range(5) AS repeats(n)
            UNION ALL
            SELECT h, 40000 + 100 * n, 2000, 'thp-compaction', 'transparent huge pages'
            FROM range(1, 5) AS hosts(h), range(2) AS repeats(n) WHERE {day} >= {days // 2}
            UNION ALL
            SELECT h, 3600 * (h % 24), 1000, 'cgroup-limit', 'cgroup /system.slice/db.service'
            FROM range(20, {machines + 1}) AS hosts(h) WHERE noise(h, {day}, 92, 50) = 0
        )
        """


def holders(day: int) -> str:
    return f"""
        SELECT make_timestamptz(2026, 10, 1, 0, 0, 0) + to_hours(t) AS recorded_at, named(m) AS host,
            'cgroup.' || name AS holder, 'cgroup' AS kind, name,
            (CASE WHEN m = 9 AND g = 0 THEN {4 * GIB} + t * {GIB // 24} ELSE (g + 1) * 100000000 END
                + noise(m * 31 + g, t, 93, 20000000))::BIGINT AS bytes,
            CASE WHEN g = 0 THEN {64 * GIB}::BIGINT END AS limit_bytes
        FROM range(1, {machines + 1}) AS hosts(m), range({day * 24}::BIGINT, {(day + 1) * 24}::BIGINT) AS times(t),
            (SELECT g, '/system.slice/service-' || g AS name FROM range(20) AS groups(g))
        ORDER BY host, recorded_at
        """


def facts(day: int) -> str:
    return f"""
        SELECT make_timestamptz(2026, 10, 1, 23, 0, 0) + to_days({day}) AS recorded_at, named(m) AS host,
            CASE WHEN f = 0 THEN 'kernel' ELSE '/proc/sys/vm/setting_' || f END AS fact,
            CASE WHEN f = 0 AND m <= 4 AND {day} >= {days // 2} THEN '6.12.0' WHEN f = 0 THEN '6.1.0' ELSE '0' END AS value
        FROM range(1, {machines + 1}) AS hosts(m), range(58) AS names(f)
        """


for day in range(days):
    for table, rows in (("minutes", minutes), ("incidents", incidents), ("holders", holders), ("facts", facts)):
        save(table, day, rows(day))
