# Runs OOMAnalyser without its page: argv is its source and a directory. Its own examples are written there as NAME.log; each
# *.log of the directory is analysed. Standard output has a JSON object for each log.
import importlib.util, json, pathlib, sys, time

source, directory = sys.argv[1], pathlib.Path(sys.argv[2])
spec = importlib.util.spec_from_file_location("OOMAnalyser", source)
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
for name in ("debug", "warning", "error", "internal_error"):
    setattr(program, name, lambda text: None)

for name in dir(program.OOMDisplay):
    if name.startswith("example_"):
        (directory / f"{name[8:]}.log").write_text(getattr(program.OOMDisplay, name))

for log in sorted(directory.glob("*.log")):
    begun = time.perf_counter()
    result, accepted = program.OOMResult(), False
    try:
        analysis = program.OOMAnalyser(program.OOMEntity(log.read_text(errors="replace")))
        accepted = bool(analysis.analyse())
        result, error = analysis.oom_result, analysis.oom_result.error_msg
    except Exception as exception:
        error = f"{type(exception).__name__}: {exception}"
    print(json.dumps({
        "name": log.stem,
        "accepted": accepted,
        "error": " ".join(error.split()),
        "ms": (time.perf_counter() - begun) * 1000,
        "kind": result.oom_type,
        "reason": result.mem_alloc_failure,
        "fragmented": result.mem_fragmented,
        "values": len(result.details),
    }))
