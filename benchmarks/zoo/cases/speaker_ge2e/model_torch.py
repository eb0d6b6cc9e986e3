"""Speaker encoder with the contrast loss of generalised end-to-end training."""

import torch
from torch import nn

from data import UTTERANCES


def unit(x):
    return x / (x.square().sum(dim=-1, keepdim=True) + 1e-6).sqrt()


class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Encoder(nn.Module):
    def __init__(self, mels, hidden, size, layers):
        super().__init__()
        self.lstm = nn.LSTM(mels, hidden, num_layers=layers, proj_size=size, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                # one bias is enough: the second holds the forget bias and is not trained
                parameter.requires_grad_(False).zero_()
                parameter[hidden:2 * hidden] = 1.0

    def forward(self, frames):
        outputs, _ = self.lstm(frames)
        return unit(outputs[:, -1])


class Similarity(nn.Module):
    """Scaled cosine of every utterance to every speaker's centroid, to its own speaker's without the utterance itself."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))
        self.offset = nn.Parameter(torch.tensor(-2.0))

    def forward(self, embeddings):
        grouped = embeddings.view(-1, UTTERANCES, embeddings.size(-1))
        speakers = grouped.size(0)
        centroids = unit(grouped.mean(dim=1))
        without_self = unit(grouped.sum(dim=1, keepdim=True) - grouped)
        cosine = torch.einsum("jmp,ip->jmi", grouped, centroids)
        own = (grouped * without_self).sum(dim=-1, keepdim=True)
        same = torch.eye(speakers, dtype=torch.bool, device=embeddings.device).unsqueeze(1)
        cosine = torch.where(same, own, cosine).flatten(0, 1)
        scale = ScaleGradient.apply(self.scale, 0.01)
        offset = ScaleGradient.apply(self.offset, 0.01)
        return scale.abs() * cosine + offset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(10, 24, 12, 2)
        self.similarity = Similarity()

    def forward(self, frames):
        embedded = self.encoder(frames)
        return embedded, self.similarity(embedded)


def contrast(similarity):
    scores = similarity.sigmoid()
    utterances, speakers = scores.shape
    speaker = torch.arange(speakers, device=scores.device).repeat_interleave(UTTERANCES)
    own = scores.gather(1, speaker.unsqueeze(1)).squeeze(1)
    others = scores.scatter(1, speaker.unsqueeze(1), 0.0)
    return (1 - own + others.amax(dim=1)).sum()


def loss(model, frames):
    embedded, similarity = model(frames)
    return contrast(similarity), {"embedded": embedded, "similarity": similarity}


def optimizer(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


@torch.no_grad()
def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, frames):
    optimizer.zero_grad()
    total, outputs = loss(model, frames)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.5)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return total, outputs
