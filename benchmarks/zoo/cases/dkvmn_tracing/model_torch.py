import torch
from torch import nn
from torch.nn import functional as F


class MemoryHead(nn.Module):
    """Reads from and writes to a value memory by weights that are given."""

    def __init__(self, value_dim):
        super().__init__()
        self.erase = nn.Linear(value_dim, value_dim)
        self.add = nn.Linear(value_dim, value_dim)

    def read(self, memory, weight):
        return torch.einsum("bm,bmd->bd", weight, memory)

    def forward(self, memory, weight, content, answered):
        erase = torch.sigmoid(self.erase(content))
        add = torch.tanh(self.add(content))
        weight = weight.unsqueeze(-1)
        new = memory * (1 - weight * erase.unsqueeze(1)) + weight * add.unsqueeze(1)
        return torch.where(answered.view(-1, 1, 1), new, memory)


class Addressing(nn.Module):
    def __init__(self, memory_size, key_dim):
        super().__init__()
        self.key = nn.Parameter(torch.empty(memory_size, key_dim))
        nn.init.kaiming_normal_(self.key)

    def forward(self, q):
        return F.softmax(F.linear(q, self.key), dim=-1)


class KnowledgeTracer(nn.Module):
    def __init__(self, n_question=14, memory_size=6, key_dim=5, value_dim=7, final_fc_dim=8):
        super().__init__()
        self.n_question = n_question
        self.q_embed = nn.Embedding(n_question + 1, key_dim)
        self.qa_embed = nn.Embedding(2 * n_question + 1, value_dim)
        self.init_memory_value = nn.Parameter(torch.empty(memory_size, value_dim))
        nn.init.kaiming_normal_(self.init_memory_value)
        self.addressing = Addressing(memory_size, key_dim)
        self.memory = MemoryHead(value_dim)
        self.summary = nn.Linear(value_dim + key_dim, final_fc_dim)
        self.predict = nn.Linear(final_fc_dim, 1)

    def forward(self, q_data, answer):
        q = self.q_embed(q_data)
        qa = self.qa_embed(q_data + answer * self.n_question)
        weights = self.addressing(q)
        memory = self.init_memory_value.expand(q.size(0), -1, -1)
        reads = []
        for w, content, answered in zip(weights.unbind(1), qa.unbind(1), q_data.gt(0).unbind(1)):
            reads.append(self.memory.read(memory, w))
            memory = self.memory(memory, w, content, answered)
        reads = torch.stack(reads, dim=1)
        mastery = torch.tanh(self.summary(torch.cat([reads, q], dim=-1)))
        return weights, reads, memory, self.predict(mastery).squeeze(-1)


def loss(model, q_data, answer, target):
    weights, reads, memory, logits = model(q_data.long(), answer.long())
    mask = target.ge(0)
    value = F.binary_cross_entropy_with_logits(logits[mask], target[mask])
    return value, {"correlation": weights, "read_content": reads, "memory": memory, "pred": torch.sigmoid(logits)}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def rate(step):
    return 0.5 * 0.5 ** step


def step(model, optimizer, scheduler, q_data, answer, target):
    optimizer.zero_grad()
    value, outputs = loss(model, q_data, answer, target)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    return value, outputs
