"""What a recorder says on stderr, how a script is run and shown, and what of its feeds is a rate: without a recording."""

# ruff: noqa: F821 - programs find tf there, and Python 3.7 reads them

import pytest

from parity.trace import read_json


def _reported(recorded, whole, calls, hazards, sections, left_out):
    import contextlib
    import io
    from types import SimpleNamespace

    from tf_towers.record import report

    class Optimizer:
        pass

    def named(name):
        return SimpleNamespace(op=SimpleNamespace(name=name), name=name)

    def section_of(number, scopes, clip):
        variables = [(None, named(f"w{each}")) for each in range(7)]
        apply = SimpleNamespace(op=SimpleNamespace(name=f"apply{number}"), pairs=variables, optimizer=Optimizer())
        return SimpleNamespace(towers=[SimpleNamespace(scope=scope) for scope in scopes], apply=apply, clip=clip)

    made = [section_of(number, *each) for number, each in enumerate(sections)]
    gradients, applies, unknown = calls
    recorder = SimpleNamespace(
        recorded=recorded,
        seen=7,
        sections=made,
        left_out=left_out,
        hazards={name: SimpleNamespace(name=name, evidence="seen", meaning="Do this.") for name in hazards},
        clip_never_in_effect=lambda section: section.clip == "never",
        calls=SimpleNamespace(
            gradients=[SimpleNamespace(losses=[named(f"loss{each}")]) for each in range(gradients)],
            applies=[named(f"apply{each}") for each in range(applies)],
            unknown=[f"x{each}" for each in range(unknown)],
        ),
    )
    changed, report.changed_after_combining = report.changed_after_combining, lambda section: section.clip != "none"
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            report.print_report(recorder, "out", whole)
        plans = [report.plan_of(each, combine) for each in made for combine in ("mean", "sum", "other")]
    finally:
        report.changed_after_combining = changed
    return {"told": told.getvalue().splitlines(), "plans": plans}


def reported(tf, recorded=3, whole=True, calls=(1, 1, 0), hazards=(), sections=((["a"], "none"),), left_out=None):
    told = {"calls": list(calls), "hazards": list(hazards), "sections": [list(each) for each in sections]}
    return tf(_reported, recorded=recorded, whole=whole, left_out=left_out or {}, **told)


def test_the_report_says_how_much_was_recorded_and_nothing_else_where_all_is_well(tf):
    assert reported(tf)["told"] == ["record: 3 steps in out"]
    assert reported(tf, whole=False)["told"] == [
        "record: 3 steps in out; the script did not end well, so the trace says that it is not complete"
    ]


def test_the_report_says_what_the_port_has_to_know(tf):
    found = reported(
        tf,
        calls=(1, 4, 0),
        hazards=["summed"],
        sections=[(["a"], "never"), ([], "some")],
        left_out={"z": "no array", "a": "inside a loop"},
    )
    assert found["told"] == [
        "record: 3 steps in out",
        "  hazard summed: seen.",
        "    Do this.",
        "  apply0: clipping never took effect in the recorded steps: it is not judged",
        "  not recorded: a: inside a loop",
        "  not recorded: z: no array",
        "  no tower found behind apply1, which updates w0, w1, w2, w3, w4",
        "  2 calls of apply_gradients were in no run that was recorded",
    ]


def test_where_nothing_was_recorded_what_was_seen_is_told(tf):
    assert reported(tf, recorded=0, calls=(12, 10, 1))["told"] == [
        "record: expected a run of a train op, got none. No trace was written.",
        f"  calls for gradients: {', '.join(f'loss{n}' for n in range(10))} and 2 more",
        f"  calls of apply_gradients: {', '.join(f'apply{n}' for n in range(10))}",
        "  training steps made: 7",
        "  gradients with respect to what is no variable: x0",
    ]
    assert reported(tf, recorded=0, calls=(0, 0, 0))["told"][1:3] == [
        "  calls for gradients: none",
        "  calls of apply_gradients: none",
    ]
    assert len(reported(tf, recorded=0)["told"]) == 4


def test_the_plan_of_an_update_is_one_line(tf):
    found = reported(tf, sections=[(["a", ""], "none"), (["a"], "some"), ([], "none")])["plans"]
    assert found[:4] == [
        "apply0: gradients averaged over 2 towers, applied by Optimizer; towers: a, (no scope)",
        "apply0: gradients summed over 2 towers, applied by Optimizer; towers: a, (no scope)",
        "apply0: gradients combined in another way (other) over 2 towers, applied by Optimizer; towers: a, (no scope)",
        "apply1: gradients of 1 tower, clipped or scaled before the update, applied by Optimizer; towers: a",
    ]
    assert found[-1] == "apply2: gradients of 1 tower, applied by Optimizer; towers: none"


def _progress(seconds, wanted):
    import contextlib
    import io
    from types import SimpleNamespace

    from tf_towers.record import report

    sections = ["first", "second"]
    clock, known = {"now": 100.0}, (report.time, report.plan_of)
    report.time = SimpleNamespace(time=lambda: clock["now"])
    report.plan_of = lambda section, combine: section + " " + combine
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            progress = report.Progress(wanted)
            for count, now in enumerate(seconds, start=1):
                clock["now"] = 100.0 + now
                progress(
                    SimpleNamespace(sections=sections[: 1 + (count > 2)], combine_of=lambda each: "sum", count=count)
                )
    finally:
        report.time, report.plan_of = known
    return {"told": told.getvalue().splitlines()}


@pytest.mark.parametrize(("wanted", "of"), [(None, ""), (9, " of 9")])
def test_each_plan_is_told_once_and_steps_now_and_then(tf, wanted, of):
    found = tf(_progress, seconds=[1.0, 5.0, 5.5, 10.0, 10.6], wanted=wanted)["told"]
    assert found == ["record: first sum", "record: second sum", f"record: step 3{of}", f"record: step 5{of}"]


def _ran(folder, module):
    import contextlib
    import io
    import sys

    from tf_towers.record.script import run_as_main, show_error

    kept = list(sys.argv), list(sys.path)
    told, printed = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(printed):
            try:
                run_as_main(None if module else folder + "/main.py", module, ["--rate", "2"])
            except ValueError as error:
                error.__traceback__ = error.__traceback__.tb_next  # as from the recorder's own main
                show_error(error)
    finally:
        sys.argv, sys.path[:] = kept
    return {"told": told.getvalue(), "printed": printed.getvalue()}


def test_a_script_runs_as_main_and_its_error_is_shown_as_python_would(tf, tmp_path):
    (tmp_path / "beside.py").write_text(
        "def fail(rate):\n    try:\n        {}['rate']\n    except KeyError as error:\n"
        "        raise ValueError('rate ' + rate) from error\n"
    )
    (tmp_path / "main.py").write_text("import sys, beside\nprint(__name__, sys.argv)\nbeside.fail(sys.argv[2])\n")
    found = tf(_ran, folder=str(tmp_path), module=None)
    assert found["printed"] == f"__main__ ['{tmp_path / 'main.py'}', '--rate', '2']\n"
    frames = [line.strip() for line in found["told"].splitlines() if line.startswith("  File ")]
    assert [(line.split('"')[1], line.rpartition(" in ")[2]) for line in frames] == [
        (str(tmp_path / "beside.py"), "fail"),
        (str(tmp_path / "main.py"), "<module>"),
        (str(tmp_path / "beside.py"), "fail"),
    ]
    assert found["told"].startswith("Traceback (most recent call last):\n")
    assert "KeyError: 'rate'" in found["told"] and found["told"].endswith("ValueError: rate 2\n")


def _shadowed(out, code, said, made):
    import json as read
    import subprocess
    from types import SimpleNamespace

    from tf_towers.record import script

    asked = {}

    def run(command, **settings):
        asked.update(
            command=command[1:],
            environment=[settings["env"][n] for n in ("CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL")],
        )
        if code is None:
            raise subprocess.TimeoutExpired(command, settings["timeout"])
        return SimpleNamespace(stderr=said.encode("utf-8"), returncode=code)

    if made is not None:
        with open(out + "/shadow.json", "w") as file:
            read.dump(made, file)
    known, script.subprocess = (
        script.subprocess,
        SimpleNamespace(
            run=run, TimeoutExpired=subprocess.TimeoutExpired, DEVNULL=subprocess.DEVNULL, PIPE=subprocess.PIPE
        ),
    )
    try:
        told = script.compute_shadow(out)
        return dict(asked, told=told)
    finally:
        script.subprocess = known


MAKE = "Make it with python -m tf_towers.shadow"


@pytest.mark.parametrize(
    ("code", "said", "made", "told", "kept"),
    [
        (0, "noise\nshadow: computed\nshadow: 3 steps\nlast\n", {"made": True}, "shadow: 3 steps", {"made": True}),
        (1, "noise\n\nKilled\n  \n", None, "shadow: none: Killed", "shadow: none: Killed. Level 2 only can be judged."),
        (
            -9,
            "",
            None,
            "shadow: none: it ended with status -9",
            "shadow: none: it ended with status -9. Level 2 only can be judged.",
        ),
        (1, "no room\n", {"made": False}, "shadow: none: no room", {"made": False}),
        (None, "", None, f"shadow: none after 1800 s. {MAKE}", None),
        (None, "", {"made": True}, f"shadow: its free run was not finished after 1800 s. {MAKE}", {"made": True}),
        (None, "", {"made": False}, f"shadow: none after 1800 s. {MAKE}", {"made": False}),
        (None, "", {}, f"shadow: none after 1800 s. {MAKE}", {}),
    ],
)
def test_what_became_of_the_shadow_is_told_and_written_down(tf, tmp_path, code, said, made, told, kept):
    found = tf(_shadowed, out=str(tmp_path), code=code, said=said, made=made)
    assert found["told"] == told + (f" {tmp_path}" if told.endswith(MAKE) else "")
    assert found["environment"] == ["", "3"] and found["command"][1:] == ["tf_towers.shadow", str(tmp_path)]
    file = tmp_path / "shadow.json"
    if kept is None:
        assert not file.exists()
    else:
        assert read_json(str(file)) == (kept if isinstance(kept, dict) else {"made": False, "reason": kept})


def test_what_became_of_the_shadow_is_told_where_it_cannot_be_written_down(tf, tmp_path):
    out = tmp_path / "gone"
    assert tf(_shadowed, out=str(out), code=1, said="no room\n", made=None)["told"] == "shadow: none: no room"
    assert not out.exists()


def _rates(names):
    from types import SimpleNamespace

    from tf_towers.record.fed_values import _rate

    def tensor(name, dtype, rank):
        return SimpleNamespace(
            op=SimpleNamespace(name=name), dtype=getattr(tf, dtype), shape=SimpleNamespace(ndims=rank)
        )

    found = _rate([tensor(*each) for each in names])
    return {"found": found and found.op.name}


@pytest.mark.parametrize(
    ("names", "rate"),
    [
        ([("lr", "float32", 0), ("momentum", "float32", 0)], "lr"),
        ([("opt/learning_rate_1", "float32", 0), ("beta", "float32", None)], "opt/learning_rate_1"),
        ([("x", "float32", 0)], "x"),  # the only number
        ([("x", "float32", 0), ("y", "float32", 0)], None),
        ([("lr", "float32", 0), ("rate", "float32", 0)], None),  # two of the name
        ([("lr", "float32", 1), ("x", "float32", 0)], "x"),  # a vector is no rate
        ([("lr", "int32", 0), ("x", "float32", 0), ("y", "float32", 0)], None),
        ([("lr/x", "float32", 0), ("y", "float32", 0)], None),
        ([("LR", "float32", 0), ("dropout", "float32", None)], "LR"),
        ([("learningrate", "float64", 0), ("clear", "float64", 0)], "learningrate"),
        ([], None),
    ],
)
def test_a_number_that_is_fed_to_an_update_is_the_rate_where_that_is_certain(tf, names, rate):
    assert tf(_rates, names=[list(each) for each in names])["found"] == rate


def _fed():
    import numpy as np

    from tf_towers.record.fed_values import as_fed

    with tf.Graph().as_default():
        tensors = {name: tf.placeholder(tf.float32, [], name) for name in "abcde"}
        given = {"state/" + name: tensor for name, tensor in tensors.items()}
        fed = {tensors["a"]: 0.1, "b:0": np.float64(0.2), tensors["c"]: np.float32(0.3), tensors["d"]: 4, (1, 2): 0.5}
        found = as_fed(given, fed)
        return {
            "found": {key: [str(value.dtype), float(value)] for key, value in found.items()},
            "none": as_fed(given, None),
        }


def test_what_is_fed_as_a_python_number_is_kept_as_it_was_before_it_was_rounded(tf):
    assert tf(_fed) == {"found": {"state/a": ["float64", 0.1], "state/b": ["float64", 0.2]}, "none": {}}
