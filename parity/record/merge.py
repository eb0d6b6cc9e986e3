"""Makes one trace of what the ranks of a program recorded, each in a folder of its own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.record.combination import combination_of
from parity.trace import Trace, TraceWriter, parse_key, quantity_of, section_of, select
from parity.trace.arrays import Tensors
from parity.trace.keys import PER_TOWER

SIDE = "torch_ddp.record"


@dataclass
class Ranks:
    """What the ranks of one program have left so far.

    Attributes:
      folders: one of each rank, in their order.
      facts: of each.
    """

    folders: list[Path] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def world_size(self) -> int:
        """Number of ranks that the program says it has; 0 where none has begun."""
        return int(self.facts[0]["world_size"]) if self.facts else 0

    @property
    def complete(self) -> bool:
        """Whether every rank is there, has ended well and holds as many steps as the others."""
        steps = {tuple(each.get("step_numbers", ())) for each in self.facts}
        return (
            0 < len(self.facts) == self.world_size
            and all(each.get("closed") for each in self.facts)
            and len(steps) == 1
        )

    @property
    def enough(self) -> bool:
        """Whether every rank holds as many steps as were wanted."""
        return 0 < len(self.facts) == self.world_size and all(each.get("enough") for each in self.facts)

    def steps(self) -> list[int]:
        """Returns the steps that every rank holds."""
        if len(self.folders) < self.world_size or not self.folders:
            return []
        return sorted(set.intersection(*(set(_numbers(each)) for each in self.folders)))


def read_ranks(folder: str) -> Ranks:
    """Returns what the ranks below a folder have left; of several processes of one rank the first that began."""
    found: dict[int, tuple[float, Path, dict[str, Any]]] = {}
    for path in Path(folder).glob("rank-*"):
        try:
            facts = json.loads((path / "facts.json").read_text("utf-8"))
        except FileNotFoundError:
            continue  # just being made
        began = (path / "trace.json").stat().st_mtime
        if facts["rank"] not in found or began < found[facts["rank"]][0]:
            found[facts["rank"]] = began, path, facts
    ordered = [found[rank] for rank in sorted(found)]
    return Ranks([each[1] for each in ordered], [each[2] for each in ordered])


def merge(ranks: Ranks, out: str, whole: bool, **facts: Any) -> Trace:
    """Writes the trace of a program.

    Args:
      ranks: what they left; at least one step of all.
      out: folder of the trace.
      whole: whether the program ended well: else the trace says that it is not complete.
      **facts: more of them.

    Returns:
      The trace.
    """
    traces = [Trace(folder, whole=False) for folder in ranks.folders]
    numbers = ranks.steps()
    trained = _trained(traces[0], numbers)
    first = ranks.facts[0]
    writer = TraceWriter(out, {**traces[0].producer}, {}, traces[0].variables)
    writer.init(_renamed(_read(traces[0].init()), trained))
    agree: dict[str, bool] = {}
    combinations: dict[str, Any] = {}
    for number in numbers:
        tensors = merged_step(traces, number, trained)
        for section in _sections_of(tensors):
            combinations.setdefault(section, combination_of(_of_section(tensors, section), len(traces)))
        agree[str(number)] = _agree(ranks.folders, number)
        writer.step(number, tensors)
    described = _facts(first, trained, combinations, len(traces))
    described.update(
        ranks_agree=all(agree.values()), steps_where_ranks_differ=[n for n, same in agree.items() if not same]
    )
    described.update(facts)
    if whole:
        writer.close(**described)
    else:
        writer.add_facts(**described)
    return Trace(out, whole=False)


def merged_step(traces: Sequence[Trace], number: int, trained: Sequence[str]) -> Tensors:
    """Returns one step of all ranks: towers from each, all else from rank 0."""
    tensors = _read(traces[0].step(number))
    for trace in traces[1:]:
        file = trace.step(number)
        tensors.update((name, file.read(name)) for name in file.names(*PER_TOWER))
    return _renamed(tensors, trained)


def _facts(
    first: Mapping[str, Any], trained: Sequence[str], combinations: Mapping[str, Any], ranks: int
) -> dict[str, Any]:
    sections = {name: dict(first["sections"].get(name, {})) for name in trained}
    for name, described in sections.items():
        described["combine"] = combinations.get(name if len(trained) > 1 else "", "unknown")
        described["towers"] = ranks
    main = sections[trained[0]] if trained else {}
    own = {name: value for name, value in first.items() if name not in OF_A_RANK}
    found = {"side": SIDE, "ranks": ranks, **own, **main}
    return {**found, "sections": sections} if len(trained) > 1 else found


OF_A_RANK = ("sections", "rank", "world_size", "pid", "closed", "enough", "step_numbers")


def _trained(trace: Trace, numbers: Sequence[int]) -> list[str]:
    """The sections that have made an update, in the order in which they did."""
    names = [section_of(name) for number in numbers for name in trace.step(number).names("grad", "loss")]
    return list(dict.fromkeys(names))


def _renamed(tensors: Mapping[str, Any], trained: Sequence[str]) -> Tensors:
    """Without the section where one optimizer trained only; of the others that did not, nothing."""
    kept = {name: value for name, value in tensors.items() if not section_of(name) or section_of(name) in trained}
    if len(trained) != 1:
        return kept
    return {str(parse_key(name)._replace(section="")): value for name, value in kept.items()}


def _sections_of(tensors: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(section_of(name) for name in select(tensors, "grad")))


def _of_section(tensors: Mapping[str, Any], section: str) -> Tensors:
    own = {name: value for name, value in tensors.items() if section_of(name) == section}
    return {str(parse_key(name)._replace(section="")): value for name, value in own.items()}


def _agree(folders: Sequence[Path], number: int) -> bool:
    """Whether weights and slots have the same bytes on all ranks after a step; statistics may differ until they are sent."""
    digests = [json.loads((each / f"digests-{number:06d}.json").read_text("utf-8")) for each in folders]
    shared = [{name: value for name, value in each.items() if quantity_of(name) in ("var", "slot")} for each in digests]
    return all(each == shared[0] for each in shared)


def _numbers(folder: Path) -> list[int]:
    return [int(each.stem.partition("-")[2]) for each in folder.glob("step-*.safetensors")]


def _read(file: Any) -> Tensors:
    return {name: file.read(name) for name in file.names()}
