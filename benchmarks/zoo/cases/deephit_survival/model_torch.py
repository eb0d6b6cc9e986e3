import torch
from torch import nn

CAUSES, INTERVALS = 2, 10
RANKING_WEIGHT, SIGMA = 0.6, 0.1
HIDDEN_L2, OUTPUT_L1 = 2e-3, 1e-3


class CauseNet(nn.Sequential):
    def __init__(self, features, hidden):
        super().__init__(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())


class Model(nn.Module):
    """Probabilities [batch, cause, interval], which sum up to one over causes and intervals together."""

    def __init__(self, features=11, shared=24, hidden=15):
        super().__init__()
        self.shared1 = nn.Linear(features, shared)
        self.shared2 = nn.Linear(shared, shared)
        self.causes = nn.ModuleList(CauseNet(features + shared, hidden) for _ in range(CAUSES))
        self.output = nn.Linear(CAUSES * hidden, CAUSES * INTERVALS)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x, keep):
        h = torch.relu(self.shared1(x)) * keep
        h = torch.relu(self.shared2(h))
        h = torch.cat([x, h], dim=1)
        h = torch.cat([net(h) for net in self.causes], dim=1)
        return self.output(h).softmax(dim=1).view(-1, CAUSES, INTERVALS)


def negative_log_likelihood(pmf, mask):
    return -(pmf.mul(mask).sum(dim=(1, 2)) + 1e-8).log().mean()


def ranking_loss(pmf, event, time, until):
    """Whoever has an event at a time should have had the higher risk by then than those who live on."""
    total = 0
    later = (time.unsqueeze(1) < time.unsqueeze(0)).to(pmf.dtype)
    for cause in range(CAUSES):
        risk = until @ pmf[:, cause].t()  # of the j-th patient up to the time of the i-th
        ahead = risk.diagonal().unsqueeze(1) - risk
        had = (event == cause + 1).to(pmf.dtype).unsqueeze(1)
        total = total + (had * later * torch.exp(-ahead / SIGMA)).mean(dim=1).sum()
    return total / CAUSES


def penalty(model):
    total = 0
    for name, p in model.named_parameters():
        if name.endswith("output.weight"):
            total = total + OUTPUT_L1 * p.abs().sum()
        elif name.endswith("weight"):
            total = total + HIDDEN_L2 * p.square().sum() / 2
    return total


def loss(model, x, k, t, mask1, mask2, keep):
    pmf = model(x, keep)
    event, time = k.squeeze(1), t.squeeze(1)
    likelihood = negative_log_likelihood(pmf, mask1)
    ranking = ranking_loss(pmf, event, time, mask2)
    value = likelihood + RANKING_WEIGHT * ranking + penalty(model)
    return value, {"pmf": pmf, "likelihood": likelihood, "ranking": ranking}


def optimizer(model):
    return torch.optim.Adadelta(model.parameters(), lr=0.8, rho=0.95, eps=1e-6)
