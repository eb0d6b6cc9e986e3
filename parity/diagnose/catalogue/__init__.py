"""The catalogue of causes: from one row each come titles, fixes, precedence and a page."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from parity.diagnose.catalogue import (
    declared,
    evaluation,
    gradients,
    inputs,
    layers,
    losses,
    operations,
    precision,
    statistics_and_averages,
    towers,
    updates,
    variables,
)
from parity.diagnose.catalogue.info import EXACT as EXACT
from parity.diagnose.catalogue.info import GENERAL as GENERAL
from parity.diagnose.catalogue.info import PLACE as PLACE
from parity.diagnose.catalogue.info import CauseInfo as CauseInfo
from parity.diagnose.catalogue.info import Proof as Proof
from parity.diagnose.catalogue.info import Trait as Trait
from parity.diagnose.catalogue.info import Wording as Wording
from parity.judge.result import Cause, Explained

# By the part of a step in which the difference begins.
FAMILIES: Mapping[str, Sequence[CauseInfo]] = {
    "What goes in": inputs.ROWS,
    "Weights and values of the port's own": variables.ROWS,
    "Layers": (*layers.ROWS, *operations.ROWS),
    "The loss": losses.ROWS,
    "Gradients of a tower": gradients.ROWS,
    "Combining the towers": towers.ROWS,
    "The update": updates.ROWS,
    "Statistics and averages": statistics_and_averages.ROWS,
    "Evaluation": evaluation.ROWS,
    "Precision": precision.ROWS,
    "Declared differences": declared.ROWS,
}
OF_LAYERS = ("What goes in", "Weights and values of the port's own", "Layers")


def _with_family(family: str, row: CauseInfo) -> CauseInfo:
    traits = row.traits
    # What these say of an input, a weight or a layer comes before the same said of one of its ops.
    if family in OF_LAYERS and Trait.OF_AN_OP not in traits:
        traits |= Trait.OF_A_LAYER
    if row.specificity == GENERAL:
        traits |= Trait.ONLY_ALONE
    return row._replace(family=family, traits=traits)


CAUSES: Mapping[str, CauseInfo] = {
    row.name: _with_family(family, row) for family, rows in FAMILIES.items() for row in rows
}


class Description(NamedTuple):
    """A cause in words.

    Fields:
      name: its identifier.
      title: what the port does otherwise.
      fix: what to change.
    """

    name: str
    title: str
    fix: str

    def cause(self, evidence: str, explains: Explained | None = None, op: int | None = None) -> Cause:
        """Returns the cause with its evidence; `explains` and `op` as in `parity.judge.result.Cause`."""
        return Cause(self.name, self.title, evidence, self.fix, explains, op=op)


def describe(name: str, variant: str = "", /, **fields: Any) -> Description:
    """Returns a cause's title and fix as the catalogue words them.

    Args:
      name: of the cause.
      variant: which of its wordings.
      **fields: what stands in these; `where` is "" unless given.
    """
    row = CAUSES[name]
    # What one change of an op proves is worded alike for every cause that it may be.
    wording = row.wordings[variant] if variant in row.wordings else operations.OF_ANY[variant]
    told = {"where": "", **fields}
    return Description(name, wording.title.format(**told), wording.fix.format(**told))


def build_cause(
    name: str,
    variant: str = "",
    /,
    *,
    evidence: str,
    explains: Explained | None = None,
    op: int | None = None,
    **fields: Any,
) -> Cause:
    """Returns a cause with its title and fix from the catalogue.

    Args:
      name: of the cause.
      variant: which of its wordings.
      evidence: the figures.
      explains: see `parity.judge.result.Cause`.
      op: see there.
      **fields: what stands in the title and in the fix; `where` is "" unless given.
    """
    return describe(name, variant, **fields).cause(evidence, explains, op)


@cache
def causes_with(trait: Trait) -> frozenset[str]:
    """Returns the names of the causes that have a trait."""
    return frozenset(name for name, row in CAUSES.items() if trait in row.traits)


def is_place_only(name: str) -> bool:
    """Returns whether a cause says where the trouble is rather than what it is: an experiment may know better."""
    return CAUSES[name].specificity == PLACE


def is_exact(name: str) -> bool:
    """Returns whether a cause says what is wrong, and does not hold beside a more exact one."""
    return CAUSES[name].specificity == EXACT
