"""What a recorder writes of each step, and which facts it leaves, of plans and sections that stand for a script's."""

# ruff: noqa: B905 - Python 3.7 reads the programs

import numpy as np
import pytest

from parity.trace import Trace


def _recorded(folder, steps, prefixes, gpus, names):
    from types import SimpleNamespace

    import numpy as np

    from tf_towers.record import recorded_steps
    from tf_towers.record.hazards.types import Hazard

    sections = [SimpleNamespace(name=name, prefix=prefix, towers_ops=[]) for name, prefix in zip("ab", prefixes)]
    plans = {
        name: SimpleNamespace(
            sections=[sections[number] for number in which],
            ops=set(),
            left_out={"left " + name: "why"},
            observed=SimpleNamespace(mode="one run"),
        )
        for name, which in (("train", [0]), ("other", [0]), ("both", [0, 1]))
    }
    written, fetched = [], []
    fakes = {
        "write_graph": lambda out, graph: written.append(graph),
        "recorded_graph": lambda graph, known, variables: [
            name for each in known for name in plans if plans[name] is each
        ],
        "facts_of": lambda known, variables, combined, session, soft: {"combined": dict(combined), "soft": soft},
        "facts_of_section": lambda section, combined: {"combine": combined + " of " + section.name},
        "describe": lambda variables, ops: {"w": {"shape": [2], "dtype": "float32", "kind": "weight"}},
        "combine_from_values": lambda section, tensors: "mean",
        "hazards_in_values": lambda section, tensors: [
            Hazard(each, "in values", "") for each in ("of_graph", "of_values")
        ],
        "HAZARDS_OF_GRADIENTS": [lambda section, plan: [Hazard("of_graph", section.name, "")]],
        "HAZARDS_OF_LOSSES": [],
        "HAZARDS_OF_STATE": [lambda plan, variables: [Hazard("of_state", "seen", "")]],
        "changed_by_clipping": lambda section, tensors: tensors.get("clipped " + section.name),
        "gradients_not_applied": lambda section, ops, before, tensors, after: [
            Hazard("raced", str(float(tensors["loss/0"])), "")
        ],
        "reported_loss": lambda section, names: fetched.append(sorted(names)) or [],
    }
    known = {name: getattr(recorded_steps, name) for name in fakes}
    try:
        for name, fake in fakes.items():
            setattr(recorded_steps, name, fake)
        planner = SimpleNamespace(left_out={}, variables=None)
        recorder = recorded_steps.RecordedSteps(folder, planner)
        recorder.gpus = gpus
        begun = [recorder.begun]
        for number, (plan, counter, clipped) in enumerate(steps):
            before = {"var/w": np.zeros(2, np.float32), "state/global_step": np.array(counter[0])}
            after = {"var/w": np.ones(2, np.float32), "state/global_step": np.array(counter[1])}
            tensors = {
                "loss/0": np.float32(number),
                "feed/0/x": np.arange(3.0) + number,
                "feed/0/text": np.array(["a"]),
            }
            tensors.update(("clipped " + name, value) for name, value in clipped.items())
            recorder.step(SimpleNamespace(graph=None), plans[plan], before, tensors, after, {"skipped_steps": number})
            begun.append(recorder.begun)
        recorder.fetched(names)
        recorder.fetched(["loss:0"])
        recorder.close({"skipped_steps": 9})
        return {
            "begun": begun,
            "count": recorder.count,
            "written": written,
            "fetched": fetched,
            "hazards": [[each.name, each.evidence] for each in recorder.hazards.values()],
            "never": [recorder.clip_never_in_effect(section) for section in sections],
            "combine": recorder.combine_of(sections[0]),
        }
    finally:
        for name, value in known.items():
            setattr(recorded_steps, name, value)


def recorded(tf, tmp_path, *steps, prefixes=("", ""), gpus=0):
    told = [[plan, list(counter), clipped] for plan, counter, clipped in steps]
    found = tf(_recorded, folder=str(tmp_path / "t"), steps=told, prefixes=list(prefixes), gpus=gpus, names=["x:0"])
    return found, Trace(tmp_path / "t")


def test_a_step_has_its_counters_as_it_read_them_and_all_else_as_it_left_it(tf, tmp_path):
    found, trace = recorded(tf, tmp_path, ("train", (4, 5), {}), ("other", (5, 6), {}), ("train", (6, 7), {}))
    assert (found["begun"], found["count"], trace.step_numbers) == ([False, True, True, True], 3, [0, 1, 2])
    file = trace.step(1)
    assert sorted(file.names()) == ["feed/0/x", "loss/0", "state/global_step", "var/w"]
    assert file.read("state/global_step") == 5 and file.read("loss/0") == 1.0
    np.testing.assert_array_equal(file.read("var/w"), np.ones(2))
    np.testing.assert_array_equal(trace.init().read("var/w"), np.zeros(2))
    assert found["written"] == [["train"], ["train", "other"]], "before the first step of each kind of run"
    facts = trace.facts
    assert (facts["run_of_step"], facts["skipped_steps"], facts["observed"]) == ([0, 1, 0], 9, "one run")
    assert (facts["combined"], facts["soft"]) == ({"a": "mean"}, "asked for by the script")
    assert (
        facts["not_recorded"] == {"left train": "why"} and "sections" not in facts and "gpus_stood_in_for" not in facts
    )
    assert found["combine"] == "mean of a" and trace.producer["package"] == "tf_towers.record"
    assert found["fetched"] == [["loss:0", "x:0"]]


def test_each_hazard_is_kept_once_and_the_graph_says_more_than_its_numbers(tf, tmp_path):
    found, trace = recorded(tf, tmp_path, ("train", (4, 5), {}), ("train", (5, 6), {}))
    assert found["hazards"] == [["of_graph", "a"], ["of_state", "seen"], ["of_values", "in values"], ["raced", "0.0"]]
    assert [each["name"] for each in trace.facts["hazards"]] == [name for name, _ in found["hazards"]]


@pytest.mark.parametrize(("after", "evidence"), [(4, None), (5, None), (6, "global_step grew by 2 in one update")])
def test_a_counter_that_grows_twice_in_a_step_is_told(tf, tmp_path, after, evidence):
    found, _ = recorded(tf, tmp_path, ("train", (4, after), {}))
    assert dict(found["hazards"]).get("global_step_counted_twice") == evidence


@pytest.mark.parametrize(
    ("took_effect", "never"),
    [
        ([None, None], False),
        ([False, False], True),
        ([False, True], False),
        ([True, False], False),
        ([False, None], True),
    ],
)
def test_clipping_that_took_effect_in_no_step_is_a_fact(tf, tmp_path, took_effect, never):
    steps = [("train", (4, 5), {} if each is None else {"a": each}) for each in took_effect]
    found, trace = recorded(tf, tmp_path, *steps)
    assert found["never"] == [never, False]
    assert trace.facts.get("clip_never_in_effect", False) is never


def test_of_several_optimizers_each_has_facts_of_its_own_and_learns_from_its_first_step(tf, tmp_path):
    steps = [("train", (4, 5), {}), ("both", (5, 6), {"b": False})]
    found, trace = recorded(tf, tmp_path, *steps, prefixes=("section/a/", "section/b/"), gpus=2)
    assert trace.facts["sections"] == {
        "a": {"combine": "mean of a"},
        "b": {"combine": "mean of b", "clip_never_in_effect": True},
    }
    assert trace.facts["gpus_stood_in_for"] == 2 and "clip_never_in_effect" not in trace.facts
    assert ["of_graph", "b"] in found["hazards"]
    assert trace.facts["not_recorded"] == {"left train": "why", "left both": "why"}


def _combine(cases):
    from types import SimpleNamespace

    from tf_towers.record import graph

    fakes = ("suggested_towers", "hyper_parameters", "is_by_hand", "changed_after_combining")
    known = {name: getattr(graph, name) for name in fakes if hasattr(graph, name)}
    found = []
    try:
        for name in known:
            setattr(graph, name, lambda *given: {})
        for towers, factor, kinds, from_values in cases:
            each = SimpleNamespace(made_by="scope", scope="t", device="", losses=[])
            combinations = {str(number): SimpleNamespace(kind=kind) for number, kind in enumerate(kinds)}
            section = SimpleNamespace(
                towers=[each] * towers,
                towers_ops=[set()],
                inputs=[],
                loss_factor=factor,
                combinations=combinations,
                name="s",
                apply=SimpleNamespace(optimizer=None, op=SimpleNamespace(name="train"), pairs=[]),
                prefix="",
            )
            facts = graph.facts_of_section(section, from_values)
            found.append([facts[name] for name in ("towers", "combine", "combine_in_graph", "combine_in_values")])
    finally:
        for name, value in known.items():
            setattr(graph, name, value)
    return {"found": found}


COMBINED = [
    (2, None, ["mean", "mean"], "mean", [2, "mean", "mean", "mean"]),
    (2, None, ["sum"], "mean", [2, "mean", "sum", "mean"]),  # numbers hold whatever ops did it
    (2, None, ["sum"], "unknown", [2, "sum", "sum", "unknown"]),
    (2, None, ["sum", "mean"], "other", [2, "mean+sum", "mean+sum", "other"]),
    (1, None, ["one"], "unknown", [1, "mean", "one", "unknown"]),
    (0, None, ["one"], "unknown", [1, "mean", "one", "unknown"]),
    (3, 1 / 3, ["one"], "sum", [3, "mean", "mean", "sum"]),  # losses were added up before: the graph alone says how
    (3, 1.0, ["one"], "mean", [3, "sum", "sum", "mean"]),
    (3, 0.5, ["one"], "mean", [3, "scaled", "scaled", "mean"]),
    (3, (1 + 0.9e-6) / 3, ["one"], "sum", [3, "mean", "mean", "sum"]),
    (3, (1 + 1.1e-6) / 3, ["one"], "sum", [3, "scaled", "scaled", "sum"]),
    (3, 1 + 1.1e-6, ["one"], "sum", [3, "scaled", "scaled", "sum"]),
]


def test_a_section_says_how_its_towers_are_combined(tf):
    found = tf(_combine, cases=[list(case[:4]) for case in COMBINED])["found"]
    assert found == [case[4] for case in COMBINED]
