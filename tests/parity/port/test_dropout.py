"""Dropout whose draws are shared along an axis: of whatever batch, and in training alone."""

from parity.port.source.ops import layers  # noqa: F401  it fills the table of writers
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.layers import DROPOUT
from parity.port.tower.ops import FEED, Op


def dropped(noise_shape):
    x = Op(FEED, "x", [], {}, [(8, 4, 6)], ["float32"])
    op = Op(DROPOUT, "drop", [x.output()], {"rate": 0.25, "noise_shape": noise_shape}, [(8, 4, 6)], ["float32"])
    (found,) = Writer(Parameters({}, {}), "self", {x.output(): "x"}).write([op], [op.output()])
    return found


def test_the_draw_has_the_lengths_of_what_is_dropped_and_is_made_in_training():
    found = dropped((8, 1, 6))
    lengths = "(x.shape[0], 1, x.shape[2])"
    assert found.text == f"like_tf.dropout(x, 0.25, noise_shape={lengths}) if self.training else x"
    assert found.within(0).startswith("(")  # in an operand it stands in brackets


def test_a_draw_of_fewer_axes_is_of_the_last_ones():
    assert "noise_shape=(x.shape[2],)" in dropped((6,)).text


def test_a_draw_for_each_element_is_torchs():
    assert dropped(None).text == "F.dropout(x, 0.25, self.training)"
