"""What a case holds once it has been checked."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from parity.case.expect import Expect
from parity.case.optimizers import AnyOptimizer, PartName
from parity.case.sides import TfSide, TorchSide
from parity.case.table import Combine, Function, Precision, Table
from parity.mapping import MappingEntry


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
    init: str = Field(default="perturbed", pattern=r"^(perturbed|model|checkpoint:.+)$")
    directory: Path
    optimizer: AnyOptimizer | None = Field(default=None, discriminator="name")
    optimizers: dict[PartName, Annotated[AnyOptimizer, Field(discriminator="name")]] = Field(default_factory=dict)
    tf: TfSide
    torch: TorchSide
    mapping: dict[str, MappingEntry] = Field(default_factory=dict)
    mapping_of: dict[Literal["act", "noise", "feed", "metric"], dict[str, MappingEntry]] = Field(default_factory=dict)
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
