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
# Runs a script in a fork, and a module of the framework; anything else (python -c, python -m pip) in the interpreter itself.
CLIENT = """#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
program = words[words[:1] == ["-u"]:]
ours = program[:1] == ["-m"] and program[1].startswith({module!r} + ".") or program and not program[0].startswith("-")
settings = {settings}
read = [name for name in os.environ if name.startswith("TF_") and not name.startswith("TF_CLI_")]  # these are Terraform's
here = {{name: os.environ[name] for name in [*settings, *read] if name in os.environ}}
if not ours or here != settings:
    os.execv({real!r}, [{real!r}, *words])
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = json.dumps([words, dict(os.environ), os.getcwd()]).encode()
socket.send_fds(server, [b"%08x" % len(request)], [0, 1, 2])
server.sendall(request)
with open("/proc/self/comm", "w") as name:  # so that its children are found
    name.write("fork-%d" % int(server.recv(8) or b"0", 16))
code = int(server.recv(8) or b"1")
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""

# Passes a program on to one of several such interpreters: the first that knows one of its words.
SWITCH = """#!{python} -IS
import os, sys
known = [python for start, python in {pythons} if any(word.startswith(start) for word in sys.argv[1:])]
os.execv(known[0], [known[0], *sys.argv[1:]])
"""


@contextlib.contextmanager
def forking_sides() -> Iterator[str]:
    """Starts this interpreter with TensorFlow, and with torch; gives the path of a program that is called as it is.

    The sides of a run that it starts are forks of the one or of the other, where nobody has set what they read.
    """
    tensorflow = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_DETERMINISTIC_OPS": "1"}
    torch = {"OMP_NUM_THREADS": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    with (
        forking(sys.executable, "tensorflow.compat.v1", **tensorflow, TF_USE_LEGACY_KERAS="1") as one,
        forking(sys.executable, "torch", "torch._dynamo", **torch) as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        switch = Path(folder, "python")
        switch.write_text(SWITCH.format(python=sys.executable, pythons=[("tf_towers", one), ("", other)]))
        switch.chmod(0o755)
        yield str(switch)


@contextlib.contextmanager
def forking(python: str, *modules: str, **settings: str) -> Iterator[str]:
    """Starts an interpreter that imports modules; gives the path of a program that is called as that interpreter is.

    Args:
      python: the interpreter.
      modules: what it imports before any program runs, the framework first.
      settings: variables of the environment that are read while it is imported; programs with others, or with other TF_...,
        are started anew.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.update(settings)
    read = [name for name in environment if name.startswith("TF_") and not name.startswith("TF_CLI_")]
    settings.update((name, environment[name]) for name in read)
    with tempfile.TemporaryDirectory() as folder:  # a socket's path is short
        path, client = f"{folder}/socket", Path(folder, "python")
        client.write_text(
            CLIENT.format(python=sys.executable, real=python, path=path, settings=settings, module=modules[0])
        )
        client.chmod(0o755)
        server = subprocess.Popen(
            [python, "-c", f"exec(compile(open({str(SERVER)!r}).read(), '<forks>', 'exec'))", path, *modules],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert server.stdin is not None and server.stdout is not None
        try:
            assert server.stdout.readline() == b"ready\n", f"{python} could not import {modules}"
            yield str(client)
        finally:
            server.stdin.close()
            server.wait(END_SECONDS)
            server.stdout.close()
