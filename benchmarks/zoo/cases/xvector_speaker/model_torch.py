"""x-vector speaker embeddings with an AM-softmax head."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """Batch norm over frames or segments whose running_var is the biased variance of the batch."""

    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-3, momentum=0.05)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                dims = (0, 2) if x.dim() == 3 else (0,)
                var, mean = torch.var_mean(x, dim=dims, unbiased=False)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class TDNN(nn.Module):
    def __init__(self, input_dim, output_dim, context_size, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(input_dim, output_dim, context_size, dilation=dilation)
        self.bn = BatchNorm1d(output_dim)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class StatsPool(nn.Module):
    def __init__(self, floor=1e-5):
        super().__init__()
        self.floor = floor

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=2, unbiased=False)
        return torch.cat([mean, torch.sqrt(var + self.floor)], dim=1)


class AMSoftmax(nn.Module):
    def __init__(self, embedding_dim, num_speakers, scale=15.0, margin=0.2):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_speakers, embedding_dim))
        nn.init.xavier_uniform_(self.weight)
        self.scale = scale
        self.margin = margin

    def forward(self, x, labels):
        cosine = F.linear(F.normalize(x, dim=1), F.normalize(self.weight, dim=1))
        target = F.one_hot(labels, cosine.size(1)).to(cosine.dtype)
        logits = self.scale * (cosine - self.margin * target)
        return cosine, F.cross_entropy(logits, labels)


class XVector(nn.Module):
    def __init__(self, feat_dim=20, num_speakers=12):
        super().__init__()
        self.tdnn1 = TDNN(feat_dim, 32, 5)
        self.tdnn2 = TDNN(32, 32, 3, dilation=2)
        self.tdnn3 = TDNN(32, 32, 3, dilation=3)
        self.tdnn4 = TDNN(32, 32, 1)
        self.tdnn5 = TDNN(32, 48, 1)
        self.pool = StatsPool()
        self.fc1 = nn.Linear(96, 32)
        self.bn1 = BatchNorm1d(32)
        self.fc2 = nn.Linear(32, 24)
        self.amsoftmax = AMSoftmax(24, num_speakers)

    def forward(self, features, speakers):
        x = features.transpose(1, 2)
        x = x - x.mean(dim=2, keepdim=True)
        x = self.tdnn3(self.tdnn2(self.tdnn1(x)))
        frames = self.tdnn5(self.tdnn4(x))
        pooled = self.pool(frames)
        xvector = self.fc1(pooled)
        x = self.fc2(F.relu(self.bn1(xvector)))
        cosine, classification = self.amsoftmax(x, speakers)
        return {"frames": frames, "pooled": pooled, "xvector": xvector, "cosine": cosine,
                "classification": classification}


def loss(model, features, speakers):
    out = model(features, speakers.long())
    l2 = sum(p.pow(2).sum() for name, p in model.named_parameters() if name.endswith("weight") and p.dim() > 1)
    return out["classification"] + 2e-3 / 2 * l2, out


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
