"""What experiments ask of whoever has run both sides."""

from collections.abc import Callable
from typing import Protocol

from parity.mapping.states import Tensors
from parity.trace import Trace

Changed = Callable[[Tensors], Tensors]


class Repeats(Protocol):
    """Runs a step once more with something changed; `parity.run.again.Again` says what each of these does."""

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
