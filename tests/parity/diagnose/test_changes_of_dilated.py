"""A dilated convolution is three ops of a graph: its dilation and padding are changed as those of one op are."""

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.edits.edit import Near
from parity.diagnose.edits.ops import plain_edits
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.diagnose.ops.table import computed
from parity.diagnose.ops.windows import convolved

RANDOM = np.random.default_rng(12)
NOTHING = Near(set(), [], [], [], [], frozenset(), False)
IMAGE, SEQUENCE = RANDOM.normal(size=(2, 6, 8, 4)), RANDOM.normal(size=(2, 8, 4))
KERNEL, ROW = RANDOM.normal(size=(3, 3, 4, 5)), RANDOM.normal(size=(1, 3, 4, 5))
DEPTHWISE = RANDOM.normal(size=(3, 3, 4, 2))
STRIDES = {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 1, 1, 1]}


def from_blocks(parts, sizes, dilation):
    """What examples of every so many-th place come to, side by side again."""
    made = np.zeros((len(parts) // dilation ** len(sizes), *sizes, parts.shape[-1]))
    for at, place in enumerate(np.ndindex(*(dilation,) * len(sizes))):
        among = (slice(None), *(slice(first, None, dilation) for first in place))
        of_place = made[among]
        count = len(made)
        made[among] = parts[at * count : (at + 1) * count][(slice(None), *(slice(n) for n in of_place.shape[1:-1]))]
    return made


def in_three_ops(image, kernel, kind="Conv2D", dilation=2):
    """A pass that convolves with SAME padding, as a graph dilates."""
    spatial = image.ndim - 2
    pads = np.array([[dilation, dilation + (-image.shape[1 + axis]) % dilation] for axis in range(spatial)])
    blocks = computed("SpaceToBatchND", [image, np.full(spatial, dilation), pads], {})
    given = blocks if spatial == 2 else blocks[:, None]
    convolved_ = computed(kind, [given, kernel], STRIDES)
    whole = convolved_ if spatial == 2 else convolved_[:, 0]
    output = from_blocks(whole, image.shape[1:-1], dilation)
    return passed(
        ("Relu", [image], image),
        ("SpaceToBatchND", [0, np.full(spatial, dilation), pads], blocks),
        (kind, [1, kernel], convolved_, STRIDES),
        ("BatchToSpaceND", [2, np.full(spatial, dilation), pads * 0], output),
    ), output


@pytest.mark.parametrize(
    ("image", "kernel", "kind", "groups"),
    [(IMAGE, KERNEL, "Conv2D", 1), (SEQUENCE, ROW, "Conv2D", 1), (IMAGE, DEPTHWISE, "DepthwiseConv2dNative", 4)],
)
def test_three_ops_are_changed_as_one(image, kernel, kind, groups):
    made, output = in_three_ops(image, kernel, kind)
    one = kernel.reshape(3, 3, 1, 8) if groups > 1 else kernel if image.ndim == 4 else kernel[0]
    ones = [1] * (image.ndim - 2)
    assert np.allclose(output, convolved(image, one, ones, [(2, 2) for _ in ones], [2 for _ in ones], groups)), (
        "it is what it is said to be"
    )
    found = [each for each in plain_edits(RecomputedPass(made), 3, NOTHING) if each.name in ("dilation", "padding")]
    undilated = [each for each in found if each.name == "dilation" and "dilated" not in each.changed]
    assert undilated and all("dilated by 2" in each.as_is for each in found)
    wanted = convolved(image, one, ones, [(1, 1) for _ in ones], ones, groups)
    assert np.allclose(undilated[0].value, wanted)
    causal = next(each for each in found if each.name == "padding" and "with 4 and 0" in each.changed)
    assert np.allclose(causal.value, convolved(image, one, ones, [(4, 0) for _ in ones], [2 for _ in ones], groups))


def test_blocks_that_nothing_convolves_are_no_convolution():
    made, _ = in_three_ops(IMAGE, KERNEL)
    ops = [*made.ops]
    ops[2] = ops[2]._replace(attributes={})
    found = list(plain_edits(RecomputedPass(made._replace(ops=ops)), 3, NOTHING))
    assert not [each for each in found if each.name in ("dilation", "padding")]
