"""What a torch side is told of the training that was recorded: what it trains, its optimizer and rates, its draws."""

from typing import Any

from parity.experiment.replay.script import Part
from parity.mapping import Mapping


def recorded_training(part: Part, mapping: Mapping) -> dict[str, Any]:
    """Returns the table `recorded` of what a side is asked to prepare.

    Args:
      part: what was recorded.
      mapping: of the script's variables to the port's.

    Returns:
      JSON values: "trained", names of the port's parameters that this part trains, None for all; "optimizer", name and
      hyper-parameters of the script's; "rates", its learning rate by step; "draws", whether draws are given back.
    """
    trained = None
    if part.trained is not None:
        pairs = (pair for pair in mapping.pairs if pair.reference in part.trained)
        trained = [*dict.fromkeys(name for pair in pairs for name in pair.candidate)]
    return {
        "trained": trained,
        "optimizer": {name: value for name, value in part.facts["optimizer"].items() if name != "learning_rate"},
        "rates": [part.rate(number) for number in part.steps],
        "draws": any("recorded_draw_" in name for name in part.batch(part.steps[0])),
    }
