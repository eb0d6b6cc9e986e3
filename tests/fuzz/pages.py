"""Pages that are made of what may come from a stranger: the recorded graph, drawn, and a result."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from support.made_graph import FACTS, HAZARD, NODES, VALUES, op, recorded

from parity.cli import show
from parity.trace import TraceWriter, write_graph

from .demands import BrokenDemand
from .inputs import Files, Place, read_folder
from .verbs import run_verb

ADDRESSES = frozenset(["src", "href", "action", "formaction", "xlink:href", "srcdoc", "data", "poster", "background"])
# Of a page a link to a place in it, and to a page of the documentation.
OWN_ADDRESS = re.compile(r"#[\w-]*|https://\S+")
NO_PROGRAMS = ("text/plain",)  # types of scripts that hold text


class _Elements(HTMLParser):
    """What in a page may run or reach out."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.faults: list[str] = []
        self._script: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.faults += [f"has the attribute {name}" for name in found if name.startswith("on")]
        addresses = [value or "" for name, value in attrs if name in ADDRESSES]
        self.faults += [f"leads to {each[:80]!a}" for each in addresses if not OWN_ADDRESS.fullmatch(each)]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found.get("content") or ""
        if tag == "script":
            self._script = found
            self.scripts.append((found, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data


def require_page(path: Path) -> dict[str, Any]:
    """Refuses a page that is not whole, reaches out, or runs what is not its own; returns the JSON of its scripts by id.

    Raises:
      BrokenDemand: it does.
    """
    text = path.read_text(encoding="utf-8")
    found = _Elements()
    found.feed(text)
    found.close()
    faults = [*found.faults, *([] if text.rstrip().endswith("</html>") else ["is not whole"])]
    data: dict[str, Any] = {}
    for attributes, script in found.scripts:
        if attributes.get("type") == "application/json":
            data[attributes.get("id") or ""] = _parsed(script, faults)
        elif attributes.get("type") not in NO_PROGRAMS and f"'{_hash(script)}'" not in found.policy:
            faults.append("has a script of another's")
    if faults:
        raise BrokenDemand(f"a page {faults[0]}\n{text[:3000]}")
    return data


def _parsed(script: str, faults: list[str]) -> Any:
    def refused(constant: str) -> None:
        faults.append(f"has {constant} in its data, which no browser reads")

    try:
        return json.loads(script, parse_constant=refused)
    except ValueError as error:
        faults.append(f"has data that no browser reads: {error}")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ---- the recorded graph


def two_towers(folder: Path) -> Files:
    """Returns a recorded script of two towers, with devices, lines, hazards, a loop and ops that only wait."""
    variables = {"conv/w": {"shape": [1, 1, 3, 2], "dtype": "float32", "kind": "weight", "use": "Conv2D"}}
    named = {**HAZARD, "name": "unordered_statistics", "evidence": "bn/mean is written by tower_0/bn/AssignMovingAvg."}
    facts = {**FACTS, "hazards": [HAZARD, named], "towers": 2}
    writer = TraceWriter(folder, {"package": "tf_towers"}, facts, variables)
    writer.init({"var/conv/w": np.ones((1, 1, 3, 2), np.float32)})
    writer.close()
    nodes = [*NODES, op("loop/Merge", "Merge", "x", "loop/Next"), op("loop/Next", "NextIteration", "loop/Merge")]
    micro = {"loss/1.1": "tower_1/loss:0", "clip/conv/w": "mean:0"}
    callers = {f"tower_{tower}/{name}": [0, 1] for tower in (0, 1) for name in ("conv/Conv2D", "loss")}
    graph = recorded(
        nodes,
        {**VALUES, **micro},
        frames=[["train.py", 9, "<module>", "loss = tower(x)"], ["model.py", 3, "tower", "kernel = conv(x, 2)"]],
        callers={**callers, "conv/w": [0]},
        shapes={"conv/w": [[1, 1, 3, 2]], "x": [[None, 2, 2, 3]], "split": [None, None], "tower_0/loss": [[]]},
        hyper_parameters={"": {"learning_rate": "rate:0", "momentum": 0.9}},
        combinations={"": {"conv/w": "mean"}},
        clipping={"": {"kind": "norm", "limit": 5.0, "place": "before_combining"}},
    )
    graph.runs[0]["sections"] = {"": {"variables": ["conv/w"]}}
    write_graph(folder, graph)
    return read_folder(folder)


def draw_towers(place: Place, files: Files) -> None:
    """Draws the graph of a trace, and looks at the page and at whether its script finds what its data names."""
    page = place.folder.parent / "graph.html"
    run_verb(show, place.lay(files), "--html", page)
    _require_drawable(require_page(page)["data"])


def _require_drawable(data: dict[str, Any]) -> None:
    """Refuses data in which a number leads to nothing that the page has."""
    ops, towers = len(data["names"]), len(data["towers"])
    within = {
        "ops": (ops, [*_numbers(data[name] for name in ("inputs", "controls", "writes"))]),
        "ops of rows": (ops, [*_numbers([row[0] for row in [*data["variables"], *data["marks"]]])]),
        "ops of hazards": (ops, [*_numbers(row[2] for row in data["hazards"])]),
        "frames": (len(data["frames"]), [*_numbers(data["callers"])]),
        "parts": (len(data["parts"]), [part for part, _ in data["places"]]),
        "towers": (towers, [tower for _, tower in data["places"] if tower != -1]),
        **{name: (len(data[name][0]), data[name][1]) for name in ("kinds", "devices", "shapes")},
    }
    for name, (count, numbers) in within.items():
        if not all(0 <= number < count for number in numbers):
            raise BrokenDemand(f"a page names {name} that it has not\n{json.dumps(data)[:3000]}")
    for name, view in data["views"].items():
        drawn = sorted(number for part in data["parts"] for number in _ops_of(view[part]))
        if drawn != list(range(ops)):
            raise BrokenDemand(f"a page draws an op of the view {name} not once\n{json.dumps(view)[:3000]}")


def _numbers(value: Any) -> list[int]:
    return [value] if isinstance(value, int) else [number for each in value for number in _numbers(each)]


def _ops_of(part: Any) -> list[int]:
    if part is None:
        return []
    if isinstance(part, dict):
        return [number for cells in part["cells"] for _, box in cells for number in _ops_in(box)]
    return _ops_in(part)


def _ops_in(box: Any) -> list[int]:
    return [box] if isinstance(box, int) else [number for each in box[1] for number in _ops_in(each)]
