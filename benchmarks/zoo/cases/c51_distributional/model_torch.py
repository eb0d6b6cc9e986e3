import torch
import torch.nn.functional as F
from torch import nn

GAMMA = 0.99


class Model(nn.Module):
    """A small Rainbow network: one categorical distribution of returns per action."""

    def __init__(self, actions=5, atoms=21, vmax=5.0):
        super().__init__()
        self.actions, self.atoms = actions, atoms
        self.conv1 = nn.Conv2d(3, 10, 5, stride=2)
        self.conv2 = nn.Conv2d(10, 14, 3, stride=2)
        self.hidden = nn.Linear(4 * 4 * 14, 48)
        self.head = nn.Linear(48, actions * atoms)
        self.register_buffer("support", torch.linspace(-vmax, vmax, atoms))

    def forward(self, frames):
        x = frames.permute(0, 3, 1, 2) / 255.0
        # "same" of TensorFlow puts the odd row at the bottom, the odd column on the right
        x = F.relu(self.conv1(F.pad(x, (1, 2, 1, 2))))
        x = F.relu(self.conv2(F.pad(x, (0, 1, 0, 1))))
        x = x.permute(0, 2, 3, 1).flatten(1)  # rows, columns, channels: the order of the checkpoint
        x = F.relu(self.hidden(x))
        logits = self.head(x).view(-1, self.actions, self.atoms)
        probabilities = logits.softmax(dim=2)
        return logits, probabilities, probabilities @ self.support


def project(atoms, probabilities, support):
    """Puts the mass of each moved atom on its two neighbours on the support."""
    step = support[1] - support[0]
    position = (atoms.clamp(support[0], support[-1]) - support[0]) / step
    lower = position.floor().long().clamp(max=len(support) - 2)
    upper = lower + 1
    out = torch.zeros_like(probabilities)
    out = out.scatter_add(1, lower, probabilities * (upper - position))
    return out.scatter_add(1, upper, probabilities * (position - lower))


def loss(model, states, actions, rewards, next_states, terminals, probabilities):
    logits, _, q_values = model(states)
    _, next_probabilities, next_q_values = model(next_states)

    support = torch.linspace(-5.0, 5.0, logits.shape[2], dtype=logits.dtype, device=logits.device)
    rows = torch.arange(len(states), device=states.device)
    best = next_probabilities[rows, next_q_values.argmax(dim=1)]
    discount = GAMMA * (1.0 - terminals)
    target = project(rewards[:, None] + discount[:, None] * support, best, support)

    log_probabilities = F.log_softmax(logits[rows, actions.long()], dim=1)
    cross_entropy = -(target.detach() * log_probabilities).sum(dim=1)
    weights = (probabilities + 1e-10).rsqrt()
    weights = weights / weights.max()
    return (weights * cross_entropy).mean(), {"q_values": q_values, "target": target, "cross_entropy": cross_entropy}


class Adam(torch.optim.Optimizer):
    """Adam as tf.train has it: epsilon is added to the root of the uncorrected second moment."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                correction1 = 1 - beta1 ** state["step"]
                correction2 = (1 - beta2 ** state["step"]) ** 0.5
                denominator = state["exp_avg_sq"].sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denominator, value=-group["lr"] * correction2 / correction1)


def optimizer(model):
    return Adam(model.parameters(), lr=0.002, eps=0.0003125)
