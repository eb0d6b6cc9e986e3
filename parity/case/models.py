"""What a case holds once it has been checked."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

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


class Sgd(Table):
    """tf.train.GradientDescentOptimizer.

    Source of the defaults here and below: tensorflow/python/training (1.15).
    """

    name: Literal["sgd"]
    learning_rate: Positive


class Momentum(Table):
    """tf.train.MomentumOptimizer, whose momentum has no default."""

    name: Literal["momentum"]
    learning_rate: Positive
    momentum: Share
    use_nesterov: bool = False


class Adam(Table):
    """tf.train.AdamOptimizer."""

    name: Literal["adam"]
    learning_rate: Positive = 0.001
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8


OPTIMIZERS: dict[str, type[Table]] = {"sgd": Sgd, "momentum": Momentum, "adam": Adam}


class TfSide(Table):
    """The reference: where the tower is, and how its graph is built."""

    tower: Function
    optimizer: Function | None = None
    variables: Literal["cpu", "first_gpu", "balanced", "replicated"] = "cpu"
    batch_norm_updates: Literal["first", "last", "all_ordered", "unordered"] = "first"
    python: str | None = None


class TorchSide(Table):
    """The candidate: where the port is, and how it is run; `combine` is None where it is the case's."""

    model: Function
    loss: Function
    optimizer: Function | None = None
    combine: Combine | None = None
    backend: Literal["gloo", "nccl"] = "gloo"
    opt_level: Literal["O0", "O1", "O2", "O3"] = "O0"
    sync_batch_norm: bool = False


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
      tf: the reference.
      torch: the candidate.
      mapping: the reference's variable to what becomes of it.
      mapping_of: the same for "act", "noise", "feed" and "metric"; each of the four is there.
      expect: differences declared on purpose.
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
    optimizer: Sgd | Momentum | Adam | None = Field(default=None, discriminator="name")
    tf: TfSide
    torch: TorchSide
    mapping: dict[str, MappingEntry] = {}
    mapping_of: dict[Literal["act", "noise", "feed", "metric"], dict[str, MappingEntry]] = {}
    expect: dict[str, object] = {}

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that "module:function" is looked up in, in order: the case's own, then the one above."""
        return (self.directory, self.directory.parent)
