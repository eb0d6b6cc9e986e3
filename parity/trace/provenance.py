"""Checks what a recorded graph says of where it comes from: types, numbers and the names that it refers to."""

from typing import AbstractSet, Any, Callable, Dict, Mapping, NamedTuple, Tuple


class Known(NamedTuple):
    """The names that the rest of a recorded graph may refer to.

    Fields:
      ops: of the definition.
      variables: trace names.
      sections: of the runs.
    """

    ops: AbstractSet[str]
    variables: AbstractSet[str]
    sections: AbstractSet[str]


Check = Callable[[Any, Mapping[str, Any], Known], bool]


def fault_of(fields: Mapping[str, Any], known: Known) -> str:
    """Returns what one of the fields should be and is not; "" where all are as `RecordedGraph` describes them.

    Args:
      fields: of the graph, by name.
      known: the `Known` of the graph.
    """
    for name, (wanted, is_right) in CHECKS.items():
        if not is_right(fields[name], fields, known):
            return f"{name!r} to be {wanted}"
    return ""


def is_node(value: Any) -> bool:
    """Tells whether a JSON value has the form of a NodeDef."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("op"), str)
        and _is_list(value.get("input", []), _is_str)
        and isinstance(value.get("attr", {}), dict)
    )


def _is_list(value: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(of(each) for each in value)


def _is_dict(value: Any, names: Callable[[str], bool], of: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(names(name) and of(each) for name, each in value.items())


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0  # a bool is an int too


def _is_frame(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 4:
        return False
    return _is_count(value[1]) and all(isinstance(value[place], str) for place in (0, 2, 3))


def _is_shape(value: Any) -> bool:
    return value is None or _is_list(value, lambda size: size is None or _is_count(size))


def _are_frames(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_list(value, _is_frame)


def _are_callers(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    count = len(fields["frames"])

    def is_stack(numbers: Any) -> bool:
        return bool(numbers) and _is_list(numbers, lambda number: _is_count(number) and number < count)

    return _is_dict(value, known.ops.__contains__, is_stack)


def _are_shapes(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_dict(value, known.ops.__contains__, lambda shapes: _is_list(shapes, _is_shape))


# In this order: a check may rely on the fields before its own.
CHECKS: Dict[str, Tuple[str, Check]] = {
    "frames": ("a list of [file, line, function, text]", _are_frames),
    "callers": ("a dict of ops to lists of numbers of frames", _are_callers),
    "shapes": ("a dict of ops to lists of shapes", _are_shapes),
}
