"""Tells what a program trains, and lets it go on as it is."""

import os
from collections.abc import Sequence

from parity.trace import parse_key, write_json
from parity.worker.program_request import ProgramRequest
from torch_ddp.facts import describe_variables
from torch_ddp.record.facts import rank_and_world_size
from torch_ddp.record.failures import report_to_parent, telling
from torch_ddp.record.sections import Section
from torch_ddp.record.stand_in import StandIn
from torch_ddp.record.trained import Trained
from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.trace_names import array, own_values, told_values

DESCRIBED_FILE = "described-{}.json"


class Described(StandIn):
    """Tells the parent what a program trains, before it has begun, and lets it go on as it is.

    Args:
      request: that the program runs under.
    """

    def __init__(self, request: ProgramRequest) -> None:
        super().__init__(request)
        report_to_parent(request)

    @telling
    def before_forward(self, number: int, sections: Sequence[Section]) -> None:
        """Leaves the description of this rank."""
        if number:
            return
        trained = Trained(sections)
        for section in trained.sections:
            make_lazy_state(section.optimizer)
        slots = {name: array(value) for name, value in trained.slots().items() if value.numel()}
        described = {
            "rank": rank_and_world_size()[0],
            "ranks": rank_and_world_size()[1],
            # As pairs: JSON is written with sorted keys, and names are joined by the order in which the model has them.
            "variables": list(describe_variables(trained.model).items()),
            "sections": {section.name: sorted(section.trained()) for section in trained.sections},
            "slots": sorted({parse_key(name).slot for name in slots}),
            "initial_slots": {name: [float(value.min()), float(value.max())] for name, value in slots.items()},
            "own_values": told_values(trained.model, own_values(trained.model)),
        }
        write_json(os.path.join(self.request.ranks, DESCRIBED_FILE.format(os.getpid())), described)
