# ruff: noqa: F821 - programs find tf, tf_towers and small there
import numpy as np
import pytest

MOMENTUM, EPSILON = 0.999, 1e-3


def _normalised(x, dtype, training=True, momentum=0.999):
    inputs = tf.constant(x.astype(dtype))
    outputs = tf_towers.batch_norm(inputs, "norm", momentum, 1e-3, training)
    gradient = tf.gradients(tf.reduce_sum(outputs * tf.sin(inputs)), inputs)[0]
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for name in ("gamma", "beta", "moving_mean", "moving_variance"):
            variable = variables["norm/" + name]
            variable.load(np.linspace(0.5, 2.0, x.shape[-1]).astype(dtype), session)
        found = session.run({"outputs": outputs, "gradient": gradient})
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        found.update(session.run(variables))
    found["updates"] = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    found["trainable"] = [variable.op.name for variable in tf.trainable_variables()]
    return found


def _fused_takes_float64():
    try:
        tf.nn.fused_batch_norm(tf.zeros([2, 2, 2, 1], tf.float64), *[tf.zeros([1], tf.float64)] * 2)
    except (TypeError, ValueError):
        return {"taken": False}
    return {"taken": True}


@pytest.fixture
def images():
    return 3 + 2 * np.random.default_rng(0).standard_normal((2, 3, 3, 4))


def test_the_fused_kernel_has_no_float64_form(tf):
    assert tf(_fused_takes_float64) == {"taken": False}


def test_float64_follows_the_float32_kernel(tf, images):
    exact, kernel = (tf(_normalised, x=images, dtype=dtype) for dtype in ("float64", "float32"))
    assert exact["outputs"].dtype == np.float64
    assert kernel["outputs"].dtype == np.float32
    for name in ("outputs", "gradient", "norm/moving_mean", "norm/moving_variance"):
        scale = np.abs(exact[name]).max()
        assert np.abs(exact[name] - kernel[name]).max() < 2e-6 * scale, name


def test_a_single_value_of_a_channel_has_no_variance_in_either_precision(tf, images):
    exact, kernel = (tf(_normalised, x=images[:1, :1, :1], dtype=dtype) for dtype in ("float64", "float32"))
    decay = float(np.float32(1) - np.float32(MOMENTUM))
    moved = np.linspace(0.5, 2.0, 4) * (1 - decay)
    np.testing.assert_allclose(kernel["norm/moving_variance"], moved, rtol=1e-6)
    np.testing.assert_allclose(exact["norm/moving_variance"], moved, rtol=1e-14)


def test_float64_is_the_fused_rule_to_rounding(tf, images):
    answer = tf(_normalised, x=images, dtype="float64")
    old = np.linspace(0.5, 2.0, 4)
    mean, variance, count = images.mean((0, 1, 2)), images.var((0, 1, 2)), 18
    np.testing.assert_allclose(
        answer["outputs"], (images - mean) / np.sqrt(variance + EPSILON) * old + old, rtol=1e-13, atol=1e-13
    )
    decay = float(np.float32(1) - np.float32(MOMENTUM))
    np.testing.assert_allclose(answer["norm/moving_mean"], old - (old - mean) * decay, rtol=1e-15)
    unbiased = variance * count / (count - 1)
    np.testing.assert_allclose(answer["norm/moving_variance"], old - (old - unbiased) * decay, rtol=1e-15)
    biased = old - (old - variance) * decay
    assert np.abs(answer["norm/moving_variance"] - biased).max() > 1e-6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inference_takes_the_moving_statistics_and_updates_nothing(tf, images, dtype):
    answer = tf(_normalised, x=images, dtype=dtype, training=False)
    old = np.linspace(0.5, 2.0, 4)
    expected = (images - old) / np.sqrt(old + EPSILON) * old + old
    # On the scale of the largest: an output near zero is a difference of terms of that size.
    assert np.abs(answer["outputs"] - expected).max() <= 4 * np.finfo(dtype).eps * np.abs(expected).max()
    assert answer["updates"] == 0
    np.testing.assert_array_equal(answer["norm/moving_mean"], old.astype(dtype))


def test_gamma_and_beta_are_trained_and_the_statistics_are_not(tf, images):
    answer = tf(_normalised, x=images, dtype="float64")
    assert answer["trainable"] == ["norm/gamma", "norm/beta"]
    assert answer["updates"] == 2


def _over_towers(x, towers, dtype):
    whole = tf.constant(x.astype(dtype))
    shards = tf.split(whole, towers)
    with tf.variable_scope("together"):
        outputs = tf.concat(tf_towers.batch_norm_over_towers(shards, "norm", 0.5), 0)
    with tf.variable_scope("one"):
        reference = tf_towers.batch_norm(whole, "norm", 0.5)
    gradients = [tf.gradients(tf.reduce_sum(one * tf.sin(whole)), whole)[0] for one in (outputs, reference)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run({"ours": [outputs, gradients[0]], "one": [reference, gradients[1]]})
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        moved = session.run({variable.op.name: variable for variable in tf.global_variables()})
    arrays = {f"{name}{place}": value for name, pair in found.items() for place, value in enumerate(pair)}
    return dict(arrays, updates=len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)), **moved)


def test_over_towers_it_is_the_batch_norm_of_the_whole_batch(tf, images):
    answer = tf(_over_towers, x=np.concatenate([images, images[:1] ** 2, images[1:]]), towers=2, dtype="float64")
    for place in range(2):
        np.testing.assert_allclose(answer[f"ours{place}"], answer[f"one{place}"], rtol=1e-10, atol=1e-12)
    for name in ("moving_mean", "moving_variance"):
        np.testing.assert_allclose(answer[f"together/norm/{name}"], answer[f"one/norm/{name}"], rtol=1e-13)
    assert answer["updates"] == 4


def _responses(x, dtype, radius):
    inputs = tf.constant(x.astype(dtype))
    outputs = tf_towers.local_response_normalization(inputs, radius, bias=1.5, alpha=0.3, beta=0.75)
    gradient = tf.gradients(tf.reduce_sum(outputs * tf.sin(inputs)), inputs)[0]
    with tf.Session() as session:
        return session.run({"outputs": outputs, "gradient": gradient})


@pytest.mark.parametrize("radius", [0, 1, 2, 5])
def test_local_responses_in_float64_follow_the_float32_kernel(tf, images, radius):
    exact, kernel = (tf(_responses, x=images, dtype=dtype, radius=radius) for dtype in ("float64", "float32"))
    assert exact["outputs"].dtype == np.float64 and kernel["outputs"].dtype == np.float32
    for name in ("outputs", "gradient"):
        assert np.abs(exact[name] - kernel[name]).max() < 2e-6 * np.abs(exact[name]).max(), name


def _takes_float64():
    try:
        tf.nn.local_response_normalization(tf.zeros([1, 2, 2, 4], tf.float64))
    except TypeError:
        return {"taken": False}
    return {"taken": True}


def test_the_kernel_of_local_responses_has_no_float64_form(tf):
    assert tf(_takes_float64) == {"taken": False}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_epsilon_below_that_of_1_15_is_raised_to_it_everywhere(tf, images, dtype, training):
    answer = tf(_with_a_small_epsilon, x=1e-3 * images, dtype=dtype, training=training)
    np.testing.assert_array_equal(answer["small"], answer["floor"])
    assert np.any(answer["small"] != answer["larger"])


def _with_a_small_epsilon(x, dtype, training):
    inputs, epsilons = tf.constant(x.astype(dtype)), {"small": 1e-6, "floor": 1.001e-5, "larger": 2e-5}
    built = {
        name: tf_towers.batch_norm(inputs, name, epsilon=epsilon, training=training)
        for name, epsilon in epsilons.items()
    }
    return small.run(built)
