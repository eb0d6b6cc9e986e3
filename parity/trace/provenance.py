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


def is_count(value: Any) -> bool:
    """Tells whether a JSON value is a whole number from 0."""
    return type(value) is int and value >= 0  # a bool is an int too


def is_frame(value: Any) -> bool:
    """Tells whether a JSON value is a frame: file, line, function and text."""
    if not isinstance(value, list) or len(value) != 4:
        return False
    return is_count(value[1]) and all(isinstance(value[place], str) for place in (0, 2, 3))


def _is_shape(value: Any) -> bool:
    return value is None or _is_list(value, lambda size: size is None or is_count(size))


def _are_frames(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_list(value, is_frame)


def _are_callers(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    count = len(fields["frames"])

    def is_stack(numbers: Any) -> bool:
        return bool(numbers) and _is_list(numbers, lambda number: is_count(number) and number < count)

    return _is_dict(value, known.ops.__contains__, is_stack)


def _are_shapes(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_dict(value, known.ops.__contains__, lambda shapes: _is_list(shapes, _is_shape))


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _are_initial(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    made = {node["name"] for node in fields["initial_nodes"]}
    return _is_dict(value, known.variables.__contains__, lambda tensor: _op_of(tensor) in made)


def _are_initial_nodes(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    if not _is_list(value, is_node):
        return False
    made = {node["name"] for node in value}
    return all(_op_of(each) in made for node in value for each in node.get("input", []))


def _op_of(tensor: Any) -> str:
    """The name of the op of a tensor or a control input; "" where the value is no name."""
    return tensor.partition(":")[0].lstrip("^") if isinstance(tensor, str) else ""


def _are_arguments(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_list(value, _is_str)


def _are_flags(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_dict(value, _is_str, lambda flag: _is_scalar(flag) or _is_list(flag, _is_scalar))


def _are_collections(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_dict(value, _is_str, lambda names: _is_list(names, _is_str))


def _are_hyper_parameters(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    def are_settings(settings: Any) -> bool:
        return _is_dict(settings, _is_str, lambda setting: _is_setting(setting, known))

    return _is_dict(value, known.sections.__contains__, are_settings)


def _is_setting(value: Any, known: Known) -> bool:
    """Tells whether a value is a number, or a tensor of the definition."""
    return isinstance(value, (bool, int, float)) or _op_of(value) in known.ops


KINDS_OF_COMBINATION = ("one", "sum", "mean", "mean_of_present", "scaled", "unknown")
SETTINGS_OF_CLIPPING = {
    "global_norm": ("limit",),
    "norm": ("limit",),
    "value": ("low", "high"),
    "scale": ("factor",),
    "other": (),
}
PLACES_OF_CLIPPING = ("before_combining", "after_combining")


def _are_combinations(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    def are_kinds(kinds: Any) -> bool:
        return _is_dict(kinds, known.ops.__contains__, lambda kind: kind in KINDS_OF_COMBINATION)

    return _is_dict(value, known.sections.__contains__, are_kinds)


def _are_clipping(value: Any, fields: Mapping[str, Any], known: Known) -> bool:
    return _is_dict(value, known.sections.__contains__, lambda rule: rule is None or _is_rule(rule, known))


def _is_rule(rule: Any, known: Known) -> bool:
    if not isinstance(rule, dict) or not isinstance(rule.get("kind"), str) or rule["kind"] not in SETTINGS_OF_CLIPPING:
        return False
    settings = [rule.get(name) for name in SETTINGS_OF_CLIPPING[rule["kind"]]]
    numbers = all(_is_setting(each, known) or (each is None and rule["kind"] == "value") for each in settings)
    first = rule.get("first")
    named = _is_list(rule.get("variables", []), lambda name: isinstance(name, str) and name in known.ops)
    before = first is None or (isinstance(first, dict) and "first" not in first and _is_rule(first, known))
    placed = rule.get("place") in PLACES_OF_CLIPPING or (rule["kind"] == "other" and rule.get("place", 0) is None)
    return numbers and named and before and placed


# In this order: a check may rely on the fields before its own.
CHECKS: Dict[str, Tuple[str, Check]] = {
    "frames": ("a list of [file, line, function, text]", _are_frames),
    "callers": ("a dict of ops to lists of numbers of frames", _are_callers),
    "shapes": ("a dict of ops to lists of shapes", _are_shapes),
    "initial_nodes": ("a list of ops with a name and a type each, and all that they take", _are_initial_nodes),
    "initial": ("a dict of variables to tensors of 'initial_nodes'", _are_initial),
    "arguments": ("a list of strings", _are_arguments),
    "flags": ("a dict of names to values", _are_flags),
    "collections": ("a dict of names to lists of names", _are_collections),
    "hyper_parameters": ("a dict of sections to dicts of numbers and tensors", _are_hyper_parameters),
    "combinations": ("a dict of sections to dicts of variables' ops to kinds", _are_combinations),
    "clipping": ("a dict of sections to rules", _are_clipping),
}
