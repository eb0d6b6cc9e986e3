"""What is left of a difference for a reader to run alone: scripts and the numbers that they start from."""

from dataclasses import replace

import numpy as np
import pytest
from support.made_sides import CASE, made_case

from parity.experiment.recording import Recorded
from parity.experiment.reproduction.write import ReproductionError, reproduced, write_reproduction
from parity.judge.levels.function import Lockstep
from parity.judge.metrics import Worst
from parity.judge.result import Check, FirstDifference
from parity.mapping import Mapping, parse_transform
from parity.mapping.trace_map import Join
from parity.mapping.variable_map import Pair
from parity.trace import Trace, TraceWriter, parse_key

KERNEL = np.arange(6.0).reshape(3, 2)
STATE = {
    "var/dense/kernel": KERNEL.astype(np.float32),
    "var/dense/bias": np.array([7.0, 8.0], np.float32),
    "stat/mean": np.array([9.0], np.float32),
    "slot/Momentum/dense/kernel": (KERNEL + 10).astype(np.float32),
    "slot/Momentum/dense/bias": np.array([17.0, 18.0], np.float32),
    "state/global_step": np.array(4),
    "state/learning_rate": np.array(0.25),
}
MADE = {
    "feed/0/x": np.ones((4, 3)),
    "feed/1/x": np.full((4, 3), 2.0),
    "feed/1/ids": np.arange(4),
    "act/1/out": KERNEL,
    "loss/1": np.array(1.5),
    "tower_grad/1/dense/kernel": KERNEL + 30,
    "grad/dense/kernel": KERNEL + 20,
    "grad/dense/bias": np.array([27.0, 28.0]),
    "clip/dense/kernel": KERNEL + 40,
    "slot/Momentum/dense/kernel": KERNEL,
    "var/dense/kernel": KERNEL,
    "var/dense/bias": np.array([7.0, 8.0]),
}


def trace(folder, tensors, **facts):
    writer = TraceWriter(folder, {"package": "made"}, facts)
    writer.init({})
    writer.step(1, tensors)
    writer.close()
    return Trace(folder)


@pytest.fixture
def recorded(tmp_path):
    pairs = [
        Pair("dense/kernel", ("fc.weight",), parse_transform("transpose"), "", (3, 2)),
        Pair("dense/bias", ("fc.bias",), parse_transform("identity"), "", (2,)),
        Pair("mean", ("norm.mean",), parse_transform("identity"), "", (1,)),
    ]
    slots = ["momentum_buffer"]
    reference = trace(tmp_path / "reference", MADE)
    candidate = trace(tmp_path / "candidate", {}, slots=slots)
    states = trace(tmp_path / "states", STATE)
    traces = Lockstep(reference, reference, candidate, candidate, states)
    return Recorded(Join(Mapping(pairs), {}, slots), states, traces, reference, candidate, ({}, {}))


def different(text, index=(2, 1), run="lockstep"):
    key = parse_key(text)
    worst = Worst(index, 1.25, 3.5, 2.25, 1.8, 1.0)
    return FirstDifference(Check(run, 1, text, "different"), key.quantity, key.name, key.tower, worst)


def arrays(folder):
    return {path.stem: dict(np.load(path)) for path in folder.glob("*.npz")}


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.asarray(value).dtype == np.asarray(other[name]).dtype, name
        np.testing.assert_array_equal(value, other[name])


TRANSPOSED = {
    "var/fc.weight": KERNEL.T,
    "var/fc.bias": np.array([7.0, 8.0]),
    "slot/momentum_buffer/fc.weight": KERNEL.T + 10,
    "slot/momentum_buffer/fc.bias": np.array([17.0, 18.0]),
}


@pytest.mark.parametrize(
    ("text", "of_tf", "of_torch"),
    [
        ("var/dense/kernel", "variable", "dict(model.named_parameters())['fc.weight'].detach().numpy()"),
        (
            "slot/Momentum/dense/kernel",
            "optimizer.get_slot(variable, 'Momentum')",
            "slots['momentum_buffer', 'fc.weight'].numpy()",
        ),
    ],
)
def test_an_update_is_left_as_one_optimizer_that_is_given_one_gradient(tmp_path, recorded, text, of_tf, of_torch):
    case, out = made_case(tmp_path / "case"), tmp_path / "out"
    scripts = write_reproduction(case, recorded, different(text), out)
    assert [path.name for path in scripts] == ["with_tensorflow.py", "with_torch.py"]
    held = arrays(out)
    counters = {"global_step": np.array(4), "learning_rate": np.array(0.25)}
    same(held["state_tf"], {"var": KERNEL, "slot/Momentum": KERNEL + 10, **counters})
    # What the optimizer was given: clipped where it was clipped.
    same(held["gradient_tf"], {"gradient": KERNEL + 40})
    same(held["counters"], counters)
    same(held["state_torch"], TRANSPOSED)
    same(held["gradient_torch"], {"fc.weight": KERNEL.T + 40, "fc.bias": np.array([27.0, 28.0])})
    tf, torch = (path.read_text() for path in scripts)
    assert "train = optimizer.apply_gradients" in tf and "import tensorflow.compat.v1 as tf" in tf
    # The rate is that of the step, which a schedule may have made.
    assert "tf.train.MomentumOptimizer(0.25, momentum=0.9, nesterov=False)\n" in tf.replace("use_nesterov", "nesterov")
    assert f"value = session.run({of_tf})[(2, 1)]\n" in tf
    assert "optimizer = make_optimizer({'momentum': 0.9" in torch and "'learning_rate': 0.25}, model)\n" in torch
    assert "'name': 'momentum'" in torch
    assert "load('model_torch:Model')().to(getattr(torch, 'float64'))" in torch
    assert f"value = {of_torch}[(1, 2)]\n" in torch
    for script, side in ((tf, "TensorFlow"), (torch, "torch")):
        assert script.startswith(
            f'"""{text} at step 1 of made, by {side} alone.\n\nRun: python with_{side.lower()}.py\n"""'
        )
        assert f"sys.path[:0] = {[str(folder) for folder in case.folders]!r}\n" in script
        assert f'print("{text}", "at [2, 1]")\nprint("  {side} now:       ", repr(float(value)))\n' in script
        assert script.endswith('print("  TensorFlow\'s then:", 1.25)\nprint("  torch\'s then:     ", 3.5)\n')
        assert "}}" not in script and "{fetch}" not in script


def test_an_optimizer_of_the_ports_own_is_loaded_and_one_without_settings_has_none(tmp_path, recorded):
    text = CASE.replace('"momentum"\nlearning_rate = 0.1\nmomentum = 0.9', '"sgd"\nlearning_rate = 0.1')
    text = text.replace(
        'loss = "model_torch:loss"\n', 'loss = "model_torch:loss"\noptimizer = "model_torch:optimizer"\n'
    )
    first = different("var/dense/bias", (1,))
    tf, torch = (
        path.read_text() for path in write_reproduction(made_case(tmp_path / "case", text), recorded, first, tmp_path)
    )
    assert "tf.train.GradientDescentOptimizer(0.25)\n" in tf
    assert "optimizer = load('model_torch:optimizer')(model)\n" in torch
    assert "['fc.bias'].detach().numpy()[(1,)]\n" in torch
    same(arrays(tmp_path)["gradient_tf"], {"gradient": np.array([27.0, 28.0])})


@pytest.mark.parametrize(
    ("text", "of_tf", "of_torch", "index"),
    [
        ("act/1/out", "outputs['out']", "value = outputs['out'].detach().numpy()[(2, 1)]", (2, 1)),
        ("loss/1", "loss", "value = loss.detach().numpy()[()]", ()),
        (
            "tower_grad/1/dense/kernel",
            "tf.convert_to_tensor(tf.gradients(loss, variables['dense/kernel'])[0])",
            "loss.backward()\nvalue = dict(model.named_parameters())['fc.weight'].grad.numpy()[(1, 2)]",
            (2, 1),
        ),
    ],
)
def test_what_a_tower_computes_is_left_as_one_pass_of_its_shard(tmp_path, recorded, text, of_tf, of_torch, index):
    case, out = made_case(tmp_path / "case"), tmp_path / "new" / "out"
    tf, torch = (path.read_text() for path in write_reproduction(case, recorded, different(text, index), out))
    held = arrays(out)
    batch = {"x": np.full((4, 3), 2.0), "ids": np.arange(4)}
    same(held["batch_tf"], batch)
    same(held["batch_torch"], batch)
    same(held["state_tf"], {"dense/kernel": KERNEL, "dense/bias": np.array([7.0, 8.0]), "mean": np.array([9.0])})
    same(
        held["state_torch"],
        {"fc.weight": KERNEL.T, "fc.bias": np.array([7.0, 8.0]), "norm.mean": np.array([9.0])},
    )
    assert "returned = load('model_tf:tower')(**inputs)\n" in tf and f"fetched = {of_tf}\n" in tf
    assert f"value = session.run(fetched)[{index!r}]\n" in tf and f"{of_torch}\n" in torch
    assert "model = load('model_torch:Model')().to(getattr(torch, 'float64'))\n" in torch
    assert "returned = load('model_torch:loss')(model, " in torch
    assert ("loss.backward()" in torch) == text.startswith("tower_grad")


def test_a_combined_gradient_is_left_as_what_the_towers_give_to_be_combined(tmp_path, recorded):
    case, out = made_case(tmp_path / "case"), tmp_path / "out"
    with pytest.raises(ReproductionError, match="expected a whole gradient of dense/kernel in each tower, got none"):
        write_reproduction(case, recorded, different("grad/dense/kernel"), out)  # tower 0 has none
    assert not out.exists()
    both = {**MADE, "tower_grad/0/dense/kernel": KERNEL + 10}
    recorded = on_both_towers(tmp_path, recorded, both)
    tf, torch = (path.read_text() for path in write_reproduction(case, recorded, different("grad/dense/kernel"), out))
    held = arrays(out)
    same(held["gradients_tf"], {"0": KERNEL + 10, "1": KERNEL + 30})
    same(held["gradients_torch"], {"0": KERNEL.T + 10, "1": KERNEL.T + 30})
    assert "session.run(tf.reduce_mean(stacked, 0))[(2, 1)]\n" in tf and "in range(2)]" in tf
    assert "HOOKS['mean']" in torch and "spawn(combine, 2, " in torch
    # Whatever a rank imports again prints nothing and starts nothing.
    assert torch.endswith('    print("  torch\'s then:     ", 3.5)\n') and '[(1, 2)]\n    print("grad/' in torch
    clipped = {**both, "tower_clip/0/dense/kernel": KERNEL, "tower_clip/1/dense/kernel": KERNEL + 1}
    write_reproduction(case, on_both_towers(tmp_path, recorded, clipped), different("grad/dense/kernel"), out)
    same(arrays(out)["gradients_tf"], {"0": KERNEL, "1": KERNEL + 1})


def test_a_gradient_that_the_port_combines_itself_needs_the_whole_case(tmp_path, recorded):
    candidate = trace(tmp_path / "own", {}, slots=["momentum_buffer"], combination="port")
    recorded = replace(recorded, lockstep=recorded.lockstep._replace(candidate64=candidate))
    with pytest.raises(ReproductionError, match=r"a wrapper or step of the port's own, or another tf.reduce. Keep the"):
        write_reproduction(made_case(tmp_path / "case"), recorded, different("grad/dense/kernel"), tmp_path / "out")


def on_both_towers(tmp_path, recorded, tensors):
    reference = trace(tmp_path / f"towers-{len(tensors)}", tensors)
    return replace(recorded, lockstep=recorded.lockstep._replace(reference64=reference))


def test_a_weight_that_is_several_of_the_ports_is_shown_at_the_one_that_differs(tmp_path, recorded):
    names = ("query.weight", "key.weight")
    pairs = [each for each in recorded.join.mapping.pairs if each.reference != "dense/kernel"]
    pairs.append(Pair("dense/kernel", names, parse_transform("split(2)"), "", (3, 2)))
    recorded = replace(recorded, join=Join(Mapping(pairs), {}, ["momentum_buffer"]))
    _, torch = write_reproduction(made_case(tmp_path / "case"), recorded, different("var/dense/kernel"), tmp_path)
    assert "value = dict(model.named_parameters())['key.weight'].detach().numpy()[(0, 2)]\n" in torch.read_text()


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (None, "no difference"),
        (different("var/dense/kernel", run="free"), r"var/dense/kernel \(free\)"),
        (different("stat/mean"), r"stat/mean \(lockstep\)"),
        (replace(different("var/dense/kernel"), worst=None), r"var/dense/kernel \(lockstep\)"),
    ],
)
def test_what_nothing_smaller_than_the_case_shows_is_told(tmp_path, recorded, first, what):
    case = made_case(tmp_path / "case")
    with pytest.raises(
        ReproductionError, match=f"that differs in lockstep, got {what}. Keep the whole case with --out"
    ):
        write_reproduction(case, recorded, first, tmp_path / "out")
    scripts, [note] = reproduced(case, recorded, first, tmp_path / "out")
    assert not scripts and note.startswith("reproduce: expected a layer, a loss, a gradient or an update")


def test_scripts_are_told_by_their_paths(tmp_path, recorded):
    case, out = made_case(tmp_path / "case"), tmp_path / "out"
    paths, notes = reproduced(case, recorded, different("loss/1", ()), out)
    assert (paths, notes) == ([str(out / "with_tensorflow.py"), str(out / "with_torch.py")], [])
