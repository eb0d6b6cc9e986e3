"""One tower and eight, with and without scaling and warm-up; what a large step is worth; how noisy a gradient is."""

import torch

import torch_ddp


class Model(torch.nn.Module):
    """Two layers without biases."""

    def __init__(self, w1, w2):
        super().__init__()
        self.w1 = torch.nn.Parameter(torch.tensor(w1, dtype=torch.float64))
        self.w2 = torch.nn.Parameter(torch.tensor(w2, dtype=torch.float64))

    def forward(self, x):
        return torch.tanh(x @ self.w1) @ self.w2


def loss(model, x, y):
    return (model(x) - y).square().mean()


def train(model, x, y, batch, rate, warm_up_steps, epochs, every):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    schedule = torch_ddp.warm_up(optimizer, warm_up_steps)
    losses, rates = [], []
    for step in range(epochs * len(x) // batch):
        if step % every == 0:
            losses.append(loss(model, x, y).item())
        rates.append(schedule.get_last_lr()[0])
        start = step * batch % len(x)
        optimizer.zero_grad()
        loss(model, x[start : start + batch], y[start : start + batch]).backward()
        optimizer.step()
        schedule.step()
    losses.append(loss(model, x, y).item())
    return {"losses": losses, "rates": rates, "w1": model.w1.tolist(), "w2": model.w2.tolist()}


def one_step_for_many(make, x, y, count, batch, rate):
    """Returns how far `count` small steps and one large step end apart, as a fraction of the way."""
    small, large = make(), make()
    train(small, x[: count * batch], y[: count * batch], batch, rate, 0, 1, 1)
    train(large, x[: count * batch], y[: count * batch], count * batch, count * rate, 0, 1, 1)
    begin, small, large = (
        torch.cat([part.detach().ravel() for part in m.parameters()]) for m in (make(), small, large)
    )
    return {"rate": rate, "off": ((small - large).norm() / (small - begin).norm()).item()}


def noise(make, x, y, batch, draws=1000):
    """Returns the variance of a batch's gradient, over so many batches that are drawn at random."""
    gradients = []
    for each in range(len(x)):
        model = make()
        loss(model, x[each : each + 1], y[each : each + 1]).backward()
        gradients.append(torch.cat([part.grad.ravel() for part in model.parameters()]))
    drawn = torch.randint(len(x), (draws, batch), generator=torch.Generator().manual_seed(0))
    means = torch.stack([torch.stack(gradients)[indices].mean(0) for indices in drawn])
    return means.var(0).sum().item()


def measure(x, y, w1, w2, towers, batch, rate, warm_up_steps, epochs):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)

    def make():
        return Model(w1, w2)

    scaled, large = torch_ddp.scaled_learning_rate(rate, towers * batch, batch), towers * batch
    runs = {
        "one tower": train(make(), x, y, batch, rate, 0, epochs, towers),
        "same rate": train(make(), x, y, large, rate, 0, epochs, 1),
        "scaled": train(make(), x, y, large, scaled, 0, epochs, 1),
        "warmed up": train(make(), x, y, large, scaled, warm_up_steps, epochs, 1),
    }
    return {
        "runs": runs,
        "one step for eight": [one_step_for_many(make, x, y, towers, batch, rate / divisor) for divisor in (8, 16, 32)],
        "noise": {size: noise(make, x, y, size) for size in (batch, large)},
    }
