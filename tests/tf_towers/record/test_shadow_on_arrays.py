"""What a float64 shadow carries, moves and measures, on a program of a few numbers that stands for a recorded graph."""

import numpy as np
import pytest

from parity.trace import Trace


def _trained(folder, steps):
    import numpy as np

    from tf_towers.shadow.free_run import FreeRun

    class Program:
        def step(self, state, given):
            weight, x = np.asarray(state["var/w"], np.float64), np.asarray(given["feed/0/x"], np.float64)
            moved = state["slot/m/w"] + weight * x
            made = {
                "loss/0": np.sum(weight * x),
                "grad/w": weight * x,
                "slot/m/w": moved,
                "var/w": weight - 0.5 * moved,
            }
            return dict(made, **{"act/0/out": x, "state/beta": state["state/beta"] + 1})

    def recorded(number):
        made = {name: np.zeros(2, np.float32) for name in ("grad/w", "slot/m/w", "var/w", "stat/s", "act/0/out")}
        counters = {"state/global_step": np.array(10 + number), "state/beta": np.array(0.5**number)}
        return dict(made, **dict(counters, **{"loss/0": np.float32(0), "feed/0/x": np.array([1, 3], np.float32)}))

    start = {"var/w": np.array([1, 2], np.float32), "slot/m/w": np.zeros(2), "stat/s": np.ones(1)}
    start.update({"state/global_step": np.array(0), "state/beta": np.array(1.0)})
    run = FreeRun(folder, start, list(start), {"package": "test"}, {}, {})
    for number in range(steps):
        run.step(number, recorded(number), Program())
    run.close()
    return {}


def test_a_free_run_carries_what_it_computes_and_takes_its_counters_from_the_recording(tf, tmp_path):
    tf(_trained, folder=str(tmp_path), steps=2)
    free, spread = Trace(tmp_path / "free"), Trace(tmp_path / "spread")
    weight, slot, x = np.array([1.0, 2.0]), np.zeros(2), np.array([1.0, 3.0])
    for number in range(2):
        file, apart = free.step(number), spread.step(number)
        gradient, slot = weight * x, slot + weight * x
        weight = weight - 0.5 * slot
        for name, value in (("grad/w", gradient), ("slot/m/w", slot), ("var/w", weight), ("loss/0", gradient.sum())):
            np.testing.assert_array_equal(file.read(name), value)
        assert sorted(file.names()) == sorted(
            ["grad/w", "slot/m/w", "var/w", "stat/s", "loss/0", "state/global_step", "state/beta"]
        )
        assert file.read("state/global_step") == 10 + number and file.read("state/beta") == 0.5**number
        assert sorted(apart.names()) == ["grad/w", "loss/0", "slot/m/w", "var/w"]
        assert all(0.0 < apart.read(name) < 64 * 2.0**-52 for name in apart.names())
    ulp = spread.facts["ulp"]
    assert np.hypot(2.0**-53, 2.0**-52) <= ulp <= np.hypot(2.0**-52, 2.0**-51)
    assert free.init().dtype("var/w") == "float64" and spread.init().names() == []


def _moved():
    import numpy as np

    from tf_towers.shadow.free_run import moved

    values = np.arange(1, 41, dtype=np.float32)
    tensors = {"feed/0/x": values, "feed/1/x": values, "feed/0/n": np.arange(3), "var/w": values, "slot/m/w": values}
    once, other = moved(tensors, 3), moved(tensors, 4)
    wide = values.astype(np.float64)
    return {
        "alike": bool(np.array_equal(once["feed/0/x"], once["feed/1/x"])),
        "neighbours": [
            bool(np.all((each == np.nextafter(wide, np.inf)) | (each == np.nextafter(wide, -np.inf))))
            for each in (once["feed/0/x"], once["var/w"], other["var/w"])
        ],
        "both": bool((once["var/w"] > wide).any() and (once["var/w"] < wide).any()),
        "other": bool((once["var/w"] != other["var/w"]).any()),
        "stay": once["feed/0/n"] is tensors["feed/0/n"] and once["slot/m/w"] is values,
    }


def test_weights_and_feeds_move_to_a_neighbour_in_float64_and_what_is_fed_alike_stays_alike(tf):
    assert tf(_moved) == {"alike": True, "neighbours": [True] * 3, "both": True, "other": True, "stay": True}


def _distances():
    import numpy as np

    from tf_towers.shadow.free_run import largest_distance

    rows = np.array([2, 0, 2])
    one = {
        "var/w": np.array([3.0, 4.0]),
        "n": np.array([1, 2]),
        "grad/e.values": np.ones((3, 1)),
        "grad/e.indices": rows,
    }
    none = {"grad/z.values": np.ones((0, 2)), "grad/z.indices": np.zeros(0, int)}
    others = [
        dict(one, **{"var/w": one["var/w"] + [0.0, 1.0], "grad/e.values": np.array([[0.0], [1.0], [2.0]])}),
        dict(one, **{"var/w": one["var/w"] + [3.0, 4.0], "grad/e.values": np.array([[1.0], [4.0], [1.0]])}),
    ]
    return {
        name: [found[0], None if found[1] is None else float(found[1])]
        for name in ("var/w", "n", "grad/e.values", "grad/e.indices", "grad/z.values")
        for found in [largest_distance(name, dict(one, **none), [dict(each, **none) for each in others])]
    }


def test_the_largest_distance_is_that_of_what_a_sparse_gradient_adds_up_to(tf):
    assert tf(_distances) == {
        "var/w": ["var/w", 5.0],
        "n": ["n", None],
        "grad/e.values": ["grad/e", 3.0],  # the first one exchanges what two slices add to one row
        "grad/e.indices": ["grad/e.indices", None],
        "grad/z.values": ["grad/z", 0.0],
    }


def _measured(folder, of_order, rows, rough, cancels=False, elements=2):
    import numpy as np

    from tf_towers.shadow.ill_conditioned import EmptyGradients

    calls = []
    state = {name: np.array([1.0, 2.0]) for name in ("var/w", "var/b", "slot/m/b")}

    class Program:
        def step(self, others, fed):
            x, y = np.rint(fed["feed/0/x"]), np.rint(fed["feed/0/y"])
            alike = len(x) != len(y) or bool(np.array_equal(2 * x, y))
            stay = [bool(np.array_equal(others[name], state[name])) for name in ("var/w", "var/b", "slot/m/b")]
            calls.append([bool(np.array_equal(x, np.arange(len(x)))), alike, stay])
            shift = 0.5 * len(calls)
            loss = float(np.dot(x, np.arange(len(x)))) if of_order else 1.0
            made = {"var/b": np.array([1.0, 2.0 + shift]), "var/w": np.array([9.0, 9.0])}
            made["grad/b"] = np.zeros(elements)
            return dict(made, **{"loss/0": np.array(loss), "grad/w": np.ones(2), "slot/m/b": np.array([1.0, 2.0])})

    loss = float(np.dot(np.arange(8), np.arange(8))) if of_order else 1.0
    exact = {
        "loss/0": np.array(loss),
        "grad/w": np.ones(2),
        "grad/b": np.eye(elements)[0] * 2.0**-30,
        "var/b": np.array([1.0, 2.0]),
    }
    exact.update({"var/w": np.ones(2), "slot/m/b": np.array([1.0, 1.0]), "stat/b": np.ones(2)})
    off = np.eye(elements)[-1] * rough
    rough = np.zeros(elements) if cancels else exact["grad/b"] + off
    now = {"grad/w": np.ones(2, np.float32), "grad/b": rough, "feed/0/x": np.arange(8.0)}
    now.update({"feed/0/y": 2.0 * np.arange(rows), "feed/0/rate": np.array(0.5), "grad/e.indices": np.array([1])})
    found = EmptyGradients(folder, {"package": "test"}, {})
    found.step(5, state, now, exact, Program())
    found.close()
    return {"calls": calls}


@pytest.mark.parametrize(
    ("settings", "shuffled", "largest"),
    [
        ({}, [True] * 3, 1.5),
        ({"of_order": True}, [True, False] * 3, 3.0),  # another order is another function: made as it is
        ({"rows": 4}, [False] * 3, 1.5),  # nobody knows which rows belong together
    ],
)
def test_what_rounding_moves_by_a_structurally_zero_gradient_is_measured_in_three_draws(
    tf, tmp_path, settings, shuffled, largest
):
    told = {"of_order": False, "rows": 8, "rough": 2.0**-13, **settings}
    calls = tf(_measured, folder=str(tmp_path / "t"), **told)["calls"]
    assert [not in_order for in_order, _, _ in calls] == shuffled
    assert all(alike and stay == [False, True, True] for _, alike, stay in calls)
    file = Trace(tmp_path / "t").step(5)
    assert {name: float(file.read(name)) for name in file.names()} == {
        "grad/b": 2.0**-30,
        "var/b": largest,
        "slot/m/b": 1.0,
    }


@pytest.mark.parametrize(("rough", "zero"), [(1.01 * 2.0**-14, True), (0.99 * 2.0**-14, False), (0.0, False)])
def test_a_gradient_is_structurally_zero_below_two_to_the_minus_16_of_what_float32_makes_of_it(
    tf, tmp_path, rough, zero
):
    tf(_measured, folder=str(tmp_path / "t"), of_order=False, rows=8, rough=rough)
    assert Trace(tmp_path / "t").step_numbers == ([5] if zero else [])


@pytest.mark.parametrize(("elements", "zero"), [(2, True), (8, True), (9, False)])
def test_a_gradient_of_few_elements_that_float32_makes_zero_may_be_structurally_zero(tf, tmp_path, elements, zero):
    told = {"of_order": False, "rows": 8, "rough": 0.0, "cancels": True, "elements": elements}
    tf(_measured, folder=str(tmp_path / "t"), **told)
    assert Trace(tmp_path / "t").step_numbers == ([5] if zero else [])


def _at_kinks(folder, weight, of_inputs):
    import numpy as np

    from parity.trace import break_ties, break_ties_of_inputs
    from tf_towers.shadow.ill_conditioned import Aside

    class Program:
        def step(self, state, fed):
            product = state["var/w"] * fed["feed/0/x"] - 1.0
            gradient = np.where(product > 0.0, fed["feed/0/x"], 0.0)
            made = {"loss/0": np.sum(np.maximum(product, 0.0)), "grad/w": gradient, "var/w": state["var/w"] - gradient}
            return dict(made, **{"state/step": np.array(99), "act/0/out": product})

    now = {"feed/0/x": np.array([1.0, 2.0]), "loss/0": np.array(0.0), "grad/w": np.zeros(2), "var/w": np.zeros(2)}
    now.update({"state/step": np.array(7), "act/0/out": np.zeros(2), "var/v": np.array([5.0]), "metric/a": np.ones(1)})
    state = {"var/w": np.array(weight), "var/v": np.array([5.0]), "state/step": np.array(7)}
    aside = Aside(folder, break_ties_of_inputs if of_inputs else break_ties, {"package": "test"}, {}, {})
    aside.step(3, state, now, Program())
    aside.close()
    return {"found": aside.found}


@pytest.mark.parametrize(
    ("weight", "of_inputs", "found"), [([1.0, 3.0], False, 1), ([2.0, 3.0], False, 0), ([1.0, 3.0], True, 1)]
)
def test_a_step_at_a_kink_is_made_once_more_from_weights_that_are_moved(tf, tmp_path, weight, of_inputs, found):
    assert tf(_at_kinks, folder=str(tmp_path / "t"), weight=weight, of_inputs=of_inputs) == {"found": found}
    kept = Trace(tmp_path / "t")
    assert kept.step_numbers == [3] * found
    if found:
        file = kept.step(3)
        assert file.names() == ["loss/0", "grad/w", "var/w", "state/step", "var/v"]
        assert file.read("state/step") == 7 and 0.0 < abs(float(file.read("var/v")[0]) - 5.0) <= 5.0 * 2.0**-30
        assert file.read("grad/w")[1] == pytest.approx(2.0) and bool(file.read("grad/w")[1] != 2.0) is of_inputs


def _draws(recorded, asked, shaped):
    import numpy as np

    from tf_towers.shadow.random_ops import Drawn

    drawn = Drawn("noise/0/while/mask", np.float64, shaped)
    drawn.fill({"noise/0/while/mask": np.array(recorded, np.float32)} if recorded is not None else {})
    given, said = [], ""
    try:
        for shape in asked:
            value = drawn(np.array(shape))
            given.append([str(value.dtype), value.tolist()])
        drawn.check()
    except ValueError as error:
        said = str(error)
    complaint = drawn.complaint
    drawn.fill({})
    drawn.check()
    return {"given": given, "said": said, "complaint": complaint, "after": drawn.complaint}


@pytest.mark.parametrize(
    ("recorded", "asked", "shaped", "given", "said"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], [[2], [2]], True, 2, ""),
        ([[1.0, 2.0]], [[7]], False, 1, ""),  # it is given what to shuffle
        ([[1.0, 2.0]], [[7]], True, 0, "of shape (7,), got (2,) recorded"),
        ([[1.0, 2.0]], [[2], [2]], True, 1, "as were recorded, got one more requested"),
        ([[1.0, 2.0], [3.0, 4.0]], [[2]], True, 1, "to be requested, got 1 that were not"),
        (None, [[2]], True, 0, "got one more requested"),
        (None, [], True, 0, ""),
    ],
)
def test_each_recorded_draw_of_a_loop_is_given_once_in_order(tf, recorded, asked, shaped, given, said):
    found = tf(_draws, recorded=recorded, asked=asked, shaped=shaped)
    assert found["given"] == [["float64", row] for row in (recorded or [])[:given]]
    assert said in found["said"] and bool(said) == bool(found["said"]) and found["after"] == ""
    assert ("noise/0/while/mask" in found["said"]) == bool(said)
    assert found["complaint"] in found["said"]


def _checked(cases):
    import numpy as np

    from tf_towers.shadow.random_ops import check_draws

    found = []
    for recorded, computed in cases:
        arrays = [{key: np.array(value) for key, value in each.items()} for each in (recorded, computed)]
        try:
            check_draws(4, *arrays)
            found.append("")
        except ValueError as error:
            found.append(str(error))
    return {"found": found}


def test_draws_are_others_where_both_losses_and_gradients_are_off(tf):
    def step(loss, gradient, **more):
        return {"loss/0": [1.0 + loss], "tower_grad/0/w": [3.0, 4.0 + gradient], "var/w": [loss], **more}

    right, off, exact = 0.99 * 2.0**-10, 1.01 * 2.0**-10, step(0.0, 0.0)
    cases = [
        (step(off, 5 * off), exact, True),
        (step(right, 5 * off), exact, False),
        (step(off, 5 * right), exact, False),
        (step(off, 5 * off), {"loss/0": [1.0]}, False),  # no gradient was computed
        ({"loss/0": [1.0], "tower_grad/0/w": [1.0]}, {"loss/0": [0.0], "tower_grad/0/w": [0.0]}, True),
        ({"loss/0": [0.0], "tower_grad/0/w": [0.0]}, {"loss/0": [0.0], "tower_grad/0/w": [0.0]}, False),
    ]
    found = tf(_checked, cases=[list(case[:2]) for case in cases])["found"]
    assert [bool(said) for said in found] == [wrong for *_, wrong in cases]
    assert "got others in step 4: loss 1 where the script had 1.00099" in found[0]


def _ordered():
    import numpy as np

    from tf_towers.shadow.racing_reads import nearest_order

    before = {"var/w": np.array([1.0]), "slot/m/w": np.array([1.0]), "var/b": np.array([1.0]), "state/n": np.array(3)}
    after = {"var/w": np.array([2.0]), "slot/m/w": np.array([1.0]), "var/b": np.array([2.0]), "state/n": np.array(4)}
    found = {}
    for name, recorded in (
        (
            "late",
            {"var/w": np.array([1.9]), "slot/m/w": np.array([1.0]), "var/b": np.array([1.1]), "state/n": np.array(4)},
        ),
        ("undecided", {"var/w": np.array([1.55]), "var/b": np.array([1.6]), "state/n": np.array(3)}),
    ):
        order = nearest_order(before, after, recorded)
        found[name] = [{key: float(np.sum(value)) for key, value in each.items()} for each in order]
    return found


def test_what_races_is_taken_in_the_order_that_is_clearly_nearer_to_what_was_recorded(tf):
    found = tf(_ordered)
    assert found["late"] == [
        {"var/w": 2.0, "slot/m/w": 1.0, "var/b": 1.0, "state/n": 4.0},
        {"var/w": 1.0, "var/b": 2.0, "state/n": 3.0},
    ]
    assert found["undecided"] == [
        {"var/w": 1.0, "slot/m/w": 1.0, "var/b": 2.0, "state/n": 3.0},
        {"var/w": 2.0, "var/b": 1.0, "state/n": 4.0},
    ]
