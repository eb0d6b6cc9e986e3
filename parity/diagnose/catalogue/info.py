"""What the catalogue says of a cause: its words, how exact it is, and which others it comes before."""

import enum
from collections.abc import Mapping
from typing import NamedTuple

PLACE, GENERAL, EXACT = 0, 1, 2  # in ascending order of how exactly a cause says what is wrong


class Trait(enum.Flag):
    """What sets some causes apart where several are named of one difference.

    Members:
      ONLY_ALONE: holds beside many a more exact cause, and is said only where nothing else is found.
      OF_AN_OP: says of one op how it is done otherwise, whatever it is an op of.
      OF_A_LAYER: says which input, weight or layer it is, in the field's words: comes before what says the same of an op.
      FIRST_LAYERS: can only begin where the first layers differ already: at what is fed.
      INPUT_LAYOUT: is another order of the axes or numbers of an input: outputs paired in any order may not show it.
      BEHIND_LAYERS: can only begin where all layers are right: at the loss.
      BEHIND_LOSSES: what the losses of towers make of gradients: no cause of the losses.
      FACTOR_OF_LOSSES: all losses are off by one number.
      OTHER_EXAMPLES: the ranks read other examples: given those, the reference can be looked at further.
      FITS_WHAT_IS_LEFT: explains all of a difference to rounding, so that it may be told of what another cause leaves of it.
      BESIDE_A_LOSS: tells towers or elements apart, so that it is no consequence of a loss that differs.
      SAME_NUMBERS: the same numbers stand in other places, so that the op may only take what was moved before.
      NO_GRADIENT: says that gradients are missing, and not where they are lost.
    """

    NONE = 0
    ONLY_ALONE = enum.auto()
    OF_AN_OP = enum.auto()
    OF_A_LAYER = enum.auto()
    FIRST_LAYERS = enum.auto()
    INPUT_LAYOUT = enum.auto()
    BEHIND_LAYERS = enum.auto()
    BEHIND_LOSSES = enum.auto()
    FACTOR_OF_LOSSES = enum.auto()
    OTHER_EXAMPLES = enum.auto()
    FITS_WHAT_IS_LEFT = enum.auto()
    BESIDE_A_LOSS = enum.auto()
    SAME_NUMBERS = enum.auto()
    NO_GRADIENT = enum.auto()


class Proof(enum.Flag):
    """How a cause is found to hold.

    Members:
      NUMBERS: the recorded numbers of both sides fit it.
      RECOMPUTED: a layer or op is computed again from what goes into it.
      ONE_CHANGE: one op of a recorded forward pass is changed.
      RERUN: a step is run again with it undone, or with what would show it.
      STRUCTURE: names, shapes and uses of variables on both sides.
    """

    NONE = 0
    NUMBERS = enum.auto()
    RECOMPUTED = enum.auto()
    ONE_CHANGE = enum.auto()
    RERUN = enum.auto()
    STRUCTURE = enum.auto()


class Wording(NamedTuple):
    """What reports say of a cause; both may have named fields, as `str.format` takes them.

    Fields:
      title: what the port does otherwise.
      fix: what to change, in one line.
    """

    title: str
    fix: str


# Titles of several causes: which of them it is says the rule that explains the numbers.
OTHER_RULE = "{layer}: the candidate takes {other}, the reference {own}"
OF_A_WEIGHT = "of {weight} the port {there}, where the reference {here}: {lines}"


class CauseInfo(NamedTuple):
    """One row of the catalogue, and one page of the docs.

    Fields:
      name: its identifier.
      meaning: what it says, in one line.
      wordings: by variant; a cause that is said in one way only has the variant "".
      proof: how it is found to hold.
      specificity: `PLACE` where it says where the trouble is rather than what; `GENERAL` where it always holds beside
        something more exact; else `EXACT`.
      traits: see `Trait`.
      complete: whether it is known to be all of a difference.
      implies: causes that follow from it, and are not named beside it.
      doubts: causes that numbers fitted together may show because of it alone.
      refined_by: causes that stay named beside it, because it leaves open which of them it is.
      family: the part of a step in which the difference begins.
    """

    name: str
    meaning: str
    wordings: Mapping[str, Wording]
    proof: Proof = Proof.NONE
    specificity: int = EXACT
    traits: Trait = Trait.NONE
    complete: bool = True
    implies: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    refined_by: tuple[str, ...] = ()
    family: str = ""
