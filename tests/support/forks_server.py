"""Runs programs in forks of a Python that has imported a framework already: `python forks_server.py SOCKET MODULES…`.

A connection is a program: it brings what `python [-u] SCRIPT ARGS…` or `python [-u] -m MODULE ARGS…` is started with
(arguments, folder, environment, descriptors) and is told its number and the exit status; a program whose client has gone is
killed. At its end exit functions are called and streams flushed; the modules are not taken apart, which takes as long as to
import them. Runs on Python 3.7 and up, compiled under a name that is no file's, so that a program has no callers.
"""

import array
import atexit
import faulthandler
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types

LOOK_SECONDS = 0.005  # how soon an exit is seen


def serve(path, modules):
    """Returns, in a fork for each program, its arguments and environment; the server itself ends when stdin does."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what a fork collects is its own
    listening.listen(8)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks that look after a program
    while True:
        if 0 in select.select([0, listening], [], [])[0]:
            sys.exit()
        connection = listening.accept()[0]
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            return look_after(connection)
        connection.close()


def look_after(connection):
    """Returns the program's arguments in its own process; in this one, tells its exit status and ends."""
    words, environment, folder, descriptors = receive(connection)
    program = os.fork()
    if program == 0:
        os.setsid()
        connection.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        return words
    for descriptor in [*descriptors, 0, 1]:
        os.close(descriptor)
    connection.send(b"%08x" % program)
    while True:
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            connection.send(json.dumps(code).encode())
            os._exit(0)
        if select.select([connection], [], [], LOOK_SECONDS)[0]:  # its client has ended
            os.killpg(program, signal.SIGKILL)
            os._exit(1)


def receive(connection):
    """Returns what a client sends: arguments, environment, folder, descriptors."""
    held = array.array("i")
    data, more, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(3 * held.itemsize))
    held.frombytes(more[0][2])
    size = int(data, 16)
    received = b""
    while len(received) < size:
        received += connection.recv(size - len(received))
    return (*json.loads(received.decode()), list(held))


def run(words, executable):
    """Runs a script or a module as the main program of this process, which it then is."""
    sys.executable = executable  # what it starts is forked too
    multiprocessing.context._concrete_contexts["spawn"] = multiprocessing.get_context("fork")
    if words[0] == "-u":
        words = words[1:]
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)
    module = words[0] == "-m"
    sys.argv[:] = words[1:] if module else words
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(words[0]))
    more = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[1:1] = more
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    sys.excepthook = show
    if any(os.path.exists(os.path.join(folder, "sitecustomize.py")) for folder in more):
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")
    if module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        run_script(words[0])


def run_script(path):
    """Runs a script as `__main__`."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec"), main.__dict__)


def end(program, *arguments):
    """Runs a program to its end, and ends with its exit code."""
    code = 0
    try:
        program(*arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads, or the program has closed it
            code = code or 120
    os._exit(code & 0xFF)


def show(kind, error, where):
    """Prints a traceback without the frames of this module."""
    while where is not None and where.tb_frame.f_code.co_filename == show.__code__.co_filename:
        where = where.tb_next
    traceback.print_exception(kind, error, where)


if __name__ == "__main__":
    address, *frameworks = sys.argv[1:]
    words = serve(address, frameworks)
    end(run, words, os.path.join(os.path.dirname(address), "python"))
