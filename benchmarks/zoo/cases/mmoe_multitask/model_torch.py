import torch
from torch import nn
import torch.nn.functional as F

SEGMENTS, CATEGORIES = 13, 29
MEAN = (2.0, 0.3, -1.0, 0.5, 4.0, 0.0, 1.0)
STD = (1.5, 0.4, 3.0, 1.0, 2.0, 0.7, 1.2)
TASKS = ("click", "purchase", "dwell")


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.segment = nn.Embedding(SEGMENTS, 4)
        self.category = nn.Embedding(CATEGORIES, 5)
        self.width = len(MEAN) + 4 + 5

    def forward(self, numeric, segment, category):
        numeric = (numeric - numeric.new_tensor(MEAN)) / numeric.new_tensor(STD)
        return torch.cat([numeric, self.segment(segment), self.category(category)], dim=1)


class Expert(nn.Module):
    def __init__(self, width, hidden, out):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, out)
        self.act = nn.LeakyReLU(0.2)

    def forward(self, x):
        return self.act(self.fc2(self.act(self.fc1(x))))


class Gate(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.proj = nn.Linear(width, experts)

    def forward(self, x, dropout):
        weights = self.proj(x).softmax(dim=-1)
        return weights * dropout if self.training else weights


class Head(nn.Module):
    def __init__(self, width, hidden=9):
        super().__init__()
        self.fc = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(F.relu(self.fc(x))).squeeze(-1)


class Model(nn.Module):
    def __init__(self, experts=4, hidden=18, width=14):
        super().__init__()
        self.features = Features()
        self.experts = nn.ModuleList(Expert(self.features.width, hidden, width) for _ in range(experts))
        self.gates = nn.ModuleDict({task: Gate(self.features.width, experts) for task in TASKS})
        self.heads = nn.ModuleDict({task: Head(width + (task == "purchase")) for task in TASKS})

    def forward(self, numeric, segment, category, gate_dropout):
        x = self.features(numeric, segment, category)
        experts = torch.stack([expert(x) for expert in self.experts], dim=1)
        gates = torch.stack([self.gates[t](x, gate_dropout[:, i]) for i, t in enumerate(TASKS)], dim=1)
        click, purchase, dwell = torch.einsum("bte,beh->tbh", gates, experts)

        click = self.heads["click"](click)
        probability = torch.sigmoid(click).detach()
        purchase = self.heads["purchase"](torch.cat([purchase, probability.unsqueeze(-1)], dim=1))
        dwell = self.heads["dwell"](dwell)
        return experts, gates, torch.stack([click, purchase, dwell], dim=1)


def loss(model, numeric, segment, category, click, purchase, dwell, gate_dropout):
    experts, gates, logits = model(numeric, segment, category, gate_dropout)
    click_logit, purchase_logit, dwell_pred = logits.unbind(dim=1)

    clicks = click.sum().clamp(min=1)
    click_loss = F.binary_cross_entropy_with_logits(click_logit, click)
    purchase_loss = F.binary_cross_entropy_with_logits(purchase_logit, purchase, weight=click, reduction="sum") / clicks
    dwell_loss = (click * F.huber_loss(dwell_pred, dwell, delta=2.0, reduction="none")).sum() / clicks
    total = click_loss + 0.7 * purchase_loss + 0.25 * dwell_loss
    return total, {"experts": experts, "gates": gates, "logits": logits}


class RMSpropTF(torch.optim.Optimizer):
    """tf.train.RMSPropOptimizer: squares begin at one, epsilon under the root, the rate inside of the momentum."""

    def __init__(self, params, lr, decay=0.9, momentum=0.0, eps=1e-10):
        super().__init__(params, dict(lr=lr, decay=decay, momentum=momentum, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                    state["momentum_buffer"] = torch.zeros_like(p)
                square, buffer = state["square_avg"], state["momentum_buffer"]
                square.mul_(group["decay"]).addcmul_(p.grad, p.grad, value=1 - group["decay"])
                root = square.add(group["eps"]).sqrt()
                buffer.mul_(group["momentum"]).addcdiv_(p.grad, root, value=group["lr"])
                p.sub_(buffer)


def optimizer(model):
    return RMSpropTF(model.parameters(), lr=0.01, decay=0.9, momentum=0.5, eps=1e-3)


def rate(step):
    if step <= 1:
        return 0.01
    return 0.004 if step <= 2 else 0.001
