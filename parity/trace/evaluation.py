"""Names what an evaluation after training gives, the same on both sides (Python 3.7 and up).

``eval/<output>`` and ``eval/loss`` with the weights as they are, ``eval/ema/<output>`` and ``eval/ema/loss`` with the
moving averages in their place. An output whose own name would be taken for one of these is ``eval/outputs/<output>``.
"""

from typing import Any, Dict, Mapping, NamedTuple, Optional

LOSS = "loss"
AVERAGES = "ema/"
OUTPUTS = "outputs/"


class Evaluated(NamedTuple):
    """The name of an evaluated tensor, taken apart.

    Fields:
      averages: whether moving averages stood in for the weights.
      output: the output's own name; None for the loss.
    """

    averages: bool
    output: Optional[str]


def evaluated(loss: Any, outputs: Mapping[str, Any], averages: bool = False) -> Dict[str, Any]:
    """Returns dict of trace name to value: the outputs in their order, then the loss.

    Args:
      loss: of the batch.
      outputs: dict of name to whatever else was computed.
      averages: whether moving averages stand in for the weights.
    """
    named = {format_evaluated(Evaluated(averages, name)): value for name, value in outputs.items()}
    named[format_evaluated(Evaluated(averages, None))] = loss
    return {"eval/" + name: value for name, value in named.items()}


def parse_evaluated(name: str) -> Evaluated:
    """Takes apart what stands behind "eval/"."""
    averages = name.startswith(AVERAGES)
    rest = name[len(AVERAGES) :] if averages else name
    if rest == LOSS:
        return Evaluated(averages, None)
    return Evaluated(averages, rest[len(OUTPUTS) :] if rest.startswith(OUTPUTS) else rest)


def format_evaluated(parts: Evaluated) -> str:
    """Puts a name together again; the inverse of `parse_evaluated`."""
    own = LOSS if parts.output is None else parts.output
    ambiguous = parts.output is not None and (own == LOSS or own.startswith((AVERAGES, OUTPUTS)))
    return (AVERAGES if parts.averages else "") + (OUTPUTS if ambiguous else "") + own
