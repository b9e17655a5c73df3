"""Runs all queries on one engine: ENGINE FLEET DATASET ROUNDS. Prints JSON: of each query its columns, rows and times, and
the most memory that the process had."""

import glob
import json
import os
import resource
import sys
import time

engine, fleet, dataset, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def text(path: str) -> str:
    with open(path) as file:
        return file.read()


views = text(os.path.join(fleet, f"{engine}.sql"))
queries = {os.path.basename(path)[:-4]: text(path) for path in sorted(glob.glob(os.path.join(fleet, "queries", "*.sql")))}
os.chdir(dataset)

if engine == "duckdb":
    import duckdb

    db = duckdb.connect()
    db.execute("SET threads = 2")
    db.execute(views)

    def run(query: str) -> "tuple[list[str], list[list[object]]]":
        found = db.execute(query)
        return [column[0] for column in found.description], [list(row) for row in found.fetchall()]
else:
    from chdb import session

    db = session.Session()
    db.query("SET max_threads = 2")
    for statement in views.split(";"):
        if statement.strip():
            db.query(statement)

    def run(query: str) -> "tuple[list[str], list[list[object]]]":
        found = json.loads(db.query(query.strip().rstrip(";"), "JSONCompact").bytes())
        return [column["name"] for column in found["meta"]], found["data"]


results = {}
for name, query in queries.items():
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        columns, rows = run(query)
        times.append(time.perf_counter() - start)
    results[name] = {"columns": columns, "rows": rows, "seconds": sorted(times)}
peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"queries": results, "peak_mib": peak_kib // 1024}, default=str))
