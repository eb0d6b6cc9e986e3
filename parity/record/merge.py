"""Makes one trace of what the ranks of a program recorded, each in a folder of its own."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.record.combination import Combination, combination_of, same_before_clipping, scaled_behind, settle_clipping
from parity.record.hazards import Hazard, Seen, hazards_of
from parity.trace import (
    SHADOW_FORWARD,
    Trace,
    TraceWriter,
    parse_key,
    quantity_of,
    read_json,
    section_of,
    section_prefix,
    select,
)
from parity.trace.arrays import Tensors
from parity.trace.keys import PER_TOWER

SIDE = "torch_ddp.record"
FACTS_OF_A_RANK = ("sections", "rank", "world_size", "pid", "closed", "enough", "step_numbers", "began")


@dataclass
class Ranks:
    """What the ranks of one program have left so far.

    Attributes:
      folders: one of each rank, in their order.
      facts: of each.
      other_processes: number of processes that recorded as a rank which another one was already.
    """

    folders: list[Path] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    other_processes: int = 0

    @property
    def world_size(self) -> int:
        """Number of ranks that the program says it has; 0 where none has begun."""
        return int(self.facts[0]["world_size"]) if self.facts else 0

    @property
    def all_there(self) -> bool:
        """Whether every rank has begun."""
        return 0 < len(self.facts) == self.world_size

    @property
    def complete(self) -> bool:
        """Whether every rank is there, has ended well and holds as many steps as the others."""
        steps = {tuple(each.get("step_numbers", ())) for each in self.facts}
        return self.all_there and all(each.get("closed") for each in self.facts) and len(steps) == 1

    @property
    def enough(self) -> bool:
        """Whether every rank holds as many steps as were wanted."""
        return self.all_there and all(each.get("enough") for each in self.facts)

    def lost(self) -> list[int]:
        """Returns the ranks whose process is gone though it did not end well."""
        return [int(each["rank"]) for each in self.facts if not each.get("closed") and not _is_alive(int(each["pid"]))]

    def steps(self) -> list[int]:
        """Returns the steps that every rank holds."""
        if not self.all_there:
            return []
        # A rank that is ahead may have written a step that others have not: files appear by rename, each whole.
        return sorted(set.intersection(*(set(_numbers(each)) for each in self.folders)))


def read_ranks(folder: str) -> Ranks:
    """Returns what the ranks below a folder have left; of several processes of one rank the first that began."""
    found: dict[int, tuple[float, Path, dict[str, Any]]] = {}
    paths = list(Path(folder).glob("rank-*"))
    for path in paths:
        try:
            facts = read_json(str(path / "facts.json"))
        except FileNotFoundError:
            continue  # just being made
        began = facts["began"]
        if facts["rank"] not in found or began < found[facts["rank"]][0]:
            found[facts["rank"]] = began, path, facts
    ordered = [found[rank] for rank in sorted(found)]
    return Ranks([each[1] for each in ordered], [each[2] for each in ordered], len(paths) - len(found))


class Merging:
    """Reads the ranks' traces step by step, and remembers what they show of the program.

    Args:
      ranks: what they left; at least one step of all.
      numbers: of the steps that count.

    Attributes:
      trained: names of the optimizers that have made an update, in the order in which they did.
      hazards: dict of name to `Hazard`, in the order of finding.
      combinations: dict of the optimizer's name to the `Combination` of the first step that shows one.
    """

    def __init__(self, ranks: Ranks, numbers: Sequence[int]) -> None:
        self._ranks = ranks
        self._traces = [Trace(folder, whole=False) for folder in ranks.folders]
        #: dict of the name of each to the first step that it makes.
        self.first = _first_steps(self._traces[0], numbers)
        self.trained = list(self.first)
        self.hazards: dict[str, Hazard] = {}
        self.combinations: dict[str, Combination] = {}
        self.disagreed: list[int] = []
        self.passes: dict[str, int] = {}
        self._clipping: dict[str, str] = {}
        self._scaled: dict[str, float] = {}
        self._changed: set[str] = set()  # whose gradients are changed between combining and update

    def init(self) -> Tensors:
        """Returns the state before the first step."""
        return self._renamed(_read(self._traces[0].init()))

    def step(self, number: int) -> Tensors:
        """Returns one step of all ranks: towers from each, all else from rank 0."""
        ranks = [_read(trace.step(number)) for trace in self._traces]
        digests = [_digests(folder, number) for folder in self._ranks.folders]
        # Of the others weights, slots and statistics are digests only: those of rank 0 stand for all, see
        # `ranks_agree`.
        merged = dict(ranks[0])
        for each in ranks[1:]:
            merged.update((name, value) for name, value in each.items() if quantity_of(name) in PER_TOWER)
        for section in self.trained:
            own = [_of_section(each, section) for each in ranks]
            # An optimizer that has no part in this step, as the other one of a GAN.
            if not own[0]:
                continue
            combination = combination_of(own)
            known = self.combinations.setdefault(section, combination)
            # Ranks with one gradient, or with zeros, do not show it in their first step; a later one may.
            if known.kind == "unknown":
                self.combinations[section] = combination
            of_all = _of_section(merged, section)
            # Taken out and put in anew: `settle_clipping` gives some of them other names.
            merged = {name: value for name, value in merged.items() if section_of(name) != section}
            settled = settle_clipping(of_all, combination.clipped_first, same_before_clipping(own))
            merged.update((section_prefix(section) + name, value) for name, value in settled.items())
            self.passes.setdefault(section, _passes(own[0]))
            if select(settled, "clip"):
                self._changed.add(section)
            if select(settled, "clip", "tower_clip"):
                # What was clipped by a function of torch's was clipped, whatever the numbers are.
                called = select(of_all, "tower_clip")
                factor = 0.0 if called else scaled_behind(settled, self.passes[section])
                if factor:
                    self._scaled.setdefault(section, factor)
                else:
                    self._clipping[section] = f"{'before' if combination.clipped_first else 'after'} combining"
            self._keep(hazards_of(Seen(number, section, self._ranks.facts, own, digests, combination)))
        # Not statistics: each rank's batch norm has its own, by default, and `statistics_differ` says so.
        shared = [{name: each for name, each in own.items() if quantity_of(name) in ("var", "slot")} for own in digests]
        if any(each != shared[0] for each in shared[1:]):
            self.disagreed.append(number)
        return self._renamed(merged)

    def facts(self) -> dict[str, Any]:
        """Returns the facts of the program, as far as the steps that were read show them."""
        first, ranks = self._ranks.facts[0], self._ranks.world_size
        sections = {}
        for name in self.trained:
            combination = self.combinations.get(name, Combination("unknown", {}, False))
            sections[name] = {
                **first["sections"].get(name, {}),
                "combine": combination.kind,
                "towers": ranks,
                "backward_passes": self.passes.get(name, 1),
                "clipping": self._clipping.get(name, ""),
                "scaled": self._scaled.get(name, 1.0),
                "clipped": name in self._changed,
            }
            if len(set(combination.of.values())) > 1:
                sections[name]["combinations"] = combination.of
        own = {name: value for name, value in first.items() if name not in FACTS_OF_A_RANK}
        main = sections[self.trained[0]] if self.trained else {}
        found = {
            "side": SIDE,
            "ranks": ranks,
            **own,
            **main,
            "ranks_agree": not self.disagreed,
            "steps_where_ranks_differ": self.disagreed,
            "hazards": [each._asdict() for each in self.hazards.values()],
        }
        if len(self.trained) > 1:
            return {**found, "sections": sections}
        # Its name in a program that has more of them: its quantities go without.
        return {**found, "section": self.trained[0]} if self.trained and len(first["sections"]) > 1 else found

    def _keep(self, hazards: Sequence[Hazard]) -> None:
        for each in hazards:
            self.hazards.setdefault(each.name, each)

    def _renamed(self, tensors: Mapping[str, Any]) -> Tensors:
        # Without the section where one optimizer trained only; of those that did not, nothing.
        kept = {
            name: value for name, value in tensors.items() if not section_of(name) or section_of(name) in self.trained
        }
        if len(self.trained) != 1:
            return kept
        return {str(parse_key(name)._replace(section="")): value for name, value in kept.items()}


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
    merging, first = Merging(ranks, ranks.steps()), Trace(ranks.folders[0], whole=False)
    writer = TraceWriter(out, first.producer, {}, first.variables)
    writer.init(merging.init())
    for number in ranks.steps():
        writer.step(number, merging.step(number))
    forward = ranks.folders[0] / SHADOW_FORWARD
    if forward.is_dir():
        shutil.copytree(forward, Path(out) / SHADOW_FORWARD, dirs_exist_ok=True)
    described = {**merging.facts(), **facts}
    if whole:
        writer.close(**described)
    else:
        writer.add_facts(**described)
    return Trace(out, whole=False)


def _first_steps(trace: Trace, numbers: Sequence[int]) -> dict[str, int]:
    first: dict[str, int] = {}
    for number in numbers:
        # By its counters, which an update always leaves: gradients and slots may be none.
        for name in trace.step(number).names("state"):
            first.setdefault(section_of(name), number)
    return first


def _of_section(tensors: Mapping[str, Any], section: str) -> Tensors:
    own = {name: value for name, value in tensors.items() if section_of(name) == section}
    return {str(parse_key(name)._replace(section="")): value for name, value in own.items()}


def _passes(tensors: Mapping[str, Any]) -> int:
    # Of one rank: its towers are its micro-batches, "0.0" and "0.1".
    return max(1, len({parse_key(name).tower for name in tensors if quantity_of(name) == "loss"}))


def _digests(folder: Path, number: int) -> dict[str, str]:
    found: dict[str, str] = read_json(str(folder / f"digests-{number:06d}.json"))
    return found


def _is_alive(pid: int) -> bool:
    try:
        # A process that has ended and that nobody has waited for is there still, as a zombie.
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc").is_dir()


def _numbers(folder: Path) -> list[int]:
    return [int(each.stem.partition("-")[2]) for each in folder.glob("step-*.safetensors")]


def _read(file: Any) -> Tensors:
    return {name: file.read(name) for name in file.names()}
