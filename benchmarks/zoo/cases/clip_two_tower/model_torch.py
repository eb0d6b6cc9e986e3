"""Image and text encoder trained by the symmetric contrastive loss over the pairs of one rank."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class BatchNorm2d(nn.BatchNorm2d):
    """Moves running_var towards the biased variance, as unfused batch norm in TensorFlow does."""

    def forward(self, x):
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            self.running_mean.lerp_(x.mean(dim=(0, 2, 3)), self.momentum)
            self.running_var.lerp_(x.var(dim=(0, 2, 3), unbiased=False), self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class VisualEncoder(nn.Module):
    def __init__(self, widths=(12, 24), embed_dim=12):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, stride=2, bias=False)
        self.norm1 = BatchNorm2d(widths[0])
        self.conv2 = nn.Conv2d(widths[0], widths[1], 3, stride=2, bias=False)
        self.norm2 = BatchNorm2d(widths[1])
        self.proj = nn.Linear(widths[1], embed_dim, bias=False)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(F.pad(x, (0, 1, 0, 1)))))
        x = F.relu(self.norm2(self.conv2(F.pad(x, (0, 1, 0, 1)))))
        return self.proj(x.mean(dim=(2, 3)))


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class TextEncoder(nn.Module):
    def __init__(self, vocab=40, context=8, width=16, heads=2, embed_dim=12):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.positions = nn.Parameter(0.01 * torch.randn(context, width))
        self.norm_attn = nn.LayerNorm(width, eps=1e-12)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm_mlp = nn.LayerNorm(width, eps=1e-12)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), QuickGELU(), nn.Linear(2 * width, width))
        self.norm_out = nn.LayerNorm(width, eps=1e-12)
        self.proj = nn.Linear(width, embed_dim, bias=False)
        self.register_buffer("causal", torch.ones(context, context, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions
        y = self.norm_attn(x)
        x = x + self.attn(y, y, y, attn_mask=self.causal, need_weights=False)[0]
        x = self.norm_out(x + self.mlp(self.norm_mlp(x)))
        # features are those at the end of text, the highest token
        return self.proj(x[torch.arange(len(x)), tokens.argmax(dim=-1)])


class ImageTextModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = VisualEncoder()
        self.textual = TextEncoder()
        self.log_temperature = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, tokens):
        image_features = F.normalize(self.visual(images), dim=-1)
        text_features = F.normalize(self.textual(tokens), dim=-1)
        scale = self.log_temperature.exp().clamp(max=100.0)
        logits_per_image = scale * image_features @ text_features.t()
        logits_per_text = scale * text_features @ image_features.t()
        # only matrices decay; biases and gains are left as they are
        matrices = [p for p in self.parameters() if p.dim() > 1]
        l2 = sum(p.square().sum() for p in matrices) / 2
        return image_features, text_features, logits_per_image, logits_per_text, l2


def loss(model, images, tokens):
    image_features, text_features, logits_per_image, logits_per_text, l2 = model(
        images.permute(0, 3, 1, 2).contiguous(), tokens.long())
    labels = torch.arange(len(images), device=images.device)
    contrastive = (F.cross_entropy(logits_per_image, labels) + F.cross_entropy(logits_per_text, labels)) / 2
    return contrastive + 1e-3 * l2, {
        "image_features": image_features, "text_features": text_features,
        "logits": logits_per_image, "contrastive": contrastive,
    }


class Adam(torch.optim.Optimizer):
    """Adam with the epsilon where TensorFlow has it: added to the root before the moments are corrected."""

    def __init__(self, params, lr, betas=(0.9, 0.98), eps=1e-6):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

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
                state["exp_avg"].lerp_(p.grad, 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate)


def optimizer(model):
    return Adam(model.parameters(), lr=2e-3)


def scheduler(optimizer, total=12, floor=0.1):
    def factor(step):
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(step, total) / total))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
