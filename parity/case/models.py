"""What a case holds once it has been checked."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, StringConstraints, Tag

from parity.mapping import MappingEntry

Precision = Literal["float32", "float64"]
Combine = Literal["mean", "sum"]
FUNCTION = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
Function = Annotated[str, StringConstraints(pattern=FUNCTION)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """Takes exactly the keys it names, each in exactly its type, and never changes."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())


class Schedule(Table):
    """A learning rate that changes with the global step: tf.train's function of that name, and what it takes."""

    schedule: Literal[
        "exponential_decay",
        "natural_exp_decay",
        "inverse_time_decay",
        "polynomial_decay",
        "piecewise_constant",
        "cosine_decay",
        "cosine_decay_restarts",
    ]
    learning_rate: Positive | None = None
    decay_steps: int | None = Field(default=None, ge=1)
    decay_rate: Positive | None = None
    staircase: bool | None = None
    end_learning_rate: float | None = Field(default=None, ge=0)
    power: Positive | None = None
    cycle: bool | None = None
    alpha: Share | None = None
    first_decay_steps: int | None = Field(default=None, ge=1)
    t_mul: Positive | None = None
    m_mul: Positive | None = None
    boundaries: list[int] | None = None
    values: list[float] | None = None


class Clip(Table):
    """How gradients are clipped: the combined ones before the update, or with ``at = "tower"`` each tower's before that."""

    by: Literal["global_norm", "norm", "value"]
    limit: Positive
    at: Literal["combined", "tower"] | None = None
    sum_duplicates: bool | None = None


class WeightDecay(Table):
    """Adds ``coefficient * sum(w ** 2) / 2`` to every tower's loss, for the weights whose name `only` is found in."""

    coefficient: Positive
    only: str = ""


class Ema(Table):
    """Moving averages of the weights, moved after the update; with `num_updates` the decay grows with the step."""

    decay: Share
    num_updates: bool = False


class Accumulate(Table):
    """Micro-batches that each tower's shard is cut into; their gradients are reduced before those of the towers are."""

    steps: int = Field(ge=1)
    reduce: Literal["mean", "sum"] = "mean"


class LossScale(Table):
    """A loss scale that falls by `factor` when a combined gradient is not finite, and grows after so many good steps."""

    initial: Positive = 32768.0
    growth_interval: int = Field(default=2000, ge=1)
    factor: float = Field(default=2.0, gt=1, allow_inf_nan=False)


def _kind_of_rate(value: Any) -> str:
    return "schedule" if isinstance(value, dict | Schedule) else "number"


def _kind_of_scale(value: Any) -> str:
    return "dynamic" if isinstance(value, dict | LossScale) else "number"


def _steps_alone(value: Any) -> Any:
    return {"steps": value} if type(value) is int else value


Rate = Annotated[
    Annotated[Positive, Tag("number")] | Annotated[Schedule, Tag("schedule")], Discriminator(_kind_of_rate)
]
Scale = Annotated[
    Annotated[Positive, Tag("number")] | Annotated[LossScale, Tag("dynamic")], Discriminator(_kind_of_scale)
]


class Optimizer(Table):
    """What every optimizer may have beside its own hyper-parameters; `only` and `loss` in [optimizers.NAME] alone."""

    only: str | None = None
    loss: str | None = None
    accumulate: Annotated[Accumulate | None, BeforeValidator(_steps_alone)] = None
    loss_scale: Scale | None = None
    clip: Clip | None = None
    weight_decay: WeightDecay | None = None
    ema: Ema | None = None


class Sgd(Optimizer):
    """tf.train.GradientDescentOptimizer.

    Source of the defaults here and below: tensorflow/python/training (1.15).
    """

    name: Literal["sgd"]
    learning_rate: Rate


class Momentum(Optimizer):
    """tf.train.MomentumOptimizer, whose momentum has no default."""

    name: Literal["momentum"]
    learning_rate: Rate
    momentum: Share
    use_nesterov: bool = False


class Adam(Optimizer):
    """tf.train.AdamOptimizer."""

    name: Literal["adam"]
    learning_rate: Rate = 0.001
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8


class RmsProp(Optimizer):
    """tf.train.RMSPropOptimizer, whose mean square starts at 1."""

    name: Literal["rmsprop"]
    learning_rate: Rate
    decay: Share = 0.9
    momentum: Share = 0.0
    epsilon: Positive = 1e-10
    centered: bool = False


class Adagrad(Optimizer):
    """tf.train.AdagradOptimizer."""

    name: Literal["adagrad"]
    learning_rate: Rate
    initial_accumulator_value: Positive = 0.1


class Adadelta(Optimizer):
    """tf.train.AdadeltaOptimizer."""

    name: Literal["adadelta"]
    learning_rate: Rate = 0.001
    rho: Share = 0.95
    epsilon: Positive = 1e-8


class Ftrl(Optimizer):
    """tf.train.FtrlOptimizer."""

    name: Literal["ftrl"]
    learning_rate: Rate
    learning_rate_power: float = Field(default=-0.5, le=0)
    initial_accumulator_value: Positive = 0.1
    l1_regularization_strength: float = Field(default=0.0, ge=0)
    l2_regularization_strength: float = Field(default=0.0, ge=0)


AnyOptimizer = Sgd | Momentum | Adam | RmsProp | Adagrad | Adadelta | Ftrl
PartName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]
OPTIMIZERS: dict[str, type[Table]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adam": Adam,
    "rmsprop": RmsProp,
    "adagrad": Adagrad,
    "adadelta": Adadelta,
    "ftrl": Ftrl,
}
OF_OPTIMIZERS: dict[str, type[Table]] = {
    "clip": Clip,
    "weight_decay": WeightDecay,
    "ema": Ema,
    "learning_rate": Schedule,
    "accumulate": Accumulate,
    "loss_scale": LossScale,
}


class TfSide(Table):
    """The reference: where the tower is, and how its graph is built; what is None is as `tf_towers.build` has it."""

    tower: Function
    optimizer: Function | None = None
    variables: Literal["cpu", "first_gpu", "balanced", "replicated"] = "cpu"
    batch_norm_updates: Literal["first", "last", "all_ordered", "unordered"] = "first"
    reduce: Literal["mean", "sum", "prescaled", "mean_of_losses", "examples"] | None = None
    cut: Literal["split", "slices", "feeds", "queue", "iterator"] | None = None
    uneven: Literal["refuse", "drop", "pad", "sizes"] | None = None
    share: Literal["variable_scope", "auto_reuse", "reuse_variables", "make_template", "model_first", "own"] | None = (
        None
    )
    missing: Literal["refuse", "zeros", "present", "skip"] | None = None
    sparse: Literal["dense", "slices", "slices_unscaled"] | None = None
    regularization: Literal["none", "every_tower", "scoped", "divided", "first_tower", "last_tower", "once"] | None = (
        None
    )
    update_ops: Literal["before", "grouped"] | None = None
    python: str | None = None


# The choices of the builder that are handed to it as they stand.
OF_THE_BUILDER = (
    "variables",
    "batch_norm_updates",
    "cut",
    "uneven",
    "share",
    "missing",
    "sparse",
    "regularization",
    "update_ops",
)


class TorchSide(Table):
    """The candidate: where the port is, and how it is run; `combine` is None where it is the case's."""

    model: Function
    loss: Function
    optimizer: Function | None = None
    scheduler: Function | None = None
    step: Function | None = None
    combine: Combine | None = None
    backend: Literal["gloo", "nccl"] = "gloo"
    opt_level: Literal["O0", "O1", "O2", "O3"] = "O0"
    half_dtype: Literal["float16", "bfloat16"] = "float16"
    sync_batch_norm: bool = False


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


class MappingTables(Table):
    """The [mapping] tables of a case."""

    mapping: dict[str, MappingEntry] = {}
    mapping_of: dict[Literal["act", "noise", "feed", "metric"], dict[str, MappingEntry]] = {}


class Case(Table):
    """One comparison, checked.

    Attributes:
      name: names the report.
      steps: number of updates, at least 1.
      batch_size: examples of a whole batch, over all towers; a multiple of `towers`.
      towers: number of towers, and of ranks, at least 1.
      seed: of the batches and of the perturbation.
      precision: of levels 2 to 4.
      combine: what happens to the towers' gradients.
      batches: "module:function" that yields dicts of input name to array ``[batch_size, ...]``.
      init: "perturbed", "model" or "checkpoint:PATH".
      directory: folder of the case file.
      optimizer: for both sides, unless `torch.optimizer` says what the port really uses; None where both bring theirs.
      optimizers: more of them by name, each for the variables that its `only` is found in.
      tf: the reference.
      torch: the candidate.
      mapping: the reference's variable to what becomes of it.
      mapping_of: the same for "act", "noise", "feed" and "metric"; each of the four is there.
      expect: differences declared on purpose, or None.
    """

    name: str = Field(min_length=1)
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    towers: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)
    precision: Precision = "float32"
    combine: Combine
    batches: Function
    init: str = Field(default="perturbed", pattern=r"^(perturbed|model|checkpoint:.+)$")
    directory: Path
    optimizer: AnyOptimizer | None = Field(default=None, discriminator="name")
    optimizers: dict[PartName, Annotated[AnyOptimizer, Field(discriminator="name")]] = {}
    tf: TfSide
    torch: TorchSide
    mapping: dict[str, MappingEntry] = {}
    mapping_of: dict[Literal["act", "noise", "feed", "metric"], dict[str, MappingEntry]] = {}
    expect: Annotated[Expect | None, BeforeValidator(lambda table: table or None)] = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that "module:function" is looked up in, in order: the case's own, then the one above."""
        return (self.directory, self.directory.parent)

    @property
    def micro_batches(self) -> int:
        """Into how many pieces a tower's shard is cut; 1 where nothing accumulates."""
        table = self.optimizer.accumulate if self.optimizer else None
        return table.steps if table else 1
