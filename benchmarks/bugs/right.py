"""Right ports, varied in everything that must not matter: here every alarm is false."""

import random
from collections.abc import Iterator

from nets import ALONE, FULL, OPTIMIZERS, ROOT

from parity.case import Case, load_case
from parity.run import Sides


def right_ports(nets: list[str], number: int, chance: random.Random, sides: Sides) -> Iterator[tuple[str, Case, Sides]]:
    """Yields `number` right ports of every net, drawn from `chance`: what is varied, the case, the sides to run it with."""
    for net in nets:
        for _ in range(number):
            towers = chance.choice([1, 2, 3, 4])
            case = load_case(
                ROOT / "examples" / net,
                steps=chance.choice([2, 3, 5]),
                towers=towers,
                batch_size=chance.choice([2, 4, 6]) * towers,
                seed=chance.randrange(1000),
            )
            choices = {"its own": case.optimizer, **OPTIMIZERS, **({} if net in ALONE else {"full": FULL})}
            optimizer = chance.choice(list(choices))
            case = case.model_copy(update={"optimizer": choices[optimizer]})
            yield f"{net}, {towers} towers, optimizer {optimizer}", case, sides
