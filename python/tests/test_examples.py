"""The examples run as they are."""

import contextlib
import os
import tempfile
import time
import unittest

from interpreter import example
from private_pool import private_pool
from restart import health, kill, measure, start, write_weights


class ExampleTest(unittest.TestCase):
    def lines(self, name: str, *arguments: str) -> "list[str]":
        ended = example(name, *arguments)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout.splitlines()

    def test_numpy_view(self) -> None:
        lines = self.lines("numpy_view.py", "16M", "4k")
        self.assertRegex(lines[0], "4194304 floats at 0x[0-9a-f]+000 on 4k pages, no copy")
        self.assertEqual(lines[1], "sum through a second view: 6291456")
        self.assertEqual(lines[-1], "segment closed: True; the array is valid: 999.0")

    def test_workers_share_one_lease(self) -> None:
        found = self.lines("workers.py", "3", "24M")
        self.assertEqual(found, [f"worker {worker} wrote {2 << 20} numbers" for worker in (1, 2, 3)])

    def test_an_engine_finds_its_weights_after_a_kill(self) -> None:
        # It checks in each start where the weights came from, and that they are right.
        found = measure(16, None, 1)
        self.assertEqual(list(found)[-1], "lease, after SIGKILL")
        self.assertEqual([len(seconds) for seconds in found.values()], [1] * 4)

    def test_an_engine_that_is_killed_while_it_loads_leaves_nothing_that_counts(self) -> None:
        with contextlib.ExitStack() as stack:
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "weights")
            total = write_weights(path, 256)
            socket = stack.enter_context(private_pool("models", "1G"))
            for delay_s in (0.1, 0.2, 0.3, 0.4):
                engine = start(path, "models", socket)
                time.sleep(delay_s)
                kill(engine)
            engine = start(path, "models", socket)
            stack.callback(kill, engine)
            self.assertEqual(health(engine)["sum"], total)


if __name__ == "__main__":
    unittest.main()
