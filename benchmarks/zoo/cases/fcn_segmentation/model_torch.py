"""FCN-8s in PyTorch, and its training step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 5
IGNORE_INDEX = 255
BGR_MEAN = (104.5, 116.75, 122.5)
CLASS_WEIGHTS = (0.5, 0.75, 1.0, 2.0, 4.0)
WEIGHT_DECAY = 5e-4
MAX_NORM = 0.5


def bilinear_(weight):
    size = weight.size(-1)
    factor = (size + 1) // 2
    centre = factor - 1.0 if size % 2 else factor - 0.5
    line = 1 - (torch.arange(size) - centre).abs() / factor
    with torch.no_grad():
        weight.copy_(torch.eye(weight.size(0))[..., None, None] * line[:, None] * line)


class FCN8s(nn.Module):
    def __init__(self, num_classes=NUM_CLASSES):
        super().__init__()
        self.conv1_1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv1_2 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv2_1 = nn.Conv2d(8, 12, 3, padding=1)
        self.conv3_1 = nn.Conv2d(12, 16, 3, padding=1)
        self.conv3_2 = nn.Conv2d(16, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc6 = nn.Conv2d(16, 22, 3, padding=1)
        self.fc7 = nn.Conv2d(22, 18, 1)

        self.score_fr = nn.Conv2d(18, num_classes, 1)
        self.score_pool2 = nn.Conv2d(12, num_classes, 1)
        self.score_pool1 = nn.Conv2d(8, num_classes, 1)
        self.upscore2 = nn.ConvTranspose2d(num_classes, num_classes, 4, stride=2, padding=1, bias=False)
        self.upscore4 = nn.ConvTranspose2d(num_classes, num_classes, 3, stride=2, bias=False)
        self.upscore8 = nn.ConvTranspose2d(num_classes, num_classes, 4, stride=2, padding=1, bias=False)

        for module in self.modules():
            if isinstance(module, nn.ConvTranspose2d):
                bilinear_(module.weight)
            elif isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
                nn.init.constant_(module.bias, 0.05)

    def forward(self, images):
        bgr = images.flip(-1)
        x = ((bgr - bgr.new_tensor(BGR_MEAN)) / 64).permute(0, 3, 1, 2)
        x = F.relu(self.conv1_1(x))
        x = F.relu(self.conv1_2(x))
        pool1 = self.pool(x)
        x = F.relu(self.conv2_1(pool1))
        pool2 = self.pool(x)
        x = F.relu(self.conv3_1(pool2))
        x = F.relu(self.conv3_2(x))
        x = F.relu(self.fc6(self.pool(x)))
        x = F.relu(self.fc7(x))
        x = self.score_fr(x)

        fuse_pool2 = self.upscore2(x) + self.score_pool2(pool2)
        upscore4 = self.upscore4(fuse_pool2)[..., :-1, :-1]   # SAME crops an odd kernel at the far side only
        fuse_pool1 = upscore4 + self.score_pool1(0.25 * pool1)
        return self.upscore8(fuse_pool1), fuse_pool2, fuse_pool1


Model = FCN8s


def loss(model, images, labels):
    logits, fuse_pool2, fuse_pool1 = model(images)
    labels = labels.long()
    num_valid = (labels != IGNORE_INDEX).sum()
    criterion = nn.CrossEntropyLoss(logits.new_tensor(CLASS_WEIGHTS), ignore_index=IGNORE_INDEX, reduction="sum")
    segmentation = criterion(logits, labels) / num_valid
    decay = sum(p.pow(2).sum() for name, p in model.named_parameters() if name.endswith("weight"))
    accuracy = (logits.argmax(1) == labels).sum().to(logits.dtype) / num_valid
    return segmentation + WEIGHT_DECAY * decay / 2, {
        "fuse_pool2": fuse_pool2, "fuse_pool1": fuse_pool1, "logits": logits, "pixel_accuracy": accuracy}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.03, initial_accumulator_value=0.1, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def clip_by_global_norm(parameters, limit):
    """Exactly tf.clip_by_global_norm; torch's own adds 1e-6 to the norm."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    for g in grads:
        g.mul_(limit / norm.clamp(min=limit))


def step(model, optimizer, scheduler, images, labels):
    optimizer.zero_grad()
    value, outputs = loss(model, images, labels)
    value.backward()
    clip_by_global_norm(model.parameters(), MAX_NORM)
    optimizer.step()
    scheduler.step()
    return value, outputs
