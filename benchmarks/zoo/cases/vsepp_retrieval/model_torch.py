import torch
from torch import nn
from torch.nn import functional as F

MARGIN = 0.2
GRAD_CLIP = 2.0


class GRUCell(nn.Module):
    """Resets the state in front of the candidate's product, unlike nn.GRUCell."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Linear(inputs + hidden, 2 * hidden)
        self.candidate = nn.Linear(inputs + hidden, hidden)
        nn.init.ones_(self.gates.bias)

    def forward(self, x, h):
        reset, update = torch.sigmoid(self.gates(torch.cat([x, h], dim=1))).chunk(2, dim=1)
        proposed = torch.tanh(self.candidate(torch.cat([x, reset * h], dim=1)))
        return update * h + (1 - update) * proposed


class GRU(nn.Module):
    """One direction over padded sequences [batch, time, features]; outputs are 0 behind the end."""

    def __init__(self, inputs, hidden, backward=False):
        super().__init__()
        self.cell = GRUCell(inputs, hidden)
        self.backward = backward

    def forward(self, x, valid):
        h = x.new_zeros(x.size(0), self.cell.hidden)
        outputs = [None] * x.size(1)
        for t in sorted(range(x.size(1)), reverse=self.backward):
            inside = valid[:, t:t + 1]
            h = torch.where(inside, self.cell(x[:, t], h), h)
            outputs[t] = h * inside
        return torch.stack(outputs, dim=1)


class ImageEncoder(nn.Module):
    def __init__(self, features, hidden, embedding):
        super().__init__()
        self.region = nn.Linear(features + 5, hidden)
        self.saliency = nn.Linear(hidden, 1, bias=False)
        self.project = nn.Linear(hidden, embedding)

    def forward(self, regions, boxes):
        left, top, right, bottom = boxes.unbind(2)
        area = (right - left) * (bottom - top)
        hidden = F.relu(self.region(torch.cat([regions, boxes, area.unsqueeze(2)], dim=2)))
        attention = torch.softmax(self.saliency(hidden), dim=1)
        pooled = (attention * hidden).sum(dim=1)
        return F.normalize(self.project(pooled), dim=1)


class CaptionEncoder(nn.Module):
    def __init__(self, vocabulary, word, hidden, embedding):
        super().__init__()
        self.words = nn.Embedding(vocabulary, word)
        self.forwards = GRU(word, hidden)
        self.backwards = GRU(word, hidden, backward=True)
        self.project = nn.Linear(hidden, embedding)

    def forward(self, words, lengths):
        valid = torch.arange(words.size(1), device=words.device) < lengths.unsqueeze(1)
        x = self.words(words)
        states = (self.forwards(x, valid) + self.backwards(x, valid)) / 2
        mean = states.sum(dim=1) / lengths.unsqueeze(1)
        return F.normalize(self.project(mean), dim=1)


class Model(nn.Module):
    def __init__(self, features=12, vocabulary=40, word=11, hidden=15, embedding=18):
        super().__init__()
        self.image = ImageEncoder(features, 20, embedding)
        self.caption = CaptionEncoder(vocabulary, word, hidden, embedding)

    def forward(self, regions, boxes, words, lengths):
        return self.image(regions, boxes), self.caption(words, lengths)


def hardest_negative_loss(scores):
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    positive = scores.diagonal()
    captions = F.relu(MARGIN + scores - positive.unsqueeze(1)).masked_fill(own, 0)
    images = F.relu(MARGIN + scores - positive.unsqueeze(0)).masked_fill(own, 0)
    return captions.amax(dim=1).sum() + images.amax(dim=0).sum()


def loss(model, regions, boxes, words, lengths):
    image, caption = model(regions, boxes, words.long(), lengths.long())
    scores = image @ caption.t()
    recall = (scores.argmax(dim=1) == torch.arange(len(scores), device=scores.device)).to(scores.dtype).mean()
    return hardest_negative_loss(scores), {"image": image, "caption": caption, "scores": scores, "recall_at_1": recall}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.1)


def clip_gradients(parameters, limit):
    """Like clip_grad_norm_, without its 1e-6 beside the norm."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    for g in gradients:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    value, outputs = loss(model, **inputs)
    value.backward()
    clip_gradients(model.parameters(), GRAD_CLIP)
    optimizer.step()
    scheduler.step()
    return value, outputs
