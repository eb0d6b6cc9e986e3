"""Turns what pydantic found into problems that say what to write."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from parity.case.errors import Problem, shown, suggest
from parity.case.expect import Expect
from parity.case.models import Case
from parity.case.optimizers import OF_OPTIMIZERS, OPTIMIZERS, WeightDecay
from parity.case.sides import TfSide, TorchSide
from parity.mapping import MappingEntry

SET_BY_LOADER = ("directory", "mapping_of")
SUB_TABLES = ("act", "noise", "feed", "metric")
_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "string_too_short": "a text that is not empty",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
}
_LINES = {
    ("name",): 'name = "my_case"',
    ("steps",): "steps = 20",
    ("batch_size",): "batch_size = 64, over all towers",
    ("towers",): "towers = 2",
    ("batches",): 'batches = "data:batches"',
    ("tf",): '[tf] with tower = "model_tf:tower"',
    ("tf", "tower"): 'tower = "model_tf:tower"',
    ("torch",): '[torch] with model = "model_torch:Model" and loss = "model_torch:loss"',
    ("torch", "model"): 'model = "model_torch:Model"',
    ("torch", "loss"): 'loss = "model_torch:loss"',
    ("expect", "why"): 'why = "...", the reason for whoever reads the report',
    ("optimizer", "learning_rate"): "learning_rate = 0.1",
    ("optimizer", "momentum"): "momentum = 0.9, for TensorFlow has no default",
    ("optimizer", "name"): f"name, one of {', '.join(OPTIMIZERS)}",
}
_ENTRY = '"conv1.weight", or { to = "conv1.weight", transform = "hwio_to_oihw" }'
_WHY_COMBINE = (
    'Write combine = "mean" or "sum", whichever the legacy combine_gradients does: towers that sum take steps as many '
    "times as large as there are towers, so there is no default."
)


def explain(error: ValidationError, data: dict[str, Any]) -> list[Problem]:
    """Returns a problem for each of pydantic's errors; `data` is what was validated."""
    return [_problem(detail, data) for detail in error.errors(include_url=False)]


def known_keys(key: tuple[str, ...], data: dict[str, Any]) -> Iterable[str]:
    """Returns the keys that the table around `key` may have."""
    if len(key) == 1:
        return [name for name in Case.model_fields if name not in SET_BY_LOADER]
    if key[0] == "optimizers" and len(key) > 2:
        described = data["optimizers"].get(key[1])
        return known_keys(("optimizer", *key[2:]), {"optimizer": described})
    if key[0] == "optimizer" and len(key) > 2:
        return list(OF_OPTIMIZERS[key[1]].model_fields)
    if key[0] == "optimizer":
        described = data.get("optimizer")
        return list(OPTIMIZERS[described["name"]].model_fields) if isinstance(described, dict) else []
    if key[:2] == ("expect", "weight_decay") and len(key) > 2:
        return list(WeightDecay.model_fields)
    tables: dict[str, type[BaseModel]] = {"expect": Expect, "tf": TfSide, "torch": TorchSide, "mapping": MappingEntry}
    return list(tables[key[0]].model_fields)


def _problem(detail: Any, data: dict[str, Any]) -> Problem:
    key, kind, context, value = _key(detail["loc"]), detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "missing" and key == ("combine",):
        return Problem(key, '"mean" or "sum"', "none", _WHY_COMBINE)
    if kind in ("missing", "union_tag_not_found"):
        key = (*key, "name") if kind == "union_tag_not_found" and isinstance(value, dict) else key
        return Problem(key, "to be there", "none", f"Write {_LINES.get(key, 'it')}.")
    if kind == "extra_forbidden":
        return Problem(key, "a key of this table", "an unknown one", suggest(key[-1], known_keys(key, data)))
    if kind == "union_tag_invalid":
        choices = ", ".join(repr(name) for name in OPTIMIZERS)
        name = value.get("name")
        return Problem((*key, "name"), f"one of {choices}", shown(name), suggest(str(name), OPTIMIZERS))
    if kind == "literal_error":
        return Problem(key, context["expected"], shown(value), _right_word(key, value))
    if kind in _BOUNDS:
        return Problem(key, _BOUNDS[kind].format(**context), shown(value), "Write such a number.")
    if kind == "string_pattern_mismatch":
        if key == ("init",):
            return Problem(key, '"perturbed", "model" or "checkpoint:PATH"', shown(value), "Write one of them.")
        return Problem(key, '"module:function"', shown(value), "Write the module's name, a colon and the function's.")
    if kind == "value_error":
        return _of_entry(key, str(context["error"]), value)
    if kind.endswith("_type") and key[0] == "mapping" and kind != "string_type" and len(key) < 4:
        return Problem(key, "a name or a table", shown(value), f"Write {_ENTRY}.")
    return Problem(key, _KINDS.get(kind, detail["msg"]), shown(value), "Write it like that.")


def _of_entry(key: tuple[str, ...], text: str, value: Any) -> Problem:
    # The mapping's own errors read "who: expected X, got Y. Do Z." already.
    expected, _, rest = text.partition("expected ")[2].partition(", got ")
    write = rest.partition(". ")[2] or f"Write {_ENTRY}."
    return Problem(key, expected, shown(value), write)


def _key(location: tuple[Any, ...]) -> tuple[str, ...]:
    key = tuple(str(part) for part in location)
    if key[0] == "optimizers" and len(key) > 2:
        return ("optimizers", key[1], *_key(("optimizer", *key[2:]))[1:])
    if key[0] == "optimizer" and len(key) > 1 and key[1] in OPTIMIZERS:
        key = (key[0], *key[2:])
        # The kind that a learning rate or a loss scale was taken for is no key of the case.
        return key[:2] + key[3:] if key[1:2] in (("learning_rate",), ("loss_scale",)) else key
    return ("mapping", *key[1:]) if key[0] == "mapping_of" else key


def _right_word(key: tuple[str, ...], value: Any) -> str:
    if key[-1] == "opt_level":
        return 'Write "O0", with the letter O and a zero.'
    return "Write one of them."
