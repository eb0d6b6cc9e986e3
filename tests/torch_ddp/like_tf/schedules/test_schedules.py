import numpy as np
import pytest
import torch

from torch_ddp import like_tf
from torch_ddp.like_tf import float32_math

STEPS = [*range(260), 999, 1000, 1001, 3000, 12_345, 2**24 + 1]
CASES = {
    "exponential": ("exponential_decay", [0.1], {"decay_steps": 7, "decay_rate": 0.96}),
    "exponential, staircase": ("exponential_decay", [0.3], {"decay_steps": 7, "decay_rate": 0.9, "staircase": True}),
    "exponential, late stairs": ("exponential_decay", [0.3], {"decay_steps": 41, "decay_rate": 0.9, "staircase": True}),
    "natural exp": ("natural_exp_decay", [0.1], {"decay_steps": 13, "decay_rate": 0.05}),
    "natural exp, staircase": ("natural_exp_decay", [0.1], {"decay_steps": 13, "decay_rate": 0.05, "staircase": True}),
    "inverse time": ("inverse_time_decay", [0.1], {"decay_steps": 10, "decay_rate": 0.5}),
    "inverse time, staircase": ("inverse_time_decay", [0.1], {"decay_steps": 10, "decay_rate": 0.5, "staircase": True}),
    "polynomial": ("polynomial_decay", [0.1], {"decay_steps": 50}),
    "polynomial, power": ("polynomial_decay", [0.1], {"decay_steps": 50, "end_learning_rate": 0.01, "power": 0.7}),
    "polynomial, cycle": ("polynomial_decay", [0.1], {"decay_steps": 50, "power": 2.0, "cycle": True}),
    **{
        f"polynomial, cycles of {steps}": (
            "polynomial_decay",
            [0.1],
            {"decay_steps": steps, "end_learning_rate": 0.001, "cycle": True},
        )
        for steps in (7, 30, 60, 1000)
    },
    "cosine": ("cosine_decay", [0.1], {"decay_steps": 200}),
    "cosine, alpha": ("cosine_decay", [0.1], {"decay_steps": 77, "alpha": 0.1}),
    "restarts": ("cosine_decay_restarts", [0.1], {"first_decay_steps": 10}),
    "restarts, m_mul": ("cosine_decay_restarts", [0.1], {"first_decay_steps": 7, "t_mul": 1.5, "m_mul": 0.8}),
    "restarts, equal": ("cosine_decay_restarts", [0.1], {"first_decay_steps": 20, "t_mul": 1.0, "alpha": 0.05}),
    "piecewise": ("piecewise_constant", [], {"boundaries": [3, 10, 100], "values": [0.1, 0.03, 0.01, 0.003]}),
}


def tf_schedule(tf, np, session, name, first, settings, steps, optimized=True):
    step = tf.placeholder("int64", [])
    place = {"x": step} if name == "piecewise_constant" else {"global_step": step}
    rate = getattr(tf.train, name)(*first, **dict(settings, **place))
    with session(optimized) as opened:
        return {"rates": [opened.run(rate, {step: value}) for value in steps], "dtype": rate.dtype.name}


@pytest.mark.parametrize("optimized", [True, False], ids=["grappler", "plain"])
@pytest.mark.parametrize("case", CASES)
def test_the_rate_is_tensorflows_float32_bit_for_bit_at_every_step(tf, case, optimized):
    name, first, settings = CASES[case]
    want = tf(tf_schedule, name=name, first=first, settings=settings, steps=STEPS, optimized=optimized)
    assert want["dtype"] == "float32"
    switch = {} if name == "piecewise_constant" else {"optimized": optimized}
    schedule = getattr(like_tf, name)(*first, **settings, **switch)
    _assert_bit_equal([schedule(step) for step in STEPS], want["rates"])


def _assert_bit_equal(got, want):
    wrong = np.flatnonzero(np.array(got) != want.astype(np.float64))
    assert not wrong.size, f"{wrong.size} steps differ, first {wrong[0]}: {got[wrong[0]]} for {want[wrong[0]]}"


def test_the_graph_optimizer_makes_a_stair_of_41_steps_late(tf2, semantics):
    name, first, settings = CASES["exponential, late stairs"]
    want = tf2(tf_schedule, name=name, first=first, settings=settings, steps=list(range(60)))["rates"]
    assert want[41] == want[0] > want[42]
    true = 0.3 * 0.9 ** (41 // 41)
    semantics(
        "Exponential decay with staircase, decay_steps 41, at step 41",
        "`step / 41` becomes `step * float32(1 / 41)`, below 1: the stair is a step late",
        "`step // 41`",
        float(abs(true / want[41] - 1)),
        "exponential_decay",
    )


def test_a_cycle_of_1000_steps_ends_early_where_the_reciprocal_is_rounded_up():
    arguments = {"learning_rate": 0.1, "decay_steps": 1000, "end_learning_rate": 0.001, "cycle": True}
    assert like_tf.polynomial_decay(**arguments)(3000) == pytest.approx(0.02575)
    assert like_tf.polynomial_decay(**arguments, optimized=False)(3000) == pytest.approx(0.001)


def tf_warm_up(tf, np, session, steps, optimized):
    """The lines of BERT's optimization.py."""
    step = tf.placeholder("int64", [])
    initial = tf.constant(value=5e-5, shape=[], dtype=tf.float32)
    rate = tf.train.polynomial_decay(initial, step, 100, end_learning_rate=0.0, power=1.0, cycle=False)
    done = tf.cast(step, tf.float32) / tf.cast(tf.constant(20, dtype=tf.int32), tf.float32)
    warming = tf.cast(tf.cast(step, tf.int32) < 20, tf.float32)
    rate = (1.0 - warming) * rate + warming * (initial * done)
    with session(optimized) as opened:
        return {"rates": [opened.run(rate, {step: value}) for value in steps]}


@pytest.mark.parametrize("optimized", [True, False], ids=["grappler", "plain"])
def test_warm_up_is_berts(tf, optimized):
    want = tf(tf_warm_up, steps=STEPS[:200], optimized=optimized)["rates"]
    after = like_tf.polynomial_decay(5e-5, 100, end_learning_rate=0.0, optimized=optimized)
    schedule = like_tf.linear_warm_up(5e-5, 20, after, optimized)
    _assert_bit_equal([schedule(step) for step in STEPS[:200]], want)
    assert schedule(0) == 0.0


def tf_noam(tf, np, session, steps, optimized):
    """The line of tensor2tensor's learning_rate.py."""
    step = tf.placeholder("int64", [])
    number = tf.cast(step, tf.float32)
    rate = 5000.0 * 512**-0.5 * tf.minimum((number + 1) * 40**-1.5, (number + 1) ** -0.5)
    with session(optimized) as opened:
        return {"rates": [opened.run(rate, {step: value}) for value in steps]}


@pytest.mark.parametrize("optimized", [True, False], ids=["grappler", "plain"])
def test_noam_is_tensor2tensors(tf, optimized):
    want = tf(tf_noam, steps=STEPS, optimized=optimized)["rates"]
    schedule = like_tf.noam_decay(5000.0, 512, 40, optimized)
    _assert_bit_equal([schedule(step) for step in STEPS], want)


def test_noam_refuses_what_has_no_root():
    with pytest.raises(like_tf.LikeTfError, match="noam_decay: expected a positive d_model, got 0"):
        like_tf.noam_decay(1.0, 0, 40)
    with pytest.raises(like_tf.LikeTfError, match="noam_decay: expected a positive number of steps, got 0"):
        like_tf.noam_decay(1.0, 512, 0)


def test_multi_step_lr_changes_a_step_early(tf2, semantics):
    settings = {"boundaries": [3], "values": [0.1, 0.01]}
    want = tf2(tf_schedule, name="piecewise_constant", first=[], settings=settings, steps=list(range(6)))["rates"]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    plain = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3], gamma=0.1)
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        plain.step()
    wrong = np.flatnonzero(np.abs(np.array(rates) / want - 1) > 0.01)
    assert wrong.tolist() == [3]
    semantics(
        "Piecewise constant rate, at the boundary itself",
        "old value while `step <= boundary`",
        "`MultiStepLR` changes when `step == milestone`",
        float(abs(rates[3] / want[3] - 1)),
        "piecewise_constant",
    )


def test_a_schedule_in_double_precision_is_not_the_graphs(tf2, semantics):
    name, first, settings = CASES["exponential"]
    want = tf2(tf_schedule, name=name, first=first, settings=settings, steps=STEPS[:260])["rates"].astype(np.float64)
    double = np.array([0.1 * 0.96 ** (step / 7) for step in STEPS[:260]])
    off = float(np.abs(double / want - 1).max())
    assert off > 1e-8
    semantics(
        "Decaying learning rates",
        "float32 in the graph's order, of the step before its increment",
        "Python doubles",
        off,
        "exponential_decay, natural_exp_decay, inverse_time_decay, polynomial_decay, cosine_decay, "
        "cosine_decay_restarts, linear_warm_up, noam_decay, Scheduler",
    )


def test_without_the_c_library_the_double_is_rounded_instead(monkeypatch):
    with_library = [like_tf.cosine_decay_restarts(0.1, 7, 1.5, 0.8)(step) for step in range(60)]

    def no_library(name):
        raise OSError("no library")

    monkeypatch.setattr(float32_math.ctypes, "CDLL", no_library)
    float32_math._libm.cache_clear()
    try:
        without = [like_tf.cosine_decay_restarts(0.1, 7, 1.5, 0.8)(step) for step in range(60)]
    finally:
        float32_math._libm.cache_clear()
    assert np.abs(np.array(without) / with_library - 1).max() < 1e-6


def test_the_scheduler_gives_each_step_the_rate_of_its_number_and_resumes():
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = like_tf.Momentum([{"params": [p]} for p in parameters], lr=9.0)
    falling, flat = like_tf.exponential_decay(0.5, 2, 0.5), like_tf.piecewise_constant([], [0.25])
    scheduler = like_tf.Scheduler(optimizer, [falling, flat])
    for step in range(4):
        assert [group["lr"] for group in optimizer.param_groups] == [falling(step), 0.25]
        optimizer.step()
        scheduler.step()
    other = like_tf.Scheduler(optimizer, falling)
    other.load_state_dict(scheduler.state_dict())
    optimizer.step()
    other.step()
    assert [group["lr"] for group in optimizer.param_groups] == [falling(5)] * 2


def test_the_state_of_a_scheduler_holds_no_code():
    optimizer = like_tf.GradientDescent([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    state = like_tf.Scheduler(optimizer, like_tf.cosine_decay(0.1, 5)).state_dict()
    assert state["last_epoch"] == 0
    assert not any(callable(value) for value in state.values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: like_tf.exponential_decay(0.1, 0, 0.9),
            "exponential_decay: expected a positive number of steps, got 0",
        ),
        (lambda: like_tf.piecewise_constant([1, 2], [0.1, 0.2]), "one value more than the 2 boundaries, got 2"),
        (lambda: like_tf.piecewise_constant([2, 1], [1, 2, 3]), r"expected increasing boundaries, got \[2, 1\]"),
        (
            lambda: like_tf.Scheduler(like_tf.Adam([torch.nn.Parameter(torch.ones(1))]), [float, float]),
            "expected 1 schedules, one per parameter group, got 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call()
