import torch
from torch import nn
from torch.nn import functional as F

TEMPERATURE = 0.2


class ShiftedBatchNorm(nn.Module):
    """Batch norm with a shift and without a scale; the running variance is of uncorrected variances."""

    def __init__(self, size, momentum=0.1, eps=1e-3):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, x):
        if self.training:
            mean, var = x.mean(0), x.var(0, correction=0)
            self.running_mean.mul_(1 - self.momentum).add_(mean.detach(), alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var.detach(), alpha=self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) * torch.rsqrt(var + self.eps) + self.bias


class MLP(nn.Sequential):
    def __init__(self, width, units):
        layers = []
        for n in units[:-1]:
            layers += [nn.Linear(width, n, bias=False), ShiftedBatchNorm(n), nn.ReLU()]
            width = n
        super().__init__(*layers, nn.Linear(width, units[-1]))


class UserTower(nn.Module):
    def __init__(self, video_embedding, dim, units=(24, 12)):
        super().__init__()
        self.age = nn.Embedding(7, dim)
        self.country = nn.Embedding(12, dim)
        self.video = video_embedding
        self.norm = ShiftedBatchNorm(3)
        self.mlp = MLP(3 * dim + 6, units)

    def forward(self, user, history, numbers):
        mask = (history != 0).unsqueeze(-1).to(numbers.dtype)
        watched = (self.video(history) * mask).sum(dim=1)
        watched = watched / mask.sum(dim=1)
        numbers = self.norm(numbers)
        x = torch.cat([self.age(user[:, 0]), self.country(user[:, 1]), watched, numbers, numbers.square()], dim=1)
        return F.normalize(self.mlp(x), dim=1)


class VideoTower(nn.Module):
    def __init__(self, video_embedding, dim, units=(20, 12)):
        super().__init__()
        self.video = video_embedding
        self.channel = nn.Embedding(15, dim)
        self.mlp = MLP(2 * dim + 1, units)

    def forward(self, video, length):
        x = torch.cat([self.video(video[:, 0]), self.channel(video[:, 1]), torch.log1p(length)], dim=1)
        return F.normalize(self.mlp(x), dim=1)


class Model(nn.Module):
    """Both towers look videos up in one table."""

    def __init__(self, dim=8):
        super().__init__()
        video_embedding = nn.Embedding(61, dim)
        self.user_tower = UserTower(video_embedding, dim)
        self.video_tower = VideoTower(video_embedding, dim)

    def forward(self, user, history, numbers, video, length):
        return self.user_tower(user, history, numbers), self.video_tower(video, length)


def loss(model, user, history, numbers, video, length, sampling_p):
    user_emb, video_emb = model(user.long(), history.long(), numbers, video.long(), length)
    scores = user_emb @ video_emb.t() / TEMPERATURE
    logits = scores - sampling_p.log().unsqueeze(0)
    xent = F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))
    kernels = [p for name, p in model.named_parameters() if "mlp" in name and name.endswith("weight")]
    l2 = 1e-3 * sum(p.pow(2).sum() for p in kernels) / 2
    return xent + l2, {"user_emb": user_emb, "video_emb": video_emb, "scores": scores, "xent": xent}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (0.045 * (1 - min(step, 10) / 10) + 0.005) / 0.05)


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    scale = limit / torch.clamp(norm, min=limit)
    for g in grads:
        g.mul_(scale)


def step(model, optimizer, scheduler, **batch):
    optimizer.zero_grad()
    value, outputs = loss(model, **batch)
    value.backward()
    clip_by_global_norm(model.parameters(), 2.0)
    optimizer.step()
    scheduler.step()
    return value, outputs
