"""Recognises how gradients are clipped by what the graph computes of them, not by the names or the order of its ops.

The ops between a gradient and what becomes of it are computed in numpy for made gradients, large and small, and what comes
out is compared with what each rule gives: `tf.clip_by_global_norm` of any version is the same as one that a script writes.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tensorflow.python.framework import tensor_util

from parity.trace.arrays import Array
from tf_towers.graph.op_types import PASSING_VALUES
from tf_towers.graph.traversal import ancestors
from tf_towers.record.plan import Section
from tf_towers.record.towers import values_of
from tf_towers.tf_types import Operation, Tensor

Changes = Dict[str, Tuple[Tensor, Tensor]]  # by variable: a gradient, and what becomes of it
Arrays = Dict[str, Array]
Numbers = Dict[str, Optional[float]]  # the settings of a rule; None for a bound that there is none of

BEYOND_ANY_LIMIT = 1e12  # far beyond any limit, and far from the overflow of its square
SAMPLED_SCALES = (1e-3, 0.05, 0.3, 1.0, 3.0, -3.0, 100.0)  # of made gradients, relative to the limit
SAME_RULE = 1e-6  # float32's constants are computed with in float64
BEFORE_COMBINING, AFTER_COMBINING = "before_combining", "after_combining"


def clipping_of(section: Section) -> Optional[Dict[str, Any]]:
    """Returns the rule by which a `Section` clips gradients, as in `RecordedGraph`; None where it clips none."""
    towers = [_of_tower(section, number) for number in range(len(section.towers))]
    combined = {
        variable.op.name: (section.combinations[variable.op.name].combined, values_of(gradient))
        for gradient, variable in section.apply.pairs
    }
    if any(each.kind == "unknown" for each in section.combinations.values()):
        return _other(None)  # what was combined is not known, nor what becomes of it
    first, after = _rule_of(towers, BEFORE_COMBINING), _rule_of([combined], AFTER_COMBINING)
    if after is not None and first is not None:
        return dict(after, first=first)
    return after or first


def _other(place: Optional[str]) -> Dict[str, Any]:
    return {"kind": "other", "place": place}


def _of_tower(section: Section, number: int) -> Changes:
    gradients = section.towers[number].gradients
    changes = {}
    for name, combination in section.combinations.items():
        gradient = gradients.get(combination.sources.get(number, ""))
        if gradient is not None:
            changes[name] = (values_of(gradient), combination.entries.get(number, values_of(gradient)))
    return changes


def _rule_of(groups: Sequence[Changes], place: str) -> Optional[Dict[str, Any]]:
    """Returns the rule that all groups follow, each by itself; None where nothing is changed in any."""
    changed = [{name: pair for name, pair in group.items() if not _is_same(*pair)} for group in groups]
    if not any(changed):
        return None
    try:
        with np.errstate(all="ignore"):
            rules = [_fitted(_Function(each)) for each in changed]
    except (_UnknownError, ValueError, TypeError, IndexError):
        # Ops that are not known here, or shapes that a script writes as numbers and made gradients do not have.
        rules = [None]
    alike = all(rule == rules[0] and set(each) == set(changed[0]) for rule, each in zip(rules, changed))
    if not alike or rules[0] is None:
        return _other(place)
    rule = dict(rules[0], place=place)
    return rule if len(changed[0]) == len(groups[0]) else dict(rule, variables=sorted(changed[0]))


def _is_same(gradient: Tensor, result: Tensor) -> bool:
    while result.name != gradient.name and result.op.type in PASSING_VALUES:
        result = result.op.inputs[0]
    return bool(result.name == gradient.name)


# Fits the rules that are known to what comes out for made gradients.


class Rule(NamedTuple):
    """A way to clip.

    Fields:
      fit: function of very large gradients and what becomes of them, and the same of their negatives, each by variable;
        returns the settings or None.
      apply: function of gradients by variable and the settings; returns what becomes of them.
    """

    fit: Callable[[Arrays, Arrays, Arrays, Arrays], Optional[Numbers]]
    apply: Callable[[Arrays, Numbers], Arrays]


def _fitted(function: "_Function") -> Optional[Dict[str, Any]]:
    # Beyond every limit a rule shows its settings; samples on both sides of the limit then tell it from all others.
    large, negative = function.made(BEYOND_ANY_LIMIT), function.made(-BEYOND_ANY_LIMIT)
    clipped = [large, function(large), negative, function(negative)]
    for kind, rule in CLIPPING_RULES.items():
        numbers = rule.fit(*clipped)
        if numbers is None or not all(number is None or np.isfinite(number) for number in numbers.values()):
            continue
        limit = max(abs(number) for number in numbers.values() if number is not None)
        # Below the limit, at it and beyond it: what was fitted at one place has to hold at all of them.
        samples = [function.made(limit * scale) for scale in SAMPLED_SCALES] + [large]
        if all(_near(rule.apply(each, numbers), function(each)) for each in samples):
            return function.described(kind, numbers)
    return None


def _near(one: Arrays, other: Arrays) -> bool:
    return all(np.allclose(one[name], other[name], rtol=SAME_RULE, atol=0.0) for name in one)


def _norm(gradients: Arrays) -> float:
    return float(np.sqrt(sum(np.sum(np.square(each)) for each in gradients.values())))


def _common(numbers: Sequence[float]) -> Optional[float]:
    return numbers[0] if np.allclose(numbers, numbers[0], rtol=SAME_RULE, atol=0.0) else None


def _fit_scale(large: Arrays, clipped: Arrays, *of_negative: Arrays) -> Optional[Numbers]:
    # Least squares of clipped = factor * gradient, <clipped, gradient> / <gradient, gradient>; one factor for all
    # variables.
    factor = _common([float(np.sum(clipped[name] * each) / np.sum(np.square(each))) for name, each in large.items()])
    return {"factor": factor} if factor else None


def _fit_value(large: Arrays, clipped: Arrays, negative: Arrays, clipped_negative: Arrays) -> Optional[Numbers]:
    given = _flat(large, negative)
    gives = _flat(clipped, clipped_negative)
    # Of very large numbers a bound is all that is left; without one they come out as large as they went in.
    low, high = float(np.max(gives[given < 0])), float(np.min(gives[given > 0]))
    bounds = {
        "low": low if low > -SAME_RULE * BEYOND_ANY_LIMIT else None,
        "high": high if high < SAME_RULE * BEYOND_ANY_LIMIT else None,
    }
    return bounds if any(bounds.values()) else None


def _flat(*arrays: Arrays) -> Array:
    return np.concatenate([np.reshape(each[name], [-1]) for each in arrays for name in sorted(each)])


def _fit_norm(large: Arrays, clipped: Arrays, *of_negative: Arrays) -> Optional[Numbers]:
    # Each one comes out with the limit for its own norm.
    limit = _common([_norm({name: each}) for name, each in clipped.items()])
    return {"limit": limit} if limit else None


def _fit_global_norm(large: Arrays, clipped: Arrays, *of_negative: Arrays) -> Optional[Numbers]:
    return {"limit": _norm(clipped)} if _norm(clipped) else None


def _scale(gradients: Arrays, numbers: Numbers) -> Arrays:
    return {name: each * numbers["factor"] for name, each in gradients.items()}


def _clip_by_value(gradients: Arrays, numbers: Numbers) -> Arrays:
    return {name: np.clip(each, numbers["low"], numbers["high"]) for name, each in gradients.items()}


def _clip_by_norm(gradients: Arrays, numbers: Numbers) -> Arrays:
    return {name: _clip_by_global_norm({name: each}, numbers)[name] for name, each in gradients.items()}


def _clip_by_global_norm(gradients: Arrays, numbers: Numbers) -> Arrays:
    limit = numbers["limit"]
    assert limit is not None  # as it was fitted
    # tf.clip_by_global_norm: g * limit / max(norm, limit)
    factor = min(1.0, limit / _norm(gradients))
    return {name: each * factor for name, each in gradients.items()}


# Of one variable alone, a norm and a global norm are the same.
CLIPPING_RULES = {
    "scale": Rule(_fit_scale, _scale),
    "value": Rule(_fit_value, _clip_by_value),
    "norm": Rule(_fit_norm, _clip_by_norm),
    "global_norm": Rule(_fit_global_norm, _clip_by_global_norm),
}


# Computes ops of a graph in numpy.


class _UnknownError(Exception):
    """An op that is not known here."""


class _Function:
    """What becomes of gradients, as a function of arrays; it meets the numbers that the graph has for settings.

    Args:
      changes: by variable, a gradient and what becomes of it.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._constants: Dict[str, float] = {}
        self._inputs: Dict[str, float] = {}
        self._origins = {gradient.op for gradient, _ in changes.values()}
        # One seed and names in order: towers are given the same gradients, so that their rules can be compared.
        random = np.random.RandomState(0)
        self._made = {name: _made_of(gradient, random) for name, (gradient, _) in sorted(changes.items())}

    def made(self, scale: float) -> Arrays:
        """Returns made gradients of small shapes, of both signs, times a number."""
        return {name: scale * each for name, each in self._made.items()}

    def __call__(self, gradients: Arrays) -> Arrays:
        known = {self._changes[name][0].name: each for name, each in gradients.items()}
        return {name: self._computed(result, known) for name, (_, result) in self._changes.items()}

    def described(self, kind: str, numbers: Numbers) -> Optional[Dict[str, Any]]:
        """Returns a rule with the graph's own constants, or names of tensors, for numbers that were fitted."""
        found: Dict[str, Any] = {"kind": kind}
        for name, number in numbers.items():
            # A fitted number has rounding in it; the constant that the script wrote has none.
            met = self._met(number)
            if met is None and number is not None and self._inputs:
                return None  # it is computed from what is fed or read
            found[name] = number if met is None else met
        return found

    def _met(self, number: Optional[float]) -> Any:
        for numbers in (self._inputs, self._constants):
            for name, each in numbers.items():
                if number is not None and abs(each - number) <= SAME_RULE * abs(number):
                    return name if numbers is self._inputs else each
        return None

    def _computed(self, wanted: Tensor, known: Arrays) -> Array:
        pending = [wanted]
        while pending:
            tensor = pending[-1]
            if tensor.name in known:
                pending.pop()
                continue
            op = tensor.op
            compute = COMPUTED.get(op.type)
            missing = [each for each in op.inputs if each.name not in known] if compute else []
            if missing:
                pending += missing
            elif compute:
                known[tensor.name] = compute(op, [known[each.name] for each in op.inputs])
            else:
                known[tensor.name] = self._read(tensor)
        return known[wanted.name]

    def _read(self, tensor: Tensor) -> Array:
        """Returns a constant, or a made number for a scalar that is fed or read and that no gradient goes into."""
        value = tensor_util.constant_value(tensor)
        if value is not None:
            if np.size(value) == 1:
                self._constants[tensor.name] = float(np.reshape(value, ()))
            return np.asarray(value)
        if tensor.shape.ndims != 0 or self._origins & ancestors([tensor.op]):
            raise _UnknownError(tensor.op.type)
        # Another number for each, and none that a script would write: a setting that comes out as it is this input.
        number = self._inputs.setdefault(tensor.name, 0.7310585 + 0.1 * len(self._inputs))
        return np.asarray(number)


def _made_of(gradient: Tensor, random: Any) -> Array:
    """Three numbers along each axis, whatever the true sizes: no rule depends on them."""
    values = random.uniform(0.5, 1.5, [3] * (gradient.shape.ndims or 0))
    signs: Array = np.where(np.arange(values.size) % 2, -1.0, 1.0).reshape(values.shape)
    return values * signs


Compute = Callable[[Operation, List[Array]], Array]


def _plain(function: Callable[..., Any]) -> Compute:
    return lambda op, inputs: np.asarray(function(*inputs))


def _sum(op: Operation, inputs: List[Array]) -> Array:
    axes = tuple(int(axis) for axis in np.reshape(inputs[1], [-1]))
    return np.asarray(np.sum(inputs[0], axis=axes, keepdims=bool(op.get_attr("keep_dims"))))


def _squeezed(op: Operation, inputs: List[Array]) -> Array:
    axes = tuple(op.get_attr("squeeze_dims"))
    return np.squeeze(inputs[0], axis=axes or None)


def _reshaped(op: Operation, inputs: List[Array]) -> Array:
    return np.reshape(inputs[0], [int(size) for size in inputs[1]])


COMPUTED: Dict[str, Compute] = {
    **{
        name: _plain(lambda value: value) for name in (PASSING_VALUES | {"Cast"}) - {"Squeeze", "Reshape", "ExpandDims"}
    },
    **{name: _plain(np.add) for name in ("Add", "AddV2")},
    **{name: _plain(np.true_divide) for name in ("Div", "RealDiv")},
    **{name: _plain(lambda value: 1.0 / value) for name in ("Reciprocal", "Inv")},
    **{name: _plain(np.where) for name in ("Select", "SelectV2")},
    **{name: _plain(lambda *values: np.stack(values)) for name in ("Pack",)},
    **{name: _plain(lambda *values: sum(values)) for name in ("AddN", "AccumulateNV2")},
    "Sub": _plain(np.subtract),
    "Mul": _plain(np.multiply),
    "Pow": _plain(np.power),
    "Neg": _plain(np.negative),
    "Abs": _plain(np.abs),
    "Square": _plain(np.square),
    "Sqrt": _plain(np.sqrt),
    "Rsqrt": _plain(lambda value: 1.0 / np.sqrt(value)),
    # tf.global_norm is sqrt(2 * sum of L2Loss), on 1.15 and on 2.21.
    "L2Loss": _plain(lambda value: np.sum(np.square(value)) / 2.0),
    "Minimum": _plain(np.minimum),
    "Maximum": _plain(np.maximum),
    "ClipByValue": _plain(np.clip),
    # A norm that is not finite makes NaN: 1.15 selects it by IsFinite, 2.21 adds norm - norm to the scale.
    "IsFinite": _plain(np.isfinite),
    "Greater": _plain(np.greater),
    "GreaterEqual": _plain(np.greater_equal),
    "Less": _plain(np.less),
    "LessEqual": _plain(np.less_equal),
    "OnesLike": _plain(np.ones_like),
    "ZerosLike": _plain(np.zeros_like),
    "Sum": _sum,
    "Squeeze": _squeezed,
    "Reshape": _reshaped,
}
