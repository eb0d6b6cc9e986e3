"""Rules of clipping are recognised by what a graph computes, however a script writes them."""

# ruff: noqa: F821, B905 - programs find tf there, and Python 3.7 reads them

import pytest


def _recognised(way, weights=2):
    import numpy as np

    from tf_towers.record.clipping import clipping_of
    from tf_towers.record.hooks import ApplyCall, Calls, GradientCall
    from tf_towers.record.plan import make_section

    graph = tf.get_default_graph()
    x = tf.placeholder(tf.float32, [4, 3], "x")
    limit = tf.placeholder(tf.float32, [], "limit")
    shapes = [[3, 2], [2], []][:weights]
    variables = [tf.get_variable(f"w{i}", shape) for i, shape in enumerate(shapes)]

    def norm(gradients):
        return tf.sqrt(sum(tf.reduce_sum(tf.square(each)) for each in gradients))

    def ordered(gradients, clip):
        return [clip(each) for each in gradients]

    ways = {
        "nothing": lambda found: found,
        "copied": lambda found: ordered(found, tf.identity),
        "global_norm": lambda found: tf.clip_by_global_norm(found, 5.0)[0],
        "fed_global_norm": lambda found: tf.clip_by_global_norm(found, limit)[0],
        "own_global_norm": lambda found: ordered(found, lambda each: each * (5.0 / tf.maximum(norm(found), 5.0))),
        "another_own": lambda found: ordered(found, lambda each: tf.minimum(1.0, 5.0 / norm(found)) * each),
        "norm": lambda found: ordered(found, lambda each: tf.clip_by_norm(each, 0.3)),
        "value": lambda found: ordered(found, lambda each: tf.clip_by_value(each, -0.1, 0.2)),
        "above": lambda found: ordered(found, lambda each: tf.minimum(each, 0.2)),
        "fed_value": lambda found: ordered(found, lambda each: tf.clip_by_value(each, -1.0, limit)),
        "fed_both": lambda found: ordered(found, lambda each: tf.clip_by_value(each, -limit, limit)),
        "scale": lambda found: ordered(found, lambda each: each * 0.25),
        "some": lambda found: [tf.clip_by_norm(found[0], 0.3), *found[1:]],
        "norm_of_some": lambda found: [found[0] * (5.0 / tf.maximum(norm(found), 5.0)), *found[1:]],
        "two_limits": lambda found: [tf.clip_by_norm(each, 0.3 + i) for i, each in enumerate(found)],
        "normalised": lambda found: ordered(found, lambda each: each / tf.norm(each)),
        "average_norm": lambda found: ordered(found, lambda each: tf.clip_by_average_norm(each, 0.3)),
        "tanh": lambda found: ordered(found, tf.tanh),
        "cond": lambda found: ordered(found, lambda each: tf.cond(limit > 1.0, lambda: each, lambda: 0.1 * each)),
    }
    inside, _, after = way.rpartition(" then ")
    calls = Calls()
    towers = []
    for piece in tf.split(x, 2):
        value = tf.matmul(piece, variables[0])
        for each in variables[1:]:
            value = value * each
        loss = tf.reduce_mean(tf.square(value - 1.0))
        gradients = tf.gradients(loss, variables)
        calls.gradients.append(GradientCall([loss], list(zip(gradients, variables)), "", "", "tf.gradients"))
        towers.append(ways[inside or "nothing"](gradients))
    combined = ways[after]([tf.add_n(each) / 2.0 for each in zip(*towers)])
    pairs = list(zip(combined, variables))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    section, _ = make_section(ApplyCall(optimizer, pairs, None, optimizer.apply_gradients(pairs)), "SGD", "", calls)
    known = len(graph.get_operations())
    found = clipping_of(section)
    assert len(graph.get_operations()) == known
    assert "cond" in way or {each.kind for each in section.combinations.values()} == {"mean"}
    if found is not None:
        found = {name: float(np.float32(each)) if isinstance(each, float) else each for name, each in found.items()}
    return {"rule": found}


AFTER = {"place": "after_combining"}
OTHER = {"kind": "other", **AFTER}
NORM = {"kind": "norm", "limit": pytest.approx(0.3), **AFTER}
GLOBAL = {"kind": "global_norm", "limit": 5.0, **AFTER}
RULES = {
    "nothing": None,
    "copied": None,
    "global_norm": GLOBAL,
    "own_global_norm": GLOBAL,
    "another_own": GLOBAL,
    "fed_global_norm": {**GLOBAL, "limit": "limit:0"},
    "norm": NORM,
    "value": {"kind": "value", "low": pytest.approx(-0.1), "high": pytest.approx(0.2), **AFTER},
    "above": {"kind": "value", "low": None, "high": pytest.approx(0.2), **AFTER},
    "fed_value": {"kind": "value", "low": -1.0, "high": "limit:0", **AFTER},
    "scale": {"kind": "scale", "factor": 0.25, **AFTER},
    "some": {**NORM, "variables": ["w0"]},
    **dict.fromkeys(("norm_of_some", "two_limits", "normalised", "average_norm", "tanh", "fed_both"), OTHER),
    "cond": {"kind": "other", "place": None},
    "global_norm then nothing": {**GLOBAL, "place": "before_combining"},
    "norm then nothing": {**NORM, "place": "before_combining"},
    "average_norm then nothing": {"kind": "other", "place": "before_combining"},
    "scale then global_norm": {
        **GLOBAL,
        "first": {"kind": "scale", "factor": 0.25, "place": "before_combining"},
    },
}


@pytest.mark.parametrize("way", RULES)
def test_a_rule_is_recognised_by_what_it_computes(tf, way):
    assert tf(_recognised, way=way)["rule"] == RULES[way]


@pytest.mark.parametrize("way", ["global_norm", "value", "fed_global_norm"])
def test_a_scalars_gradient_is_clipped_with_the_others(tf, way):
    assert tf(_recognised, way=way, weights=3)["rule"] == RULES[way]


@pytest.mark.parametrize("way", ["norm", "global_norm"])
def test_of_one_gradient_alone_either_norm_is_its_norm(tf, way):
    assert tf(_recognised, way=way, weights=1)["rule"]["kind"] == "norm"
