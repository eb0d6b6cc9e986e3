import torch
from torch import nn
from torch.nn import functional as F

FIELD_DIMS = {"101": 31, "121": 13, "122": 7, "205": 22, "206": 5, "301": 17}
TAG_DIM = 40


class BatchNorm(nn.BatchNorm1d):
    """Keeps moving averages as TensorFlow does: the batch's variance is not corrected for its size."""

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(0), self.momentum)
                self.running_var.lerp_(x.var(0, unbiased=False), self.momentum)
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps)


class MultiLayerPerceptron(nn.Sequential):
    def __init__(self, input_dim, dims, output_layer=False):
        layers = []
        for dim in dims:
            layers += [nn.Linear(input_dim, dim), nn.ReLU(inplace=True)]
            input_dim = dim
        if output_layer:
            layers.append(nn.Linear(input_dim, 1))
        super().__init__(*layers)


class FeatureEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fields = nn.ModuleDict({"feat_" + name: nn.Embedding(rows, dim) for name, rows in FIELD_DIMS.items()})
        self.tags = nn.Embedding(TAG_DIM, dim)
        for table in self.tables():
            nn.init.normal_(table.weight, std=0.3)

    def tables(self):
        return [*self.fields.values(), self.tags]

    def forward(self, feats, tags, tag_weights):
        columns = [table(column) for table, column in zip(self.fields.values(), feats.unbind(dim=1))]
        bag = torch.einsum("bt,btd->bd", tag_weights, self.tags(tags))
        return torch.cat([*columns, bag], dim=-1)


class Gate(nn.Module):
    """A mixture of experts, weighted by what the gate makes of its own input."""

    def __init__(self, input_dim, n_experts):
        super().__init__()
        self.fc = nn.Linear(input_dim, n_experts)

    def forward(self, x, experts):
        weights = self.fc(x).softmax(dim=1)
        return torch.bmm(weights.unsqueeze(1), torch.stack(experts, dim=1)).squeeze(1)


class CGC(nn.Module):
    def __init__(self, input_dim, dims, n_task=2, n_specific=2, n_shared=1, last=False):
        super().__init__()
        self.last = last
        self.specific = nn.ModuleList(
            nn.ModuleList(MultiLayerPerceptron(input_dim, dims) for _ in range(n_specific)) for _ in range(n_task))
        self.shared = nn.ModuleList(MultiLayerPerceptron(input_dim, dims) for _ in range(n_shared))
        n_seen = n_specific + n_shared if last else n_task * n_specific + n_shared
        self.gates = nn.ModuleList(Gate(input_dim, n_seen) for _ in range(n_task if last else n_task + 1))

    def forward(self, inputs):
        specific = [[expert(x) for expert in experts] for x, experts in zip(inputs, self.specific)]
        shared = [expert(inputs[-1]) for expert in self.shared]
        outputs = []
        for i, gate in enumerate(self.gates):
            if self.last:
                seen = specific[i] + shared
            else:
                seen = [out for outs in specific for out in outs] + shared
            outputs.append(gate(inputs[i], seen))
        return outputs


class Model(nn.Module):
    def __init__(self, dim=6, expert_dims=(16, 12), tower_dims=(10, 6)):
        super().__init__()
        self.embedding = FeatureEmbedding(dim)
        width = dim * (len(FIELD_DIMS) + 1)
        self.bn = BatchNorm(width, eps=1e-3, momentum=0.1)
        self.level1 = CGC(width, expert_dims)
        self.level2 = CGC(expert_dims[-1], expert_dims, last=True)
        self.towers = nn.ModuleDict(
            {task: MultiLayerPerceptron(expert_dims[-1], tower_dims, output_layer=True) for task in ("ctr", "cvr")})

    def forward(self, feats, tags, tag_weights):
        x = self.bn(self.embedding(feats, tags, tag_weights))
        extracted = self.level2(self.level1([x, x, x]))
        ctr, cvr = (tower(h).squeeze(-1) for tower, h in zip(self.towers.values(), extracted))
        return x, extracted, ctr, cvr


def loss(model, feats, tags, tag_weights, labels):
    x, extracted, ctr, cvr = model(feats.long(), tags.long(), tag_weights)
    click, purchase = labels.unbind(1)
    loss_ctr = F.binary_cross_entropy_with_logits(ctr, click, pos_weight=labels.new_tensor(1.5))
    loss_cvr = F.binary_cross_entropy_with_logits(cvr, purchase, pos_weight=labels.new_tensor(6.0))
    tables = [p for name, p in model.named_parameters() if "embedding." in name]
    l2 = sum(p.pow(2).sum() for p in tables) / 2
    return loss_ctr + 0.6 * loss_cvr + 1e-3 * l2, {
        "embedding": x, "extracted_ctr": extracted[0], "extracted_cvr": extracted[1], "click": ctr, "valid_play": cvr,
        "loss_ctr": loss_ctr, "loss_cvr": loss_cvr}


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.03, initial_accumulator_value=0.01, eps=0.0)


def scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.7 ** (step / 2))
