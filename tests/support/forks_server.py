"""Runs programs in forks of a Python that has imported a framework already: `python forks_server.py SOCKET MODULE`.

A connection is a program: it brings what `python SCRIPT ARGS…` is started with (arguments, folder, environment, descriptors)
and is told the exit status; a program whose client has gone is killed. Runs on Python 3.7 and up.
"""

import array
import faulthandler
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
import types

LOOK_SECONDS = 0.005  # how soon an exit is seen


def serve(path, module):
    """Returns, in a fork for each program, its arguments and environment; the server itself ends when stdin does."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    importlib.import_module(module)
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
    """Runs a script as the main program of this process, which it then is."""
    sys.argv[:] = words
    sys.executable = executable  # what it starts is forked too
    sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
    sys.path[1:1] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    main = types.ModuleType("__main__")
    main.__file__ = words[0]
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.excepthook = show
    with open(words[0], "rb") as file:
        source = file.read()
    exec(compile(source, words[0], "exec"), main.__dict__)


def show(kind, error, where):
    """Prints a traceback without the frames of this module."""
    while where is not None and where.tb_frame.f_code.co_filename == __file__:
        where = where.tb_next
    traceback.print_exception(kind, error, where)


if __name__ == "__main__":
    address, framework = sys.argv[1:]
    run(serve(address, framework), os.path.join(os.path.dirname(address), "python"))
