"""What the recorded numbers of a step say of a script, on sections of a few numbers."""

import pytest


def _combined(steps):
    from types import SimpleNamespace

    import numpy as np

    from tf_towers.record.hazards.values import combine_from_values

    found = []
    for towers, prefix, tensors in steps:
        names = {key.rpartition("/")[2] for key in tensors}
        section = SimpleNamespace(towers=[None] * towers, prefix=prefix, combinations=dict.fromkeys(names))
        arrays = {prefix + key: np.array(value, np.float32) for key, value in tensors.items()}
        found.append(combine_from_values(section, arrays))
    return {"found": found}


def _of_two(combined, name="w", **more):
    return {f"tower_grad/0/{name}": [1.0, 2.0], f"tower_grad/1/{name}": [3.0, 2.0], f"grad/{name}": combined, **more}


COMBINED = [
    ("mean", 2, "", _of_two([2.0, 2.0])),
    ("sum", 2, "", _of_two([4.0, 4.0])),
    ("mean", 2, "section/a/", _of_two([2.0, 2.0])),
    ("other", 2, "", _of_two([3.0, 3.0])),
    ("other", 2, "", _of_two([-2.0, -2.0])),
    ("mean", 2, "", _of_two([2.0 * 1.0009, 2.0 * 1.0009])),
    ("other", 2, "", _of_two([2.0 * 1.0011, 2.0 * 1.0011])),
    ("sum", 2, "", _of_two([4.0 * 1.0009, 4.0 * 1.0009])),
    ("sum", 2, "", _of_two([4.0 + 0.0036, 4.0 - 0.0036])),  # beside the sum by 0.9e-3 of it
    ("other", 2, "", _of_two([4.0 + 0.0044, 4.0 - 0.0044])),
    ("mean", 3, "", {**_of_two([2.0, 2.0]), "tower_grad/2/w": [2.0, 2.0]}),
    ("other", 3, "", {**_of_two([3.0, 3.0]), "tower_grad/2/w": [2.0, 2.0]}),
    ("unknown", 1, "", _of_two([1.0, 2.0])),
    ("unknown", 3, "", _of_two([2.0, 2.0])),  # one tower has none
    ("unknown", 2, "", {"tower_grad/0/w": [1.0, 2.0], "tower_grad/1/w": [3.0, 2.0]}),
    ("unknown", 2, "", _of_two([2.0])),
    ("unknown", 2, "", {**_of_two([0.0, 0.0]), "tower_grad/1/w": [-1.0, -2.0]}),
    ("unknown", 2, "", {**_of_two([2.0, 2.0]), "tower_grad/1/w": [float("inf"), 2.0]}),
    ("sum", 2, "", {**_of_two([4.0, 4.0]), **_of_two([0.0, 0.0], "b"), "tower_grad/1/b": [-1.0, -2.0]}),
    ("other", 2, "", {**_of_two([4.0, 4.0]), **_of_two([2.0, 2.0], "b")}),
    ("mean", 2, "", {**_of_two([1.0, 1.0]), "tower_clip/0/w": [1.0, 1.0], "tower_clip/1/w": [1.0, 1.0]}),
]


def test_the_numbers_tell_how_gradients_are_combined(tf):
    found = tf(_combined, steps=[list(case[1:]) for case in COMBINED])["found"]
    assert found == [case[0] for case in COMBINED]


def _hazards(cases):
    from types import SimpleNamespace

    import numpy as np

    from tf_towers.record.hazards import values

    found, behind = [], values.cut_behind
    try:
        for towers, cut in cases:
            values.cut_behind = lambda section, cut=cut: cut
            inputs = [[SimpleNamespace(name=name) for name in tower] for tower in towers]
            section = SimpleNamespace(towers=[None] * len(towers), prefix="section/a/", inputs=inputs)
            tensors = {
                f"section/a/feed/{number}/{name}": np.array(value, np.int32 if name == "label" else np.float32)
                for number, tower in enumerate(towers)
                for name, value in tower.items()
                if value is not None
            }
            found.append([[each.name, each.evidence] for each in values.hazards_in_values(section, tensors)])
    finally:
        values.cut_behind = behind
    return {"found": found}


ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
OTHER = [[7.0, 8.0], [9.0, 1.0], [2.0, 3.0]]
LATER = [*ROWS[1:], [7.0, 8.0]]
CASES = [
    ([{"x": ROWS}, {"x": OTHER}], False, None),
    ([{"x": ROWS}, {"x": OTHER[:2]}], False, ("uneven_shards", "the towers get 3, 2 examples")),
    ([{"x": ROWS}, {"x": ROWS}], False, ("same_data", "towers 0 and 1 get the very same batch (x)")),
    ([{"x": ROWS}, {"x": ROWS}], True, None),  # cut behind what was recorded
    ([{"x": ROWS}, {"x": LATER}], False, ("overlapping_data", "towers 0 and 1 share 2 of 3 examples (x)")),
    ([{"x": ROWS}, {"x": LATER}], True, ("overlapping_data", "towers 0 and 1 share 2 of 3 examples (x)")),
    (
        [{"x": ROWS, "rate": 0.5}, {"x": ROWS, "rate": 0.5}],
        False,
        ("same_data", "towers 0 and 1 get the very same batch (x)"),
    ),
    ([{"x": ROWS, "label": [1, 2, 3]}, {"x": LATER, "label": [4, 5, 6]}], False, None),  # none of whole examples
    (
        [{"x": ROWS, "label": [1, 2, 3]}, {"x": LATER, "label": [2, 3, 4]}],
        False,
        ("overlapping_data", "towers 0 and 1 share 2 of 3 examples (label, x)"),
    ),
    ([{"label": [1, 2, 3]}, {"label": [1, 2, 3]}], False, None),  # labels repeat by chance
    (
        [{"label": [[1], [2]]}, {"label": [[1], [2]]}],
        False,
        ("same_data", "towers 0 and 1 get the very same batch (label)"),
    ),
    ([{"x": [1.0, 1.0]}, {"x": [1.0, 1.0]}], False, None),  # constants
    ([{"x": [1.0, 2.0]}, {"x": [1.0, 2.0]}], False, ("same_data", "towers 0 and 1 get the very same batch (x)")),
    ([{"x": ROWS, "label": [1, 2]}, {"x": ROWS, "label": [1, 2]}], False, None),  # not as many of both
    ([{"x": ROWS}, {"label": [1, 2, 3]}], False, None),
    ([{"x": ROWS}], False, None),
    ([{"x": 0.5}, {"x": 0.5}], False, None),
    ([{"x": ROWS}, {"x": OTHER}, {"x": ROWS[:1]}], False, ("uneven_shards", "the towers get 3, 3, 1 examples")),
    (
        [{"x": ROWS, "y": None}, {"x": ROWS, "y": None}],
        False,
        ("same_data", "towers 0 and 1 get the very same batch (x)"),
    ),
]


def test_the_numbers_tell_whose_examples_are_shared_or_uneven(tf):
    found = tf(_hazards, cases=[[towers, cut] for towers, cut, _ in CASES])["found"]
    assert found == [[list(hazard)] if hazard else [] for *_, hazard in CASES]


def _twice(steps):
    import numpy as np

    from tf_towers.record.hazards.values import Batches

    batches, plans = Batches(), {}
    found = []
    for number, (plan, value, more) in enumerate(steps):
        tensors = {"feed/0/x": np.array(value), "feed/0/rate": np.array(0.5), "loss/0": np.array(number), **more}
        if value is None:
            del tensors["feed/0/x"]
        hazards = batches.look(plans.setdefault(plan, object()), number, tensors)
        found.append([each.evidence for each in hazards])
    return {"found": found}


def test_a_batch_is_trained_twice_where_another_run_is_made_on_the_very_same(tf):
    steps = [
        ("a", [1.0, 2.0], {}),
        ("a", [1.0, 2.0], {}),
        ("b", [1.0, 2.0], {}),
        ("a", [1.0, 3.0], {}),
        ("b", None, {}),
    ]
    found = tf(_twice, steps=[*steps, ("a", None, {})])["found"]
    assert [bool(each) for each in found] == [False, False, True, False, False, False]
    assert found[2] == ["steps 1 and 2 are two runs of other fetches on the very same batch"]


def _not_applied(cases):
    from types import SimpleNamespace

    import numpy as np

    from tf_towers.record import update_check

    writers, settings_of = update_check.writers_of, update_check.hyper_parameters
    found = []
    try:
        for name, settings, before, after, tensors, writes in cases:
            optimizer = type(str(name), (), {})()
            pairs = [(None, SimpleNamespace(op=SimpleNamespace(name=each))) for each in ("w", "b")]
            section = SimpleNamespace(prefix="section/a/", apply=SimpleNamespace(optimizer=optimizer, pairs=pairs))
            update_check.writers_of = lambda variable, ops, writes=writes: [None] * writes
            update_check.hyper_parameters = lambda optimizer, settings=settings: settings
            arrays = [
                {key: np.array(value, np.float32) for key, value in each.items()} for each in (before, after, tensors)
            ]
            hazards = update_check.gradients_not_applied(section, set(), arrays[0], arrays[2], arrays[1])
            found.append(hazards[0].evidence if hazards else "")
    finally:
        update_check.writers_of, update_check.hyper_parameters = writers, settings_of
    return {"found": found}


S = "section/a/"
FAR = "the update of w is {} of its gradient away from what the recorded gradient gives"
APPLIED = [
    # w = 1 - 0.5 * 0.25
    (
        "",
        "GradientDescentOptimizer",
        {"learning_rate": 0.5},
        {"var/w": [1.0]},
        {"var/w": [0.875]},
        {S + "grad/w": [0.25]},
    ),
    (
        FAR.format("0.5"),
        "GradientDescentOptimizer",
        {"learning_rate": 0.5},
        {"var/w": [1.0]},
        {"var/w": [0.875]},
        {S + "grad/w": [0.5]},
    ),
    (
        "",
        "GradientDescentOptimizer",
        {"learning_rate": 9.0},
        {"var/w": [1.0]},
        {"var/w": [0.875]},
        {S + "grad/w": [0.25], S + "state/learning_rate": 0.5},
    ),
    (
        "",
        "GradientDescentOptimizer",
        {"learning_rate": 0.5},
        {"var/w": [1.0]},
        {"var/w": [0.875]},
        {S + "grad/w": [9.0], S + "clip/w": [0.25]},
    ),
    ("", "GradientDescentOptimizer", {"learning_rate": 0.5}, {"var/w": [1.0]}, {"var/w": [0.875]}, {"grad/w": [9.0]}),
    ("", "GradientDescentOptimizer", {}, {"var/w": [1.0]}, {"var/w": [0.875]}, {S + "grad/w": [9.0]}),
    ("", "GradientDescentOptimizer", {"learning_rate": 0.5}, {}, {}, {S + "grad/w": [9.0]}),
    (
        "",
        "GradientDescentOptimizer",
        {"learning_rate": 0.5},
        {"var/w": [0.0]},
        {"var/w": [-0.5 * 1.0077]},
        {S + "grad/w": [1.0]},
    ),
    (
        FAR.format("0.0079"),
        "GradientDescentOptimizer",
        {"learning_rate": 0.5},
        {"var/w": [0.0]},
        {"var/w": [-0.5 * 1.0079]},
        {S + "grad/w": [1.0]},
    ),
    (
        FAR.format("inf"),
        "GradientDescentOptimizer",
        {"learning_rate": 0.0},
        {"var/w": [0.0]},
        {"var/w": [1.0]},
        {S + "grad/w": [1.0]},
    ),
    # faint beside all gradients: off by less than a thousandth of these
    (
        "",
        "GradientDescentOptimizer",
        {"learning_rate": 1.0},
        {"var/w": [0.0], "var/b": [0.0]},
        {"var/w": [7e-6], "var/b": [-1.0]},
        {S + "grad/w": [0.0], S + "grad/b": [1.0]},
    ),
    (
        FAR.format("0.009"),
        "GradientDescentOptimizer",
        {"learning_rate": 1.0},
        {"var/w": [0.0], "var/b": [0.0]},
        {"var/w": [9e-6], "var/b": [-1.0]},
        {S + "grad/w": [0.0], S + "grad/b": [1.0]},
    ),
    # a weight of 1000 holds an update to 2^-20 of itself
    (
        "",
        "GradientDescentOptimizer",
        {"learning_rate": 1.0},
        {"var/w": [1000.0]},
        {"var/w": [1000.0018]},
        {S + "grad/w": [0.0]},
    ),
    (
        FAR.format("inf"),
        "GradientDescentOptimizer",
        {"learning_rate": 1.0},
        {"var/w": [1000.0]},
        {"var/w": [1000.0021]},
        {S + "grad/w": [0.0]},
    ),
    (
        "",
        "MomentumOptimizer",
        {"momentum": 0.5},
        {S + "slot/momentum/w": [2.0]},
        {S + "slot/momentum/w": [1.25]},
        {S + "grad/w": [0.25]},
    ),
    (
        FAR.format("1"),
        "MomentumOptimizer",
        {"momentum": 0.5},
        {S + "slot/momentum/w": [2.0]},
        {S + "slot/momentum/w": [1.0]},
        {S + "grad/w": [0.25]},
    ),
    ("", "AdamOptimizer", {"beta1": 0.75}, {S + "slot/m/w": [2.0]}, {S + "slot/m/w": [1.75]}, {S + "grad/w": [1.0]}),
    (
        FAR.format("1"),
        "AdamOptimizer",
        {"beta1": 0.75},
        {S + "slot/m/w": [2.0]},
        {S + "slot/m/w": [1.5]},
        {S + "grad/w": [1.0]},
    ),
    (
        "",
        "AdagradOptimizer",
        {},
        {S + "slot/accumulator/w": [2.0]},
        {S + "slot/accumulator/w": [6.0]},
        {S + "grad/w": [2.0]},
    ),
    (
        FAR.format("0.5"),
        "AdagradOptimizer",
        {},
        {S + "slot/accumulator/w": [2.0]},
        {S + "slot/accumulator/w": [2.0]},
        {S + "grad/w": [2.0]},
    ),
    (
        "",
        "RMSPropOptimizer",
        {"decay": 0.75},
        {S + "slot/rms/w": [2.0]},
        {S + "slot/rms/w": [2.5]},
        {S + "grad/w": [-2.0]},
    ),
    (
        FAR.format("0.5"),
        "RMSPropOptimizer",
        {"decay": 0.75},
        {S + "slot/rms/w": [2.0]},
        {S + "slot/rms/w": [1.5]},
        {S + "grad/w": [-2.0]},
    ),
    (
        "",
        "AdadeltaOptimizer",
        {"rho": 0.75},
        {S + "slot/accum/w": [2.0]},
        {S + "slot/accum/w": [2.5]},
        {S + "grad/w": [2.0]},
    ),
    # a variable of no elements
    ("", "AdagradOptimizer", {}, {S + "slot/accumulator/w": []}, {S + "slot/accumulator/w": []}, {S + "grad/w": []}),
    ("", "RMSPropOptimizer", {"decay": 0.75}, {S + "slot/rms/w": []}, {S + "slot/rms/w": []}, {S + "grad/w": []}),
    ("", "FtrlOptimizer", {"learning_rate": 0.5}, {"var/w": [1.0]}, {"var/w": [0.875]}, {S + "grad/w": [9.0]}),
]


def test_an_update_that_does_not_follow_from_the_recorded_gradient_is_told(tf):
    found = tf(_not_applied, cases=[[*case[1:], 1] for case in APPLIED])["found"]
    assert found == [case[0] for case in APPLIED]
    twice = tf(_not_applied, cases=[[*APPLIED[1][1:], 2], [*APPLIED[1][1:], 0]])["found"]
    assert twice == ["", ""], "what else writes the weight in that run is not the optimizer's"


def _clipped(cases):
    from types import SimpleNamespace

    import numpy as np

    from tf_towers.record.update_check import changed_by_clipping

    section = SimpleNamespace(prefix="section/a/")
    return {
        "found": [
            changed_by_clipping(section, {key: np.array(value, np.float32) for key, value in case.items()})
            for case in cases
        ]
    }


@pytest.mark.parametrize(
    ("tensors", "changed"),
    [
        ({S + "grad/w": [1.0, 2.0]}, None),
        ({"grad/w": [1.0], "clip/w": [9.0]}, None),  # of another optimizer
        ({S + "grad/w": [1.0, 2.0], S + "clip/w": [1.0, 2.0]}, False),
        ({S + "grad/w": [1.0, 2.0], S + "clip/w": [1.0, 2.0 * (1 + 0.9 * 2.0**-20)]}, False),
        ({S + "grad/w": [1.0, 2.0], S + "clip/w": [1.0, 2.0 * (1 + 1.1 * 2.0**-20)]}, True),
        ({S + "grad/w": [1.0, 2.0], S + "clip/w": [1.0]}, True),
        ({S + "clip/w": [1.0]}, True),
        ({S + "grad/w": [1.0], S + "clip/w": [1.0], S + "grad/b": [1.0], S + "clip/b": [0.5]}, True),
    ],
)
def test_clipping_took_effect_where_a_gradient_came_out_as_another(tf, tensors, changed):
    assert tf(_clipped, cases=[tensors])["found"] == [changed]
