"""Classes that a port has for the blocks of a model, on models of a few ops."""

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.citations import Citations
from parity.port.source.classes import Classes
from parity.port.source.layer_names import name_layers
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.ops import FEED, Op
from parity.port.tower.regions import CALLED_BLOCK, Frame, contracted, regions_of

CALL = Frame("train.py", 30, "<module>", "net = network(images)")
IN_NETWORK = Frame("train.py", 20, "network", "net = block(net, width)")


class Made:
    """A model as a script makes it, op by op."""

    def __init__(self, channels=4):
        self.ops, self.shapes, self.frames = [], {}, {}
        self.x = Op(FEED, "images", [], {}, [(2, 8, 8, channels)], ["float32"]).output()

    def add(self, kind, name, *inputs, channels=None, frames=(CALL, IN_NETWORK), **attributes):
        shape = inputs[0].shape if channels is None else (*inputs[0].shape[:-1], channels)
        op = Op(kind, name, [*inputs], attributes, [shape], ["float32"], len(self.ops))
        self.ops.append(op)
        self.frames[op] = frames
        return op.output()

    def conv(self, scope, x, channels, size=3, frames=(CALL, IN_NETWORK)):
        self.shapes[f"{scope}/weights"] = (size, size, x.shape[-1], channels)
        attributes = {"weight": f"{scope}/weights", "bias": None, "padding": "SAME", "strides": [1, 1, 1, 1]}
        return self.add("Conv2d", f"tower_0/{scope}/Conv2D", x, channels=channels, frames=frames, **attributes)

    def block(self, scope, x, channels, frames=()):
        """Two convolutions, the second one narrower, and what was taken."""
        stack = [(CALL, IN_NETWORK, Frame("train.py", line, "block", "x = conv(x)")) for line in (10, 11, 12)]
        inner = self.conv(f"{scope}/first", x, 2 * channels, frames=frames or stack[0])
        inner = self.add("Relu", f"tower_0/{scope}/Relu", inner, frames=frames or stack[1])
        inner = self.conv(f"{scope}/second", inner, channels, 1, frames=frames or stack[1])
        return self.add("AddV2", f"tower_0/{scope}/add", x, inner, frames=frames or stack[2])

    def written(self, output):
        """The text of each class, and the statements of the module's constructor and forward."""
        parameters = Parameters(self.shapes, dict.fromkeys(self.shapes, "var"))
        items = contracted(self.ops, regions_of(self.ops, [output], self.frames.__getitem__))
        name_layers(items, parameters, lambda op: self.frames[op])
        writer = Writer(parameters, "self", {self.x: "images"}, frames=lambda op: self.frames[op])
        found = writer.write(items, [output])
        classes = Classes()
        classes.add(parameters)
        return (
            classes,
            [*classes.statements(parameters), *writer.statements, *(each.text for each in found)],
            parameters,
        )


def test_blocks_that_differ_in_their_widths_are_one_class():
    model = Made()
    x = model.block("one", model.x, 4)
    x = model.conv("wider", x, 8)
    classes, module, parameters = model.written(model.block("two", x, 8))
    (block,) = classes.found
    assert (block.name, block.arguments) == ("Block", [("channels", "int")])
    assert block.made == [
        "self.first = nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False)",
        "self.second = nn.Conv2d(2 * channels, channels, 1, bias=False)  # train.py:11",
    ]
    assert block.body == ["activated = F.relu(self.first(x))", "return x + self.second(activated)"]
    assert (block.frame.file, block.frame.line, block.frame.function) == ("train.py", 10, "block")
    assert module[:3] == [
        "self.one = Block(4)",
        "self.wider = nn.Conv2d(4, 8, 3, padding=1, bias=False)",
        "self.two = Block(8)",
    ]
    assert parameters.mapping()["two/first/weights"] == ("two.first.weight", "hwio_to_oihw")


def test_a_scope_of_blocks_one_behind_the_other_is_a_sequence_and_its_weights_have_numbers():
    model = Made()
    x = model.conv("stem", model.x, 4)
    x = model.block("stage/a", x, 4)
    x = model.block("stage/b", x, 4)
    classes, module, parameters = model.written(model.conv("head", x, 2))
    assert "self.stage = nn.Sequential(Block(), Block())" in module
    assert len(classes.found) == 1
    assert parameters.mapping()["stage/b/second/weights"][0] == "stage.1.second.weight"
    assert parameters.whole("stage/b/second/weights", "module").text == (
        'module.get_parameter("stage.1.second.weight")'
    )


def test_one_layer_in_a_scope_is_no_class():
    model = Made()
    x = model.conv("one", model.x, 4)
    classes, module, _ = model.written(model.conv("two", model.add("Relu", "tower_0/one/Relu", x), 4))
    assert not classes.found
    assert [line.partition(" = ")[0] for line in module[:2]] == ["self.one", "self.two"]


def test_a_scope_that_something_outside_of_it_stands_between_is_no_block():
    model = Made()
    first = model.conv("one/first", model.x, 4)
    outside = model.add("Relu", "tower_0/Relu", first)
    x = model.conv("one/second", outside, 4)
    output = model.conv("head", x, 2)
    assert regions_of(model.ops, [output], model.frames.__getitem__) == []


def test_weights_that_something_else_reads_too_stay_outside_of_blocks():
    model = Made()
    x = model.block("one", model.x, 4)
    again = model.add("Conv2d", "tower_0/again/Conv2D", x, channels=8, **model.ops[0].attributes)
    output = model.conv("head", again, 2)
    assert regions_of(model.ops, [output], model.frames.__getitem__) == []


def test_calls_of_a_function_are_blocks_without_a_scope_and_a_loop_calls_it_anew():
    model = Made()
    x = model.conv("stem", model.x, 4)
    for number in range(2):  # all of them in one scope, as tf.layers has them where the script names nothing
        lines = [Frame("train.py", line, "residual", "x = conv(x)") for line in (10, 11)]
        y = model.conv(f"conv2d_{2 * number + 1}", x, 4, frames=(CALL, IN_NETWORK, lines[0]))
        x = model.conv(f"conv2d_{2 * number + 2}", y, 4, frames=(CALL, IN_NETWORK, lines[1]))
    classes, module, _ = model.written(model.conv("head", x, 2))
    assert [each.name for each in classes.found] == ["Residual"]
    assert [line.partition("(")[0] for line in classes.found[0].made] == [
        "self.conv1 = nn.Conv2d",
        "self.conv2 = nn.Conv2d",
    ]
    assert module[1:3] == ["self.residual1 = Residual()", "self.residual2 = Residual()"]


def test_two_kinds_of_blocks_of_one_function_are_called_after_what_one_has_more():
    model = Made()
    x = model.block("one", model.x, 4)
    stack = (CALL, IN_NETWORK, Frame("train.py", 9, "block", "x = conv(x)"))
    shortcut = model.conv("two/shortcut", x, 4, frames=stack)
    output = model.add("AddV2", "tower_0/two/sum", model.block("two", x, 4), shortcut, frames=stack)
    classes, _, _ = model.written(model.conv("head", output, 2))
    assert [each.name for each in classes.found] == ["Block", "BlockWithShortcut"]


def test_a_block_that_is_called_twice_is_made_once():
    model = Made()
    first = model.block("shared", model.x, 4)
    place = len(model.ops)
    model.block("shared", first, 4)
    for op in model.ops[place:]:
        op.name = op.name.replace("shared", "shared_1")
    output = model.conv("head", model.ops[-1].output(), 2)
    items = contracted(model.ops, regions_of(model.ops, [output], model.frames.__getitem__))
    assert [op.kind for op in items[:2]] == [CALLED_BLOCK] * 2
    classes, module, _ = model.written(output)
    assert len(classes.found) == 1
    assert sum("= Shared()" in line or "= Block()" in line for line in module) == 1


def test_each_function_of_the_script_is_named_where_it_is_first_met():
    model = Made()
    conv = Frame("layers.py", 7, "conv", "return tf.nn.conv2d(x, w)")

    def stack(line):
        return CALL, IN_NETWORK._replace(line=line), conv

    x = model.conv("one", model.x, 4, frames=stack(20))
    x = model.conv("two", x, 4, frames=stack(21))
    x = model.conv("three", x, 4, frames=stack(21))
    output = model.conv("four", x, 2, frames=stack(23))
    parameters = model.written(output)[2]
    statements = Classes().statements(parameters, citations=Citations(IN_NETWORK, set()))
    assert [line.partition("  # ")[2] for line in statements] == [
        "layers.py:7 conv()",
        "train.py:21",
        "",
        "train.py:23",
    ]
    without = Classes().statements(parameters, citations=Citations(None, {("layers.py", "conv")}))
    assert [line.partition("  # ")[2] for line in without] == ["layers.py:7", "", "", ""]


def test_a_line_of_the_script_for_which_there_is_no_room_is_left_out_and_a_function_is_not():
    statement = f"self.x = {'y' * 90}"
    assert Citations(None).of([CALL, IN_NETWORK._replace(function="<module>")], statement) == ""
    assert Citations(None).of([CALL, IN_NETWORK], statement) == "  # train.py:20 network()"


def test_a_norm_is_called_after_the_layer_that_it_shares_a_scope_with_or_stands_behind():
    model = Made()
    known = {"bias": None, "mean": None, "variance": None, "eps": 0.001, "fused": True}
    for scope, own in (("a", "a"), ("b", "alone"), ("c", "batch_normalization")):
        x = model.conv(scope, model.x, 4)
        model.shapes[f"{own}/gamma"] = (4,)
        model.add("BatchNorm", f"tower_0/{scope}/norm", x, weight=f"{own}/gamma", **known)
    parameters = Parameters(model.shapes, dict.fromkeys(model.shapes, "var"))
    name_layers(model.ops, parameters, lambda op: ())
    found = [parameters.planned[f"{own}/gamma"] for own in ("a", "alone", "batch_normalization")]
    assert found == ["a_norm", "alone", "c_norm"]


def test_a_layer_that_a_helper_makes_is_called_as_the_function_that_calls_the_helper_calls_it():
    model = Made()
    helper = Frame("train.py", 3, "conv", "net = tf.nn.conv2d(net, w, strides, 'SAME')")
    texts = "shortcut = conv(net, 4)", "net = conv(net, 4)"
    for number, text in enumerate(texts):
        frames = CALL, IN_NETWORK._replace(line=20 + number, text=text), helper
        model.conv(f"conv2d_{number}", model.x, 4, frames=frames)
    parameters = Parameters(model.shapes, dict.fromkeys(model.shapes, "var"))
    name_layers(model.ops, parameters, lambda op: model.frames[op])
    assert [parameters.planned[f"conv2d_{number}/weights"] for number in range(2)] == ["shortcut", "conv"]


def test_blocks_that_move_in_other_strides_are_one_class_where_their_padding_is_a_number():
    model = Made()
    x = model.x
    for number, stride in enumerate((1, 2)):
        for name in ("first", "second"):
            x = model.conv(f"{number}/{name}", x, 4 * (number + 1))
            known = {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 1, 1, 1, 0, 0], "strides": [1, 2, 2, 1]}
            x.op.attributes.update(known if stride == 2 and name == "first" else {})
    classes, module, _ = model.written(model.conv("head", x, 2))
    (block,) = classes.found
    assert [line.partition("  # ")[0] for line in block.made] == [
        "self.first = nn.Conv2d(4, channels, 3, stride=stride, padding=1, bias=False)",
        "self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)",
    ]
    assert [line.partition(" = ")[2] for line in module[:2]] == ["Block(4, stride=1)", "Block(8, stride=2)"]


def test_the_same_block_several_times_in_a_row_is_made_in_a_loop():
    model = Made()
    x = model.conv("stem", model.x, 4)
    for name in "abcd":
        x = model.block(f"stage/{name}", x, 4)
    _, module, _ = model.written(model.conv("head", x, 2))
    assert "self.stage = nn.Sequential(*(Block() for _ in range(4)))" in module


def test_a_norm_without_moving_statistics_is_a_layer_that_keeps_none():
    model = Made()
    model.shapes |= {"norm/gamma": (4,), "norm/beta": (4,), "norm/scale": (4,)}
    known = {"mean": None, "variance": None, "eps": 0.001, "fused": False}
    x = model.add("BatchNorm", "tower_0/norm/add", model.x, weight="norm/gamma", bias="norm/beta", **known)
    _, module, parameters = model.written(model.conv("head", x, 2))
    assert module[0] == "self.norm = nn.BatchNorm2d(4, eps=0.001, track_running_stats=False)"
    assert parameters.mapping()["norm/gamma"] == ("norm.weight", "identity")
