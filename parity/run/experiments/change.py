"""What an experiment changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from parity.judge.result import Cause
from parity.mapping.states import Tensors


class Change(NamedTuple):
    """One thing that is changed for a step.

    Fields:
      name, title, fix: of the cause, where the change turns out to be the mend.
      what: what is done, for the evidence: "with ... the candidate gives ...".
      batch: what becomes of a whole batch, dict of input name to array ``[batch, ...]`` in the candidate's layout.
      state: what becomes of the state, dict of trace name to array in the candidate's layout.
      twice: whether the batch is fed once before, in a step whose result does not count.
    """

    name: str
    title: str
    fix: str
    what: str
    batch: Callable[[Tensors], Tensors] = lambda batch: batch
    state: Callable[[Tensors], Tensors] = lambda state: state
    twice: bool = False


@dataclass(frozen=True)
class Undone(Cause):
    """A cause, and the change that makes the difference go away: with it the step can be run again and looked at further.

    Attributes:
      change: what was changed.
    """

    change: Change = field(default_factory=lambda: Change("", "", "", ""))
