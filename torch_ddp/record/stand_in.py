"""What stands in for a program's own numbers, and when it is asked.

A plain recording has a `StandIn`, which leaves everything as it is. A request of another kind (`ProgramRequest.kind`) has a
subclass, which `STAND_INS` names; it is made once in each process, when torch has been imported.

The order of calls in a rank::

    module_made(module)               a wrapper: DistributedDataParallel, DataParallel, torch.compile
    optimizer_made(section)           after its constructor; `section.models` is what it trains, as far as it exists by then
    replace_batch(loader, batch)      each time a DataLoader yields, in training and in evaluation alike
    around_step(number)               entered before the first forward or backward pass of training step `number`, ...
    before_forward(number, sections)  ... and this right behind it; then its passes, hooks and collectives
    replace_inputs(number, given)     before each forward pass of the outermost module with gradients on
    before_update(section, number)    the optimizer's step is called; gradients are final
    after_update(section, number)     its weights and slots are new, and recorded; `around_step` is left

`number` counts the program's training steps from 0, skipped ones among them: `request.skip` is the first recorded one. A
step that a loss scale skips has no `before_update`. Two optimizers that step after one backward pass share a number.
"""

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from parity.worker.program_request import DESCRIBE, RECORD, REPLAY, ProgramRequest

if TYPE_CHECKING:
    from torch_ddp.record.sections import Section


class StandIn:
    """Leaves everything as it is; the base of what does not.

    Args:
      request: that the program runs under.
    """

    def __init__(self, request: ProgramRequest) -> None:
        self.request = request

    def module_made(self, module: nn.Module) -> None:
        """Takes a wrapper whose constructor has ended."""

    def optimizer_made(self, section: "Section") -> None:
        """Takes an optimizer whose constructor has ended."""

    def replace_batch(self, loader: Any, batch: Any) -> Any:
        """Returns what the program gets in place of what its loader yielded."""
        return batch

    def around_step(self, number: int) -> contextlib.AbstractContextManager[Any]:
        """Returns what is entered before the first forward pass of a training step and left after its update."""
        return contextlib.nullcontext()

    def before_forward(self, number: int, sections: "Sequence[Section]") -> None:
        """Is called once in a training step, before its first forward pass; `sections` are all that are known by then."""

    def replace_inputs(self, number: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what a model is called with in place of what the program gives it: dict of argument to value."""
        return given

    def before_update(self, section: "Section", number: int) -> None:
        """Is called when an optimizer's step begins."""

    def after_update(self, section: "Section", number: int) -> None:
        """Is called when an optimizer's step has ended and is recorded."""


# "module:class", imported when asked for: what replays needs more of torch_ddp than what observes.
STAND_INS = {
    RECORD: f"{__name__}:StandIn",
    DESCRIBE: "torch_ddp.record.described:Described",
    REPLAY: "torch_ddp.record.replayed:Replayed",
}


def make_stand_in(request: ProgramRequest) -> StandIn:
    """Returns what stands in under a request.

    Raises:
      ValueError: its kind is none of `STAND_INS`.
    """
    if request.kind not in STAND_INS:
        raise ValueError(
            f"request: expected a kind among {', '.join(sorted(STAND_INS))}, got {request.kind!r}. Use one version."
        )
    module, _, name = STAND_INS[request.kind].partition(":")
    made: StandIn = getattr(importlib.import_module(module), name)(request)
    return made
