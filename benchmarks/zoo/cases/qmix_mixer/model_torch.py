"""QMIX with recurrent agents; the gated cell resets its state in front of the product, as the original's does."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class GatedCell(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Linear(features + hidden, 2 * hidden)
        self.candidate = nn.Linear(features + hidden, hidden)
        nn.init.ones_(self.gates.bias)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1))).chunk(2, dim=-1)
        new = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=-1)))
        return update * h + (1 - update) * new


class Agent(nn.Module):
    """One network for all agents, which run beside each other in the batch."""

    def __init__(self, features, n_actions, hidden=16):
        super().__init__()
        self.embed = nn.Linear(features, hidden)
        self.cell = GatedCell(hidden, hidden)
        self.q = nn.Linear(hidden, n_actions)

    def forward(self, inputs):
        x = F.relu(self.embed(inputs))
        h = x.new_zeros(x.shape[0], x.shape[2], self.cell.hidden)
        q_values = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            q_values.append(self.q(h))
        return torch.stack(q_values, dim=1)


class Mixer(nn.Module):
    """Mixes the agents' values monotonically; its weights are functions of the state."""

    def __init__(self, n_agents, state_size, embed=8):
        super().__init__()
        self.n_agents, self.embed = n_agents, embed
        self.weight_in = nn.Linear(state_size, n_agents * embed)
        self.bias_in = nn.Linear(state_size, embed)
        self.weight_out = nn.Linear(state_size, embed)
        self.value = nn.Sequential(nn.Linear(state_size, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, qs, state):
        w_in = self.weight_in(state).abs().unflatten(-1, (self.n_agents, self.embed))
        hidden = F.elu(torch.einsum("bta,btae->bte", qs, w_in) + self.bias_in(state))
        w_out = self.weight_out(state).abs()
        return (hidden * w_out).sum(dim=-1) + self.value(state).squeeze(-1)


class Model(nn.Module):
    def __init__(self, n_agents=3, n_actions=5, obs_size=6, state_size=10, gamma=0.95):
        super().__init__()
        self.n_agents, self.n_actions, self.gamma = n_agents, n_actions, gamma
        self.agent = Agent(obs_size + n_actions + n_agents, n_actions)
        self.mixer = Mixer(n_agents, state_size)
        self.target_agent = copy.deepcopy(self.agent).requires_grad_(False)
        self.target_mixer = copy.deepcopy(self.mixer).requires_grad_(False)

    def agent_inputs(self, obs, actions):
        batch, length = obs.shape[:2]
        last = F.one_hot(actions, self.n_actions).to(obs.dtype)
        last = torch.cat([torch.zeros_like(last[:, :1]), last], dim=1)
        ids = torch.eye(self.n_agents, dtype=obs.dtype, device=obs.device).repeat(batch * length, 1)
        return torch.cat([obs, last, ids.view(batch, length, self.n_agents, -1)], dim=-1)

    def forward(self, obs, state, available, actions, rewards, terminated):
        inputs = self.agent_inputs(obs, actions)
        q_values = self.agent(inputs)
        chosen = q_values[:, :-1].gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        q_total = self.mixer(chosen, state[:, :-1])
        with torch.no_grad():
            allowed = q_values.masked_fill(available == 0, float("-inf"))
            best = allowed[:, 1:].argmax(dim=-1, keepdim=True)
            next_values = self.target_agent(inputs)[:, 1:].gather(-1, best).squeeze(-1)
            next_total = self.target_mixer(next_values, state[:, 1:])
            targets = rewards + self.gamma * (1 - terminated) * next_total
        return q_values, q_total, targets


def loss(model, obs, state, available, actions, rewards, terminated, filled):
    q_values, q_total, targets = model(obs, state, available, actions.long(), rewards, terminated)
    error = (q_total - targets) * filled
    total = error.square().sum() / filled.sum()
    return total, {"agent_qs": q_values, "q_total": q_total, "targets": targets}


class RMSprop(torch.optim.Optimizer):
    """RMSprop with TensorFlow's rule: averages start at one, and epsilon stands below the root."""

    def __init__(self, params, lr, alpha=0.99, eps=1e-5):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "square_avg" not in state:
                    state["square_avg"] = torch.ones_like(p)
                average = state["square_avg"]
                average.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                p.sub_(group["lr"] * p.grad / (average + group["eps"]).sqrt())


def optimizer(model):
    return RMSprop([p for p in model.parameters() if p.requires_grad], lr=5e-3)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    total, outputs = loss(model, **batch)
    total.backward()
    clip_by_global_norm(model.parameters(), 2.0)
    optimizer.step()
    return total, outputs
