"""Differentiable neural computer with an nn.LSTMCell as controller and a memory module with independent linears."""

import torch
from torch import nn
from torch.nn import functional as F

EPS = 1e-6
CLIP = 20
MAX_NORM = 0.2


def cosine(memory, keys):
    """Similarity of keys [b, heads, w] with the cells [b, n, w] of a memory."""
    dot = torch.einsum("bhw,bnw->bhn", keys, memory)
    key_norm = (keys.square().sum(-1) + EPS).sqrt()
    cell_norm = (memory.square().sum(-1) + EPS).sqrt()
    return dot / (key_norm.unsqueeze(2) * cell_norm.unsqueeze(1) + EPS)


class ContentAddressing(nn.Module):
    def forward(self, memory, keys, strengths):
        return F.softmax(cosine(memory, keys) * F.softplus(strengths).unsqueeze(-1), dim=-1)


class Allocation(nn.Module):
    """Weights the cells that are free, the freest first."""

    def forward(self, usage):
        usage = EPS + (1 - EPS) * usage
        free, order = torch.sort(1 - usage, dim=1, descending=True, stable=True)
        ones = torch.ones_like(free[:, :1])
        product = torch.cumprod(torch.cat([ones, 1 - free], dim=1), dim=1)[:, :-1]
        return (free * product).gather(1, order.argsort(dim=1))


class Linkage(nn.Module):
    """In which order the cells were written."""

    def __init__(self, cells):
        super().__init__()
        self.register_buffer("off_diagonal", 1 - torch.eye(cells), persistent=False)

    def forward(self, link, precedence, write):
        w_i, w_j = write.unsqueeze(2), write.unsqueeze(1)
        link = (1 - w_i - w_j) * link + w_i * precedence.unsqueeze(1)
        precedence = (1 - write.sum(1, keepdim=True)) * precedence + write
        return link * self.off_diagonal, precedence


class Memory(nn.Module):
    """One write head, several read heads."""

    def __init__(self, input_size, cells, width, reads):
        super().__init__()
        self.reads, self.width = reads, width
        self.interface = nn.ModuleDict({
            "write_vector": nn.Linear(input_size, width),
            "erase_vector": nn.Linear(input_size, width),
            "write_key": nn.Linear(input_size, width),
            "write_strength": nn.Linear(input_size, 1),
            "write_gate": nn.Linear(input_size, 1),
            "allocation_gate": nn.Linear(input_size, 1),
            "free_gates": nn.Linear(input_size, reads),
            "read_keys": nn.Linear(input_size, reads * width),
            "read_strengths": nn.Linear(input_size, reads),
            "read_modes": nn.Linear(input_size, 3 * reads),
        })
        self.content = ContentAddressing()
        self.allocation = Allocation()
        self.linkage = Linkage(cells)

    def forward(self, h, hidden):
        io = {name: layer(h) for name, layer in self.interface.items()}
        free_gates = torch.sigmoid(io["free_gates"]).unsqueeze(-1)
        usage, written = hidden["usage"], hidden["write"].detach()
        usage = usage + (1 - usage) * written
        usage = usage * (1 - free_gates * hidden["read"]).prod(1)

        key = io["write_key"].unsqueeze(1)
        by_content = self.content(hidden["memory"], key, io["write_strength"]).squeeze(1)
        gate = torch.sigmoid(io["allocation_gate"])
        write = torch.sigmoid(io["write_gate"]) * torch.lerp(by_content, self.allocation(usage), gate)

        erase = torch.sigmoid(io["erase_vector"])
        memory = hidden["memory"] * (1 - write.unsqueeze(2) * erase.unsqueeze(1))
        memory = memory + torch.einsum("bn,bw->bnw", write, io["write_vector"])

        link, precedence = self.linkage(hidden["link"], hidden["precedence"], write)
        keys = io["read_keys"].view(-1, self.reads, self.width)
        content = self.content(memory, keys, io["read_strengths"])
        ahead = torch.einsum("bij,brj->bri", link, hidden["read"])
        back = torch.einsum("bij,bri->brj", link, hidden["read"])
        modes = io["read_modes"].view(-1, self.reads, 3).softmax(-1)
        read = (torch.stack([back, ahead, content], dim=2) * modes.unsqueeze(-1)).sum(2)
        words = torch.bmm(read, memory)
        return words.flatten(1), {"memory": memory, "usage": usage, "write": write, "read": read, "link": link, "precedence": precedence}


class DNC(nn.Module):
    def __init__(self, bits=4, hidden_size=20, cells=8, width=6, reads=2):
        super().__init__()
        self.cells, self.width, self.reads = cells, width, reads
        self.controller = nn.LSTMCell(bits + 2 + reads * width, hidden_size)
        self.memory_start = nn.Parameter(torch.randn(cells, width) * 0.5)
        self.memory = Memory(hidden_size, cells, width, reads)
        self.output = nn.Linear(hidden_size + reads * width, bits)
        # the second bias stands still: it is the forget bias
        with torch.no_grad():
            self.controller.bias_hh.zero_()
            self.controller.bias_hh[hidden_size:2 * hidden_size] = 1.0
        self.controller.bias_hh.requires_grad_(False)

    def start(self, x):
        batch, n = x.size(0), self.cells
        return {
            "memory": self.memory_start.expand(batch, -1, -1),
            "usage": x.new_zeros(batch, n),
            "write": x.new_zeros(batch, n),
            "read": x.new_zeros(batch, self.reads, n),
            "link": x.new_zeros(batch, n, n),
            "precedence": x.new_zeros(batch, n),
        }

    def forward(self, x):
        hidden, state = self.start(x), None
        words = x.new_zeros(x.size(0), self.reads * self.width)
        outputs = []
        for t in range(x.size(1)):
            state = self.controller(torch.cat([x[:, t], words], dim=1), state)
            h = state[0].clamp(-CLIP, CLIP)
            words, hidden = self.memory(h, hidden)
            outputs.append(self.output(torch.cat([h, words], dim=1)).clamp(-CLIP, CLIP))
        return torch.stack(outputs, dim=1), hidden["memory"], hidden["usage"]


def loss(model, observations, target, mask):
    logits, memory, usage = model(observations)
    by_step = F.binary_cross_entropy_with_logits(logits, target, reduction="none").sum(-1)
    value = (by_step * mask).sum() / mask.size(0)
    wrong = ((logits > 0) != (target > 0.5)).to(logits.dtype) * mask.unsqueeze(-1)
    return value, {"logits": logits, "memory": memory, "usage": usage, "bit_errors": wrong.sum() / mask.sum()}


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it: the mean square begins at one, epsilon is under the root."""

    def __init__(self, params, lr, decay=0.9, eps=1e-6):
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps})

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
                square_avg.mul_(group["decay"]).addcmul_(p.grad, p.grad, value=1 - group["decay"])
                p.addcdiv_(p.grad, (square_avg + group["eps"]).sqrt_(), value=-group["lr"])


def optimizer(model):
    return RMSpropTF([p for p in model.parameters() if p.requires_grad], lr=0.004)


def clip_(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, observations, target, mask):
    optimizer.zero_grad()
    value, outputs = loss(model, observations, target, mask)
    value.backward()
    clip_(model.parameters(), MAX_NORM)
    optimizer.step()
    return value, outputs
