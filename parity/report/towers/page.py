"""The recorded graph of towers as one page: who computes what, where gradients meet, what the update writes, and where.

What belongs where, what stands in which row and how it is grouped is decided here; the page adds up sizes and draws.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parity.report.atomic import appearing
from parity.report.html.template import page_file, render
from parity.report.towers.groups import NO_DEVICE, Group, Paths, aligned, by_layer, by_line, grouped, last_part
from parity.report.towers.hazards import PlacedHazard, placed_hazards
from parity.report.towers.ops import Ops, ops_of, shown
from parity.report.towers.parts import (
    NO_TOWER,
    PARTS,
    TOWER_PARTS,
    Place,
    Recorded,
    places_of,
    recorded_of,
    scopes_of,
)
from parity.report.view import plain
from parity.trace import Trace
from parity.trace.graph import RecordedGraph, read_graph

PART_TITLES = {
    "variables": "Variables",
    "shared": "Shared by the towers",
    "forward": "Forward pass",
    "backward": "Backward pass",
    "after": "Beside the gradients, as moving statistics",
    "combination": "Combination of the gradients",
    "update": "Update",
}
WAYS_OF_COMBINING = {
    "one": "of one tower only",
    "sum": "summed",
    "mean": "averaged",
    "mean_of_present": "averaged over the towers that have one",
    "scaled": "summed and scaled",
    "unknown": "in a way that was not recognised",
}
MOST_ROWS = 2000  # of the table of variables


class HazardPage(NamedTuple):
    """What the documentation has of a hazard.

    Fields:
      page: where it is, from the root of this project.
      sections: headings and texts.
    """

    page: str
    sections: Sequence[tuple[str, str]]


class Drawing(NamedTuple):
    """A graph, taken apart for its page.

    Fields:
      graph, ops, recorded: what there is.
      places: of every op.
      scopes: of every tower.
      hazards: with their places.
    """

    graph: RecordedGraph
    ops: Ops
    recorded: Recorded
    places: list[Place]
    scopes: list[str]
    hazards: list[PlacedHazard]


def write_graph_html(trace: Trace, path: Path, title: str, explain: Callable[[str], HazardPage | None]) -> None:
    """Writes the page of a trace's graph to `path`, whole or not at all.

    Args:
      trace: of a recorded script.
      path: the HTML file to make.
      title: of the page, as the trace was named.
      explain: gives what the documentation has of a hazard, by its name.

    Raises:
      MissingError: the trace has no graph.
      TraceError: its graph is damaged, or larger than a page can show.
    """
    page = graph_as_html(read_graph(trace.directory), trace.facts, title, explain).encode("utf-8", "replace")
    with appearing(path) as file:
        file.write(page)


def graph_as_html(
    graph: RecordedGraph, facts: Mapping[str, Any], title: str, explain: Callable[[str], HazardPage | None]
) -> str:
    """Returns the page of a graph; see `write_graph_html`.

    Raises:
      TraceError: it is larger than a page can show.
    """
    drawing = drawing_of(graph, facts)
    return render(
        page_file("parity.report", "graph.html"),
        page_file("parity.report", "graph.css"),
        page_file("parity.report", "graph.js"),
        title=shown(title),
        summary=_summary(drawing, facts),
        towers=[_tower_row(drawing, tower) for tower in range(len(drawing.recorded.towers))],
        combinations=_combinations(graph),
        updates=_updates(graph),
        hazards=[(each, PART_TITLES.get(each.part, ""), explain(each.name)) for each in drawing.hazards],
        variables=_variable_rows(drawing)[:MOST_ROWS],
        more=max(0, len(graph.variables) - MOST_ROWS),
        data=_data(drawing),
    )


def drawing_of(graph: RecordedGraph, facts: Mapping[str, Any]) -> Drawing:
    """Returns a graph taken apart.

    Raises:
      TraceError: it is larger than a page can show.
    """
    ops = ops_of(graph)
    recorded = recorded_of(graph, ops)
    scopes = scopes_of(facts, len(recorded.towers))
    places = places_of(graph, ops, recorded, scopes)
    return Drawing(graph, ops, recorded, places, scopes, placed_hazards(facts, graph, ops))


def view_of(drawing: Drawing, paths: Paths) -> dict[str, Any]:
    """Returns the boxes of a page as JSON values, grouped by the given labels.

    Returns:
      by part of the step: of towers `order`, the labels of the rows, and `cells`, of each tower a list of [row, box]; of the
      others a box, whose children are what is shown; None where there is nothing in it.
    """
    ops, towers = drawing.ops, range(len(drawing.recorded.towers))
    members: dict[tuple[str, int], list[int]] = {}
    for op in drawing.ops.order:
        place = drawing.places[op]
        members.setdefault((place.part, place.tower), []).append(op)
    found: dict[str, Any] = {}
    for part in PARTS:
        if part not in TOWER_PARTS:
            inside = members.get((part, NO_TOWER), [])
            found[part] = grouped(ops, inside, paths, keep=part == "variables").as_json() if inside else None
            continue
        cells = [grouped(ops, members.get((part, tower), []), paths).children for tower in towers]
        order, *labels = aligned(cells, lambda op: shown(last_part(ops.names[op])))
        rows = {label: row for row, label in enumerate(order)}
        found[part] = {
            "rows": len(order),
            "cells": [
                [
                    [rows[label], each.as_json() if isinstance(each, Group) else each]
                    for label, each in zip(*pair, strict=True)
                ]
                for pair in zip(labels, cells, strict=True)
            ],
        }
    return found


def _data(drawing: Drawing) -> dict[str, Any]:
    graph, ops = drawing.graph, drawing.ops
    kinds, devices = _numbered(ops.kinds), _numbered(ops.devices)
    shapes = _numbered([_shape_text(graph.shapes.get(name)) for name in ops.names])
    variables = {op: name for name, variable in graph.variables.items() for op in ops.of_tensors([variable])}
    updates = ops.of_tensors(name for run in graph.runs for name in run.get("updates", ()))
    return {
        "titles": PART_TITLES,
        "parts": list(PARTS),
        "towers": [
            {"title": f"tower {shown(name)}", "devices": _devices(drawing, tower)}
            for tower, name in enumerate(drawing.recorded.towers)
        ],
        "names": [shown(name) for name in ops.names],
        "kinds": kinds,
        "devices": devices,
        "shapes": shapes,
        "places": [[PARTS.index(place.part), place.tower] for place in drawing.places],
        "inputs": ops.inputs,
        "controls": ops.controls,
        "frames": [f"{shown(frame[0])}:{frame[1]} in {shown(frame[2])}: {shown(frame[3])}" for frame in graph.frames],
        "callers": [list(graph.callers.get(name, ())) for name in ops.names],
        "variables": [[op, shown(name)] for op, name in variables.items()],
        "writes": [[op, each] for op in updates for each in ops.inputs[op] if each in variables],
        "marks": _marks(drawing),
        "hazards": [[each.name, each.part, each.ops] for each in drawing.hazards],
        "views": {
            "layer": view_of(drawing, by_layer(graph, ops, drawing.recorded, drawing.places, drawing.scopes)),
            "line": view_of(drawing, by_line(graph, ops, drawing.places)),
        },
    }


def _marks(drawing: Drawing) -> list[list[Any]]:
    """Returns what was recorded of ops: number and words."""
    found: list[list[Any]] = []
    for name, losses, gradients in zip(
        drawing.recorded.towers, drawing.recorded.losses, drawing.recorded.gradients, strict=True
    ):
        found += [[op, f"the loss of tower {shown(name)}"] for op in losses]
        found += [[op, f"a gradient of tower {shown(name)}"] for op in gradients]
    return found + [
        [op, f"the combined gradient of {shown(name)}"] for name, ops in drawing.recorded.combined.items() for op in ops
    ]


def _numbered(texts: Sequence[str]) -> list[Any]:
    """Returns the different texts, and the number of each in a list."""
    numbers: dict[str, int] = {}
    listed = [numbers.setdefault(text, len(numbers)) for text in texts]
    return [[shown(text) for text in numbers], listed]


def _shape_text(shapes: Any) -> str:
    listed = [
        "unknown" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
        for shape in shapes or ()
    ]
    return "; ".join(listed)


def _devices(drawing: Drawing, tower: int) -> str:
    counts = Counter(
        drawing.ops.devices[op]
        for op, place in enumerate(drawing.places)
        if place.tower == tower and drawing.ops.devices[op]
    )
    return shown(", ".join(device for device, _ in counts.most_common(3)) or NO_DEVICE)


def _summary(drawing: Drawing, facts: Mapping[str, Any]) -> str:
    towers, ops = len(drawing.recorded.towers), len(drawing.ops.names)
    framework = shown(plain(facts.get("framework", "an unknown framework")))
    hazards = len(drawing.hazards)
    return (
        f"{ops:,} op{'s' * (ops != 1)} of {framework} in {towers} tower{'s' * (towers != 1)}; "
        f"{len(drawing.graph.variables):,} variables; {hazards or 'no'} hazard{'s' * (hazards != 1)}"
    )


def _tower_row(drawing: Drawing, tower: int) -> list[str]:
    counts = Counter(place.part for place in drawing.places if place.tower == tower)
    name, scope = shown(drawing.recorded.towers[tower]), shown(drawing.scopes[tower])
    return [name, scope, _devices(drawing, tower), *(f"{counts[part]:,}" for part in TOWER_PARTS)]


def _combinations(graph: RecordedGraph) -> list[list[str]]:
    rows = []
    for section, of in graph.combinations.items():
        for kind, count in Counter(of.values()).most_common():
            rows.append([shown(section), f"{count:,}", WAYS_OF_COMBINING.get(kind, shown(kind))])
    return rows


def _updates(graph: RecordedGraph) -> list[list[str]]:
    rows = []
    for section, numbers in graph.hyper_parameters.items():
        settings = ", ".join(f"{shown(name)} {shown(plain(value))}" for name, value in numbers.items())
        rule = graph.clipping.get(section)
        clipped = (
            f"{shown(rule.get('kind', ''))}, {shown(rule.get('place', '')).replace('_', ' ')}" if rule else "nothing"
        )
        rows.append([shown(section), settings or "none recorded", clipped])
    return rows


def _variable_rows(drawing: Drawing) -> list[list[str]]:
    ops = drawing.ops
    rows = []
    for name, variable in drawing.graph.variables.items():
        for op in ops.of_tensors([variable]):
            shape = shown(_shape_text(drawing.graph.shapes.get(ops.names[op])))
            rows.append([shown(ops.devices[op] or NO_DEVICE), shown(name), shape])
    return sorted(rows)
