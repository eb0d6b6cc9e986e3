"""A port with a bug, in its own training step."""

from port import Model as Model
from port import loss as loss


def step(model, optimizer, scheduler, inputs, labels):
    optimizer.zero_grad()
    found, outputs = loss(model, inputs, labels)
    found.backward()
    optimizer.step()
    return found, outputs
