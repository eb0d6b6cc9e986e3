"""Interpreters that have imported TensorFlow or torch already, which takes seconds of every program that is started anew.

A program of such an interpreter runs in a process of its own, a fork: for tests whose programs are many and whose start is
not what they are about.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SERVER = Path(__file__).with_name("forks_server.py")
END_SECONDS = 60
# Runs a script in a fork, and anything else (python -c, python -m) in the interpreter itself.
CLIENT = """#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
settings = {settings}
here = {{name: value for name, value in os.environ.items() if name in settings or name.startswith("TF_")}}
if not words or words[0].startswith("-") or here != settings:
    os.execv({real!r}, [{real!r}, *words])
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = json.dumps([words, dict(os.environ), os.getcwd()]).encode()
socket.send_fds(server, [b"%08x" % len(request)], [0, 1, 2])
server.sendall(request)
code = int(server.recv(8) or b"1")
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextlib.contextmanager
def forking(python: str, module: str, **settings: str) -> Iterator[str]:
    """Starts an interpreter that imports a module; gives the path of a program that is called as that interpreter is.

    Args:
      python: the interpreter.
      module: what it imports before any program runs.
      settings: variables of the environment that are read while it is imported; programs with others, or with other TF_...,
        are started anew.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.update(settings)
    settings.update((name, value) for name, value in environment.items() if name.startswith("TF_"))
    with tempfile.TemporaryDirectory() as folder:  # a socket's path is short
        path, client = f"{folder}/socket", Path(folder, "python")
        client.write_text(CLIENT.format(python=sys.executable, real=python, path=path, settings=settings))
        client.chmod(0o755)
        server = subprocess.Popen(
            [python, str(SERVER), path, module],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert server.stdin is not None and server.stdout is not None
        try:
            assert server.stdout.readline() == b"ready\n", f"{python} could not import {module}"
            yield str(client)
        finally:
            server.stdin.close()
            server.wait(END_SECONDS)
            server.stdout.close()
