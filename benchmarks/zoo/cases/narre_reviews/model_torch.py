import torch
from torch import nn
from torch.nn import functional as F


class ReviewEncoder(nn.Module):
    """Every review of one side becomes a vector: convolutions over its words, the largest value of each filter."""

    def __init__(self, vocab, word_dim, kernel_widths, kernel_deep):
        super().__init__()
        self.word_embedding = nn.Embedding(vocab, word_dim)
        self.convs = nn.ModuleList(nn.Conv1d(word_dim, kernel_deep, width) for width in kernel_widths)
        nn.init.uniform_(self.word_embedding.weight, -1.0, 1.0)
        for conv in self.convs:
            nn.init.trunc_normal_(conv.weight, std=0.1, a=-0.2, b=0.2)
            nn.init.constant_(conv.bias, 0.1)

    def forward(self, review):
        count = review.size(1)
        words = self.word_embedding(review.flatten(0, 1)).transpose(1, 2)
        features = [F.relu(conv(words)).amax(dim=-1) for conv in self.convs]
        return torch.cat(features, dim=1).unflatten(0, (-1, count))


class ReviewAttention(nn.Module):
    def __init__(self, review_dim, ids, id_dim, attention_dim):
        super().__init__()
        self.id_embedding = nn.Embedding(ids, id_dim)
        self.of_review = nn.Linear(review_dim, attention_dim)
        self.of_id = nn.Linear(id_dim, attention_dim, bias=False)
        self.score = nn.Linear(attention_dim, 1, bias=False)
        for layer in (self.id_embedding, self.of_review, self.of_id, self.score):
            nn.init.uniform_(layer.weight, -0.1, 0.1)
        nn.init.constant_(self.of_review.bias, 0.1)

    def forward(self, reviews, ids):
        quality = F.relu(self.id_embedding(ids))
        hidden = F.relu(self.of_review(reviews) + self.of_id(quality))
        weights = self.score(hidden).softmax(dim=1)
        return (weights * reviews).sum(dim=1), weights


class Side(nn.Module):
    """What is known of a user, or of an item: its reviews, and its own id."""

    def __init__(self, ids, other_ids, vocab=70, word_dim=10, id_dim=8, attention_dim=12, widths=(2, 3), deep=7, latent=8):
        super().__init__()
        review_dim = deep * len(widths)
        self.encoder = ReviewEncoder(vocab, word_dim, widths, deep)
        self.attention = ReviewAttention(review_dim, other_ids, id_dim, attention_dim)
        self.id_embedding = nn.Embedding(ids, latent)
        self.fc = nn.Linear(review_dim, latent)
        nn.init.uniform_(self.id_embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.fc.weight, -0.1, 0.1)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, review, review_ids, own_id):
        reviews = self.encoder(review)
        pooled, weights = self.attention(reviews, review_ids)
        return reviews, weights, self.fc(pooled) + self.id_embedding(own_id)


class LatentFactor(nn.Module):
    def __init__(self, users, items, latent):
        super().__init__()
        self.h = nn.Linear(latent, 1, bias=False)
        self.b_users = nn.Parameter(torch.full((users,), 0.1))
        self.b_items = nn.Parameter(torch.full((items,), 0.1))
        self.mu = nn.Parameter(torch.tensor(0.1))
        nn.init.uniform_(self.h.weight, -0.1, 0.1)

    def forward(self, user, item, uid, iid):
        out = self.h(F.relu(user * item)).squeeze(1)
        return out + self.b_users[uid] + self.b_items[iid] + self.mu


class NARRE(nn.Module):
    def __init__(self, users=26, items=20, latent=8):
        super().__init__()
        self.user = Side(users, items, latent=latent)
        self.item = Side(items, users, latent=latent)
        self.rating = LatentFactor(users, items, latent)

    def forward(self, input_u, input_i, reuid, reiid, uid, iid):
        h_u, u_a, user = self.user(input_u, reuid, uid)
        h_i, i_a, item = self.item(input_i, reiid, iid)
        return {"user_reviews": h_u, "item_reviews": h_i, "u_a": u_a, "i_a": i_a, "u_feas": user, "i_feas": item,
                "predictions": self.rating(user, item, uid, iid).unsqueeze(1)}


def loss(model, input_u, input_i, reuid, reiid, uid, iid, y):
    ids = (reuid.long(), reiid.long(), uid.squeeze(1).long(), iid.squeeze(1).long())
    outputs = model(input_u.long(), input_i.long(), *ids)
    errors = outputs["predictions"] - y
    squares = F.mse_loss(outputs["predictions"], y, reduction="sum") / 2
    decayed = [p for name, p in model.named_parameters() if name.endswith(("of_review.weight", "of_id.weight"))]
    l2 = sum(p.square().sum() for p in decayed) / 2
    return squares + 0.02 * l2, {**outputs, "mae": errors.abs().mean()}
