"""Answers misuse in one line: eager mode, a foreign graph, mixed dtypes, by file and line of the user's code."""

import contextlib
import inspect
import traceback
from typing import TYPE_CHECKING, AbstractSet, Dict, Iterator, List, Mapping, Sequence, Set

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError, users_line
from tf_towers.float64.op_rewrites import NOT_COMPUTED_WITH
from tf_towers.graph.forward import needed
from tf_towers.graph.inputs import EXAMPLE_WEIGHTS
from tf_towers.graph.op_types import CHOOSING, ENTERING, LEAVING_OR_MERGING, LOOPING_BACK
from tf_towers.tf_types import Operation, Tensor, TowerFunction

if TYPE_CHECKING:
    from tf_towers.graph.tower import Tower


# Finds where a tower leaves the dtype of its inputs, by file and line of the user's code.

FLOW_OUTPUTS = ("flow", "flow_out")
HANDED_ON = ENTERING | LOOPING_BACK | CHOOSING | LEAVING_OR_MERGING | {"Identity"}

# Ops whose float64 kernel is no more accurate than float32, in 1.15 and 2.21: its largest relative error, against
# alphas and betas in numpy, of the value and of the gradient. tests/tf_towers/test_inexact_ops.py measures them.
INEXACT = {"CTCLoss": (5e-9, 7e-8)}
# Ops that give float32 whatever they take: of what is computed of them every number is rounded, its gradients too.
# tests/tf_towers/test_inexact_ops.py holds that they do.
ALWAYS_FLOAT32 = frozenset(["ResizeBilinear", "ResizeBicubic", "ResizeArea", "CropAndResize", "ExtractGlimpse"])
ROUGH = ALWAYS_FLOAT32 | {*INEXACT}


@contextlib.contextmanager
def explain_mixed_dtypes(inputs: Mapping[str, Tensor]) -> Iterator[None]:
    """Turns TensorFlow's complaint about float32 in a float64 tower into one line that names the user's own.

    Args:
      inputs: dict of input name to tensor.

    Raises:
      TowerError: instead of a TypeError or ValueError that speaks of both, where an input is float64.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        if not (_takes_float64(inputs) and "float32" in message and "float64" in message):
            raise
        place = users_line(traceback.extract_tb(error.__traceback__))
        raise TowerError(
            f"tower: expected float64 throughout, as the inputs are, got float32 at {place}. "
            "Take the dtype from an input: tf.constant(..., x.dtype), tf.get_variable(..., dtype=x.dtype), "
            "tf.cast(..., x.dtype)."
        ) from error


def require_dtype(tensor: Tensor, what: str, inputs: Mapping[str, Tensor]) -> None:
    """Refuses a float32 tensor or variable where an input is float64.

    Raises:
      TowerError: it is one.
    """
    if _takes_float64(inputs) and tensor.dtype.base_dtype == tf.float32:
        raise TowerError(
            f"tower: expected {what} to be float64, as the inputs are, got float32 at "
            f"{users_line(list(tensor.op.traceback))}. "
            "Pass dtype=x.dtype, or convert with tf.cast(..., x.dtype)."
        )


def float32_places(tower: "Tower") -> List[str]:
    """Returns where a float64 tower's loss and outputs are computed in float32, e.g. ``["model.py:12: Cast"]``, each once.

    TensorFlow's own losses (`tf.losses`) do so silently; a float64 run is then no more exact than float32. So does an op
    with a float attribute that nothing is known of, as one of a library of the user's own. The flow of a tensor array is no
    arithmetic: it is float32 whatever the array holds, and is always 0.

    Args:
      tower: a `Tower`.
    """
    if not _takes_float64(tower.inputs):
        return []
    scope = tower.loss.op.name.split("/")[0] + "/"
    places: List[str] = []
    flows: Set[str] = set()
    # Summaries and metrics that a tower computes beside may be in float32.
    behind = needed([tower.loss.op] + [tensor.op for tensor in tower.outputs.values()])
    for op in tower.loss.graph.get_operations():
        # In the order of making, so that what an op takes has been looked at.
        flows.update(_flows_out(op, flows))
        computed = any(one.dtype.base_dtype == tf.float32 and one.name not in flows for one in op.outputs)
        inside = op in behind and op.inputs and op.name.startswith(scope) and "gradients" not in op.name
        # What hangs on those is said of them by `inexact_ops`.
        if inside and op.type not in ALWAYS_FLOAT32 and (computed or _has_float_attribute(op)):
            place = f"{users_line(list(op.traceback), with_text=False)}: {op.type}"
            # One op of a loop over layers is made on the same line as all others.
            if place not in places:
                places.append(place)
    return places


def inexact_ops(tower: "Tower") -> Dict[str, List[str]]:
    """Returns what a float64 tower computes by ops that are as rough as float32 there: `INEXACT` and `ALWAYS_FLOAT32`.

    Args:
      tower: a `Tower`.

    Returns:
      Dict with `places`, e.g. ["model.py:12: CTCLoss"], and `outputs`, names of those that depend on one; "" is the loss,
      and with it stand the gradients. Empty where there is none.
    """
    if not _takes_float64(tower.inputs):
        return {}
    places, outputs = [], []
    for name, tensor in [("", tower.loss)] + sorted(tower.outputs.items()):
        # Sorted, for a set has no order that repeats.
        found = sorted((op for op in needed([tensor.op]) if op.type in ROUGH), key=lambda op: op.name)
        places += [f"{users_line(list(op.traceback), with_text=False)}: {op.type}" for op in found]
        outputs += [name] if found else []
    return {"places": sorted(set(places)), "outputs": outputs} if places else {}


def _has_float_attribute(op: Operation) -> bool:
    wide = any(one.dtype.base_dtype == tf.float64 for one in op.outputs) and op.type not in NOT_COMPUTED_WITH
    return wide and any(attr.type in ("float", "list(float)") for attr in op.op_def.attr)


def _flows_out(op: Operation, flows: AbstractSet[str]) -> List[str]:
    """Names the outputs of an op that are flows of tensor arrays; `flows` has those of all earlier ops."""
    if op.type.startswith("TensorArray"):
        return [one.name for one, argument in zip(op.outputs, op.op_def.output_arg) if argument.name in FLOW_OUTPUTS]
    # Round a loop the flow enters before it comes back, so that the ops' order is enough.
    handed = op.type in HANDED_ON and any(one.name in flows for one in op.inputs)
    return [one.name for one in op.outputs if one.dtype.base_dtype == tf.float32] if handed else []


def _takes_float64(inputs: Mapping[str, Tensor]) -> bool:
    return any(tensor.dtype.base_dtype == tf.float64 for tensor in inputs.values())


# Answers uses that TensorFlow itself answers with a page, or not at all.


def require_graph_mode(who: str) -> None:
    """Refuses to go on under eager execution, TensorFlow 2's default.

    Raises:
      TowerError: it is on.
    """
    if tf.executing_eagerly():
        raise TowerError(
            f"{who}: expected TensorFlow 1's graph mode, got eager execution. "
            "Call tf.disable_v2_behavior() before anything else, and leave out what turns eager execution on."
        )


def require_arguments(tower: TowerFunction, given: Sequence[str]) -> None:
    """Refuses a tower function that cannot be called with what it will be given.

    Args:
      tower: function of the inputs by name.
      given: names of the inputs, and of the keyword that says the mode where it takes one.

    Raises:
      TowerError: it takes no argument of such a name, or needs another one.
    """
    signature, arguments = inspect.signature(tower), inspect.getfullargspec(tower)
    if EXAMPLE_WEIGHTS in given and not (EXAMPLE_WEIGHTS in arguments.args or arguments.varkw):
        raise TowerError(
            f"tower: expected an argument {EXAMPLE_WEIGHTS}, [shard], 0 where the batch was padded, got none. "
            "Take it, and weight the losses of the examples with it."
        )
    try:
        signature.bind(**dict.fromkeys(given))
    except TypeError as error:
        raise TowerError(
            f"tower: expected a function of {', '.join(sorted(given))}, got {signature}: {error}. "
            "Name its arguments as the batches name their arrays."
        ) from None


@contextlib.contextmanager
def explain_foreign_graph() -> Iterator[None]:
    """Turns TensorFlow's complaint about two graphs into one line that names the user's own.

    Raises:
      TowerError: instead of the ValueError, where a tower uses a variable or tensor that was made outside of it.
    """
    try:
        yield
    except ValueError as error:
        if "from the same graph" not in str(error) and "different graph" not in str(error):
            raise
        raise TowerError(
            "tower: expected the tower to make or be given all that it uses, got something of another graph at "
            f"{users_line(traceback.extract_tb(error.__traceback__))}. "
            "Make variables inside the tower function with tf.get_variable; pass tensors as inputs."
        ) from error
