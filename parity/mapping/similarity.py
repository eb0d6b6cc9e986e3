"""How alike two variables are: the kind of layer that they belong to, and the words of their names."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from parity.mapping.names import Meaning
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

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
_OF_A_NORM = ("gamma", "beta", "moving_mean", "moving_variance", "scale", "offset")
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
    # A bias is added by an op of its own that says nothing; its layer's kernel is multiplied by.
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
    # A quarter of `FAMILY`, 0.75: less than a name, as much as two places of order; an embedding may be a product by
    # one-hot.
    return 0.25 if frozenset((one, other)) in _RELATED else 1.0


def _own_family(variable: Variable) -> str:
    last = variable.name.rpartition("/")[2].lower()
    if last.startswith(_OF_A_NORM) or (len(variable.shape) == 1 and last.endswith(_OF_A_NORM)):
        return "norm"
    if len(variable.shape) == 1 and "BatchNorm" not in (variable.use or ""):
        return ""
    return next((family for part, family in _OF_OPS if part in (variable.use or "")), "")


# What TensorFlow's and torch's habits call the same thing.
SYNONYMS: dict[str, str] = {
    word: first
    for first, *others in (
        ("norm", "bn", "ln", "gn", "batchnorm", "layernorm", "normalization", "norm"),
        ("conv", "convolution", "conv1d", "conv2d", "conv3d"),
        ("deconv", "convtranspose", "upconv", "transpose", "transposed", "deconvolution"),
        ("dense", "fc", "linear", "fully", "lin"),
        ("shortcut", "downsample", "projection", "skip", "residual", "short"),
        ("query", "q", "wq"),
        ("key", "k", "wk"),
        ("value", "v", "wv", "val"),
        ("embedding", "emb", "embed", "embeddings", "lookup", "table", "wte"),
        ("position", "pos", "positional", "positions", "wpe"),
        ("logits", "output", "out", "head", "classifier", "softmax", "predictions", "prediction", "proj", "final"),
        ("forward", "fw", "fwd"),
        ("backward", "bw", "bwd", "reverse"),
        ("encoder", "enc"),
        ("decoder", "dec"),
        ("generator", "gen", "g"),
        ("discriminator", "disc", "dis", "d", "critic"),
        ("mu", "mean"),
        ("sigma", "logvar", "logsigma", "std", "stddev", "var", "variance", "logstd"),
        ("attention", "attn", "att", "mha", "selfattn"),
        ("feedforward", "ffn", "ff", "mlp", "intermediate"),
        ("depthwise", "dw"),
        ("pointwise", "pw"),
        ("recurrent", "rnn", "lstm", "gru", "cell"),
        ("box", "boxes", "bbox", "loc", "regression", "reg"),
        ("class", "cls", "score", "scores", "classification"),
        ("hidden", "h", "layer", "block", "unit", "stage", "features"),
        ("policy", "pi", "actor"),
        ("expand", "expansion"),
        ("reduce", "squeeze"),
        ("gate", "gates", "gating"),
        ("memory", "mem"),
        ("user", "users"),
        ("item", "items"),
    )
    for word in (first, *others)
}
# What names a variable in its layer says nothing of the layer.
OF_A_VARIABLE = frozenset(
    [
        *("kernel", "weights", "weight", "w", "bias", "biases", "b", "gamma", "beta", "moving", "running", "var"),
        *("params", "model", "module", "net", "tower"),
    ]
)


class Similarity:
    """Measures how alike names of two sides are.

    Args:
      reference: the names of one side.
      candidate: those of the other. A word that most names have, or that one side alone has, says little or nothing.
    """

    def __init__(self, reference: Sequence[str], candidate: Sequence[str]) -> None:
        sides = [[words(name) for name in side] for side in (reference, candidate)]
        counted = _comparable_counts(*sides)
        one, other = (
            [frozenset(w for w in each if not w[-1].isdecimal() or w in counted) for each in side] for side in sides
        )
        self._words = {("reference", name): each for name, each in zip(reference, one, strict=True)}
        self._words |= {("candidate", name): each for name, each in zip(candidate, other, strict=True)}
        self._weights = _weights(one, other)  # over both sides at once, so that a pair has one similarity whoever asks
        self._whole = {name: sum(self._weights[word] for word in sorted(each)) for name, each in self._words.items()}

    def __call__(self, reference: Sequence[str], candidate: Sequence[str]) -> Array:
        """Returns how much of what two names say they both say, 0 to 1: float ``[reference, candidate]``."""
        sides = [("reference", name) for name in reference], [("candidate", name) for name in candidate]
        one, other = (_places(self._words[each] for each in side) for side in sides)
        both = np.zeros((len(reference), len(candidate)))
        # Word by word, in one order for all pairs: names that say the same of each other are equally alike to the bit.
        for word in sorted(one.keys() & other.keys()):
            both[np.ix_(one[word], other[word])] += self._weights[word]
        # Over the longer of the two: a name that is all within another one says less than one that says the same.
        whole = np.maximum.outer(*([self._whole[each] for each in side] for side in sides))
        return np.divide(both, whole, out=np.zeros_like(both), where=whole > 0.0)


def _places(words: Iterable[frozenset[str]]) -> dict[str, list[int]]:
    """By word which of some names have it."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(words):
        for word in each:
            places[word].append(place)
    return places


@lru_cache(maxsize=1 << 16)  # a draft is made by names alone, and once more by numbers
def words(name: str) -> frozenset[str]:
    """Returns the words of a name in one spelling; "conv3" gives both "conv" and "conv3", "block/2" and "block2"."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    found: set[str] = set()
    last = ""
    for token in re.findall(r"\d+|[^\W\d_]+", spaced.replace("1d", "").replace("2d", "").replace("3d", "")):
        if token.isdecimal():
            found |= {f"{last}{int(token)}"} if last else set()
            continue
        # "filters" is filter. That "loss" becomes "los" does no harm: it does so on both sides.
        plain = token[:-1] if len(token) > 3 and token.endswith("s") and token not in SYNONYMS else token
        last = SYNONYMS.get(plain, SYNONYMS.get(token, plain))
        if token not in OF_A_VARIABLE:
            found.add(last)
    return frozenset(found)


def _comparable_counts(reference: list[frozenset[str]], candidate: list[frozenset[str]]) -> set[str]:
    # Where one side has norm1 and norm2 and the other norm and norm_1, equal numbers mean different things.
    numbers: list[dict[str, set[str]]] = [defaultdict(set), defaultdict(set)]
    for side, names in zip(numbers, (reference, candidate), strict=True):
        for word in (word for each in names for word in each if word[-1].isdecimal()):
            side[word.rstrip("0123456789")].add(word)
    one, other = numbers
    return {word for stem, found in one.items() if found == other.get(stem) for word in found}


def _weights(reference: list[frozenset[str]], candidate: list[frozenset[str]]) -> dict[str, float]:
    one, other = Counter(w for each in reference for w in each), Counter(w for each in candidate for w in each)
    weights: dict[str, float] = {}
    # The rarer a word the more it says: 0.01 where all names of a side have it, 1.7 for one name in ten.
    for word in one.keys() & other.keys():
        share = max(one[word] / len(reference), other[word] / len(candidate))
        weights[word] = math.log(1.0 + 1.0 / share) - math.log(2.0) + 0.01
    # A word that the other side has nowhere is a habit of spelling, and speaks against no pair in particular.
    for word in one.keys() ^ other.keys():
        weights[word] = 0.05
    return weights
