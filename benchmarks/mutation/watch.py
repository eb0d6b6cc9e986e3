"""Writes down which lines of the packages each test runs, in whatever process that is (Python 3.7 and up).

The copies of the packages that are watched run this when they are imported, so that no process goes unseen, whatever it is
started with. A file of four bytes says which test runs now; every process has a file of its own. There a row `+ id path
name` is a function, and `test id line` a line of it that a test is the first time at; line 0 is that it enters the function.
"""

import dis
import itertools
import mmap
import os
import sys
import threading


class Watch:
    """Traces this process.

    Args:
      folder: of the files; `now` is there.
      root: of the checkout, ending in a slash.
    """

    def __init__(self, folder, root):
        self._folder, self._root = folder, root
        with open(os.path.join(folder, "now"), "rb") as file:
            self._now = memoryview(mmap.mmap(file.fileno(), 4, access=mmap.ACCESS_READ)).cast("i")
        self._packages = tuple(root + name + os.sep for name in ("parity", "tf_towers", "torch_ddp"))
        self._numbers, self._tracers, self._count = {}, {}, itertools.count(1)
        self._open()

    def _open(self):
        # A forked process counts on from the functions of its parent, in a file of its own.
        name = os.path.join(self._folder, f"lines-{os.getpid()}")
        self._out = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for (_, code), number in list(self._numbers.items()):
            if number:
                self._define(number, code)

    def begin(self):
        """Begins, here and in every thread and fork to come."""
        os.register_at_fork(after_in_child=self._open)
        threading.settrace(self.entered)
        sys.settrace(self.entered)

    def entered(self, frame, event, arg):
        """Returns what traces the lines of a frame; none of other packages', nor where this test has been at every line."""
        code = frame.f_code
        # To Python, functions of one text at one line are equal, of whatever file they are.
        own = (code.co_filename, code)
        number = self._numbers.get(own)
        if number is None:
            number = self._numbers[own] = self._numbered(code)
        if not number:
            return None
        key = (self._now[0], number)
        tracer = self._tracers.get(key)
        if tracer is None:
            tracer = self._tracers[key] = self._tracer(self._now[0], number, code)
        return tracer if tracer.left else None

    def _numbered(self, code):
        if not code.co_filename.startswith(self._packages):
            return 0
        number = next(self._count)
        self._define(number, code)
        return number

    def _define(self, number, code):
        self._write(f"+ {number} {code.co_filename[len(self._root) :]} {code.co_name}\n")

    def _tracer(self, test, number, code):
        left = {line for _, line in dis.findlinestarts(code) if line}
        now, write = self._now, self._write
        write(f"{test} {number} 0\n")

        def ran(frame, event, arg):
            if now[0] != test:  # a loop that serves several tests
                tracer = self.entered(frame, event, arg)
                return tracer and tracer(frame, event, arg)
            if frame.f_lineno in left:
                left.discard(frame.f_lineno)
                write(f"{test} {number} {frame.f_lineno}\n")
            return ran if left else None

        ran.left = left
        return ran

    def _write(self, row):
        os.write(self._out, row.encode())


def start(folder, root):
    """Starts watching this process, once."""
    if not hasattr(sys, "watched_by_mutants"):
        sys.watched_by_mutants = Watch(folder, root)
        sys.watched_by_mutants.begin()
