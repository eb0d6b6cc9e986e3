"""What a case declares to be different on purpose."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from parity.case.optimizers import WeightDecay
from parity.case.table import Combine, Positive, Table


def _fraction(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    above, slash, below = value.partition("/")
    try:
        return float(above) / float(below) if slash else value
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f'factor: expected a positive number or a fraction such as "1/4", got {value!r}. Write one.'
        ) from None


Factor = Annotated[Positive, BeforeValidator(_fraction)]


class Expect(Table):
    """What the port does otherwise than the towers on purpose: it has to do exactly that, and nothing else.

    Attributes:
      why: the reason, for whoever reads the report.
      by: who declares it.
      combine: how the port combines the gradients.
      learning_rate_factor: its learning rate over the towers'.
      loss_factor: its loss over the towers'.
      weight_decay: what it decays the weights by beyond what the towers do.
    """

    why: str = Field(min_length=1)
    by: str | None = Field(default=None, min_length=1)
    combine: Combine | None = None
    learning_rate_factor: Factor | None = None
    loss_factor: Factor | None = None
    weight_decay: WeightDecay | None = None
