"""Two heads on a shared trunk; the training step clips as tf.clip_by_global_norm does."""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm1d(nn.BatchNorm1d):
    """Keeps the biased variance."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=0), self.momentum)
                self.running_var.lerp_(x.var(dim=0, unbiased=False), self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return super().forward(x)


def block(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs, bias=False), BatchNorm1d(outputs, eps=1e-3, momentum=0.1), nn.ELU())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(block(12, 32), block(32, 24))
        self.cls_head = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 3))
        self.reg_head = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))
        self.log_vars = nn.ParameterDict({"cls": nn.Parameter(torch.zeros(())), "reg": nn.Parameter(torch.zeros(()))})

    def forward(self, x):
        shared = self.backbone(x)
        weights = self.log_vars["cls"], self.log_vars["reg"]
        return shared, self.cls_head(shared), self.reg_head(shared).squeeze(1), weights


def loss(model, features, classes, values, has_value):
    shared, logits, prediction, (log_var_cls, log_var_reg) = model(features)
    class_loss = F.cross_entropy(logits, classes.long())
    errors = F.huber_loss(prediction, values, reduction="none", delta=1.0)
    value_loss = (errors * has_value).sum() / has_value.sum().clamp(min=1)
    total = torch.exp(-log_var_cls) * class_loss + 0.5 * log_var_cls
    total = total + 0.5 * torch.exp(-log_var_reg) * value_loss + 0.5 * log_var_reg
    decayed = [p for p in model.parameters() if p.ndim == 2]
    total = total + 1e-3 * sum(p.square().sum() / 2 for p in decayed)
    outputs = {
        "shared": shared,
        "logits": logits,
        "prediction": prediction,
        "class_loss": class_loss,
        "value_loss": value_loss,
    }
    return total, outputs


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.5 * step))


def clip_by_global_norm(parameters, limit):
    grads = [p.grad for p in parameters]
    total = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / total.clamp(min=limit))


def step(model, optimizer, scheduler, **inputs):
    optimizer.zero_grad()
    total, outputs = loss(model, **inputs)
    total.backward()
    clip_by_global_norm(model.parameters(), 0.5)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return total, outputs
