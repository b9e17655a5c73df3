"""The package with the real library: memory, its views, errors, signals, forks, threads."""

import gc
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Callable

import plain
from interpreter import EXAMPLES, child

import pymemwright as mw

MIB = 1 << 20


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


class SegmentTest(unittest.TestCase):
    def test_memory_is_populated_zero_and_writable(self) -> None:
        before = resident_kib()
        with mw.Segment("64M", kind="anon", page="4k") as segment:
            self.assertEqual((len(segment), segment.kind, segment.page), (64 * MIB, "anon", "4k"))
            self.assertGreater(resident_kib() - before, 60 << 10)
            view = segment.view
            self.assertEqual((view.format, view.readonly, view.nbytes), ("B", False, 64 * MIB))
            self.assertEqual(bytes(view[-5:]), bytes(5))
            view[-3:] = b"end"
            self.assertEqual(bytes(segment.view[-3:]), b"end")
            view.release()
        self.assertTrue(segment.closed)
        self.assertLess(resident_kib() - before, 20 << 10)

    def test_a_memfd_segment_has_descriptors_of_its_size(self) -> None:
        with mw.Segment(8 * MIB) as segment:
            sizes = [os.fstat(fd).st_size for fd in segment.fds]
            self.assertEqual(sum(sizes), 8 * MIB)

    def test_progress_is_reported_and_cancels(self) -> None:
        class Enough(Exception):
            pass

        seen = []

        def stop(now: mw.Progress) -> None:
            seen.append(now)
            raise Enough("half is enough")

        before = resident_kib()
        with self.assertRaisesRegex(Enough, "half"):
            # Small pages and one thread: it takes longer than the first report.
            mw.Segment("3G", kind="anon", page="4k", workers=1, progress=stop)
        self.assertEqual(len(seen), 1)
        self.assertEqual((seen[0].phase, seen[0].total), ("create", 3 << 30))
        self.assertLess(resident_kib() - before, 64 << 10)

    def test_ctrl_c_gives_everything_back(self) -> None:
        code = """
            import os, signal, threading, time
            import pymemwright as mw
            threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                mw.Segment("4G", kind="anon", page="4k", workers=1)
            except KeyboardInterrupt:
                with open("/proc/self/statm") as statm:
                    pages = int(statm.read().split()[1])
                print("interrupted", pages * os.sysconf("SC_PAGE_SIZE") < 256 << 20)
        """
        self.assertEqual(child(code).stdout, "interrupted True\n")

    def test_a_limit_is_said_with_numbers(self) -> None:
        with self.assertRaises(mw.Short) as caught:
            mw.Segment("900T", kind="anon")
        error = caught.exception
        # What the program maps besides counts, too.
        self.assertGreaterEqual(error.requested, 900 << 40)
        self.assertEqual(error.missing, error.requested - error.available)
        self.assertIsInstance(error, MemoryError)
        self.assertRegex(str(error), r"9\d\d(\.\d)? TiB missing")

    def test_what_is_no_size_is_refused(self) -> None:
        for size in [-1, 0, 1 << 70, 1 << 63, "", "8X", "-1G", "99999999P"]:
            with self.subTest(size=size), self.assertRaises((ValueError, MemoryError)):
                mw.Segment(size)
        for size in [1.5, math.nan, None, b"8G", True, [1]]:
            with self.subTest(size=size), self.assertRaises(TypeError):
                mw.Segment(size)  # type: ignore[arg-type]

    def test_what_is_no_choice_is_refused_with_the_choices(self) -> None:
        with self.assertRaisesRegex(mw.Invalid, "memfd, anon"):
            mw.Segment(MIB, kind="disk")
        with self.assertRaisesRegex(mw.Invalid, "4k, thp"):
            mw.Segment(MIB, page="3M")
        with self.assertRaises(mw.MemwrightError):
            mw.Segment(MIB, nodes=[1000])
        with self.assertRaises(mw.Invalid):
            mw.Segment(MIB, nodes=[-1])
        with self.assertRaises(mw.Invalid):
            mw.Segment(MIB, kind="posix", name="a\0b")
        for wrong in [{"nodes": [1.5]}, {"workers": 1.5}, {"workers": math.nan}]:
            with self.subTest(**wrong), self.assertRaises(TypeError):
                mw.Segment(MIB, **wrong)  # type: ignore[arg-type]


class ViewTest(unittest.TestCase):
    def test_a_view_that_outlives_its_segment_is_valid(self) -> None:
        segment = mw.Segment(4 * MIB)
        part = segment.view[MIB : 2 * MIB]
        part[0] = 7
        with self.assertRaises(BufferError):
            segment.close()
        self.assertTrue(segment.closed)
        gc.collect()
        self.assertEqual(part[0], 7)
        part[-1] = 9
        before = resident_kib()
        del part
        self.assertLess(resident_kib(), before)

    def test_a_closed_segment_says_so(self) -> None:
        segment = mw.Segment(MIB)
        segment.close()
        segment.close()
        for use in [lambda: segment.view, lambda: segment.address, lambda: len(segment), lambda: segment.fds]:
            with self.assertRaisesRegex(ValueError, "the segment is closed"):
                use()
        self.assertEqual(repr(segment), "<Segment closed>")

    def test_a_segment_that_nobody_has_is_given_back(self) -> None:
        before = resident_kib()
        mw.Segment("64M", kind="anon", page="4k")
        gc.collect()
        self.assertLess(resident_kib() - before, 20 << 10)

    def test_two_threads_may_close_at_once(self) -> None:
        for _ in range(50):
            segment = mw.Segment(MIB)
            threads = [threading.Thread(target=segment.close) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(segment.closed)

    def test_other_threads_go_on_while_one_allocates(self) -> None:
        turns = 0
        done = threading.Event()

        def count() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        start = time.monotonic()
        mw.Segment("1G", kind="anon", page="4k", workers=1).close()
        took = time.monotonic() - start
        done.set()
        thread.join()
        self.assertGreater(turns, took * 100)

    def test_a_fork_and_the_end_of_the_interpreter_are_harmless(self) -> None:
        code = """
            import os
            import pymemwright as mw
            segment = mw.Segment(4 << 20)
            view = segment.view
            view[0] = 5
            pid = os.fork()
            if pid == 0:
                assert view[0] == 5
                view.release()
                segment.close()
                os._exit(3)
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status), view[0])
            keep = [segment, view, segment.view]
        """
        ended = child(code)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "3 5\n", ""))

    def test_numpy_has_no_copy(self) -> None:
        import numpy

        segment = mw.Segment(8 * MIB)
        array = numpy.frombuffer(segment.view, dtype=numpy.float32).reshape(1024, -1)
        array[3, 4] = 2.5
        self.assertEqual(array.ctypes.data, segment.address)
        self.assertEqual(numpy.frombuffer(segment.view, dtype=numpy.float32).max(), 2.5)
        with self.assertRaises(BufferError):
            segment.close()
        self.assertEqual(array[3, 4], 2.5)

    def test_chunks_cover_everything_on_borders_of_rows(self) -> None:
        with mw.Segment(10 * MIB) as segment:
            chunks = list(segment.chunks(most="3M", align=MIB + MIB // 2))
            self.assertEqual([chunk.length for chunk in chunks], [3 * MIB, 3 * MIB, 3 * MIB, MIB])
            self.assertEqual([chunk.address - segment.address for chunk in chunks], [chunk.offset for chunk in chunks])
            with self.assertRaises(mw.Invalid):
                list(segment.chunks(most=MIB, align=2 * MIB))


class PoolTest(unittest.TestCase):
    def test_without_a_server_that_is_said(self) -> None:
        with self.assertRaises(mw.NoServer) as caught:
            mw.attach("db", "1G", socket="/nowhere/pool.sock")
        self.assertIn("/nowhere/pool.sock", str(caught.exception))
        for wait in [-1, math.nan, math.inf]:
            with self.assertRaises(mw.Invalid):
                mw.attach("db", "1G", wait=wait)
        with self.assertRaises(mw.Invalid):
            mw.attach("d\0b", "1G")


class AskTest(unittest.TestCase):
    @unittest.skipUnless("MEMWRIGHT" in os.environ, "no memwright program")
    def test_the_program_answers(self) -> None:
        self.assertIn("verdict", mw.check())
        small = mw.preflight("16M")
        self.assertIn(small.answer, ("yes", "slowly"))
        best = mw.preflight("16M", page="best")
        self.assertEqual(best.report["preflight"]["request"]["page"], "best")
        self.assertGreater(len(best.report["preflight"]["folios"]), 1)
        large = mw.preflight("900T", lock=True)
        self.assertEqual((large.answer, large.seconds), ("no", None))
        with self.assertRaises(mw.Invalid):
            mw.preflight("1G", page="3M")

    def test_without_the_program_that_is_said(self) -> None:
        code = """
            import pymemwright as mw
            try:
                mw.check()
            except mw.MemwrightError as error:
                print(error)
        """
        self.assertIn("/nowhere/memwright: No such file", child(code, MEMWRIGHT="/nowhere/memwright").stdout)


#: A CUDA runtime that registers at most two regions, and writes down what it is asked.
STUB = """
#include <stdio.h>
#include <stddef.h>
static int registered, pending;
int cudaHostRegister(void *address, size_t bytes, unsigned flags) {
    (void)address; (void)flags;
    if (registered == 2) { pending = 2; return 2; }
    registered++;
    fprintf(stderr, "register %zu\\n", bytes);
    return 0;
}
int cudaHostUnregister(void *address) { (void)address; registered--; fprintf(stderr, "unregister\\n"); return 0; }
int cudaGetLastError(void) { int last = pending; pending = 0; fprintf(stderr, "cleared %d\\n", last); return last; }
const char *cudaGetErrorString(int code) { return code == 2 ? "out of memory" : "other"; }
"""


class RecordingTest(unittest.TestCase):
    """Of this machine, for some seconds."""

    directory: "tempfile.TemporaryDirectory[str]"
    path: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.path = os.path.join(cls.directory.name, "recording.db")
        program = os.environ["MEMWRIGHT"]
        command = [program, "watch", "--recording", cls.path]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as watch:
            time.sleep(4)
            watch.send_signal(signal.SIGTERM)
            watch.wait(timeout=60)

    def test_columns_are_numbers_by_name(self) -> None:
        found = mw.Recording(self.path).columns("memory")
        self.assertTrue(all(name == "at" or name.startswith("meminfo.") for name in found), list(found))
        self.assertGreaterEqual(len(found["at"]), 2)
        self.assertEqual(found["at"], sorted(found["at"]))
        with open("/proc/meminfo") as meminfo:
            total = int(meminfo.readline().split()[1]) << 10
        self.assertEqual(set(found["meminfo.MemTotal"]), {total})
        one = mw.Recording(Path(self.path)).columns("pressure.memory.some.*", since=found["at"][-1])
        self.assertTrue(all(len(values) == 1 for values in one.values()), one)
        self.assertIn("pressure.memory.some.total_us", one)

    def test_an_incident_has_ten_rows_a_second(self) -> None:
        recording = mw.Recording(EXAMPLES / "stall.db")
        found = recording.columns("probe.app.*", incident=1)
        self.assertGreater(max(found["probe.app.worst_us"]), 3_000_000)
        span_s = (found["at"][-1] - found["at"][0]).total_seconds()
        self.assertAlmostEqual(len(found["at"]) / span_s, 10, delta=1)
        for absent in [99, "newest"]:
            with self.assertRaisesRegex(mw.Invalid, "incident"):
                recording.columns(incident=absent)

    def test_incidents_are_listed(self) -> None:
        self.assertIsInstance(mw.Recording(self.path).incidents(), list)

    def test_what_is_not_there_is_said(self) -> None:
        with self.assertRaisesRegex(mw.Invalid, "no column 'nonsense'; there are .*vmstat"):
            mw.Recording(self.path).columns("nonsense")
        with self.assertRaisesRegex(mw.Invalid, "--since"):
            mw.Recording(self.path).columns(since="yesteryear")
        with self.assertRaisesRegex(mw.MemwrightError, "/nowhere"):
            mw.Recording("/nowhere").columns()


class CudaTest(unittest.TestCase):
    def test_without_a_runtime_that_is_said(self) -> None:
        code = """
            import pymemwright as mw
            try:
                mw.register_cuda(mw.Segment(1 << 20))
            except mw.NoCuda as error:
                print(error)
        """
        self.assertIn("no CUDA runtime: none of /nowhere/cudart", child(code, MEMWRIGHT_CUDART="/nowhere/cudart").stdout)

    def test_chunks_are_registered_and_rolled_back(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            source, stub = Path(directory) / "stub.c", Path(directory) / "libcudart.so"
            source.write_text(STUB)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(stub), str(source)], check=True)
            code = """
                import pymemwright as mw
                segment = mw.Segment(8 << 20)
                with mw.register_cuda(segment, chunk="4M", progress=lambda done, total: print(done, total)):
                    try:
                        segment.close()
                    except BufferError as error:
                        print("still registered")
                try:
                    mw.register_cuda(mw.Segment(8 << 20), chunk="2M")
                except mw.CudaError as error:
                    print(error, error.code)
            """
            ended = child(code, MEMWRIGHT_CUDART=str(stub))
            self.assertEqual(
                ended.stdout.splitlines(),
                [
                    "4194304 8388608",
                    "8388608 8388608",
                    "still registered",
                    "cudaHostRegister of 2097152 bytes at 4194304: out of memory (2) 2",
                ],
            )
            # Two are registered and unregistered twice, and the error is pending no more.
            calls = ended.stderr.split("\n")
            self.assertEqual((calls.count("unregister"), calls.count("cleared 2")), (4, 1))


class CostTest(unittest.TestCase):
    def test_a_small_segment_costs_little_more_than_the_call(self) -> None:
        def us(call: "Callable[[], object]") -> float:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6

        # In turn, and the shortest of each: other load on the machine only adds to it. One page: with more, the caches
        # of the CPU are emptied between the calls.
        pairs = [(us(lambda: plain.create(4096)), us(lambda: mw.Segment(4096).close())) for _ in range(300)]
        without, binding = (min(times) for times in zip(*pairs))
        print(f"4 KiB: {without:.0f} us by the C calls, {binding:.0f} us by the package", file=sys.stderr)
        # 50 us is for the released library on a quiet machine (`cargo xtask python figures`).
        self.assertLess(binding - without, 500)

    def test_importing_is_cheap_and_loads_nothing(self) -> None:
        code = """
            import sys, time
            start = time.process_time()
            import pymemwright
            took = time.process_time() - start
            late = {"csv", "ctypes.util", "json", "subprocess", "tempfile"} & set(sys.modules)
            loaded = any("libmemwright" in line for line in open("/proc/self/maps"))
            print(took, sorted(late), loaded)
        """
        # Three, since the first may have to compile the package.
        runs = [child(code).stdout.split(maxsplit=1) for _ in range(3)]
        self.assertEqual({rest for _, rest in runs}, {"[] False\n"})
        self.assertLess(min(float(took) for took, _ in runs), 0.25)


if __name__ == "__main__":
    unittest.main()
