"""What a case holds once it has been checked: both sides, and what is expected to differ."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from parity.case.fields import Combine, Function, Positive, Precision, Table
from parity.case.optimizers import AnyOptimizer, PartName, WeightDecay
from parity.mapping import MappingEntry


def _fraction(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    above, slash, below = value.partition("/")  # "1/3", which no decimal number of a case says exactly
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


class TfSide(Table):
    """The reference: where the tower is, and how its graph is built; what is None is as `tf_towers.build` has it."""

    tower: Function
    optimizer: Function | None = None
    variables: Literal["cpu", "first_gpu", "balanced", "replicated"] = "cpu"
    batch_norm: Literal["each_tower", "synchronised"] | None = None
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
    threads: int | None = Field(default=None, ge=1)
    # An interpreter of the machine: what is typed and the environment come before it.
    python: str | None = None


# The choices of the builder that are handed to it as they stand.
OF_THE_BUILDER = (
    "variables",
    "batch_norm",
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
    """The candidate: where the port is, and how it is run; `combine` is None where it is the case's, `threads` where 1."""

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
    threads: int | None = Field(default=None, ge=1)
    # In MiB; over three or more ranks it decides in which order an element is added up.
    bucket_cap_mb: Positive | None = None


class MappingTables(Table):
    """The [mapping] tables of a case."""

    mapping: dict[str, MappingEntry] = Field(default_factory=dict)
    mapping_of: dict[Literal["act", "noise", "feed", "metric"], dict[str, MappingEntry]] = Field(default_factory=dict)


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
    # Perturbed, since zero biases, unit gammas and empty slots hide what is left out or exchanged.
    init: str = Field(default="perturbed", pattern=r"^(perturbed|model|checkpoint:.+)$")
    directory: Path
    optimizer: AnyOptimizer | None = Field(default=None, discriminator="name")
    optimizers: dict[PartName, Annotated[AnyOptimizer, Field(discriminator="name")]] = Field(default_factory=dict)
    tf: TfSide
    torch: TorchSide
    mapping: dict[str, MappingEntry] = Field(default_factory=dict)
    mapping_of: dict[Literal["act", "noise", "feed", "metric"], dict[str, MappingEntry]] = Field(default_factory=dict)
    # An empty table [expect] declares nothing.
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
