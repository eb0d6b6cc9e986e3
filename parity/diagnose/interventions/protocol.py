"""What an intervention changes, and what it asks of whoever runs both sides."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from parity.diagnose.catalogue import Description
from parity.judge.result import Cause, Explained
from parity.trace import Trace
from parity.trace.arrays import Tensors


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

    @property
    def described(self) -> Description:
        """The cause in words."""
        return Description(self.name, self.title, self.fix)


@dataclass(frozen=True)
class Undone(Cause):
    """A cause, and the change that makes the difference go away: with it the step can be run again and looked at further.

    Attributes:
      change: what was changed.
    """

    change: Change = field(default_factory=lambda: Change("", "", "", ""))

    @classmethod
    def by(cls, change: Change, evidence: str, explains: Explained | None = None) -> "Undone":
        """Returns the cause that a change mends."""
        return cls(change.name, change.title, evidence, change.fix, explains, change=change)


Changed = Callable[[Tensors], Tensors]


class Repeats(Protocol):
    """Runs a step once more with something changed; `parity.experiment.sides.rerun.Rerun` says what each of these does."""

    @property
    def towers(self) -> int: ...  # noqa: D102
    @property
    def batch_norm_updates(self) -> str: ...  # noqa: D102
    def batch(self, step: int) -> Tensors: ...  # noqa: D102
    def state(self, step: int) -> Tensors: ...  # noqa: D102
    def repeat(  # noqa: D102
        self, step: int, batch: Changed, state: Changed, twice: bool = False, *, ahead: Changed | None = None
    ) -> Trace: ...
    def repeat_seeded(self, step: int, seed: int) -> Trace: ...  # noqa: D102
    def reference_batch(self, step: int) -> Tensors: ...  # noqa: D102
    def translated_batch(self, batch: Tensors) -> Tensors: ...  # noqa: D102
    def repeat_built_anew(self, step: int) -> Trace: ...  # noqa: D102
    def repeat_with_batch_norm(self, step: int, over_all_ranks: bool | None) -> Trace: ...  # noqa: D102
    def repeat_reference(  # noqa: D102
        self, step: int, batch_norm_updates: str | None = None, batch: Changed = lambda batch: batch
    ) -> Trace | None: ...


class RepeatsOnward(Repeats, Protocol):
    """Runs a step also as if some outputs were given, from which it goes on."""

    def repeat(  # noqa: D102
        self,
        step: int,
        batch: Changed,
        state: Changed,
        twice: bool = False,
        cut: bool = False,
        *,
        ahead: Changed | None = None,
    ) -> Trace: ...
