"""Hooks into what a script asks of TensorFlow: gradients, updates from them, loops, the GPUs that it counts."""

import functools
import os
import threading
import weakref
from typing import Any, Callable, Iterator, List, Optional, Sequence, Set, Tuple

import tensorflow as real
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2, device_attributes_pb2
from tensorflow.python.client import device_lib
from tensorflow.python.client import session as session_module
from tensorflow.python.eager import context
from tensorflow.python.framework import config as config_module
from tensorflow.python.framework import ops as framework_ops
from tensorflow.python.framework import test_util
from tensorflow.python.ops import control_flow_ops, gradients_util

from tf_towers.graph.op_types import ENTERING, RANDOM, READING_VARIABLES
from tf_towers.tf_types import Graph, Operation, Optimizer, Pairs, Tensor, Variable


class GradientCall:
    """One call of `compute_gradients` or `tf.gradients` with respect to variables.

    Attributes:
      losses: list of the tensors that were differentiated.
      pairs: list of ``(gradient or None, variable)``; a gradient is a tensor or `tf.IndexedSlices`.
      device: of the scope that it was made in, "" where none.
      scope: name scope that it was made in.
      made_by: "compute_gradients" or "tf.gradients".
    """

    def __init__(self, losses: List[Tensor], pairs: Pairs, device: str, scope: str, made_by: str) -> None:
        self.losses = losses
        self.pairs = pairs
        self.device = device
        self.scope = scope
        self.made_by = made_by
        self.graph = losses[0].graph


class ApplyCall:
    """One call of `apply_gradients`.

    Attributes:
      optimizer: the `tf.train.Optimizer`.
      pairs: list of ``(gradient, variable)``, those without a gradient left out.
      without: list of the variables that came without a gradient.
      global_step: the variable that it counts, or None.
      op: the train op that it returned.
    """

    def __init__(self, optimizer: Optimizer, pairs: Pairs, global_step: Variable, op: Operation) -> None:
        self.optimizer = optimizer
        self.pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        self.without = [variable for gradient, variable in pairs if gradient is None]
        self.global_step = global_step
        self.op = op
        self.graph = op.graph


class Calls:
    """Collects the calls of a script, in order, from when it is installed until it is removed.

    Attributes:
      gradients: list of `GradientCall`.
      applies: list of `ApplyCall`.
      unknown: names of tensors that were differentiated with respect to something that is no variable.
    """

    def __init__(self) -> None:
        self.gradients: List[GradientCall] = []
        self.applies: List[ApplyCall] = []
        self.unknown: List[str] = []
        self._inside = threading.local()
        self._patches = Patches()

    def install(self) -> None:
        """Starts to take notes; user-defined optimizers that override `apply_gradients` are seen too."""
        optimizer = tf.train.Optimizer
        self._patches.wrap(optimizer, "compute_gradients", self._compute_gradients)
        # Behind tf.gradients, which scripts import by name before they call it: the helper is looked up at every call.
        self._patches.wrap(gradients_util, "_GradientsHelper", self._gradients)
        for each in _family(optimizer):
            if "apply_gradients" in vars(each):
                self._patches.wrap(each, "apply_gradients", self._apply_gradients)
        # For optimizers that the script defines from now on.
        self._patches.add(optimizer, "__init_subclass__", classmethod(self._new_class))  # type: ignore[arg-type]

    def remove(self) -> None:
        """Puts TensorFlow's own functions back."""
        self._patches.undo()

    def _new_class(self, cls: Any, **arguments: Any) -> None:
        super(tf.train.Optimizer, cls).__init_subclass__(**arguments)
        if "apply_gradients" in vars(cls):
            self._patches.wrap(cls, "apply_gradients", self._apply_gradients)

    def _compute_gradients(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compute_gradients(optimizer: Optimizer, loss: Tensor, *arguments: Any, **named: Any) -> Pairs:
            # compute_gradients calls tf.gradients: one call of a script is to be noted once.
            with _Depth(self._inside, "gradients"):
                pairs = original(optimizer, loss, *arguments, **named)
            if tf.is_tensor(loss):
                self._note([loss], pairs, "compute_gradients")
            return pairs

        return compute_gradients

    def _gradients(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def gradients(ys: Any, xs: Any, *arguments: Any, **named: Any) -> Any:
            found = original(ys, xs, *arguments, **named)
            losses = [y for y in _listed(ys) if tf.is_tensor(y)]
            # TensorFlow 2 differentiates the bodies of loops and branches by the same helper, in graphs of functions.
            if not getattr(self._inside, "gradients", 0) and losses and not losses[0].graph.building_function:
                variables = [variable_behind(x) for x in _listed(xs)]
                if any(variable is None for variable in variables):
                    self.unknown.append(losses[0].name)
                else:
                    self._note(losses, list(zip(found, variables)), "tf.gradients")
            return found

        return gradients

    def _note(self, losses: List[Tensor], pairs: Pairs, made_by: str) -> None:
        graph = losses[0].graph
        example = next((gradient for gradient, _ in pairs if gradient is not None), None)
        device = getattr(example, "device", "") or losses[0].device or ""
        self.gradients.append(GradientCall(losses, list(pairs), device, graph.get_name_scope(), made_by))

    def _apply_gradients(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply_gradients(optimizer: Optimizer, *arguments: Any, **named: Any) -> Any:
            # Scripts hand over iterators, which can be read once.
            pairs = list(arguments[0] if arguments else named["grads_and_vars"])
            global_step = arguments[1] if len(arguments) > 1 else named.get("global_step")
            if arguments:
                arguments = (pairs,) + arguments[1:]
            else:
                named["grads_and_vars"] = pairs
            known = len(self.applies)
            returned = original(optimizer, *arguments, **named)
            op = returned if isinstance(returned, tf.Operation) else getattr(returned, "op", None)
            # A wrapper around an optimizer ends in the wrapped one, and that holds the slots.
            if len(self.applies) == known and isinstance(op, tf.Operation):
                self.applies.append(ApplyCall(optimizer, pairs, global_step, op))
            return returned

        return apply_gradients


def variable_behind(x: Any) -> Variable:
    """Returns the variable that `x` is or reads (variable, its ref, its handle, its read), else None."""
    if isinstance(x, real.Variable):
        return x
    if not tf.is_tensor(x):
        return None
    op = x.op
    while op.type in READING_VARIABLES and len(op.inputs):
        op = op.inputs[0].op
    # Local ones too: tensorpack's replicated variables of the other towers are.
    groups = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES)
    for group in groups:
        for variable in x.graph.get_collection(group):
            if isinstance(variable, real.Variable) and variable.op.name == op.name:
                return variable
    return None


class _Depth:
    def __init__(self, where: Any, name: str) -> None:
        self._where, self._name = where, name

    def __enter__(self) -> None:
        setattr(self._where, self._name, getattr(self._where, self._name, 0) + 1)

    def __exit__(self, *error: Any) -> None:
        setattr(self._where, self._name, getattr(self._where, self._name) - 1)


def _listed(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _family(cls: Any) -> List[Any]:
    found = [cls]
    for child in cls.__subclasses__():
        found += _family(child)
    return found


# Keeps the iterations of a loop that draws in order, so that it is known which iteration a draw belongs to.


def loop_of(op: Operation) -> str:
    """Returns the name of the innermost loop or branch that an op is in, "" where it is in none."""
    context = op._get_control_flow_context()
    return context.name if context is not None else ""


def keep_iterations_in_order(patches: "Patches") -> None:
    """Makes every loop that draws run one iteration at a time, from when it is built.

    TensorFlow starts up to ten iterations at once. Which of them a random op draws for first is then left to the threads:
    two runs of a seeded script differ (measured on 1.15 and 2.21, in the first steps). One at a time gives the draws out in
    the order of the iterations, as any run may do. It is an attribute of ops that are there: none is added, and what an
    iteration computes from its draws stays the same.

    Args:
      patches: the `Patches` to put it into.
    """
    drawing: "weakref.WeakKeyDictionary[Graph, Set[str]]" = weakref.WeakKeyDictionary()
    make = functools.partial(_built_in_order, drawing=drawing)
    patches.wrap(control_flow_ops.WhileContext, "BuildLoop", make)
    # Gradients bring more values into a loop, and the first that enters it decides.
    patches.wrap(gradients_util, "_GradientsHelper", make)


def _built_in_order(original: Callable[..., Any], drawing: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def build(*arguments: Any, **named: Any) -> Any:
        graph = framework_ops.get_default_graph()
        known = len(graph.get_operations())
        built = original(*arguments, **named)
        _one_at_a_time(graph.get_operations()[known:], drawing.setdefault(graph, set()))
        return built

    return build


def _one_at_a_time(made: Sequence[Operation], drawing: Set[str]) -> None:
    """Changes the ops that enter a loop with draws in it; no session has run them yet."""
    drawing.update(name for op in made if op.type in RANDOM for name in _contexts_of(op))
    for op in made:
        if op.type in ENTERING and op.get_attr("frame_name").decode("utf-8") in drawing:
            op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))


def _contexts_of(op: Operation) -> Iterator[str]:
    context = op._get_control_flow_context()
    while context is not None:
        yield context.name
        context = context.outer_context


# Replaces attributes of classes and modules, and puts the old ones back.

_MISSING = object()


class Patches:
    """Keeps what was replaced; `undo` puts it back, last first."""

    def __init__(self) -> None:
        self._replaced: List[Tuple[Any, str, Any]] = []

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Replaces ``owner.name`` by `value`."""
        # By vars and not getattr: what was inherited is to be inherited again afterwards, and a classmethod is not to
        # be bound.
        self._replaced.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces the function ``owner.name`` by ``make(function)``."""
        self.add(owner, name, make(vars(owner)[name]))

    def undo(self) -> None:
        """Puts back everything that was replaced."""
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


# Stands in for GPUs that a script counts and the machine has not: its towers run on the CPU, by soft placement.

BYTES_OF_A_GPU = 16 << 30  # bytes of each
KIND_OF_LIST = {"list_physical_devices": "PhysicalDevice", "list_logical_devices": "LogicalDevice"}


def stand_in_for_gpus(patches: Patches, count: int) -> None:
    """Has every usual way of counting GPUs find `count` of them.

    Covered are `device_lib.list_local_devices`, `Session.list_devices`, `tf.test.is_gpu_available` and `gpu_device_name`,
    `tf.config`'s lists of devices and ``CUDA_VISIBLE_DEVICES``, where it is not set.

    Args:
      patches: the `Patches` that put it all back.
      count: number of GPUs, from 1.
    """
    # Scripts split it at commas and count.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(str(number) for number in range(count)))
    patches.add(device_lib, "list_local_devices", _with_more(device_lib.list_local_devices, _local, count))
    session = session_module.BaseSession
    patches.add(session, "list_devices", _with_more(session.list_devices, _of_session, count))
    # tf.test holds names of its own for the functions: replaced in one module, the other still has the old ones.
    for owner in (tf.test, test_util):
        patches.add(owner, "is_gpu_available", lambda *arguments, **named: True)
        patches.add(owner, "gpu_device_name", lambda: "/device:GPU:0")
    for owner in (tf.config, tf.config.experimental, config_module):
        for name in KIND_OF_LIST:
            if hasattr(owner, name):
                patches.add(owner, name, _listing(getattr(owner, name), getattr(context, KIND_OF_LIST[name]), count))


def _with_more(function: Callable[..., Any], made: Callable[[int], List[Any]], count: int) -> Callable[..., List[Any]]:
    @functools.wraps(function)
    def devices(*arguments: Any, **named: Any) -> List[Any]:
        return [each for each in function(*arguments, **named) if each.device_type != "GPU"] + made(count)

    return devices


def _local(count: int) -> List[Any]:
    return [
        device_attributes_pb2.DeviceAttributes(
            name=f"/device:GPU:{number}", device_type="GPU", memory_limit=BYTES_OF_A_GPU
        )
        for number in range(count)
    ]


def _of_session(count: int) -> List[Any]:
    name = "/job:localhost/replica:0/task:0/device:GPU:%d"
    return [session_module._DeviceAttributes(name % number, "GPU", BYTES_OF_A_GPU, number) for number in range(count)]


def _listing(function: Callable[..., Any], kind: Any, count: int) -> Callable[..., List[Any]]:
    @functools.wraps(function)
    def devices(device_type: Optional[str] = None) -> List[Any]:
        prefix = "/physical_device" if kind.__name__ == "PhysicalDevice" else "/device"
        gpus = [kind(name=f"{prefix}:GPU:{number}", device_type="GPU") for number in range(count)]
        others = function("CPU") if device_type in (None, "CPU") else []
        return list(others) + (gpus if device_type in (None, "GPU") else [])

    return devices
