"""The same step in torch without towers: one model, the whole batch."""

import torch


def measure(x, y, weights, towers, learning_rate):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    w = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))
    optimizer = torch.optim.SGD([w], lr=learning_rate)
    loss = (x @ w - y).square().mean()
    loss.backward()
    gradient = w.grad.tolist()
    optimizer.step()
    return {"loss": loss.item(), "gradient": gradient, "after": w.detach().tolist()}
