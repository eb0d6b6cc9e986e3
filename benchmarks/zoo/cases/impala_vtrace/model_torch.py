"""A recurrent actor-critic agent and its V-trace learner."""

import torch
from torch import nn
from torch.nn import functional as F


class LSTMCell(nn.Module):
    """Gates in TensorFlow's order i, j, f, o; 1 is added to the forget gate."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.gates = nn.Linear(input_size + hidden_size, 4 * hidden_size)

    def forward(self, x, state):
        h, c = state
        i, j, f, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
        return torch.sigmoid(o) * torch.tanh(c), c


class Core(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.cell = LSTMCell(input_size, hidden_size)

    def forward(self, inputs, done):
        h = c = inputs.new_zeros(inputs.size(1), self.cell.hidden_size)
        outputs = []
        for x, not_done in zip(inputs, (1.0 - done).unsqueeze(-1)):
            h, c = self.cell(x, (h * not_done, c * not_done))
            outputs.append(h)
        return torch.stack(outputs)


class Model(nn.Module):
    def __init__(self, observation_size=12, num_actions=5, hidden_size=32):
        super().__init__()
        self.num_actions = num_actions
        self.torso = nn.Sequential(nn.Linear(observation_size, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU())
        self.core = Core(24 + 1 + num_actions, hidden_size)
        self.policy = nn.Linear(hidden_size, num_actions)
        self.baseline = nn.Linear(hidden_size, 1)

    def forward(self, observation, last_action, reward, done):
        """All arguments are time-major."""
        one_hot = F.one_hot(last_action, self.num_actions).to(observation.dtype)
        clipped_reward = reward.clamp(-1, 1).unsqueeze(-1)
        x = torch.cat([self.torso(observation), clipped_reward, one_hot], dim=-1)
        x = self.core(x, done)
        return self.policy(x), self.baseline(x).squeeze(-1)


def action_log_probs(logits, actions):
    return F.log_softmax(logits, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def vtrace(log_rhos, discounts, rewards, values, bootstrap_value):
    rhos = log_rhos.exp()
    clipped_rhos = rhos.clamp(max=1.0)
    next_values = torch.cat([values[1:], bootstrap_value.unsqueeze(0)])
    deltas = clipped_rhos * (rewards + discounts * next_values - values)
    acc = torch.zeros_like(bootstrap_value)
    corrections = []
    for t in reversed(range(values.size(0))):
        acc = deltas[t] + discounts[t] * clipped_rhos[t] * acc
        corrections.append(acc)
    vs = values + torch.stack(corrections[::-1])
    next_vs = torch.cat([vs[1:], bootstrap_value.unsqueeze(0)])
    return vs, clipped_rhos * (rewards + discounts * next_vs - values)


def loss(model, observation, action, reward, done, behaviour_logits):
    observation, behaviour_logits = observation.transpose(0, 1), behaviour_logits.transpose(0, 1)
    action, reward, done = action.long().t(), reward.t(), done.t()
    policy_logits, baseline = model(observation, action, reward, done)

    logits, values, bootstrap_value = policy_logits[:-1], baseline[:-1], baseline[-1]
    taken = action[1:]
    log_probs = action_log_probs(logits, taken)
    log_rhos = log_probs - action_log_probs(behaviour_logits[1:], taken)
    discounts = 0.99 * (1.0 - done[1:])
    vs, pg_advantages = vtrace(log_rhos, discounts, reward[1:].clamp(-1, 1), values, bootstrap_value)

    pg_loss = -(log_probs * pg_advantages).sum()
    baseline_loss = 0.5 * (vs - values).pow(2).sum()
    entropy_loss = (F.softmax(logits, dim=-1) * F.log_softmax(logits, dim=-1)).sum()
    total = pg_loss + 0.5 * baseline_loss + 0.01 * entropy_loss
    return total, {"policy_logits": policy_logits, "baseline": baseline, "vs": vs, "pg_advantages": pg_advantages,
                   "pg_loss": pg_loss, "baseline_loss": baseline_loss, "entropy_loss": entropy_loss}


class RMSprop(torch.optim.Optimizer):
    """RMSProp as TensorFlow has it: mean squares begin at 1, epsilon is added before the root is taken."""

    def __init__(self, params, lr, alpha=0.99, eps=0.1):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"] = torch.ones_like(p)
                square_avg = state["square_avg"]
                square_avg.add_(p.grad.square() - square_avg, alpha=1 - group["alpha"])
                p.sub_(group["lr"] * p.grad / (square_avg + group["eps"]).sqrt())


def optimizer(model):
    return RMSprop(model.parameters(), lr=0.005, alpha=0.99, eps=0.1)


def scheduler(optimizer, total_steps=10):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1.0 - step / total_steps))


def clip_by_global_norm(parameters, limit):
    """Scales all gradients by one factor, without the epsilon of clip_grad_norm_."""
    grads = [p.grad for p in parameters]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **unroll):
    optimizer.zero_grad()
    total, outputs = loss(model, **unroll)
    total.backward()
    clip_by_global_norm(model.parameters(), limit=10.0)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return total, outputs
