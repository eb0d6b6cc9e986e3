"""A parameter server and its workers as ranks, none waiting for another; and delays that are chosen."""

import copy

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def serve(weights, rate, workers, each):
    """Applies gradients as they come; returns of each how many updates it was behind, and the last weights."""
    weights, version, behind = weights.clone(), 0, []
    message = torch.empty(len(weights) + 1, dtype=weights.dtype)
    for worker in range(1, workers + 1):
        dist.send(torch.cat([torch.tensor([float(version)]).to(weights), weights]), worker)
    for _ in range(workers * each):
        worker = dist.recv(message)  # of whoever is first
        behind.append(version - int(message[0]))
        weights -= rate * message[1:]
        version += 1
        dist.send(torch.cat([torch.tensor([float(version)]).to(weights), weights]), worker)
    return behind, weights


def work(model, loss_of, each):
    """Computes gradients of the weights that were read last, and sends them with the number of their version."""
    size = sum(parameter.numel() for parameter in model.parameters())
    message = torch.empty(size + 1, dtype=torch.float64)
    dist.recv(message, 0)
    for _ in range(each):
        vector_to_parameters(message[1:], model.parameters())
        dist.send(torch.cat([message[:1], gradient_of(model, loss_of)]), 0)
        dist.recv(message, 0)


def gradient_of(model, loss_of):
    gradients = torch.autograd.grad(loss_of(model), list(model.parameters()))
    return parameters_to_vector(gradients)


def train_with_delay(model, loss_of, rate, delay, updates):
    """Returns the losses of a net each of whose gradients is of the weights of `delay` updates ago."""
    model = copy.deepcopy(model)
    versions = [parameters_to_vector(model.parameters()).detach()]
    losses = []
    for _ in range(updates):
        vector_to_parameters(versions[max(0, len(versions) - 1 - delay)].clone(), model.parameters())
        gradient = gradient_of(model, loss_of)
        versions.append(versions[-1] - rate * gradient)
        vector_to_parameters(versions[-1].clone(), model.parameters())
        losses.append(loss_of(model).item())
    return losses
