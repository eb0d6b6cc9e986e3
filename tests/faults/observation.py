"""What a command has left: processes, temporary files, halves of files, outputs that look whole and are not."""

import ast
import hashlib
import json
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from support.tiny_case import processes_with

from parity.trace import DamagedError, Trace

LEFT_SECONDS = 5.0
LOOK_SECONDS = 0.05
# What SECURITY.md has a command leave, and say where: a mapping that is to be written. torch's own cache, one for all
# programs of a user, which it makes when it is imported. What a fault fills a disk with.
NOT_LEFT = re.compile(r"mapping-\w+\.toml|torchinductor_.*|filler")
PARTIAL = re.compile(r"\..*|.*\.(part|unfinished)")


def processes_left(mark: str, seconds: float = LEFT_SECONDS) -> list[str]:
    """Returns the commands of what still lives with a mark in its environment after so many seconds, none where all end."""
    deadline = time.monotonic() + seconds
    while (found := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return found


def temporary_left(folder: Path) -> list[str]:
    """Returns the names of what is left in a folder for temporary files."""
    if not folder.is_dir():
        return []
    return sorted(each.name for each in folder.iterdir() if not NOT_LEFT.fullmatch(each.name))


def partial_files(out: Path) -> list[str]:
    """Returns files below a folder that got no name of their own, and hidden folders."""
    return sorted(str(each.relative_to(out)) for each in out.rglob("*") if PARTIAL.fullmatch(each.name))


def false_claims(out: Path, code: int | None = None) -> list[str]:
    """Returns a sentence for each output below a folder that looks whole and is not.

    Args:
      out: with traces, reports, checkpoints and ports.
      code: what the command has ended with; None where it is not known.
    """
    return sorted(_claims(out, code)) if out.is_dir() else []


def _claims(out: Path, code: int | None) -> Iterator[str]:
    for path in out.rglob("*"):
        name = str(path.relative_to(out))
        if not path.is_file() or PARTIAL.fullmatch(path.name):
            continue
        if path.name == "trace.json":
            found = _fault_of_trace(path)
        elif path.suffix == ".safetensors":
            continue  # its trace says whether it is one
        elif path.suffix == ".pt":
            found = _fault_of_checkpoint(path)
        else:
            found = _fault_of_text(path, code)
        if found:
            yield f"{name}: {found}"


def _fault_of_trace(path: Path) -> str:
    try:
        meta = json.loads(path.read_text())
    except ValueError:
        return "no JSON"
    if not meta.get("complete"):
        return ""
    try:
        trace = Trace(path.parent)
        files = [trace.init(), *(trace.step(number) for number in trace.step_numbers)]
        for file in files:
            for name in file.names():
                file.read(name)
    except (ValueError, DamagedError) as error:
        return f"says that it is complete: {error}"
    return "" if len(files) == meta["steps"] + 1 else f"says {meta['steps']} steps, has {len(files) - 1}"


def _fault_of_checkpoint(path: Path) -> str:
    # Written out and not imported: what the product takes for whole is what is looked at.
    data = path.read_bytes()
    if not path.stem.endswith("-" + hashlib.blake2b(data, digest_size=16).hexdigest()):
        return "has not the digest of its name"
    from torch_ddp import read_whole

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = read_whole(data)
    except ValueError as error:
        return f"does not load: {error}"
    return "" if state["progress"]["step"] == int(path.name[5:15]) else "is of another step"


def _fault_of_text(path: Path, code: int | None) -> str:
    if path.suffix not in (".json", ".html", ".xml", ".md", ".py", ".toml"):
        return ""
    text = path.read_text(errors="replace")
    if not text.strip():
        return "is empty"
    try:
        if path.suffix == ".json":
            found = json.loads(text)
            return _fault_of_verdict(found.get("verdict"), code) if isinstance(found, dict) else ""
        if path.suffix == ".xml":
            ElementTree.fromstring(text)
        if path.suffix == ".py":
            ast.parse(text)
    except (ValueError, SyntaxError, ElementTree.ParseError) as error:
        return f"is cut short: {error}"
    if path.suffix == ".html" and not text.rstrip().endswith("</html>"):
        return "is cut short"
    return ""


def _fault_of_verdict(verdict: str | None, code: int | None) -> str:
    # Killed, a command has said nothing; what it had written then may be right.
    said = {0: "same", 1: "different"}
    if verdict in said.values() and code is not None and code >= 0 and said.get(code) != verdict:
        return f"says {verdict} where the exit code is {code}"
    return ""
