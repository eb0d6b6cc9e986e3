"""Where something is written in the installed framework, so that a text names lines that are there."""

import inspect
import os


def lines_of(**things):
    """Returns of each function or class its file, from the package on, and its first and last line."""
    return {name: _place(thing) for name, thing in things.items()}


def _place(thing):
    thing = inspect.unwrap(thing)
    source, first = inspect.getsourcelines(thing)
    package = thing.__module__.split(".")[0]
    path = inspect.getsourcefile(thing).replace(os.sep, "/")
    return "{}{}, lines {} to {}".format(package, path.rpartition("/" + package)[2], first, first + len(source) - 1)
