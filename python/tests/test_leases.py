"""Leases of a pool: their views, ends, forks and threads, with a real server."""

import contextlib
import gc
import math
import signal
import threading
import unittest

from interpreter import child
from private_pool import private_pool

import pymemwright as mw

MIB = 1 << 20


class LeaseTest(unittest.TestCase):
    """On a pool that has room for one of its leases alone: one that is not returned makes the next test fail."""

    socket: str

    @classmethod
    def setUpClass(cls) -> None:
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.socket = stack.enter_context(private_pool("p", "64M"))

    def attach(self) -> mw.Lease:
        return mw.attach("p", "64M", wait=60, socket=self.socket)

    def child(self, code: str) -> "tuple[int, str, str]":
        ended = child(f"""
            import os, signal
            import pymemwright as mw
            def attach(**options):
                return mw.attach("p", "64M", wait=60, socket={self.socket!r}, **options)
            {code}
        """)
        return ended.returncode, ended.stdout, ended.stderr

    def test_kept_contents_outlive_the_process_that_is_killed(self) -> None:
        with private_pool("kept", "64M") as socket:
            code = f"""
                import os, signal
                import pymemwright as mw
                lease = mw.attach("kept", "32M", keep="weights", wait=60, socket={socket!r})
                assert not lease.kept and lease.view[5] == 0
                lease.view[5] = 42
                lease.mark_consistent()
                os.kill(os.getpid(), signal.SIGKILL)
            """
            self.assertEqual(child(code).returncode, -signal.SIGKILL)
            with mw.attach("kept", "32M", keep="weights", wait=60, socket=socket) as lease:
                self.assertEqual((lease.kept, lease.generation, lease.dirty), (True, 1, False))
                self.assertEqual((lease.view[5], lease.nbytes), (42, 32 * MIB))

    def test_what_a_pool_cannot_give_is_refused(self) -> None:
        with self.assertRaises(mw.Refused):
            mw.attach("p", "10G", socket=self.socket)
        with self.assertRaises(mw.Refused):
            mw.attach("absent", "1M", socket=self.socket)
        for size in [-1, 0, 1 << 70, ""]:
            with self.subTest(size=size), self.assertRaises(mw.Invalid):
                mw.attach("p", size, socket=self.socket)
        for size in [1.5, math.nan, None, b"8G"]:
            with self.subTest(size=size), self.assertRaises(TypeError):
                mw.attach("p", size, socket=self.socket)  # type: ignore[arg-type]

    def test_a_closed_lease_says_so(self) -> None:
        lease = self.attach()
        lease.close()
        lease.close()
        uses = [lambda: lease.view, lambda: lease.address, lambda: len(lease), lease.mark_consistent, lease.__enter__]
        for use in [*uses, lambda: next(lease.chunks())]:
            with self.assertRaisesRegex(ValueError, "the lease is closed"):
                use()
        self.assertEqual(repr(lease), "<Lease closed>")

    def test_a_view_that_outlives_its_lease_is_valid(self) -> None:
        lease = self.attach()
        part = lease.view[MIB : 2 * MIB]
        with self.assertRaises(BufferError):
            lease.close()
        del lease
        gc.collect()
        with self.assertRaises(mw.MemwrightError):
            mw.attach("p", "64M", socket=self.socket)
        part[0] = 7
        self.assertEqual(part[0], 7)
        del part
        self.attach().close()

    def test_two_threads_may_close_at_once(self) -> None:
        for _ in range(10):
            lease = self.attach()
            start = threading.Barrier(4)

            def close(lease: mw.Lease = lease, start: threading.Barrier = start) -> None:
                start.wait()
                lease.close()

            threads = [threading.Thread(target=close) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(lease.closed)

    def test_a_fork_shares_the_lease_and_closes_only_its_own(self) -> None:
        code = """
            lease = attach()
            view = lease.view
            pid = os.fork()
            if pid == 0:
                view[0] = 5
                view.release()
                lease.close()
                os._exit(3)
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status), view[0])
        """
        self.assertEqual(self.child(code), (0, "3 5\n", ""))

    def test_a_fork_keeps_the_lease_of_a_parent_that_has_ended(self) -> None:
        code = """
            lease = attach()
            read, write = os.pipe()
            if os.fork() == 0:
                os.close(write)
                os.read(read, 1)  # Ends with the parent.
                lease.view[0] = 5
                print(lease.view[0])
        """
        self.assertEqual(self.child(code), (0, "5\n", ""))

    def test_the_end_of_the_interpreter_is_harmless(self) -> None:
        self.assertEqual(self.child("keep = [attach()]; keep.append(keep[0].view); keep.append(keep)"), (0, "", ""))
        self.assertEqual(self.child("lease = attach(); raise SystemExit(4)")[0], 4)
        self.assertEqual(self.child("lease = attach(); os._exit(5)")[0], 5)

    def test_memory_stays_when_its_server_ends(self) -> None:
        with private_pool("short", "32M") as socket:
            lease = mw.attach("short", "32M", wait=60, socket=socket)
        lease.view[0] = 9
        self.assertEqual(lease.view[0], 9)
        with self.assertRaisesRegex(mw.MemwrightError, "no longer exists"):
            lease.mark_consistent()
        lease.close()


if __name__ == "__main__":
    unittest.main()
