"""A float attribute is float32 in every graph; in a float64 tower it is computed with as the tower writes it."""

# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

FLOOR = 1.001e-5  # of tf.nn.fused_batch_norm in 1.15


def _tower(kind):
    def layer(x, training):
        if kind == "leaky_relu":
            return tf.nn.leaky_relu(x, 0.3)
        if kind == "lrn":
            return tf.nn.local_response_normalization(x, depth_radius=1, bias=1.1, alpha=0.3, beta=0.7)
        if kind == "function":
            return tf.nn.fused_batch_norm(x, tf.ones([3], x.dtype), tf.zeros([3], x.dtype), epsilon=1e-5)[0]
        return tf.layers.batch_normalization(x, epsilon=1e-5, training=training, name="norm")

    def tower(x, y, training=True):
        w = tf.get_variable("w", [3], x.dtype, tf.constant_initializer([0.5, -1.0, 2.0]))
        mapped = layer(x * w, training)
        return tf.reduce_sum(tf.square(mapped) * y), {"mapped": mapped}

    return tower


def _built(kind, dtype, x, y):
    shapes = {name: (dtype, list(value.shape)) for name, value in (("x", x), ("y", y))}
    training = tf_towers.build(_tower(kind), shapes, 1, small.sgd(0.0))
    stepper = small.stepper(training)
    batch = {"x": x.astype(dtype), "y": y.astype(dtype)}
    found = dict(stepper.step(batch), **stepper.state())
    known = {name.replace("/", "_"): np.asarray(value) for name, value in found.items()}
    known["types"] = sorted({op.type for op in training.graph.get_operations()})
    known["places"] = tf_towers.facts(training, dtype, 1)["float32_in_float64"]
    known["version"] = tf.__version__
    known["inference"] = np.asarray(stepper.evaluate(batch)["eval/mapped"])
    return known


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    return random.standard_normal((2, 3, 3, 3)) * 3e-3, 1e4 * random.standard_normal((2, 3, 3, 3))


def leaky_relu(x):
    return np.where(x > 0, x, 0.3 * x)


def lrn(x):
    squares = np.pad(x * x, [(0, 0)] * 3 + [(1, 1)])
    return x / (1.1 + 0.3 * (squares[..., :-2] + squares[..., 1:-1] + squares[..., 2:])) ** 0.7


def normalized(epsilon):
    return lambda x: (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + epsilon)


@pytest.mark.parametrize("kind", ["leaky_relu", "lrn", "function", "layer"])
def test_in_float64_an_attribute_is_what_the_tower_writes(tf, images, kind):
    x, y = images
    found = tf(_built, kind=kind, dtype="float64", x=x, y=y)
    epsilon = FLOOR if found["version"].startswith("1.") else 1e-5
    rule = {"leaky_relu": leaky_relu, "lrn": lrn}.get(kind, normalized(epsilon))
    w = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(found["act_0_mapped"], rule(x * w), rtol=1e-12, atol=1e-12)
    steps = [1e-6 * (np.arange(3) == axis) for axis in range(3)]
    slopes = [np.sum((rule(x * (w + h)) ** 2 - rule(x * (w - h)) ** 2) * y) / 2e-6 for h in steps]
    scale = np.abs(rule(x * w) ** 2 * y).sum()
    np.testing.assert_allclose(found["tower_grad_0_w"], slopes, rtol=1e-6, atol=1e-8 * scale)
    assert found["places"] == []


def test_a_layer_that_fuses_in_float32_follows_that_rule_in_float64(tf, images):
    exact, kernel = (
        tf(_built, kind="layer", dtype=dtype, x=images[0], y=images[1]) for dtype in ("float64", "float32")
    )
    assert any(name.startswith("FusedBatchNorm") for name in kernel["types"])
    x, decay = images[0] * [0.5, -1.0, 2.0], float(np.float32(1) - np.float32(0.99))
    variance = x.var((0, 1, 2)) * 18 / 17
    moved = exact["stat_norm_moving_variance"]
    np.testing.assert_allclose(moved, 1 - (1 - variance) * decay, rtol=1e-14)
    for name in ("act_0_mapped", "stat_norm_moving_variance", "stat_norm_moving_mean", "inference"):
        assert exact[name].dtype == np.float64
        np.testing.assert_allclose(kernel[name], exact[name], rtol=1e-5, atol=1e-6 * np.abs(exact[name]).max())


@pytest.mark.parametrize(("kind", "op"), [("leaky_relu", "LeakyRelu"), ("lrn", "LRN")])
def test_in_float32_the_op_is_the_tower_s_own(tf, images, kind, op):
    assert op in tf(_built, kind=kind, dtype="float32", x=images[0], y=images[1])["types"]


def _small_epsilon(x):
    from tensorflow.python.ops import gen_nn_ops

    given = [tf.constant(x.astype("float32")), tf.ones([3]), tf.zeros([3])]
    function = tf.nn.fused_batch_norm(*given, epsilon=1e-6)[0]
    kernel = gen_nn_ops.fused_batch_norm_v3(*given, tf.constant([]), tf.constant([]), epsilon=1e-6)[0]
    with tf.Session() as session:
        function, kernel = session.run([function, kernel])
    return {"function": function, "kernel": kernel, "version": tf.__version__}


def test_only_the_function_of_1_15_has_a_floor_of_epsilon_and_no_kernel_on_the_cpu(tf, images):
    found = tf(_small_epsilon, x=images[0])
    floor = FLOOR if found["version"].startswith("1.") else 1e-6
    np.testing.assert_allclose(found["function"], normalized(floor)(images[0]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["kernel"], normalized(1e-6)(images[0]), rtol=1e-4, atol=1e-5)
    assert np.abs(normalized(FLOOR)(images[0]) - normalized(1e-6)(images[0])).max() > 0.1


def _shadowed(x):
    from tf_towers.float64.op_rewrites import expand
    from tf_towers.float64.to_float64 import widen
    from tf_towers.shadow.split import import_graph

    graph = tf.Graph()
    with graph.as_default():
        images = tf.placeholder(tf.float32, x.shape, "images")
        normal = tf.nn.fused_batch_norm(images, tf.ones([3]), tf.zeros([3]), epsilon=1e-5)[0]
        tf.identity(tf.nn.leaky_relu(normal, 0.3), "mapped")
    definition = graph.as_graph_def()
    typed = import_graph(definition)
    widen(definition, {node.name for node in definition.node})
    expand(definition, typed)
    with tf.Session(graph=import_graph(definition)) as session:
        return {"mapped": session.run("mapped:0", {"images:0": x}), "version": tf.__version__}


def test_in_a_shadow_an_attribute_is_the_decimal_that_the_recorded_float32_is_of(tf, images):
    found = tf(_shadowed, x=images[0])
    epsilon = FLOOR if found["version"].startswith("1.") else 1e-5
    np.testing.assert_allclose(found["mapped"], leaky_relu(normalized(epsilon)(images[0])), rtol=1e-12, atol=1e-12)


def _with_a_rounded_attribute(tolerance):
    from tensorflow.python.ops import gen_math_ops

    from tf_towers.float64 import op_rewrites as expand

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float64, [2], "x")
        gen_math_ops.approximate_equal(x, 2 * x, tolerance, name="near")
    refused = {}
    for name, known in (("known", expand.NOT_COMPUTED_WITH), ("unknown", {})):
        before, expand.NOT_COMPUTED_WITH = expand.NOT_COMPUTED_WITH, known
        try:
            expand.expand(graph.as_graph_def(), graph)
            refused[name] = ""
        except ValueError as error:
            refused[name] = str(error)
        finally:
            expand.NOT_COMPUTED_WITH = before
    return refused


def test_a_shadow_is_refused_where_an_unknown_op_computes_with_a_rounded_attribute(tf):
    refused = tf(_with_a_rounded_attribute, tolerance=0.1)
    assert refused["known"] == ""
    assert "got the op near, a ApproximateEqual, which computes with an attribute in float32" in refused["unknown"]
    assert tf(_with_a_rounded_attribute, tolerance=0.5) == {"known": "", "unknown": ""}


def _unknown():
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import kernels, op_def_registry

    from tf_towers.float64.op_rewrites import EXPANSIONS, NOT_COMPUTED_WITH

    if hasattr(op_def_registry, "get_registered_ops"):
        registered = op_def_registry.get_registered_ops()
    else:
        from tensorflow.core.framework import op_def_pb2
        from tensorflow.python.client import pywrap_tf_session

        everything = op_def_pb2.OpList()
        everything.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
        registered = {each.name: each for each in everything.op}

    def takes_double(described):
        names = [
            attr.name
            for attr in described.attr
            if attr.type == "type" and types_pb2.DT_DOUBLE in (attr.allowed_values.list.type or [types_pb2.DT_DOUBLE])
        ]
        found = kernels.get_registered_kernels_for_op(described.name).kernel
        return bool(names) and any(
            all(
                types_pb2.DT_DOUBLE in (each.allowed_values.list.type or [types_pb2.DT_DOUBLE])
                for each in kernel.constraint
                if each.name in names
            )
            for kernel in found
            if kernel.device_type in ("CPU", "DEFAULT")
        )

    with_floats = {
        name: described
        for name, described in registered.items()
        if any(attr.type in ("float", "list(float)") for attr in described.attr)
    }
    # Those with an underscore are made by optimizers of graphs, which do not run here; XLA's are for its compiler.
    of_towers = {name: each for name, each in with_floats.items() if not name.startswith(("_", "Xla"))}
    known = set(EXPANSIONS) | set(NOT_COMPUTED_WITH)
    return {
        "unknown": sorted(name for name, each in of_towers.items() if takes_double(each) and name not in known),
        "gone": sorted(set(NOT_COMPUTED_WITH) - set(with_floats)),
        "registered": len(registered),
        "version": tf.__version__,
    }


def test_every_op_with_a_float_attribute_that_takes_float64_is_known(tf):
    found = tf(_unknown)
    assert found["registered"] > 500
    assert found["unknown"] == []
    assert found["gone"] == [] or found["version"].startswith("1.")
