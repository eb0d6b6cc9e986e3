"""Puts into level 1 that the two sides do not hold the same variables."""

from parity.diagnose import Evidence
from parity.diagnose.variables import Read, read_in_place, structural_causes, structural_check, trained_extras
from parity.judge.result import FirstDifference, Level
from parity.locate.layer_names import layer_names
from parity.mapping import MappingError, Structure
from parity.run.layers import FORWARD, Located

EFFECTLESS = (
    "{} of the port: the reference has nothing like it, and no gradient but rounding reaches it: nothing came of it"
)


def with_structure(
    level: Level, structure: Structure, question: MappingError | None, located: Located | None, evidence: Evidence
) -> None:
    """Says in level 1 which variables only one side has.

    Where outputs or losses differ, the first difference stays where they do, and what is read there names the cause; else
    the parameters themselves are the first difference.

    Args:
      level: changed in place.
      structure: what one side holds and the other does not.
      question: the error that asks for lines of a mapping.
      located: where the forward passes part, or None.
      evidence: the float64 lockstep traces.

    Raises:
      MappingError: nothing differs, though the reference has variables that nothing of the port belongs to.
    """
    if not structure:
        return
    first = level.first_difference
    read = _read(located, evidence) if located is not None else None
    structure = read_in_place(structure, read) if read is not None else structure
    sizes = structure.missing or structure.resized
    if first is None and not structure.untied and not trained_extras(structure, evidence) and (question or not sizes):
        if sizes and question is not None:
            raise question
        level.notes += [EFFECTLESS.format(", ".join(part.name for part in structure.extra))]
        return
    check = structural_check(structure, evidence)
    if check is not None:
        level.checks.append(check)
        level.verdict = "different"
    if first is None or first.quantity not in FORWARD:
        if check is not None:
            level.first_difference = FirstDifference(check, "state", "parameters", "", None)
            level.causes = [*structural_causes(structure, evidence, None), *level.causes]
        return
    here = structural_causes(structure, evidence, read) if read is not None else []
    names = {cause.name for cause in here}
    elsewhere = [cause for cause in structural_causes(structure, evidence, None) if cause.name not in names]
    level.causes = [*here, *level.causes, *elsewhere]


def _read(located: Located, evidence: Evidence) -> Read:
    first, place = located.first, located.place
    shapes = {name: tuple(entry["shape"]) for name, entry in evidence.reference.variables.items()}
    of_layer = [name for name, layer in layer_names(shapes).items() if layer == place.layer]
    there = [*(place.port.weights if place.port else []), *(place.extra.op.weights if place.extra else [])]
    return Read(frozenset([*place.op.weights, *of_layer]), frozenset(there), first.check.key, first.check.step)
