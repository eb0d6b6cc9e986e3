"""Names the layer that an op of the reference belongs to, by the scopes of its variables."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from parity.trace import ForwardOp

_NUMBERED = re.compile(r"_\d+$")


def layer_names(variables: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Returns dict of variable name to the name of its layer: the scope that a kernel shares with its bias, else its own.

    Args:
      variables: dict of name to shape.
    """
    slash = "/" if any("/" in name for name in variables) else "."  # of torch's modules, where two ports are compared
    scopes = {name: name.rpartition(slash)[0] for name in variables}
    kernels: dict[str, int] = {}
    for name, shape in variables.items():
        # Kernels have two axes and more; a scope with two of them is two layers, or more than a layer.
        kernels[scopes[name]] = kernels.get(scopes[name], 0) + (len(shape) >= 2)
    return {name: scope if scope and kernels[scope] <= 1 else name for name, scope in scopes.items()}


def layer_of(op: ForwardOp, layers: Mapping[str, str], common: str = "") -> str:
    """Returns the name of an op's layer: of the first weight that it reads, else of the scope that it is in, else its own.

    Args:
      op: of the reference.
      layers: as `layer_names` returns it.
      common: the scope that all ops share, the tower's.
    """
    for name in op.weights:
        if name in layers:
            return layers[name]
    return scope_of(op.name, set(layers.values())) or _own(op.name, common)


def scope_of(name: str, layers: Collection[str]) -> str:
    """Returns the longest of some layers' names that is among the scopes of an op; "" where none is."""
    scopes = name.split("/")[:-1]
    # Reuse of a layer numbers its scope anew: dense_1 of the second tower reads the variables of dense.
    plain = [_NUMBERED.sub("", scope) for scope in scopes]
    found = ""
    for parts in (scopes, plain):
        path = "/" + "/".join(parts) + "/"
        for layer in layers:
            if len(layer) > len(found) and f"/{layer}/" in path:
                found = layer
    return found


def common_scope(names: Iterable[str]) -> str:
    """Returns the scope that all names share, with a slash behind it; "" where they share none."""
    split = [name.split("/")[:-1] for name in names]
    if not split:
        return ""
    shared: list[str] = []
    for level in zip(*split):  # noqa: B905 - the shortest ends it
        if len(set(level)) != 1:
            break
        shared.append(level[0])
    return "/".join(shared) + "/" if shared else ""


def _own(name: str, common: str) -> str:
    rest = name[len(common) :] if name.startswith(common) else name
    return rest.rpartition("/")[0] or rest
