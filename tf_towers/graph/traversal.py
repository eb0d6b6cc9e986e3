"""Walks graphs: what an op needs, what comes before what, functions of TensorFlow 2's control flow."""

from typing import AbstractSet, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from tf_towers.graph.op_types import RANDOM, READING_OR_CASTING, RESHAPING, SCALING
from tf_towers.tf_types import FunctionDef, FunctionDefLibrary, NodeDef, Operation, Tensor


def ancestors(ops: Iterable[Operation], stop: AbstractSet[Operation] = frozenset()) -> Set[Operation]:
    """Returns the set of ops that must run for `ops`, those included; does not look behind the ops in `stop`."""
    seen, pending = set(), list(ops)
    while pending:
        op = pending.pop()
        if op in seen:
            continue
        seen.add(op)
        if op not in stop:
            pending += before(op)
    return seen


def before(op: Operation) -> List[Operation]:
    """Returns the ops that `op` waits for: of its inputs and of its control inputs."""
    return [tensor.op for tensor in op.inputs] + list(op.control_inputs)


def passes_weights_on(op: Operation, tensor: Tensor) -> bool:
    """Tells whether an op hands on the weights in `tensor` in their layout: read, cast, regrouped, or times one number.

    Weights are scaled where they are read for an equalized learning rate, or by a spectral norm: what computes with the
    product says what they are.
    """
    if op.type in READING_OR_CASTING | RESHAPING:
        return True
    if op.type not in SCALING or tensor.shape.ndims == 0:
        return False
    # A product by either side; of a quotient, what is divided: a number over the weights is no multiple of them.
    others = [number for number, each in enumerate(op.inputs) if each is not tensor]
    return len(others) == 1 and op.inputs[others[0]].shape.ndims == 0 and (op.type == "Mul" or others == [1])


def earlier(ops: AbstractSet[Operation], marked: Sequence[Operation]) -> Dict[Operation, int]:
    """Tells for every op which marked ones come before it, in one pass over the graph.

    Args:
      ops: set of ops, closed under `before`.
      marked: list of ops among them.

    Returns:
      Dict of op to an int whose bit k is set where ``marked[k]`` is that op or must run before it.
    """
    # Sets as the bits of an int: a union is one operation however many reads and writes there are.
    bits = {op: 1 << number for number, op in enumerate(marked)}
    masks: Dict[Operation, int] = {}
    for op in in_order(ops):
        mask = bits.get(op, 0)
        for other in before(op):
            mask |= masks.get(other, 0)  # a loop's back edge has none yet
        masks[op] = mask
    return masks


def in_order(ops: AbstractSet[Operation]) -> List[Operation]:
    """Returns the ops in an order of execution; edges that close a loop are left out."""
    order, state = [], {}
    # Sorted, for the order of a set of objects is another one in every process.
    for root in sorted(ops, key=lambda op: op.name):
        # Depth first with a stack of its own: graphs are deeper than Python recurses.
        stack: List[Tuple[Operation, Optional[Iterator[Operation]]]] = [(root, None)]
        while stack:
            op, rest = stack.pop()
            if rest is None:
                if op in state:
                    continue
                state[op] = True
                rest = iter(before(op))
            following = next((other for other in rest if other in ops and other not in state), None)
            if following is None:
                order.append(op)
            else:
                stack += [(op, rest), (following, None)]
    return order


# Looks into the functions of a graph, as which TensorFlow 2 keeps loops and branches.


def ops_that_draw_in_functions(towers_ops: Sequence[AbstractSet[Operation]]) -> List[str]:
    """Returns the sorted names of the ops that draw random numbers in a function that they call.

    Args:
      towers_ops: list over the towers of sets of ops.
    """
    # Few graphs call functions, and as_graph_def copies all of one: only those are asked for it.
    calling = {op for ops in towers_ops for op in ops if functions_of(op.node_def)}
    if not calling:
        return []
    library = next(iter(calling)).graph.as_graph_def().library
    return sorted(op.name for op in calling if _draws(called_functions([op.node_def], library)))


def _draws(functions: Iterable[FunctionDef]) -> bool:
    return any(node.op in RANDOM for function in functions for node in function.node_def)


def functions_of(node: NodeDef) -> List[str]:
    """Returns the names of the functions that a node calls."""
    names = []
    for attr in node.attr.values():
        names += [attr.func.name] if attr.HasField("func") else []
        names += [each.name for each in attr.list.func]
    return names


def called_functions(nodes: Iterable[NodeDef], library: FunctionDefLibrary) -> List[FunctionDef]:
    """Returns the functions that nodes call, and those that these call: a library also keeps what nothing calls any more.

    Args:
      nodes: list of NodeDef.
      library: where the functions are.
    """
    by_name = {each.signature.name: each for each in library.function}
    gradients = {each.function_name: each.gradient_func for each in library.gradient}
    found: Dict[str, FunctionDef] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        # A node may have the name of a function as its op. SymbolicGradient calls what is registered as a gradient.
        names = functions_of(node) + [node.op]
        for name in names + [gradients[each] for each in names if each in gradients]:
            if name in by_name and name not in found:
                found[name] = by_name[name]
                pending += by_name[name].node_def
    return list(found.values())
