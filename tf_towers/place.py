"""Places variables on one device and the computation on the towers' own."""

VARIABLE_OPS = frozenset(["Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp", "VarIsInitializedOp"])


def place_variables(variables, compute):
    """Returns a device function that keeps variables on one device and everything else on another.

    It knows both kinds of TensorFlow 1 variables. Functions that only test for "Variable", as many scripts do, leave
    every variable of a later TensorFlow on the tower's device.

    Args:
      variables: device of the variables, e.g. "/cpu:0".
      compute: device of every other op, e.g. "/gpu:1".

    Returns:
      A function of an operation, for ``with tf.device(...)``.
    """

    def device_of(op):
        node = op if hasattr(op, "op") and not hasattr(op, "type") else op.node_def
        return variables if node.op in VARIABLE_OPS else compute

    return device_of


def tower_devices(towers, gpus=()):
    """Returns the device of each tower: a GPU each where there are enough, else virtual CPUs after the first.

    The first CPU is left to the variables, so that "variables here, computation there" can be checked without a GPU.
    Session configurations need `device_count` to make the virtual ones; see `tf_towers.session`.
    """
    if len(gpus) >= towers:
        return list(gpus[:towers])
    return [f"/cpu:{tower + 1}" for tower in range(towers)]
