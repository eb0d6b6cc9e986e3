from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

KEEP = 0.7
WEIGHTS = {"cls": 1.0, "bbox": 0.5, "landmark": 1.0}


class Flatten(nn.Module):
    """Rows, columns, then channels, as the graph flattens its maps."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(OrderedDict([
            ("conv1", nn.Conv2d(3, 8, 3)),
            ("prelu1", nn.PReLU(8)),
            ("pool1", nn.MaxPool2d(3, 2, ceil_mode=True)),
            ("conv2", nn.Conv2d(8, 16, 3)),
            ("prelu2", nn.PReLU(16)),
            ("pool2", nn.MaxPool2d(3, 2)),
            ("conv3", nn.Conv2d(16, 16, 2)),
            ("prelu3", nn.PReLU(16)),
            ("pool3", nn.MaxPool2d(2, 2, ceil_mode=True)),
            ("conv4", nn.Conv2d(16, 24, 2)),
            ("prelu4", nn.PReLU(24)),
        ]))
        self.fc1 = nn.Sequential(Flatten(), nn.Linear(2 * 2 * 24, 40), nn.ReLU())
        self.heads = nn.ModuleDict({"cls": nn.Linear(40, 2), "bbox": nn.Linear(40, 4), "landmark": nn.Linear(40, 10)})

    def forward(self, image):
        x = (image.permute(0, 3, 1, 2) - 127.5) / 128
        x = self.features[:5](x)
        maps = {"conv2": x}
        maps["conv4"] = x = self.features[5:](x)
        maps["fc1"] = x = self.fc1(x)
        return maps, {name: head(x) for name, head in self.heads.items()}


def classification_loss(logits, label):
    """Cross entropy of the hardest 70 percent of faces and backgrounds."""
    valid = label >= 0
    chosen = F.softmax(logits, dim=1).gather(1, label.clamp(min=0).long().unsqueeze(1)).squeeze(1)
    errors = -torch.log(chosen[valid] + 1e-10)
    keep = int(KEEP * len(errors))
    return errors.topk(keep).values.mean()


def regression_loss(pred, target, mask):
    return (pred - target)[mask].pow(2).sum(dim=1).mean()


def l2_loss(model):
    return 0.0005 / 2 * sum(p.pow(2).sum() for p in model.parameters() if p.dim() == 4)


def loss(model, image, label, roi, landmark):
    maps, out = model(image)
    cls_loss = classification_loss(out["cls"], label)
    bbox_loss = regression_loss(out["bbox"], roi, label.abs() == 1)
    landmark_loss = regression_loss(out["landmark"], landmark, label == -2)
    l2 = l2_loss(model)
    total = WEIGHTS["cls"] * cls_loss + WEIGHTS["bbox"] * bbox_loss + WEIGHTS["landmark"] * landmark_loss + l2
    valid = label >= 0
    accuracy = (out["cls"].argmax(dim=1) == label)[valid].to(image.dtype).mean()
    return total, {**maps, "cls_prob": out["cls"].softmax(dim=1), "bbox_pred": out["bbox"], "landmark_pred": out["landmark"],
                   "cls_loss": cls_loss, "bbox_loss": bbox_loss, "landmark_loss": landmark_loss, "l2_loss": l2, "accuracy": accuracy}


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.1)


def step(model, optimizer, scheduler, image, label, roi, landmark):
    optimizer.zero_grad(set_to_none=True)
    total, outputs = loss(model, image, label, roi, landmark)
    total.backward()
    optimizer.step()
    scheduler.step()
    return total, outputs
