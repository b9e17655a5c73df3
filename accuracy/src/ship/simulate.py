"""Makes the data set of a fleet: DIRECTORY MACHINES DAYS RECORDED.

RECORDED is a file with minutes of real recordings, as `memwright ship` writes them (recorded.py makes it). A machine's minutes
are ten at a time those of some recording: gauges are a level of the machine, a change of it for these ten minutes, and what was
recorded of their changes since; counters are what was recorded times a factor of these ten minutes. Some machines have
conditions of which the queries have to tell:

- n0003 fragments: a GiB of its blocks of 2 MiB is lost in a day
- n0005 waits for memory from three to four every night
- n0007 is flooded by dd at two every night
- n0009 has a cgroup that grows by a GiB a day, towards 64 GiB
- n0001 to n0004 got another kernel in the middle, and stall since
- n0011 is silent for the last two days
- n0013 compacts for huge pages, half of it in vain
"""

import os
import sys

import duckdb

directory, machines, days, recorded = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
db.execute("SET threads = 2")
db.execute("CREATE MACRO noise(m, t, salt, most) AS (hash(m * 1000003 + t * 101 + salt) % most)::BIGINT")
# lpad cuts what is longer.
db.execute("CREATE MACRO named(m) AS 'n' || lpad(m::VARCHAR, greatest(4, length(m::VARCHAR))::INTEGER, '0')")
GIB = 1 << 30

# Minutes that are taken from a recording at a time.
PIECE = 10
# Machines in a file.
IN_A_FILE = 10_000
# As in compact.sql.
FORMAT = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 9"

# Of each gauge: its least level, and how far levels differ.
GAUGES = {
    "free_bytes_min": (4 * GIB, GIB), "available_bytes_min": (100 * GIB, GIB), "free_2m_bytes_min": (60 * GIB, GIB // 10),
    "cache_bytes": (90 * GIB, GIB), "dirty_bytes_max": (10 << 20, 64 << 20), "writeback_bytes_max": (0, 8 << 20),
    "anon_bytes": (20 * GIB, GIB // 4), "anon_huge_bytes": (8 * GIB, GIB // 8), "shmem_bytes": (2 * GIB, 1 << 20),
    "unevictable_bytes": (64 << 20, 4096), "slab_unreclaimable_bytes": (GIB, 16 << 20),
    "page_table_bytes": (200 << 20, 1 << 20), "committed_bytes": (40 * GIB, GIB), "swap_free_bytes_min": (8 * GIB, 4096),
    "hugetlb_bytes": (0, 4096), "huge_pages_free_min": (0, 1),
}
COUNTERS = [
    "memory_some_us", "memory_full_us", "io_some_us", "io_full_us", "cpu_some_us", "kswapd_scanned_pages",
    "kswapd_reclaimed_pages", "direct_scanned_pages", "direct_reclaimed_pages", "allocation_stalls", "compaction_stalls",
    "compaction_failures", "swapped_in_pages", "swapped_out_pages", "refaulted_file_pages", "refaulted_anon_pages",
    "major_faults", "thp_faults", "thp_fallbacks", "zone_reclaim_failures", "cache_drops", "oom_kills", "disk_read_bytes",
    "disk_written_bytes", "probe_worst_us", "probe_failures",
]

# What some machines have in addition.
CONDITIONS = {
    "free_2m_bytes_min": f" - CASE WHEN m = 3 THEN t * {GIB // 1440} ELSE 0 END",
    "memory_some_us": " + CASE WHEN m = 5 AND t % 1440 // 60 = 3 THEN 30000000 ELSE 0 END",
    "compaction_stalls": " + CASE WHEN m = 13 THEN 20 ELSE 0 END",
    "compaction_failures": " + CASE WHEN m = 13 THEN 10 ELSE 0 END",
}

# Each piece, and its minutes from 0 on: gauges as differences from the first.
changes = ", ".join(
    f"recorded.{name} - first_value(recorded.{name}) OVER piece AS {name}" for name in GAUGES
)
db.execute(f"CREATE TABLE recorded AS SELECT recording, COLUMNS(* EXCLUDE recording)::BIGINT FROM read_csv('{recorded}')")
db.execute(f"""
    CREATE TABLE pieces AS
    SELECT dense_rank() OVER (ORDER BY start.recording, start.minute) - 1 AS piece, recorded.minute - start.minute AS at,
        recorded.rows, {changes}, {', '.join('recorded.' + name for name in COUNTERS)}
    FROM recorded AS start
        JOIN (SELECT recording, minute - {PIECE - 1} AS minute, count(*) OVER last AS minutes FROM recorded
            WINDOW last AS (PARTITION BY recording ORDER BY minute RANGE {PIECE - 1} PRECEDING)) AS whole
            ON whole.recording = start.recording AND whole.minute = start.minute AND whole.minutes = {PIECE}
        JOIN recorded ON recorded.recording = start.recording
            AND recorded.minute BETWEEN start.minute AND start.minute + {PIECE - 1}
    WINDOW piece AS (PARTITION BY start.recording, start.minute ORDER BY recorded.minute)
    """)
pieces = db.execute("SELECT max(piece) + 1 FROM pieces").fetchone()[0]


def save(day: int) -> None:
    """The files of the day, as compact.sql makes them."""
    for first in range(1, machines + 1, IN_A_FILE):
        hosts = f"range({first}, {min(first + IN_A_FILE, machines + 1)}) AS hosts(m)"
        file = "all" if machines <= IN_A_FILE else f"all-{first:06}"
        whole = write("minutes", day, file, minutes(day, hosts))
        write("hours", day, file, hours(whole))
        write("incidents", day, file, incidents(day, hosts))
        write("holders", day, file, holders(day, hosts))
        write("facts", day, file, facts(day, hosts))


def write(table: str, day: int, file: str, select: str) -> str:
    """The path of the file that it writes."""
    date = db.execute(f"SELECT (DATE '2026-10-01' + {day})::VARCHAR").fetchone()[0]
    folder = os.path.join(directory, table, f"date={date}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{file}.parquet")
    db.execute(f"COPY ({select}) TO '{path}' ({FORMAT})")
    return path


def minutes(day: int, hosts: str) -> str:
    # The level of the machine, and that of these minutes, in pages.
    levels = ", ".join(
        f"{least} + 4096 * (noise(m, 0, {salt}, {-(-most // 4096)}) + noise(m, slot, {salt}, {-(-most // 16384)})) AS level_{name}"
        if most > 1 else f"0 AS level_{name}"
        for salt, (name, (least, most)) in enumerate(GAUGES.items())
    )
    a_day = 1440 // PIECE
    columns = ["make_timestamptz(2026, 10, 1, 0, 0, 0) + to_minutes(t) AS recorded_at", "host", "rows"]
    for name in GAUGES:
        value = f"greatest(0, level_{name} + {name}{CONDITIONS.get(name, '')})::BIGINT"
        columns.append(f"CASE WHEN {name} IS NOT NULL THEN {value} END AS {name}")
    for name in COUNTERS:
        step = 4096 if name.endswith("_bytes") else 1
        most = 60_000_000 if name.endswith(("some_us", "full_us")) else 1 << 62
        value = f"least({name} * factor // {1000 * step} * {step}{CONDITIONS.get(name, '')}, {most})::BIGINT"
        columns.append(f"CASE WHEN {name} IS NOT NULL THEN {value} END AS {name}")
    # Materialized, so that what follows has all threads.
    return f"""
        WITH slots AS MATERIALIZED (
            SELECT m, named(m) AS host, slot, noise(m, slot, 99, {pieces}) AS piece, 500 + noise(m, slot, 100, 1000) AS factor,
                {levels}
            FROM {hosts}, range({day * a_day}::BIGINT, {(day + 1) * a_day}::BIGINT) AS slots(slot)
        )
        SELECT {', '.join(columns)}
        FROM (SELECT *, slot * {PIECE} + pieces.at AS t FROM slots JOIN pieces USING (piece))
        WHERE NOT (m = 11 AND t >= {(days - 2) * 1440})
        ORDER BY host, recorded_at
        """


def hours(minutes: str) -> str:
    columns = ["date_trunc('hour', recorded_at) AS recorded_at", "host", "count(*) AS minutes", "sum(rows)::BIGINT AS rows"]
    for name in [*GAUGES, *COUNTERS]:
        joined = "arg_max({}, recorded_at)"
        if name in COUNTERS:
            joined = "sum({})::BIGINT"
        if name.endswith("_min"):
            joined = "min({})"
        if name.endswith("_max") or "_worst_" in name:
            joined = "max({})"
        columns.append(f"{joined.format('minutes.' + name)} AS {name}")
    return f"""
        SELECT {', '.join(columns)} FROM read_parquet('{minutes}') AS minutes
        GROUP BY date_trunc('hour', recorded_at), host ORDER BY host, date_trunc('hour', recorded_at)
        """


def incidents(day: int, hosts: str) -> str:
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
        WHERE m IN (SELECT m FROM {hosts})
        """


def holders(day: int, hosts: str) -> str:
    return f"""
        SELECT make_timestamptz(2026, 10, 1, 0, 0, 0) + to_hours(t) AS recorded_at, named(m) AS host,
            'cgroup.' || name AS holder, 'cgroup' AS kind, name,
            (CASE WHEN m = 9 AND g = 0 THEN {4 * GIB} + t * {GIB // 24} ELSE (g + 1) * 100000000 END
                + noise(m * 31 + g, t, 93, 20000000))::BIGINT AS bytes,
            CASE WHEN g = 0 THEN {64 * GIB}::BIGINT END AS limit_bytes
        FROM {hosts}, range({day * 24}::BIGINT, {(day + 1) * 24}::BIGINT) AS times(t),
            (SELECT g, '/system.slice/service-' || g AS name FROM range(20) AS groups(g))
        ORDER BY host, recorded_at
        """


def facts(day: int, hosts: str) -> str:
    return f"""
        SELECT make_timestamptz(2026, 10, 1, 23, 0, 0) + to_days({day}) AS recorded_at, named(m) AS host,
            CASE WHEN f = 0 THEN 'kernel' ELSE '/proc/sys/vm/setting_' || f END AS fact,
            CASE WHEN f = 0 AND m <= 4 AND {day} >= {days // 2} THEN '6.12.0' WHEN f = 0 THEN '6.1.0' ELSE '0' END AS value
        FROM {hosts}, range(58) AS names(f)
        """


for day in range(days):
    save(day)
