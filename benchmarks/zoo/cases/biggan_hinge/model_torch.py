import torch
from torch import nn
from torch.nn import functional as F

ORTHO = 1e-2


class BatchNorm2d(nn.BatchNorm2d):
    """Keeps averages of the biased variance."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return super().forward(x)


class ConditionalBatchNorm2d(nn.Module):
    def __init__(self, channels, cond):
        super().__init__()
        self.norm = BatchNorm2d(channels, affine=False, momentum=0.1)
        self.gain = nn.Linear(cond, channels, bias=False)
        self.shift = nn.Linear(cond, channels, bias=False)

    def forward(self, x, cond):
        gain = 1 + self.gain(cond)
        return self.norm(x) * gain[:, :, None, None] + self.shift(cond)[:, :, None, None]


class GBlock(nn.Module):
    def __init__(self, c_in, c_out, cond):
        super().__init__()
        self.bn1 = ConditionalBatchNorm2d(c_in, cond)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1, bias=False)
        self.bn2 = ConditionalBatchNorm2d(c_out, cond)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.conv_sc = nn.Conv2d(c_in, c_out, 1, bias=False)

    def forward(self, x, cond):
        h = F.interpolate(F.relu(self.bn1(x, cond)), scale_factor=2)
        h = self.conv2(F.relu(self.bn2(self.conv1(h), cond)))
        return h + F.interpolate(self.conv_sc(x), scale_factor=2)


class DBlock(nn.Module):
    def __init__(self, c_in, c_out, preactivate=True):
        super().__init__()
        self.preactivate = preactivate
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.conv_sc = nn.Conv2d(c_in, c_out, 1)

    def forward(self, x):
        h = self.conv1(F.relu(x) if self.preactivate else x)
        h = self.conv2(F.relu(h))
        return F.avg_pool2d(h + self.conv_sc(x), 2)


class SelfAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.query = nn.Conv2d(channels, channels // 4, 1, bias=False)
        self.key = nn.Conv2d(channels, channels // 4, 1, bias=False)
        self.value = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.out = nn.Conv2d(channels // 2, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        query = self.query(x).flatten(2)
        key = F.max_pool2d(self.key(x), 2).flatten(2)
        value = F.max_pool2d(self.value(x), 2).flatten(2)
        attention = torch.softmax(query.transpose(1, 2) @ key, dim=-1)
        mixed = (value @ attention.transpose(1, 2)).unflatten(2, x.shape[2:])
        return x + self.gamma * self.out(mixed)


class Generator(nn.Module):
    def __init__(self, classes, chunk=4, embedding=5, widths=(16, 12, 8), bottom=4):
        super().__init__()
        self.embedding = nn.Embedding(classes, embedding)
        self.linear = nn.Linear(chunk, widths[0] * bottom * bottom)
        self.bottom = (widths[0], bottom, bottom)
        self.blocks = nn.ModuleList(GBlock(i, o, chunk + embedding) for i, o in zip(widths, widths[1:]))
        self.attention = SelfAttention(widths[1])
        self.norm = BatchNorm2d(widths[-1], momentum=0.1)
        self.to_rgb = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, z, labels):
        label = self.embedding(labels)
        first, *rest = z.chunk(3, dim=1)
        conditions = [torch.cat([part, label], dim=1) for part in rest]
        x = self.linear(first).unflatten(1, self.bottom)
        x = self.attention(self.blocks[0](x, conditions[0]))
        x = self.blocks[1](x, conditions[1])
        return torch.tanh(self.to_rgb(F.relu(self.norm(x))))


class Discriminator(nn.Module):
    def __init__(self, classes, widths=(8, 12)):
        super().__init__()
        self.blocks = nn.Sequential(DBlock(3, widths[0], preactivate=False), DBlock(*widths))
        self.linear = nn.Linear(widths[-1], 1)
        self.embedding = nn.Embedding(classes, widths[-1])

    def forward(self, x, labels):
        h = F.relu(self.blocks(x)).sum(dim=(2, 3))
        return self.linear(h).squeeze(1) + (self.embedding(labels) * h).sum(dim=1)


class Model(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.generator = Generator(classes)
        self.discriminator = Discriminator(classes)

    def forward(self, images, labels, z):
        fake = self.generator(z, labels)
        logits = self.discriminator(torch.cat([images, fake]), labels.repeat(2))
        real_logits, fake_logits = logits.chunk(2)
        return fake, real_logits, fake_logits, self.orthogonality()

    def orthogonality(self):
        total = 0
        for layer in self.generator.modules():
            if isinstance(layer, nn.Conv2d):
                w = layer.weight.flatten(1)
                gram = w @ w.t()
                total = total + (gram - torch.diag(gram.diagonal())).square().sum() / 2
        return ORTHO * total


def loss(model, images, labels, z):
    fake, real_logits, fake_logits, penalty = model(images.permute(0, 3, 1, 2), labels.long(), z)
    d_loss = F.relu(1 - real_logits).mean() + F.relu(1 + fake_logits).mean()
    g_loss = penalty - fake_logits.mean()
    return g_loss, {"fake": fake, "real_logit": real_logits, "fake_logit": fake_logits, "d_loss": d_loss}
