"""Carries the variables of a TensorFlow checkpoint into a port's names and layouts."""

import os

from parity.case import load_mapping
from parity.mapping import parse_transform
from parity.port.errors import PortError
from parity.trace import TensorFile
from parity.trace.arrays import Array


def carried_weights(file: str | os.PathLike[str], mapping: str | os.PathLike[str]) -> dict[str, Array]:
    """Returns the weights and statistics of a script's checkpoint under a port's names and in its layouts.

    Args:
      file: what `python -m tf_towers.checkpoint read` left: arrays by name of the script's variables.
      mapping: the port's `port.toml`.

    Returns:
      Dict of ``state_dict`` name to array.

    Raises:
      PortError: the checkpoint lacks a variable.
      CaseError: the mapping is not what it should be.
    """
    variables, entries = TensorFile(str(file)), load_mapping(str(mapping))[0]
    carried: dict[str, Array] = {}
    for name, entry in entries.items():
        if name not in variables:
            raise PortError(
                f"weights: expected the variable {name!r} in {file}, got {len(variables.names())} others. "
                "Name a checkpoint of the script that this port was written from."
            )
        laid_out = parse_transform(entry.transform or "identity").forward(variables.read(name))
        carried.update(zip(entry.to, laid_out, strict=True))
    return carried
