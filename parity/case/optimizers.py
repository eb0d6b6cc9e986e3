"""The optimizers of a case, and what each of them may have beside its own hyper-parameters."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StringConstraints, Tag

from parity.case.fields import Positive, Share, Table


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
    # None where TensorFlow has a default or asks for it: what a schedule takes is left to its own function.
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
    # TensorFlow does not: four look-ups of one row have a norm of 2 where the dense gradient's is 4.
    sum_duplicates: bool | None = None


class WeightDecay(Table):
    """Adds ``coefficient * sum(w ** 2) / 2`` to every tower's loss, for the weights whose name `only` is found in."""

    coefficient: Positive
    only: str = ""


class Ema(Table):
    """Moving averages of the weights, moved after the update; with `num_updates` the decay grows with the step.

    With ``order = "unordered"`` the towers move them beside the update, a race that the port has no part in.
    """

    decay: Share
    num_updates: bool = False
    # Of 58 codebases 18 keep averages, most of them unordered: on 1.15 those take the weight from before the update.
    order: Literal["after", "unordered"] = "after"


class Accumulate(Table):
    """Micro-batches that each tower's shard is cut into; their gradients are reduced before those of the towers are."""

    steps: int = Field(ge=1)
    reduce: Literal["mean", "sum"] = "mean"


class LossScale(Table):
    """A loss scale that falls by `factor` when a combined gradient is not finite, and grows after so many good steps."""

    initial: Positive = 32768.0  # as TensorFlow 1.15's DynamicLossScale, all three; Apex begins at 2^16
    growth_interval: int = Field(default=2000, ge=1)
    factor: float = Field(default=2.0, gt=1, allow_inf_nan=False)


def _kind_of_rate(value: Any) -> str:
    return "schedule" if isinstance(value, dict | Schedule) else "number"


def _kind_of_scale(value: Any) -> str:
    return "dynamic" if isinstance(value, dict | LossScale) else "number"


def _steps_alone(value: Any) -> Any:
    return {"steps": value} if type(value) is int else value


# By a function and not by trying each in turn: pydantic would list the errors of both, of a number that is no schedule.
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
