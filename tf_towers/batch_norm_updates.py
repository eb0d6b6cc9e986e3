"""Chooses whose batch-norm updates run, and finds updates that race."""

WRITES = ("Assign", "ResourceAssign", "ScatterUpdate", "ScatterAdd", "ScatterSub", "AssignVariableOp")
PASSING = ("NoOp", "Identity", "ReadVariableOp")  # groups, and reads of what was written


def choose_updates(policy, towers):
    """Returns the update ops that run.

    Args:
      policy: "first", "last", "all_ordered" or "unordered".
      towers: a list over the towers of lists of update ops.
    """
    if policy == "first":
        return list(towers[0])
    if policy == "last":
        return list(towers[-1])
    return [update for tower in towers for update in tower]


def racing_updates(updates):
    """Returns the names of variables that two or more updates write without an order between them, sorted.

    What such a variable holds after a step differs from run to run: the last writer wins, and a decay counts as often as
    the reads and writes happen to interleave.

    Args:
      updates: ops or tensors, as `UPDATE_OPS` holds them.
    """
    writers = {}
    for update in updates:
        for op in _writing_ops(getattr(update, "op", update)):
            writers.setdefault(_variable_of(op), []).append(op)
    return sorted(name for name, ops in writers.items() if _unordered(ops))


def _writing_ops(op):
    if op.type.startswith(WRITES):
        return [op]
    if op.type not in PASSING:
        return []
    before = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return [writer for one in before for writer in _writing_ops(one)]


def _variable_of(op):
    while op.inputs and op.type not in ("VarHandleOp", "VariableV2", "Variable"):
        op = op.inputs[0].op
    return op.name


def _unordered(ops):
    ancestors = {op: _ancestors(op) for op in ops}
    for place, one in enumerate(ops):
        for other in ops[place + 1 :]:
            if one is not other and one not in ancestors[other] and other not in ancestors[one]:
                return True
    return False


def _ancestors(op):
    found, pending = set(), [op]
    while pending:
        current = pending.pop()
        for before in [tensor.op for tensor in current.inputs] + list(current.control_inputs):
            if before not in found:
                found.add(before)
                pending.append(before)
    return found
