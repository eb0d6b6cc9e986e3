"""The port with one bug left."""

from port import Model as Model
from port import loss as loss
from port import optimizer as optimizer
from port import scheduler as scheduler


def step(model, optimizer, scheduler, inputs, labels):
    optimizer.zero_grad()
    found, seen = loss(model, inputs, labels)
    found.backward()
    scheduler.step()
    optimizer.step()
    return found, seen
