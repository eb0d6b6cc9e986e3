"""Each op with channels first is turned to channels last between two transpositions: on nodes made by hand."""

import pytest


def _turned(kind, inputs, lists, layout):
    import numpy as np
    from tensorflow.core.framework import graph_pb2, types_pb2
    from tensorflow.python.framework import tensor_util

    from tf_towers.shadow.nhwc import to_channels_last

    definition = graph_pb2.GraphDef()
    node = definition.node.add(name="op", op=kind, input=inputs)
    node.attr["T"].type = types_pb2.DT_HALF
    if layout:
        node.attr["data_format"].s = layout.encode("utf-8")
    for name, values in lists.items():
        node.attr[name].list.i.extend(values)
    definition.node.add(name="reader", op="Identity", input=["op", "^op"])
    definition.node.add(name="of_old_layout", op="Identity", input=["a:1"])
    try:
        types, renamed = to_channels_last(definition)
    except ValueError as error:
        return {"refused": str(error)}
    nodes = {each.name: each for each in definition.node}

    def through(name):
        """What the tensor of that name goes through: the type of the op, its order and what it reads."""
        if name not in nodes or "/channels_" not in name:
            return name
        made, order = nodes[name], nodes[nodes[name].input[1]]
        assert list(order.input) == ["^" + made.input[0]], order.input
        constants = [tensor_util.MakeNdarray(nodes[each].attr["value"].tensor) for each in made.input[1:]]
        assert all(each.dtype == np.int32 for each in constants)
        if made.op == "Transpose":
            assert made.attr["T"].type == types_pb2.DT_HALF and made.attr["Tperm"].type == types_pb2.DT_INT32
        else:
            assert {made.attr[each].type for each in ("Tparams", "Tindices", "Taxis")} == {types_pb2.DT_INT32}
        return [made.op, made.input[0]] + [each.tolist() for each in constants]

    op = nodes["op"]
    return {
        "types": types,
        "renamed": renamed,
        "inputs": [through(each) for each in op.input],
        "readers": [through(nodes["reader"].input[0].split(":")[0]), nodes["reader"].input[1]],
        "layout": op.attr["data_format"].s.decode("utf-8") if "data_format" in op.attr else None,
        "lists": {
            name: list(op.attr[name].list.i)
            for name in ("strides", "dilations", "ksize", "explicit_paddings")
            if name in op.attr
        },
        "nodes": len(nodes),
    }


def _image(name):
    return ["Transpose", name, [0, 2, 3, 1]]


def _sizes(name):
    return ["GatherV2", name, [0, 2, 3, 1], 0]


@pytest.mark.parametrize(
    ("kind", "inputs", "gives"),
    [
        ("Conv2D", [_image("a"), "b"], True),
        ("Conv2DBackpropInput", [_sizes("a"), "b", _image("c")], True),
        ("Conv2DBackpropFilter", [_image("a"), "b", _image("c")], False),
        ("DepthwiseConv2dNative", [_image("a"), "b"], True),
        ("DepthwiseConv2dNativeBackpropInput", [_sizes("a"), "b", _image("c")], True),
        ("DepthwiseConv2dNativeBackpropFilter", [_image("a"), "b", _image("c")], False),
        ("MaxPool", [_image("a")], True),
        ("MaxPoolGrad", [_image("a"), _image("b"), _image("c")], True),
        ("AvgPool", [_image("a")], True),
        ("AvgPoolGrad", [_sizes("a"), _image("b")], True),
    ],
)
def test_images_and_their_sizes_are_turned_and_filters_are_not(tf, kind, inputs, gives):
    found = tf(_turned, kind=kind, inputs=["a", "b", "c"][: len(inputs)], lists={}, layout="NCHW")
    assert (found["inputs"], found["types"], found["layout"], found["lists"]) == (inputs, [kind], "NHWC", {})
    assert found["readers"] == [["Transpose", "op", [0, 3, 1, 2]] if gives else "op", "^op"]
    assert found["renamed"] == ({"op:0": "op/channels_first:0"} if gives else {})


def test_lists_by_axis_are_turned_and_an_empty_one_stays(tf):
    lists = {"strides": [1, 2, 3, 4], "dilations": [5, 6, 7, 8], "ksize": [9, 10, 11, 12]}
    turned = {"strides": [1, 3, 4, 2], "dilations": [5, 7, 8, 6], "ksize": [9, 11, 12, 10]}
    for given, wanted in ((list(range(8)), [0, 1, 4, 5, 6, 7, 2, 3]), ([], [])):
        told = {**lists, "explicit_paddings": given}
        found = tf(_turned, kind="Conv2D", inputs=["a", "b"], lists=told, layout="NCHW")
        assert found["lists"] == {**turned, "explicit_paddings": wanted}


@pytest.mark.parametrize(
    ("kind", "layout"), [("Conv2D", "NHWC"), ("Conv2D", None), ("BiasAdd", "NCHW"), ("FusedBatchNormV3", "NCHW")]
)
def test_what_has_channels_last_or_knows_both_layouts_is_left_as_it_is(tf, kind, layout):
    found = tf(_turned, kind=kind, inputs=["a", "b"], lists={"strides": [1, 2, 3, 4]}, layout=layout)
    assert (found["inputs"], found["lists"], found["nodes"]) == (["a", "b"], {"strides": [1, 2, 3, 4]}, 3)
    assert (found["types"], found["renamed"], found["layout"]) == ([], {}, layout)


@pytest.mark.parametrize(
    ("kind", "layout", "why"),
    [
        ("Conv3D", "NCDHW", "expected channels last on the CPU, got the op op, a Conv3D with channels first"),
        ("Conv2D", "NCHW_VECT_C", "expected images of two axes, got the op op in NCHW_VECT_C"),
    ],
)
def test_what_is_not_known_in_another_layout_is_refused(tf, kind, layout, why):
    assert why in tf(_turned, kind=kind, inputs=["a", "b"], lists={}, layout=layout)["refused"]
