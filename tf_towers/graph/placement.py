"""Places variables on one device and the computation on the towers' own."""

from typing import Any, Callable, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.op_types import ABOUT_VARIABLES
from tf_towers.tf_types import Operation

# In 58 codebases: where tower 0 comes to make them 18, by a helper on the CPU 10, by a device function 10, replicated
# 6.
PLACEMENTS = ("cpu", "first_gpu", "balanced", "replicated")


def place_variables(variables: Any, compute: str) -> Callable[[Any], str]:
    """Returns a device function that keeps variables on one device and everything else on another.

    It knows both kinds of TensorFlow 1 variables. Functions that only test for "Variable", as many scripts do, leave
    every variable of a later TensorFlow on the tower's device.

    Args:
      variables: device of the variables, e.g. "/cpu:0", or a function of the variable's operation that chooses one.
      compute: device of every other op, e.g. "/gpu:1".

    Returns:
      A function of an operation, for ``with tf.device(...)``.
    """

    def device_of(op: Any) -> str:
        node = op if hasattr(op, "op") and not hasattr(op, "type") else op.node_def
        if node.op not in ABOUT_VARIABLES:
            return compute
        return variables(op) if callable(variables) else variables

    return device_of


def balanced(devices: Sequence[str]) -> Callable[[Operation], str]:
    """Returns a function of a variable's operation that puts it on the device with the fewest bytes of variables.

    Ties go to the first device, and every variable counts when it is made, so the order of making them decides. With
    one device everything is there, and no host copy.

    Args:
      devices: names of the devices, at least one.
    """
    loads = dict.fromkeys(devices, 0)

    def device_of(op: Operation) -> str:
        # It asks a variable and is none: it belongs beside that one, and takes no room.
        if op.type == "VarIsInitializedOp":
            return op.inputs[0].op.device
        # In bytes; min takes the first of equals, so that the same graph is placed alike in every run.
        device = min(devices, key=lambda device: loads[device])
        loads[device] += tf.TensorShape(op.get_attr("shape")).num_elements() * tf.as_dtype(op.get_attr("dtype")).size
        return device

    return device_of


def homes(policy: str, devices: Sequence[str]) -> Tuple[List[Any], str]:
    """Returns where the variables of each tower live, and where gradients are combined.

    Args:
      policy: "cpu": one copy on the host; "first_gpu": on the first tower's device; "balanced": spread over the towers'
        devices by size; "replicated": a copy for each tower on its own device.
      devices: the towers' devices.

    Returns:
      A list over the towers of devices or functions for `place_variables`, and the device that combines.

    Raises:
      TowerError: the policy is not one of these.
    """
    if policy not in PLACEMENTS:
        raise TowerError(f"place: expected variables to be one of {', '.join(PLACEMENTS)}, got {policy!r}.")
    if policy == "cpu":
        return ["/cpu:0"] * len(devices), "/cpu:0"
    if policy == "first_gpu":
        return [devices[0]] * len(devices), devices[0]
    if policy == "balanced":
        return [balanced(devices)] * len(devices), devices[0]
    return list(devices), devices[0]


def tower_devices(towers: int, gpus: Sequence[str] = ()) -> List[str]:
    """Returns the device of each tower: a GPU each where there are enough, else virtual CPUs after the first.

    The first CPU is left to the variables, so that "variables here, computation there" can be checked without a GPU.
    Session configurations need `device_count` to make the virtual ones; see `tf_towers.session`.
    """
    if len(gpus) >= towers:
        return list(gpus[:towers])
    return [f"/cpu:{tower + 1}" for tower in range(towers)]
