"""The nets and optimizers that bugs are planted in, and how a case is drawn from them."""

import math
import random
from pathlib import Path

from tables import TABLES, Table

from parity.case import Adagrad, Adam, Case, Clip, Ema, Momentum, RmsProp, Schedule, WeightDecay, load_case
from torch_ddp.mutations import Mutation

ROOT = Path(__file__).parents[2]
NETS = {
    "digits_mlp": "relu images pixels labels classes batch_free",
    "digits_convnet": "relu images pixels labels classes conv padded_conv max_pool batch_norm",
    "image_lrn": "relu images pixels labels conv lrn decay batch_free",
    "text_lstm": "lstm embedding weights batch_free",
    "video_moe": "relu pixels batch_norm decay",
}
OPTIMIZERS = {
    "adam": Adam(name="adam", learning_rate=1e-3),
    "momentum": Momentum(name="momentum", learning_rate=0.02, momentum=0.9),
    "adagrad": Adagrad(name="adagrad", learning_rate=0.02),
    "rmsprop": RmsProp(name="rmsprop", learning_rate=1e-3, epsilon=1e-3),
}
# Every part that a table can have beside the optimizer, each of them felt in three steps.
FULL = Momentum(
    name="momentum",
    learning_rate=Schedule(
        schedule="exponential_decay", learning_rate=0.02, decay_steps=2, decay_rate=0.5, staircase=True
    ),
    momentum=0.9,
    clip=Clip(by="global_norm", limit=0.1),
    ema=Ema(decay=0.99, num_updates=True),
    weight_decay=WeightDecay(coefficient=1e-3),
)
# Its towers add up all regularisation losses of the graph, and a table's weight decay does so too: with both it is no right
# port.
ALONE = ("video_moe",)
OF_A_BUG = ("adam", "momentum")
STEPS = 3
SMALLEST = 1e-3


def fits(net: str, bug: Mutation | Table) -> bool:
    """Returns whether a bug can exist in a net."""
    if isinstance(bug, Table):
        return net not in ALONE
    return set(bug.needs) <= {*NETS[net].split(), *OPTIMIZERS}


def drawn(net: str, bugs: list[Mutation | Table], chance: random.Random) -> Case:
    """Draws a case of a net in which bugs can exist: towers, batches, and an optimizer that has what they need."""
    towers = chance.choice([2, 3, 4])
    seed, chosen = chance.randrange(1000), chance.choice(OF_A_BUG)
    case = load_case(ROOT / "examples" / net, steps=STEPS, towers=towers, batch_size=4 * towers, seed=seed)
    if any(isinstance(bug, Table) for bug in bugs):
        return case.model_copy(update={"optimizer": FULL})
    needed = [need for bug in bugs if isinstance(bug, Mutation) for need in bug.needs if need in OPTIMIZERS]
    return case.model_copy(update={"optimizer": OPTIMIZERS[needed[0] if needed else chosen]})


def drawn_size(bug: Mutation | Table, chance: random.Random) -> float:
    """Draws what a bug is off by, log-uniform from 0.1% to 100%; 1 where it has no size."""
    size = math.exp(chance.uniform(math.log(SMALLEST), 0.0))
    return size if bug.sized else 1.0


def together(one: Mutation | Table, other: Mutation | Table) -> bool:
    """Returns whether one case can have both bugs: they want the same optimizer, and a table's want no other."""
    tables = [isinstance(bug, Table) for bug in (one, other)]
    wants = [{need for need in getattr(bug, "needs", ()) if need in OPTIMIZERS} for bug in (one, other)]
    if any(tables) and (any(wants) or any(getattr(bug, "family", "") == "optimizer" for bug in (one, other))):
        return False
    return one.name != other.name and not (wants[0] and wants[1] and wants[0] != wants[1]) and not all(tables)


ALL_TABLES = tuple(TABLES)
