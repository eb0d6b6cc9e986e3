# ruff: noqa: F821 - programs find tf_towers there
import numpy as np
import pytest


def _perturbed(seed, **state):
    given = {name.replace("__", "/"): value for name, value in state.items()}
    return tf_towers.perturbed(given, seed)


STATE = {
    "var__w": np.linspace(-1, 1, 50),
    "var__b": np.zeros(50),
    "stat__mean": np.zeros(50),
    "stat__variance": np.full(50, 2.0),
    "slot__m__w": np.zeros(50),
    "slot__v__w": np.zeros(50),
    "state__global_step": np.array(3, np.int64),
    "state__beta1_power": np.array(0.9, np.float32),
}


def test_weights_statistics_and_slots_move_and_counters_stay(tf):
    answer = tf(_perturbed, seed=0, **STATE)
    for name, value in STATE.items():
        moved = answer[name.replace("__", "/")]
        assert moved.dtype == value.dtype
        if name.startswith("state"):
            assert moved == value
        else:
            assert np.all(moved != value), name
    assert np.std(answer["var/w"] - STATE["var__w"]) == pytest.approx(
        0.1 * np.sqrt(np.mean(STATE["var__w"] ** 2)), rel=0.3
    )


def test_variances_and_squared_slots_stay_positive_and_the_others_take_both_signs(tf):
    answer = tf(_perturbed, seed=0, **STATE)
    assert answer["stat/variance"].min() > 0
    assert answer["slot/v/w"].min() > 0
    assert answer["slot/m/w"].min() < 0 < answer["slot/m/w"].max()
    assert answer["stat/mean"].min() < 0


def _by_no_name(seed, **state):
    return tf_towers.perturbed({name.replace("__", "/"): value for name, value in state.items()}, seed, False)


def test_no_slot_of_a_scripts_own_optimizer_starts_below_zero(tf):
    answer = tf(_by_no_name, seed=0, **STATE)
    assert answer["slot/m/w"].min() > 0 and answer["slot/v/w"].min() > 0
    assert answer["var/w"].min() < 0


def _own_classes():
    import tensorflow.compat.v1 as real

    from tf_towers.graph.update.optimizer import names_slots_as_tensorflow

    class Own(real.train.AdamOptimizer):
        pass

    class Several:
        first, others = real.train.AdamOptimizer(), {"head": Own()}

    known = [names_slots_as_tensorflow(each) for each in (real.train.AdamOptimizer(), Own(), Several())]
    return {"known": np.array(known)}


def test_names_of_slots_are_known_of_tensorflows_own_optimizers_alone(tf):
    assert tf(_own_classes)["known"].tolist() == [True, False, False]


def test_every_precision_starts_from_the_same_place(tf):
    answer = tf(_perturbed, seed=0, **STATE)
    for value in answer.values():
        if value.dtype == np.float64:
            np.testing.assert_array_equal(value, value.astype(np.float32))


def test_noise_depends_on_the_seed_and_the_name_and_on_nothing_else(tf):
    first, again, other = (tf(_perturbed, seed=seed, **STATE) for seed in (0, 0, 1))
    alone = tf(_perturbed, seed=0, var__b=STATE["var__b"])
    np.testing.assert_array_equal(first["var/b"], again["var/b"])
    np.testing.assert_array_equal(first["var/b"], alone["var/b"])
    assert np.all(first["var/b"] != other["var/b"])
    assert np.all(first["var/b"] != first["stat/mean"])
