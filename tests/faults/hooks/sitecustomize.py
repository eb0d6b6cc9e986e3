"""Python imports this at its start where its folder is on PYTHONPATH: stops a process at a named point of our code.

Nothing of the product knows of it. FAULTS_FOLDER is where the process and whoever watches it meet: `point.json` names the
point, `reached` appears with the process's number once the first process is there, which goes on when `go` appears. The
file `clock` moves every process's `time.time` by as many seconds as stand in it. Runs in any Python 3.
"""

import functools
import importlib.util
import json
import os
import sys
import time

FOLDER = os.environ.get("FAULTS_FOLDER", "")
LOOK_SECONDS = 0.01


class Point:
    """The place to stop at.

    Args:
      module: whose import is waited for.
      name: "function" or "Class.method" of that module; "" for the import itself.
      process: word that the command line of the process holds.
      after: whether to stop when the function has ended.
      calls: stops at the call of this number, from 1.
    """

    def __init__(self, module, name="", process="", after=False, calls=1):
        self.module, self.name, self.process, self.after, self.calls = module, name, process, after, calls
        self.made = 0
        self.seen = False

    def find_spec(self, name, path=None, target=None):
        """Is a finder of no module of its own; sees every import."""
        if self.seen or name != self.module or not self.is_here():
            return None
        # It stays among the finders: whoever goes through them would pass over the next one, which may be the product's.
        self.seen = True
        if not self.name:
            stop()
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def then_wrap(module):
            execute(module)
            self.wrap(module)

        spec.loader.exec_module = then_wrap
        return spec

    def is_here(self):
        """Tells whether this is a process that the point is in."""
        with open("/proc/self/cmdline", "rb") as file:
            return self.process.encode() in file.read()

    def wrap(self, module):
        """Has the function stop."""
        *owners, name = self.name.split(".")
        holder = functools.reduce(getattr, owners, module)
        original = getattr(holder, name)

        @functools.wraps(original)
        def wrapped(*arguments, **named):
            self.made += 1
            now = self.made == self.calls
            if now and not self.after:
                stop()
            value = original(*arguments, **named)
            if now and self.after:
                stop()
            return value

        setattr(holder, name, wrapped)


def stop():
    """Says that a process is at the point and waits to be let go on; in all processes that come second it does nothing."""
    try:
        os.mkdir(os.path.join(FOLDER, "taken"))
    except OSError:
        return
    with open(os.path.join(FOLDER, "reached.part"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(FOLDER, "reached.part"), os.path.join(FOLDER, "reached"))
    while not os.path.exists(os.path.join(FOLDER, "go")):
        SLEEP(LOOK_SECONDS)


def shift_clock():
    """Has the wall clock follow the file `clock`."""
    real = time.time
    path = os.path.join(FOLDER, "clock")

    def shifted():
        try:
            with open(path) as file:
                return real() + float(file.read() or 0)
        except (OSError, ValueError):
            return real()

    time.time = shifted
    time.time_ns = lambda: int(shifted() * 1e9)


SLEEP = time.sleep
if FOLDER:
    shift_clock()
    try:
        with open(os.path.join(FOLDER, "point.json")) as settings:
            sys.meta_path.insert(0, Point(**json.load(settings)))
    except OSError:  # no handle is left, or no point: the process goes on
        pass
