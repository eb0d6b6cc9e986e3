"""Says what to do about errors that users of old code meet first, and picks the line of an error that tells."""

import re
from typing import NamedTuple

FIRST_LINE = 300  # characters; TensorFlow writes whole shapes and op names into one line
NOT_TELLING = re.compile(
    r"^(Graph execution error:|Detected at node .*|\s*File .*|Node: .*|\d+ root error\(s\) found\.|\s+\S.*|\s*)$"
)
NUMBERED = re.compile(r"^\s*\(0\) (?:[A-Z_][\w ]*: )?(?P<text>.+)$")


class Hint(NamedTuple):
    """What to do about one kind of error.

    Fields:
      side: "tf", "torch", "data", or "" for any.
      error: pattern found in "<type>: <message>".
      within: text that the traceback has, or "".
      cure: a sentence without its full stop.
    """

    side: str
    error: str
    within: str
    cure: str


# The first that fits is taken: the narrower pattern stands before the wider one.
HINTS = (
    Hint(
        "tf",
        r"No module named 'tensorflow\.contrib|has no attribute 'contrib'",
        "",
        "TensorFlow 2 has no contrib: run genuine TensorFlow 1.15 with --tf-python PATH, or write it with tf.layers",
    ),
    Hint(
        "tf",
        r"module 'tensorflow' has no attribute",
        "",
        "TensorFlow 2 keeps TensorFlow 1's names elsewhere: write import tensorflow.compat.v1 as tf",
    ),
    Hint(
        "torch",
        r"initialize the default process group twice",
        "",
        'The ranks are started already: leave that to the script that trains, under if __name__ == "__main__"',
    ),
    Hint(
        "",
        r"^SystemExit",
        "",
        'The module is imported, not run: keep what runs it, and reads a command line, under if __name__ == "__main__"',
    ),
    Hint("", r"No module named", "", "Install it for the interpreter of this side, or leave the import out"),
    Hint(
        "tf",
        r"You must feed a value for placeholder",
        "",
        "Make it an argument of the tower that the batches feed, or a constant",
    ),
    Hint(
        "tf",
        r"InvalidArgumentError|FailedPreconditionError",
        "in build_replicas",
        "A tower only builds the graph: leave sessions out of it",
    ),
    Hint(
        "torch",
        r"'DistributedDataParallel' object has no attribute",
        "",
        "The loss gets the model as DistributedDataParallel wraps it, which shares gradients of what forward() computes: "
        "call model(...), and have forward() return what the loss needs",
    ),
    Hint(
        "torch",
        r"(same dtype|scalar type|dtype).*([Ff]loat|[Dd]ouble).*([Ff]loat|[Dd]ouble)",
        "",
        "The port computes in float64 here: take the dtype from an input, or leave float() out",
    ),
)


def hint(side: str, error: str, traceback: str) -> str:
    """Returns what to do about an error that is known here, a sentence, or "".

    Args:
      side: "tf", "torch" or "data".
      error: its type, a colon and its message.
      traceback: all of it, this project's frames included.
    """
    for known in HINTS:
        if known.side in ("", side) and re.search(known.error, error, re.DOTALL) and known.within in traceback:
            return f"{known.cure}."
    return ""


def telling_line(message: str) -> str:
    """Returns the first line of an error's message that says something; TensorFlow's own begin with where it was."""
    lines = message.strip().splitlines()
    for line in lines:
        numbered = NUMBERED.match(line)
        if numbered:
            return numbered["text"][:FIRST_LINE]
        if not NOT_TELLING.match(line):
            return line[:FIRST_LINE]
    return lines[0][:FIRST_LINE] if lines else ""
