"""Names of a script never take the place of what the statements of a port call."""

import pytest

from parity.port.errors import PortError
from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.functions import Names, _output_names
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.ops import FEED, Op


@pytest.mark.parametrize("name", ["model", "sum", "len", "module", "torch"])
def test_a_tensor_that_the_script_calls_as_a_port_calls_something_else_is_called_otherwise(name):
    x = Op(FEED, "x", [], {}, [(4,)], ["float32"])
    computed = Op("Exp", "exp", [x.output()], {}, [(4,)], ["float32"])
    twice = Op("Mul", "mul", [computed.output(), computed.output()], {}, [(4,)], ["float32"])
    writer = Writer(Parameters({}, {}), "module", {x.output(): "x"}, lambda op: name)
    (found,) = writer.write([computed, twice], [twice.output()])
    assert [*writer.statements, found.text] == [f"{name}_ = torch.exp(x)", f"{name}_ * {name}_"]
    called = Names(lambda op: name, lambda op: "", assigned=lambda op: name)
    assert _output_names([computed.output()], called, []) == [f"{name}2"]


@pytest.mark.parametrize("name", ["model", "self", "torch", 'x"', "class"])
def test_an_input_that_is_called_so_is_refused(name):
    with pytest.raises(PortError, match="an input whose name"):
        Names(lambda op: "", lambda op: "").argument(name)
