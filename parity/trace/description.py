"""Checks what a trace says of itself, type by type: whoever reads a fact of it later need not ask what it is."""

import sys
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from parity.trace.provenance import is_count, is_frame

MOST_AXES = 32  # of an array of numpy before 2.0, which legacy interpreters read with
# Bytes of an element of the largest dtype, complex128: what is below `sys.maxsize` of these, numpy can describe.
LARGEST_ELEMENT = 16
KINDS_OF_VARIABLE = ("weight", "statistic")  # of variables
MOST_TOWERS = 1 << 16  # towers or ranks: what counts them makes a name for each


def is_shape(value: Any) -> bool:
    """Tells whether a JSON value is a shape that an array can have."""
    if not isinstance(value, list) or len(value) > MOST_AXES:
        return False
    capacity = LARGEST_ELEMENT
    for extent in value:
        if type(extent) is not int or extent < 0:  # a bool is an int too
            return False
        # Without the zeros, as numpy counts.
        capacity *= max(extent, 1)
    return capacity <= sys.maxsize


def fault_of_description(meta: Mapping[str, Any]) -> str:
    """Returns what one of the parts of a trace's description should be and is not; "" where all are as they should be.

    Args:
      meta: the description, of which `facts`, `variables` and `activations` have the types that they should.
    """
    for name, entry in meta["variables"].items():
        fault = _fault_of_variable(entry)
        if fault:
            return f"the variable {name[:80]!r} with {fault}"
    for name in ("activations", "variable_order"):
        if not are_names(meta.get(name) or []):
            return f"{name!r} to be a list of names"
    return fault_of_facts(meta["facts"])


SAID_OF_A_VARIABLE = ("shape", "dtype", "kind")
NUMBERS_OF_A_SLOT = 2  # its smallest and its largest element


def fault_of_answer(answer: Mapping[str, Any], values: Any) -> str:
    """Returns what a side's answer to `prepare`, kept in a file, should be and is not; "" where it is as it was given.

    Args:
      answer: the JSON object.
      values: what the side itself starts things at: dict of trace name to the smallest and the largest element of a slot, to
        all elements, in C order, of anything else.
    """
    for name in ("facts", "variables"):
        if not isinstance(answer.get(name), dict):
            return f"{name!r} of what was prepared"
    fault = fault_of_description(dict({"activations": []}, **answer))
    if fault:
        return fault
    for name, entry in answer["variables"].items():
        if not all(each in entry for each in SAID_OF_A_VARIABLE):
            return f"the variable {name[:80]!r} with {', '.join(SAID_OF_A_VARIABLE)}"
    return _fault_of_values(values, answer["variables"])


def _fault_of_values(values: Any, variables: Mapping[str, Any]) -> str:
    if not isinstance(values, dict):
        return "a dict of names to numbers"
    for text, numbers in values.items():
        if not isinstance(numbers, list) or not all(type(each) in (int, float, bool) for each in numbers):
            return f"numbers for {text[:80]!r}"
        quantity, _, name = text.partition("/")
        count = NUMBERS_OF_A_SLOT if quantity == "slot" else _elements(variables.get(name))
        if count is not None and len(numbers) != count:
            return f"{count} numbers for {text[:80]!r}"
    return ""


def _elements(entry: Optional[Mapping[str, Any]]) -> Optional[int]:
    if entry is None:
        return None
    count = 1
    for extent in entry["shape"]:
        count *= extent
    return count


def _fault_of_variable(entry: Any) -> str:
    if not isinstance(entry, dict) or not is_shape(entry.get("shape", [])):
        return "a shape that an array can have"
    if entry.get("kind", KINDS_OF_VARIABLE[0]) not in KINDS_OF_VARIABLE:
        return f"one of the kinds {', '.join(KINDS_OF_VARIABLE)}"
    right = isinstance(entry.get("dtype", ""), str) and isinstance(entry.get("use") or "", str)
    return "" if right else "texts for what its dtype is, and what uses it"


def fault_of_facts(facts: Mapping[str, Any]) -> str:
    """Returns which fact should be what, as `fault_of_description` does; facts that nothing here reads may be anything."""
    for name, (wanted, is_right) in FACTS.items():
        # What is not known is None in some recordings, and left out in others.
        if facts.get(name) is not None and not is_right(facts[name]):
            return f"the fact {name!r} to be {wanted}"
    return ""


def are_names(value: Any) -> bool:
    """Tells whether a JSON value is a list of strings."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def _is_count_of_towers(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOWERS


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _are_hazards(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("evidence"), str)
        for each in value
    )


def _are_lists_of_names(value: Any) -> bool:
    return isinstance(value, list) and all(are_names(each) for each in value)


def _are_sections(value: Any) -> bool:
    if not isinstance(value, dict) or not all(isinstance(facts, dict) for facts in value.values()):
        return False
    return not any(fault_of_facts(facts) or not are_names(facts.get("parameters") or []) for facts in value.values())


def _are_counters(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_numbers(each) for each in value.values())


def _are_numbers_of_runs(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _is_numbers(value: Any) -> bool:
    # Nested no deeper than JSON may be, which is checked when it is read.
    if isinstance(value, list):
        return all(_is_numbers(each) for each in value)
    return isinstance(value, (bool, int, float))


LIST_OF_NAMES = ("a list of names", are_names)
COUNT_OF_TOWERS = (f"a number from 0 to {MOST_TOWERS:,}", _is_count_of_towers)
ANY_TEXT = ("a text", _is_str)
FACTS: Dict[str, Tuple[str, Callable[[Any], bool]]] = {
    "towers": COUNT_OF_TOWERS,
    "ranks": COUNT_OF_TOWERS,
    "combine": ANY_TEXT,
    "precision": ANY_TEXT,
    "optimizer": ("a dict", _is_dict),
    "slots": LIST_OF_NAMES,
    "random_ops": LIST_OF_NAMES,
    "racing": LIST_OF_NAMES,
    "racing_statistics": LIST_OF_NAMES,
    "racing_averages": LIST_OF_NAMES,
    "hazards": ("a list of dicts with a name and its evidence", _are_hazards),
    "losses": ("a list of the names of each tower's losses", _are_lists_of_names),
    "sections": ("a dict of sections to their facts", _are_sections),
    "run_of_step": ("a list of numbers of runs", _are_numbers_of_runs),
    "counters_after": ("a dict of counters to numbers", _are_counters),
}


def fault_of_pass(found: Mapping[str, Any]) -> str:
    """Returns what one of the parts of a forward pass should be and is not; "" where all are as they are written.

    Args:
      found: the JSON object, with a list for each of `ops`, `lines`, `operands` and `laid_out`, of one length.
    """
    if not is_count(found["step"]) or not isinstance(found["tower"], str):
        return "the number of a step and the name of a tower"
    for number, op in enumerate(found["ops"]):
        if not _is_op(op, number):
            return f"op {number} with its name, kind, inputs among the earlier ones, weights, shape and attributes"
        if not _is_line(found["lines"][number]):
            return f"a line of the source for op {number}"
        taken, laid_out = found["operands"][number] or [], found["laid_out"][number] or []
        if not isinstance(taken, list) or not all(_is_operand(each, number) for each in taken):
            return f"operands of op {number}, each with its place, name, op, shape and value"
        if not isinstance(laid_out, list) or (laid_out and len(laid_out) != len(taken)):
            return f"as many layouts as op {number} has operands"
        if not all(_is_layout(each) for each in laid_out):
            return f"layouts of the operands of op {number}, each with its function, module and line"
    return ""


SIZE_LEFT_OPEN = -1  # a size that a graph leaves open, as those of a batch inside of a loop


def _is_static_shape(value: Any) -> bool:
    return isinstance(value, list) and is_shape(
        [0 if type(size) is int and size == SIZE_LEFT_OPEN else size for size in value]
    )


def _is_op(value: Any, number: int) -> bool:
    if not isinstance(value, list) or len(value) != 6:
        return False
    name, kind, inputs, weights, shape, attributes = value
    texts = isinstance(name, str) and isinstance(kind, str) and are_names(weights)
    earlier = isinstance(inputs, list) and all(is_count(each) and each < number for each in inputs)
    return texts and earlier and _is_static_shape(shape) and isinstance(attributes, dict)


def _is_operand(value: Any, number: int) -> bool:
    if not isinstance(value, list) or len(value) != 5:
        return False
    place, name, op, shape, kept = value
    numbers = (op is None or (is_count(op) and op < number)) and (kept is None or is_count(kept))
    return isinstance(place, str) and isinstance(name, str) and numbers and _is_static_shape(shape)


def _is_layout(value: Any) -> bool:
    if not value:
        return value is None
    return isinstance(value, list) and len(value) == 3 and all(map(_is_str, value[:2])) and _is_line(value[2])


def _is_line(value: Any) -> bool:
    """Tells whether a JSON value is None, or a `SourceLine`: a frame, and the frames that called it."""
    if value is None:
        return True
    if not isinstance(value, list) or not 4 <= len(value) <= 5 or not is_frame(value[:4]):
        return False
    return all(isinstance(callers, list) and all(is_frame(each) for each in callers) for callers in value[4:])
