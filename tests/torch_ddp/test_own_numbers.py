"""A port's own optimizer may count its steps in an attribute: it counts those of training, not those that are tried."""

import torch
from torch import nn

from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.optimizer import Float32Beta, OwnNumbers, round_hyper_parameters
from torch_ddp.step.training_state import TrainingState


class Counting(torch.optim.SGD):
    """SGD that counts its steps, as ports of TensorFlow's Adam do for its epsilon."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.updates, self.decay, self.name, self.on = 0, 1.0, "counting", True

    def step(self, closure=None):
        self.updates += 1
        self.decay *= 0.5
        return super().step(closure)


def made():
    model = nn.Linear(2, 1)
    optimizer = Counting(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model, optimizer


def test_a_state_before_an_update_brings_the_count_that_training_has_there():
    model, optimizer = made()
    state = TrainingState(model, optimizer)
    states = []
    for _ in range(3):
        states.append(state.read())
        optimizer.step()
        state.count_update()
    for number in (2, 0, 1, 2, 0):
        state.load(states[number])
        assert (optimizer.updates, optimizer.decay) == (number, 0.5**number)
        optimizer.step()
        state.count_update()


def test_a_step_that_is_tried_for_its_state_is_not_counted():
    _, optimizer = made()
    make_lazy_state(optimizer)
    assert (optimizer.updates, optimizer.decay) == (0, 1.0)


def test_what_is_not_known_stays_and_is_not_passed_on():
    _, optimizer = made()
    numbers = OwnNumbers([optimizer])
    numbers.go_to(5)
    optimizer.step()
    numbers.count()
    numbers.go_to(6)
    assert optimizer.updates == 1
    numbers.go_to(0)
    assert optimizer.updates == 0 and (optimizer.name, optimizer.on) == ("counting", True)


def test_numbers_of_its_own_are_rounded_as_those_of_its_groups_are():
    _, optimizer = made()
    optimizer.epsilon, optimizer.beta, optimizer.updates = 1e-4, 0.9, 3
    round_hyper_parameters(optimizer)
    assert (optimizer.epsilon, optimizer.updates) == (torch.tensor(1e-4).item(), 3)
    assert isinstance(optimizer.beta, Float32Beta)
    assert optimizer.beta == torch.tensor(0.9).item()
