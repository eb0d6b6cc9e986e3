"""What kind of layer a variable belongs to, as far as names and uses say."""

from collections.abc import Sequence

from parity.mapping.names import Meaning
from parity.mapping.variable import Variable

# Parts of TensorFlow's op types, the first that fits decides.
_OF_OPS = (
    ("BatchNorm", "norm"),
    ("BackpropInput", "deconv"),
    ("Conv", "conv"),
    ("MatMul", "dense"),
    ("Einsum", "dense"),
    ("Gather", "embedding"),
    ("LSTM", "recurrent"),
)
_OF_CLASSES = (
    ("ConvTranspose", "deconv"),
    ("Conv", "conv"),
    ("Norm", "norm"),
    ("Embedding", "embedding"),
    ("LSTM", "recurrent"),
    ("GRU", "recurrent"),
    ("RNN", "recurrent"),
    ("Linear", "dense"),
    ("MultiheadAttention", "dense"),
)
_NORM = ("gamma", "beta", "moving_mean", "moving_variance", "scale", "offset")
# What one side may write as the other.
_RELATED = frozenset(
    frozenset(pair) for pair in (("embedding", "dense"), ("recurrent", "dense"), ("conv", "dense"), ("conv", "deconv"))
)


def reference_families(reference: Sequence[Variable], meanings: Sequence[Meaning]) -> list[str]:
    """Returns for each of TensorFlow's variables "conv", "deconv", "dense", "norm", "embedding", "recurrent", or "".

    A vector whose own ops and name do not say, such as a bias that is added, belongs to what the kernel of its layer does.
    """
    own = [_own_family(variable) for variable in reference]
    kernels: dict[tuple[str, ...], str] = {}
    for variable, meaning, family in zip(reference, meanings, own, strict=True):
        if len(variable.shape) > 1 and family:
            kernels.setdefault(meaning.where, family)
    return [
        family or ("" if len(variable.shape) > 1 else kernels.get(meaning.where, ""))
        for variable, meaning, family in zip(reference, meanings, own, strict=True)
    ]


def candidate_family(use: str) -> str:
    """Returns the family of a torch module's class, or ""."""
    return next((family for part, family in _OF_CLASSES if part in use), "")


def strangeness(one: str, other: str) -> float:
    """Returns how unlikely it is that two families are one layer: 0, 0.25 or 1."""
    if not one or not other or one == other:
        return 0.0
    return 0.25 if frozenset((one, other)) in _RELATED else 1.0


def _own_family(variable: Variable) -> str:
    last = variable.name.rpartition("/")[2].lower()
    if last.startswith(_NORM) or (len(variable.shape) == 1 and last.endswith(_NORM)):
        return "norm"
    if len(variable.shape) == 1 and "BatchNorm" not in (variable.use or ""):
        return ""
    return next((family for part, family in _OF_OPS if part in (variable.use or "")), "")
