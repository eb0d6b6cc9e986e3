"""Tells by the first step which slots of two optimizers hold the same, where a script's own names say something else."""

from collections.abc import Collection
from itertools import permutations
from pathlib import Path

import numpy as np

from parity.experiment.mapping.by_numbers import Ready
from parity.experiment.spec import MAPPING, Capability, RunSpec
from parity.mapping.guesses import EQUAL
from parity.mapping.names import slot_partner
from parity.mapping.states import read_all, write_init
from parity.mapping.trace_map import Join
from parity.trace import TensorFile, Trace
from parity.worker.failures import SideFailed

MOST_SLOTS = 3  # of a side: 6 orders, a step of the port each
NAMED_AS_USUAL = ("torch.optim.", "torch_ddp.", "apex.")  # modules whose names of slots are known
NORM = "exp_inf"  # what torch's Adamax keeps: scripts call it "m" or "v"


def with_slots_by_numbers(join: Join, ready: Ready, slots: tuple[Collection[str], Collection[str]], name: str) -> Join:
    """Returns the join with slots joined that hold the same numbers behind a first step, where those of a name do not.

    Names of torch's own optimizers and of ours are known, and no step is made for these. Where no order of the slots makes
    all of them the same, as behind a bug, names decide as before.

    Args:
      join: of what it is decided.
      ready: both sides.
      slots: names of the reference's and of the candidate's.
      name: of the candidate's optimizer, its class with its module.
    """
    own, other = (sorted(each) for each in slots)
    known = name.startswith(NAMED_AS_USUAL) and NORM not in other
    if known or not 1 < len(own) == len(other) <= MOST_SLOTS or Capability.RERUN not in ready.reference.capabilities:
        return join
    named = {slot: slot_partner(slot, other) for slot in own}
    if None in named.values():
        return join
    orders = (dict(zip(own, order, strict=True)) for order in permutations(other))
    joins = [join, *(join.with_slots(order) for order in orders if order != named)]
    try:
        ready.reference.prepare("float64", ready.inputs).result()
        reference = ready.reference.run(_first_step(ready.feeds.tf, ready.start)).result().step(0)
        return next((each for each in joins if _hold_the_same(each, reference, _step_of_port(each, ready))), join)
    except SideFailed:  # it is told where the step is judged
        return join


def _step_of_port(join: Join, ready: Ready) -> TensorFile:
    # From the reference's slots, in the candidate's of that order.
    start = write_init(ready.out / "start" / f"{MAPPING}-slots", join.write_all(read_all(Trace(ready.start).init())))
    return ready.candidate.run(_first_step(ready.feeds.torch, start)).result().step(0)


def _first_step(feeds: Path, start: Path) -> RunSpec:
    return RunSpec(f"{MAPPING}-slots", "float64", feeds, start, None, ("slot",), [0])


def _hold_the_same(join: Join, reference: TensorFile, candidate: TensorFile) -> bool:
    for key in reference.keys("slot"):
        one, other = reference.read(key), join.read(key, candidate)
        if other is None or one.shape != other.shape:
            return False
        if not np.linalg.norm((one - other).ravel()) <= EQUAL * np.linalg.norm(one.ravel()):
            return False
    return True
