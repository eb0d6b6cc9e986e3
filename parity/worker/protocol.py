"""Lines of JSON between `parity` and the processes that play its two sides (Python 3.7 and up).

A side is a child process: it reads a request a line from its standard input, and writes to what was its standard
output any number of progress lines and then one line with the result or the error. Everything else that the child
prints goes to its log.
"""

import faulthandler
import io
import json
import os
import signal
import sys
import traceback
from typing import Any, BinaryIO, Callable, Dict, Optional

# Of requests and their arguments; raised where a worker of before would take a request for another one, as when version
# 2 began to have the worker apply perturbations, which one of version 1 would leave out without a word.
PROTOCOL_VERSION = 2

FOLDER_VARIABLE = "PARITY_SIDE_FOLDER"  # names a side's folder for temporary files, which whoever started it removes

Handler = Callable[[Dict[str, Any], Callable[[int, int], None]], Any]


class SideError(ValueError):
    """A request cannot be served; the message says who, what was expected, what came and what to do.

    Args:
      message: the text.
      described: the error of another process as `describe_error` gave it, to be passed on as it came.
    """

    def __init__(self, message: str, described: Optional[Dict[str, Any]] = None) -> None:
        super(SideError, self).__init__(message)
        self.described = described


class Channel(object):
    """Sends and receives JSON values as lines over two file descriptors.

    Args:
      reader: binary file to read from.
      writer: binary file to write to.
    """

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Any) -> None:
        """Writes one message (a JSON value) and flushes."""
        self._writer.write(json.dumps(message).encode("utf-8") + b"\n")
        self._writer.flush()

    def receive(self) -> Any:
        """Returns the next message, or None at the end of the stream.

        Raises:
          ValueError: a line is no JSON, or more deeply nested than Python reads.
        """
        line = self._reader.readline()
        try:
            return json.loads(line.decode("utf-8")) if line else None
        except RecursionError:
            raise ValueError("expected a line of JSON, got one of too many levels") from None


def claim_standard_streams() -> Channel:
    """Takes stdin and stdout for messages and sends later prints to stderr; returns the `Channel`.

    From here on the process prints where it is when it gets SIGUSR1.
    """
    # By faulthandler and not by signal: its handler is C, and prints also while compiled code holds the interpreter.
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Copies first: from here on 0 is nothing and 1 is the log, for the user's code, for libraries that print from C,
    # and for every process that is started from here. A print that reached the channel would be taken for an answer.
    reader = os.fdopen(os.dup(0), "rb")
    writer = os.fdopen(os.dup(1), "wb")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # a line whole and at once: several processes write to the same log
    return Channel(reader, writer)


def serve(channel: Channel, handlers: Dict[str, Handler]) -> None:
    """Answers requests until the stream ends: the main loop of a side.

    Args:
      channel: where requests come from, e.g. ``{"request": "run", "steps": 20}``.
      handlers: dict of request name to a function ``(arguments, progress) -> JSON value``, where `arguments` is the
        rest of the request as a dict and ``progress(done, total)`` tells how far it is.
    """
    while True:
        message = channel.receive()
        if message is None:
            return
        name = message.pop("request")

        # Each of these lines also shows that the process lives: the time-out counts from the last one.
        def progress(done: int, total: int, name: str = name) -> None:
            channel.send({"progress": [done, total], "request": name})

        try:
            channel.send({"result": handlers[name](message, progress)})
        except (Exception, SystemExit) as error:  # scripts end with sys.exit(main()), or tf.app.run()
            channel.send({"error": getattr(error, "described", None) or describe_error(error)})


def is_refusal(error: BaseException) -> bool:
    """Whether an exception is a sentence of ours already: who, what and what to do; any other needs its traceback."""
    ours = type(error).__module__.split(".")[0] in ("parity", "tf_towers", "torch_ddp")
    # An attribute, and no list of classes: this module is there before numpy is, which most of these need.
    return ours and (isinstance(error, ValueError) or getattr(error, "is_refusal", False))


def fault_of_reply(reply: Any) -> str:
    """Returns what a reply should be and is not, "" where it is a result, an error or a progress as they are sent here."""
    if not isinstance(reply, dict):
        return "an object"
    if "result" in reply:
        return ""
    if "error" in reply:
        return (
            ""
            if _is_described(reply["error"])
            else "an error with its type, message, traceback and whether it is plain"
        )
    progress = reply.get("progress")
    if (
        not isinstance(progress, list)
        or len(progress) != 2
        or not all(isinstance(each, (int, float)) for each in progress)
    ):
        return "a result, an error, or a progress of two numbers"
    return ""


def _is_described(error: Any) -> bool:
    if not isinstance(error, dict) or not isinstance(error.get("plain"), bool):
        return False
    texts = all(isinstance(error.get(name), str) for name in ("type", "message", "traceback"))
    return texts and isinstance(error.get("rank", 0), int)


def describe_error(error: BaseException) -> Dict[str, Any]:
    """Returns an exception as JSON: `type`, `message`, `traceback`, and whether its message already says what to do."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "plain": is_refusal(error),
    }
