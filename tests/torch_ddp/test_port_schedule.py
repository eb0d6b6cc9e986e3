import pytest
import torch
from torch.optim import lr_scheduler

from torch_ddp import TorchDdpError, Update, like_tf
from torch_ddp.worker.user_schedule import PortRates, PortSchedule


def optimizer_of(lr=0.5, kind=like_tf.Adam):
    return kind(torch.nn.Linear(2, 1).parameters(), lr=lr)


def rates(schedule, optimizer, steps):
    found = []
    for step in steps:
        schedule.go_to(step)
        found.append(optimizer.param_groups[0]["lr"])
    return found


MAKERS = {
    "multiplied": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5),
    "computed": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step),
    "joined": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.ConstantLR(optimizer, 1.0), lr_scheduler.ExponentialLR(optimizer, 0.5)],
        milestones=[0],
    ),
}


@pytest.mark.parametrize("made", MAKERS)
def test_a_scheduler_goes_to_any_step_in_any_order(made):
    optimizer = optimizer_of()
    schedule = PortSchedule(MAKERS[made], optimizer)
    assert rates(schedule, optimizer, [0, 1, 2, 2, 0, 3, 1]) == [0.5, 0.25, 0.125, 0.125, 0.5, 0.0625, 0.25]


def test_a_scheduler_that_the_port_steps_is_left_alone_unless_training_jumps():
    optimizer = optimizer_of()
    schedule = PortSchedule(MAKERS["multiplied"], optimizer, stepped_by_port=True)
    assert rates(schedule, optimizer, [0, 1, 2]) == [0.5, 0.5, 0.5]  # nobody stepped it
    assert rates(schedule, optimizer, [5]) == [0.5**6]
    schedule.scheduler.step()
    assert rates(schedule, optimizer, [6, 0]) == [0.5**7, 0.5]


def test_powers_of_beta_are_no_matter_of_the_schedule():
    optimizer = optimizer_of()
    schedule = PortSchedule(MAKERS["multiplied"], optimizer)
    schedule.go_to(2)
    optimizer.param_groups[0]["beta1_power"] = 0.3
    schedule.go_to(0)
    assert (optimizer.param_groups[0]["beta1_power"], optimizer.param_groups[0]["lr"]) == (0.3, 0.5)


def test_a_function_of_the_step_gives_every_groups_rate():
    one, other = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = torch.optim.SGD([{"params": [one]}, {"params": [other], "lr": 3.0}], lr=1.0)
    PortSchedule(lambda step: 0.1 * step, optimizer).go_to(2)
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.2]


@pytest.mark.parametrize(("recorded", "taken"), [(0.5 * (1 + 2**-20), True), (0.5 * (1 + 2**-10), False)])
def test_only_a_rate_that_differs_by_rounding_is_replaced(recorded, taken):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(
        [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.25}], lr=0.5, momentum=0.9
    )
    schedule = PortSchedule(lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1.0), optimizer)
    rates = PortRates(schedule, optimizer, {0: recorded})
    update = Update(model, optimizer, {"learning_rate": {"schedule": "x"}}, rates)
    update.set_rate(0)
    rate = recorded if taken else 0.5
    assert [group["lr"] for group in optimizer.param_groups] == [rate, rate / 2]


def no_scheduler(optimizer):
    return 0.1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda epoch: 0.1,
            r"first argument is called `optimizer` .* or `step` .*, got one of \(epoch\). Name it so\.",
        ),
        (
            no_scheduler,
            r"expected a torch.optim.lr_scheduler, or what has its step\(\), got float\. Return the scheduler",
        ),
        (
            lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer),
            r"stepped without a measured value, got ReduceLROnPlateau\. Step it in a step of your own: \[torch\] step\.",
        ),
    ],
)
def test_what_is_no_schedule_is_refused(function, message):
    with pytest.raises(TorchDdpError, match="^scheduler: expected .*" + message.split("expected ")[-1]):
        PortSchedule(function, optimizer_of(kind=like_tf.GradientDescent))


def test_a_schedule_that_wants_a_measured_value_is_left_to_the_ports_own_step():
    optimizer = optimizer_of()
    schedule = PortSchedule(lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer), optimizer, True)
    schedule.scheduler.step(1.0)
    assert rates(schedule, optimizer, [0, 1]) == [0.5, 0.5]
