"""The power of a verdict: bugs planted in the user's own case, and clean repeats of it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from parity.case import Case
from parity.experiment.plant import Planted, plant
from parity.experiment.session import run_case
from parity.worker.launch import Sides
from parity.worker.reaper import temporary_folder

# A momentum shows in the second step; each probe is a whole run of the case, so that more would only cost.
STEPS = 3
REPEATS = 3


class Probe(NamedTuple):
    """A bug to plant.

    Fields:
      mutation: its name in `torch_ddp.mutations.MUTATIONS`.
      words: what it is, for the table.
      causes: the names that a right diagnosis has.
      size: what it is off by.
      optimizer: the name of the optimizer that it needs, or "".
      of_the_optimizer: whether the port has to bring its own optimizer for it.
      statistics: whether the net must have batch norm.
    """

    mutation: str
    words: str
    causes: tuple[str, ...]
    size: float = 1.0
    optimizer: str = ""
    of_the_optimizer: bool = False
    statistics: bool = False


class Outcome(NamedTuple):
    """What became of a planted bug.

    Fields:
      probe: the bug.
      detected: whether the verdict is other than same.
      where: step and tensor of the first difference, or "".
      named: whether the first cause is a right one.
      cause: its title, or "".
    """

    probe: Probe
    detected: bool
    where: str
    named: bool
    cause: str


class Power(NamedTuple):
    """What the verdict would have caught.

    Fields:
      outcomes: one for each planted bug.
      repeats: number of clean runs with other seeds.
      false_alarms: how many of them raised one.
    """

    outcomes: list[Outcome]
    repeats: int
    false_alarms: int


PROBES = (
    Probe("the_last_rank_counts_more", "the last rank's gradient counts 0.1% more", ("some_towers",), 1e-3),
    Probe("divided_by_the_world_twice", "gradients divided by the world size twice", ("gradient_factor",)),
    Probe("every_rank_reads_the_first_shard", "every rank reads the first shard", ("other_shard",)),
    Probe("shards_interleaved", "examples sharded round-robin", ("order_of_examples",)),
    Probe("the_loss_is_a_sum_over_examples", "the loss summed over examples", ("loss_reduction",)),
    Probe("weights_decay_in_the_loss", "weight decay of 1e-5 that the reference lacks", ("weight_decay",), 1e-3),
    Probe("gradients_travel_in_float16", "gradients sent in float16", ("reduced_precision",)),
    Probe("another_learning_rate", "a learning rate off by 0.1%", ("learning_rate",), 1e-3, "", True),
    Probe("a_parameter_nobody_gave_the_optimizer", "a parameter the optimizer lacks", ("not_updated",), 1.0, "", True),
    Probe("another_momentum", "a momentum off by 0.0004", ("momentum",), 1e-3, "momentum", True),
    Probe("nesterov_nobody_asked_for", "Nesterov momentum", ("nesterov",), 1.0, "momentum", True),
    Probe("another_epsilon_of_adam", "Adam's epsilon off by 1%", ("adam_epsilon",), 1e-3, "adam", True),
    Probe("another_beta2", "Adam's beta2 off by 9e-6", ("adam_beta",), 1e-3, "adam", True),
    Probe(
        "another_decay_of_statistics",
        "statistics that move 0.1% faster",
        ("batch_norm_momentum",),
        1e-3,
        "",
        False,
        True,
    ),
)
# A port with a step of its own computes its loss there, out of reach.
IN_THE_LOSS = frozenset(
    [
        "every_rank_reads_the_first_shard",
        "shards_interleaved",
        "the_loss_is_a_sum_over_examples",
        "weights_decay_in_the_loss",
    ]
)


def fitting(case: Case, statistics: bool) -> list[Probe]:
    """Returns the bugs that a case can have.

    Args:
      case: the user's.
      statistics: whether its net keeps moving statistics.
    """
    described = case.optimizer
    name = described.name if described else ""
    # A planted optimizer stands in for the whole update: it cannot bring what the table says beside the optimizer.
    # Clipping, averages and decay stand around the optimizer, where a port that brings its own does not have them.
    more = described is not None and bool(described.clip or described.ema or described.weight_decay)
    scheduled = described is not None and not isinstance(described.learning_rate, float)
    own = case.torch.optimizer is not None
    found = []
    for probe in PROBES:
        # Of one tower no shard can be another's.
        alone = case.towers == 1 and probe.causes[0] in ("some_towers", "other_shard", "order_of_examples")
        another = bool(probe.optimizer) and (probe.optimizer != name or own)
        covered = probe.of_the_optimizer and (more or scheduled)
        unseen = case.torch.step is not None and probe.mutation in IN_THE_LOSS
        if alone or another or covered or unseen or (probe.statistics and not statistics):
            continue
        found.append(probe)
    return found


def prove(
    case: Case,
    sides: Sides,
    statistics: bool,
    tick: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Power:
    """Plants the bugs that fit, one at a time, and repeats the clean case with other seeds.

    Args:
      case: one whose verdict is same.
      sides: started processes.
      statistics: whether its net keeps moving statistics.
      tick: told how far it is: what, done, total.

    Raises:
      SideFailed: a side could not do its part.
    """
    short = case.model_copy(update={"steps": min(case.steps, STEPS)})
    probes = fitting(case, statistics)
    total = len(probes) + REPEATS
    outcomes = []
    for done, probe in enumerate(probes):
        tick("planted bugs", done, total)
        outcomes.append(_try(short, probe, sides))
    alarms = 0
    for repeat in range(REPEATS):
        tick("planted bugs", len(probes) + repeat, total)
        # The same port on other weights and batches: any verdict but "same" is a false alarm.
        clean = short.model_copy(update={"seed": case.seed + 1 + repeat})
        alarms += run_case(clean, sides).verdict != "same"
    tick("planted bugs", total, total)
    return Power(outcomes, REPEATS, alarms)


def _try(case: Case, probe: Probe, sides: Sides) -> Outcome:
    with temporary_folder(prefix="parity-prove-") as folder:
        into = Path(folder) / "port" / case.directory.name
        planted = plant(case, Planted(probe.mutation, probe.size), into, probe.of_the_optimizer)
        result = run_case(planted, sides, levels=("function",))
    # A planted bug may end the ranks: the next probe has to find them well.
    sides.outlive_failure()
    first = result.first_difference
    causes = result.causes
    return Outcome(
        probe,
        result.verdict != "same",
        f"step {first.check.step}, {first.check.key}" if first else "",
        # Named first: the bug behind a list of guesses is not found.
        bool(causes) and causes[0].name in probe.causes,
        causes[0].title if causes else "",
    )
