"""DETR on small pictures; the targets come matched to the queries."""
import math

import torch
from torch import nn
from torch.nn import functional as F

NUM_CLASSES, EOS_COEF = 4, 0.1
WEIGHTS = {"loss_ce": 1.0, "loss_bbox": 5.0, "loss_giou": 2.0}
MAX_NORM = 1.0


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm that keeps the biased variance in its running statistics."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            self.running_mean.lerp_(x.mean((0, 2, 3)), self.momentum)
            self.running_var.lerp_(x.var((0, 2, 3), unbiased=False), self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class Backbone(nn.Module):
    def __init__(self, widths=(8, 12, 16)):
        super().__init__()
        layers, channels = [], 3
        for width in widths:
            layers.append(nn.Sequential(nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False),
                                        BatchNorm2d(width, momentum=0.1), nn.ReLU(inplace=True)))
            channels = width
        self.body = nn.Sequential(*layers)
        self.num_channels = channels

    def forward(self, images, padded):
        features = self.body(images)
        mask = F.interpolate(padded[:, None], size=features.shape[-2:], mode="nearest")[:, 0].bool()
        return features, mask


class PositionEmbeddingSine(nn.Module):
    def __init__(self, num_pos_feats, temperature=10000):
        super().__init__()
        self.num_pos_feats, self.temperature = num_pos_feats, temperature

    def forward(self, mask, dtype):
        present = (~mask).to(dtype)
        y, x = present.cumsum(1), present.cumsum(2)
        y = y / (y[:, -1:, :] + 1e-6) * 2 * math.pi
        x = x / (x[:, :, -1:] + 1e-6) * 2 * math.pi
        i = torch.arange(self.num_pos_feats, dtype=torch.float64, device=mask.device)
        dim_t = (self.temperature ** (2 * i.div(2, rounding_mode="floor") / self.num_pos_feats)).to(dtype)
        pos_x, pos_y = x[..., None] / dim_t, y[..., None] / dim_t
        pos_x = torch.stack((pos_x[..., 0::2].sin(), pos_x[..., 1::2].cos()), dim=4).flatten(3)
        pos_y = torch.stack((pos_y[..., 0::2].sin(), pos_y[..., 1::2].cos()), dim=4).flatten(3)
        return torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)


def with_pos(x, pos):
    return x if pos is None else x + pos


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads)
        self.linear1, self.linear2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, src, mask, pos):
        q = k = with_pos(src, pos)
        src = self.norm1(src + self.self_attn(q, k, value=src, key_padding_mask=mask)[0])
        return self.norm2(src + self.linear2(F.relu(self.linear1(src))))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads)
        self.multihead_attn = nn.MultiheadAttention(dim, heads)
        self.linear1, self.linear2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, tgt, memory, mask, pos, query_pos):
        q = k = with_pos(tgt, query_pos)
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        found = self.multihead_attn(query=with_pos(tgt, query_pos), key=with_pos(memory, pos), value=memory,
                                    key_padding_mask=mask)[0]
        tgt = self.norm2(tgt + found)
        return self.norm3(tgt + self.linear2(F.relu(self.linear1(tgt))))


class Transformer(nn.Module):
    """Sequence first; gives every decoder layer's output, behind one norm that they share."""

    def __init__(self, dim, heads, ffn, dec_layers):
        super().__init__()
        self.encoder = EncoderLayer(dim, heads, ffn)
        self.decoder = nn.ModuleList(DecoderLayer(dim, heads, ffn) for _ in range(dec_layers))
        self.decoder_norm = nn.LayerNorm(dim)

    def forward(self, src, mask, query_embed, pos):
        src, pos = (t.flatten(2).permute(2, 0, 1) for t in (src, pos))
        mask = mask.flatten(1)
        query_pos, out = query_embed.unsqueeze(1).expand(-1, src.size(1), -1).chunk(2, dim=-1)
        memory = self.encoder(src, mask, pos)
        intermediate = []
        for layer in self.decoder:
            out = layer(out, memory, mask, pos, query_pos)
            intermediate.append(self.decoder_norm(out))
        return torch.stack(intermediate).transpose(1, 2), memory.transpose(0, 1)


class MLP(nn.Module):
    def __init__(self, dim, out, num_layers):
        super().__init__()
        sizes = [dim] * num_layers + [out]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class Model(nn.Module):
    def __init__(self, dim=16, heads=2, ffn=24, dec_layers=2, num_queries=5):
        super().__init__()
        self.backbone = Backbone()
        self.position = PositionEmbeddingSine(dim // 2)
        self.input_proj = nn.Conv2d(self.backbone.num_channels, dim, 1)
        self.query_embed = nn.Embedding(num_queries, 2 * dim)
        self.transformer = Transformer(dim, heads, ffn, dec_layers)
        self.class_embed = nn.Linear(dim, NUM_CLASSES + 1)
        self.bbox_embed = MLP(dim, 4, 3)

    def forward(self, images, padded):
        features, mask = self.backbone(images, padded)
        pos = self.position(mask, features.dtype)
        hs, memory = self.transformer(self.input_proj(features), mask, self.query_embed.weight, pos)
        return features, memory, self.class_embed(hs), self.bbox_embed(hs).sigmoid()


def box_cxcywh_to_xyxy(boxes):
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h], dim=-1)


def generalized_box_iou(a, b):
    """Of every box of a with every box of b, as corners."""
    def area(boxes):
        return (boxes[..., 2:] - boxes[..., :2]).prod(-1)

    overlap = (torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(min=0)
    inter = overlap.prod(-1)
    union = area(a)[:, None] + area(b) - inter
    hull = (torch.max(a[:, None, 2:], b[:, 2:]) - torch.min(a[:, None, :2], b[:, :2])).prod(-1)
    return inter / union - (hull - union) / hull


def criterion(logits, pred_boxes, classes, boxes):
    weight = logits.new_ones(NUM_CLASSES + 1)
    weight[-1] = EOS_COEF
    loss_ce = F.cross_entropy(logits.transpose(1, 2), classes, weight)
    matched = classes != NUM_CLASSES
    num_boxes = matched.sum().clamp(min=1)
    source, target = pred_boxes[matched], boxes[matched]
    loss_bbox = F.l1_loss(source, target, reduction="none").sum() / num_boxes
    giou = torch.diag(generalized_box_iou(box_cxcywh_to_xyxy(source), box_cxcywh_to_xyxy(target)))
    return {"loss_ce": loss_ce, "loss_bbox": loss_bbox, "loss_giou": (1 - giou).sum() / num_boxes}


def loss(model, images, padded, classes, boxes):
    features, memory, logits, pred_boxes = model(images.permute(0, 3, 1, 2), padded)
    total, outputs = 0.0, {"features": features, "memory": memory}
    for i in range(len(logits)):
        losses = criterion(logits[i], pred_boxes[i], classes.long(), boxes)
        total = total + sum(WEIGHTS[name] * value for name, value in losses.items())
        outputs[f"logits_{i}"], outputs[f"boxes_{i}"] = logits[i], pred_boxes[i]
    return total, {**outputs, **losses}


def optimizer(model):
    groups = [
        {"params": [p for name, p in model.named_parameters() if "backbone" not in name]},
        {"params": [p for name, p in model.named_parameters() if "backbone" in name]},
    ]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)


def step(model, optimizer, scheduler, images, padded, classes, boxes):
    total, outputs = loss(model, images, padded, classes, boxes)
    model.zero_grad(set_to_none=True)
    total.backward()
    grads = [p.grad for p in model.parameters()]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, MAX_NORM / torch.clamp(norm, min=MAX_NORM))
    optimizer.step()
    scheduler.step()
    return total, outputs
