"""What a training program that runs under observation is asked for: one JSON file, named by an environment variable.

Written by the process that starts the program, read in each of the program's own processes (Python 3.7 and up).
"""

import dataclasses
import os
from typing import Any, Dict, Optional

from parity.trace import read_json, write_json

REQUEST_VARIABLE = "PARITY_PROGRAM_REQUEST"  # names the file
RECORD = "record"  # the kind of a request that only observes
DESCRIBE = "describe"  # tells what the program trains as well
REPLAY = "replay"  # gives it recorded numbers in place of its own


@dataclasses.dataclass(frozen=True)
class ProgramRequest:
    """One launch of a training program.

    Attributes:
      ranks: folder in which each rank leaves a folder of its own.
      kind: "record": it is only observed. Others name what stands in for its own numbers, see `torch_ddp.record.stand_in`.
      steps: the program ends after so many recorded training steps, with exit code 0; None: when it ends by itself.
      skip: number of training steps that go by first.
      arguments: of the kind, JSON values.
    """

    ranks: str
    kind: str = RECORD
    steps: Optional[int] = None
    skip: int = 0
    arguments: Dict[str, Any] = dataclasses.field(default_factory=dict)


def write_request(path: str, request: ProgramRequest) -> None:
    """Writes a request; the file appears by rename."""
    write_json(path, dataclasses.asdict(request))


def read_request(path: str) -> ProgramRequest:
    """Reads a request as `write_request` leaves it."""
    return ProgramRequest(**read_json(path))


def requested() -> Optional[ProgramRequest]:
    """Returns the request that this process runs under, or None."""
    path = os.environ.get(REQUEST_VARIABLE)
    return read_request(path) if path and os.path.isfile(path) else None
