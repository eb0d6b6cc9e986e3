"""A program under observation gets recorded states and batches in place of its own, and says what it cannot take."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from parity.mapping.states import write_init, write_states
from parity.trace import read_json
from parity.worker.program_request import DESCRIBE, REPLAY, ProgramRequest
from torch_ddp.errors import TorchDdpError
from torch_ddp.record.described import Described
from torch_ddp.record.failures import report_to_parent
from torch_ddp.record.replayed import Replayed
from torch_ddp.record.sections import Section

WEIGHT = np.array([[1.0, 2.0]], np.float32)
BATCH = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def replayed(tmp_path, monkeypatch):
    """Makes what stands in, without patching torch for the whole process."""
    monkeypatch.setattr(Replayed, "_patch", lambda self: None)

    def make(steps=(0, 1), first=0, **asked):
        feeds = write_states(tmp_path / "feeds", ((number, {"feed/x": BATCH + number}) for number in steps))
        start = write_init(tmp_path / "start", {"var/weight": WEIGHT, "state/global_step": np.array(3)})
        follow = write_states(tmp_path / "follow", ((number, {"var/weight": WEIGHT + number}) for number in steps))
        arguments = {
            "feeds": str(feeds),
            "start": str(start),
            "follow": str(follow),
            "steps": list(steps),
            "first": first,
            "precision": "float32",
            "rounded": False,
            **asked,
        }
        (tmp_path / "ranks").mkdir(exist_ok=True)
        return Replayed(ProgramRequest(str(tmp_path / "ranks"), REPLAY, arguments=arguments))

    return make


@pytest.fixture
def section():
    model = torch.nn.Linear(2, 1, bias=False)
    section = Section(torch.optim.SGD(model.parameters(), lr=0.1), 0)
    section.models = {"": model}
    return section


def test_each_step_begins_with_the_recorded_state_and_batch(replayed, section, tmp_path):
    stand_in = replayed()
    stand_in.optimizer_made(section)
    for number in range(2):
        assert torch.equal(stand_in.replace_batch(None, torch.zeros(4, 2)), torch.from_numpy(BATCH + number))
        # With the batch, for a loss may use weights before it calls the model.
        assert torch.equal(section.models[""].weight, torch.from_numpy(WEIGHT + number))
        stand_in.before_forward(number, [section])
        stand_in.after_update(section, number)
    seen = read_json(str(next((tmp_path / "ranks").glob("seen-*.json"))))
    assert seen == {"draws_left": [], "narrow": {}, "notes": [], "places": {"x": "0"}}


def test_steps_before_the_first_that_is_wanted_are_the_programs_own(replayed, section):
    stand_in = replayed(steps=(6,), first=5)
    stand_in.optimizer_made(section)
    own = section.models[""].weight.detach().clone()
    assert torch.equal(stand_in.replace_batch(None, torch.full((4, 2), 9.0)), torch.full((4, 2), 9.0))
    stand_in.before_forward(0, [section])
    assert torch.equal(section.models[""].weight, own)
    stand_in.after_update(section, 0)
    assert torch.equal(stand_in.replace_batch(None, torch.zeros(4, 2)), torch.from_numpy(BATCH + 6))
    stand_in.before_forward(1, [section])
    assert torch.equal(section.models[""].weight, torch.from_numpy(WEIGHT + 6))


def test_a_free_run_loads_the_first_state_alone(replayed, section):
    stand_in = replayed(follow=None)
    stand_in.optimizer_made(section)
    stand_in.before_forward(0, [section])
    assert torch.equal(section.models[""].weight, torch.from_numpy(WEIGHT))
    with torch.no_grad():
        section.models[""].weight.zero_()
    stand_in.replace_batch(None, torch.zeros(4, 2))
    stand_in.after_update(section, 0)
    stand_in.before_forward(1, [section])
    assert not section.models[""].weight.any()


def test_a_loader_that_begins_between_steps_yields_the_next_step(replayed, section):
    stand_in = replayed()
    stand_in.optimizer_made(section)
    for number in range(2):
        stand_in.replace_batch(None, torch.zeros(4, 2))  # only looked at
        stand_in.restart_batches()
        assert torch.equal(stand_in.replace_batch(None, torch.zeros(4, 2)), torch.from_numpy(BATCH + number))
        stand_in.before_forward(number, [section])
        stand_in.restart_batches()  # within a step it is a micro-batch of the same one
        stand_in.after_update(section, number)


def test_what_is_read_ahead_leaves_the_step_that_goes_on(replayed, section):
    stand_in = replayed()
    stand_in.optimizer_made(section)
    stand_in.replace_batch(None, torch.zeros(4, 2))
    stand_in.before_forward(0, [section])
    stand_in.replace_batch(None, torch.zeros(4, 2))
    assert torch.equal(section.models[""].weight, torch.from_numpy(WEIGHT))
    stand_in.after_update(section, 0)
    stand_in.before_forward(1, [section])
    assert torch.equal(section.models[""].weight, torch.from_numpy(WEIGHT + 1))


def test_batches_of_an_evaluation_stay(replayed, section):
    stand_in = replayed()
    stand_in.optimizer_made(section)
    own = torch.full((4, 2), 9.0)
    with torch.no_grad():
        assert stand_in.replace_batch(None, own) is own
    section.models[""].eval()
    assert stand_in.replace_batch(None, own) is own


def test_the_recorded_rate_is_taken_where_it_differs_by_rounding_only(replayed, section):
    stand_in = replayed(rates={"0": float(np.float32(0.1)), "1": 0.2})
    stand_in.before_update(section, 0)
    assert section.optimizer.param_groups[0]["lr"] == float(np.float32(0.1))
    stand_in.before_update(section, 1)
    assert section.optimizer.param_groups[0]["lr"] == float(np.float32(0.1))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (torch.zeros(4, 3), r"'x' float32 \[4, 2\], as each rank is to, got 0 float32 \[4, 3\]"),
        (
            torch.zeros(2, 2),
            r"expected step 0 to take its whole shard of 'x', 4 examples on this rank, got 2 in each of 1",
        ),
    ],
)
def test_what_cannot_be_given_is_left_for_the_parent_to_say(replayed, section, tmp_path, batch, message):
    stand_in = replayed()
    stand_in.optimizer_made(section)
    with pytest.raises(TorchDdpError, match=message):
        stand_in.replace_batch(None, batch)
        stand_in.after_update(section, 0)
    refused = read_json(str(next((tmp_path / "ranks").glob("refused-*.json"))))
    assert refused["plain"]
    assert refused["type"] == "TorchDdpError"


def test_a_program_whose_optimizer_is_of_no_module_is_refused(replayed, section):
    section.models = {}
    with pytest.raises(
        TorchDdpError, match="expected a program with an optimizer over a module's parameters, got none"
    ):
        replayed().before_forward(0, [section])


def test_several_optimizers_get_their_slots_and_counters_under_the_names_of_the_recording(replayed):
    models = [torch.nn.Linear(2, 1, bias=False) for _ in range(2)]
    sections = [Section(torch.optim.Adam(model.parameters()), number) for number, model in enumerate(models)]
    for name, section, model in zip("ab", sections, models, strict=True):
        section.name, section.models = f"optimizer_{name}", {f"{name}.": model}
    moments = np.array([[0.5, 0.25]], np.float32)
    state = {
        "var/a.weight": WEIGHT,
        "var/b.weight": 2 * WEIGHT,
        "section/first/slot/exp_avg/a.weight": moments,
        "section/second/slot/exp_avg/b.weight": 3 * moments,
        "section/second/state/global_step": np.array(7),
    }
    stand_in = replayed(steps=(0,), recorded_counters=True, sections={"optimizer_a": "first", "optimizer_b": "second"})
    folder = Path(stand_in.request.ranks).parent
    write_init(folder / "start", state)
    write_states(folder / "follow", [(0, state)])
    stand_in.before_forward(0, sections)
    kept = [section.optimizer.state[model.weight] for section, model in zip(sections, models, strict=True)]
    assert [section.name for section in sections] == ["first", "second"]
    assert [model.weight.tolist() for model in models] == [WEIGHT.tolist(), (2 * WEIGHT).tolist()]
    assert [each["exp_avg"].tolist() for each in kept] == [moments.tolist(), (3 * moments).tolist()]
    assert [float(each["step"]) for each in kept] == [0.0, 7.0]


def test_what_ends_a_process_is_left_for_the_parent(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("faulthandler.register", lambda *_, **__: None)
    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    report_to_parent(ProgramRequest(str(tmp_path), REPLAY))
    try:
        raise RuntimeError("expected Double but found Float")
    except RuntimeError as error:
        sys.excepthook(RuntimeError, error, error.__traceback__)
    left = read_json(str(next(tmp_path.glob("refused-*.json"))))
    assert (left["type"], left["message"], left["plain"]) == ("RuntimeError", "expected Double but found Float", False)
    assert "expected Double but found Float" in capsys.readouterr().err


def test_a_program_is_described_before_its_first_step(section, tmp_path, monkeypatch):
    monkeypatch.setattr("faulthandler.register", lambda *_, **__: None)
    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    section.optimizer = torch.optim.Adam(section.models[""].parameters())
    section.models[""].register_buffer("scale", torch.tensor(2.0))
    Described(ProgramRequest(str(tmp_path), DESCRIBE)).before_forward(0, [section])
    described = read_json(str(next(tmp_path.glob("described-*.json"))))
    assert [name for name, _ in described["variables"]] == ["weight", "scale"]
    assert described["slots"] == ["exp_avg", "exp_avg_sq"]
    assert described["initial_slots"]["slot/exp_avg/weight"] == [0.0, 0.0]
    assert described["own_values"] == {"stat/scale": [2.0]}
