"""Fully connected layers and embeddings with TensorFlow's initial values."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.initializers import glorot_uniform_

COMBINERS = ("mean", "sqrtn", "sum")


class Dense(nn.Linear):
    """Multiplies the last axis by a matrix and adds a bias; starts glorot uniform, with the bias 0.

    torch draws both from a uniform of another width. Source: Dense in tensorflow/python/keras/layers/core.py, 1.15.

    Args:
        in_features: length of the input's last axis.
        out_features: that of the output, TensorFlow's units.
        bias: whether there is a bias.

    Attributes:
        weight: shape [out_features, in_features], TensorFlow's kernel transposed.
        bias: shape [out_features], or None.

    Counterpart: tf.compat.v1.layers.Dense.
    """

    @also_named(units="out_features", use_bias="bias")
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)

    def reset_parameters(self) -> None:
        """Draws the initial values that tf.layers gives: glorot uniform, bias zero."""
        glorot_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def keras_uniform_(tensor: Tensor) -> Tensor:
    """Fills a tensor uniformly from -0.05 to 0.05, as Keras does embeddings.

    Args:
        tensor: any shape, floating point; changed in place.

    Returns:
        The tensor.

    Counterpart: tf.compat.v1.keras.initializers.uniform.
    """
    return nn.init.uniform_(tensor, -0.05, 0.05)


class Embedding(nn.Embedding):
    """Looks rows up; starts glorot uniform, as what tf.get_variable makes does: torch draws from a unit normal.

    No row is left out of training: TensorFlow has no padding_idx. An id outside the rows is an error. Source:
    get_variable in tensorflow/python/ops/variable_scope.py and embedding_ops.py, 1.15.

    Args:
        num_embeddings: rows.
        embedding_dim: their width.
        sparse: whether the gradient is that of the touched rows, TensorFlow's IndexedSlices.
        initializer: fills the weights in place; ``keras_uniform_`` for tf.keras.layers.Embedding.

    Attributes:
        weight: shape [num_embeddings, embedding_dim], as TensorFlow has it.

    Counterpart: tf.compat.v1.nn.embedding_lookup, tf.keras.layers.Embedding.
    """

    initializer: Callable[[Tensor], Tensor]

    @also_named(input_dim="num_embeddings", output_dim="embedding_dim")
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        sparse: bool = False,
        initializer: Callable[[Tensor], Tensor] = glorot_uniform_,
    ) -> None:
        # Before nn.Embedding draws, and so before there is a module to set it in.
        object.__setattr__(self, "initializer", initializer)
        super().__init__(num_embeddings, embedding_dim, sparse=sparse)

    def reset_parameters(self) -> None:
        """Draws the initial values by the initializer."""
        self.initializer(self.weight)


def embedding_lookup_sparse(
    params: Tensor,
    sp_ids: Sequence[Tensor],
    sp_weights: Sequence[Tensor] | None = None,
    combiner: str = "mean",
    sparse: bool = False,
) -> Tensor:
    """Looks several rows up for each example and combines them: sum, mean by the weights, or ``sum / sqrt(sum w^2)``.

    An example without ids gets zeros, but NaN where there are weights and the combiner divides by their sum, 0
    (TensorFlow 2 gives zeros there too). In TensorFlow examples after the last one with ids are missing from the
    result; here each has its row. torch's EmbeddingBag has weights for sums alone. Source: embedding_lookup_sparse in
    tensorflow/python/ops/embedding_ops.py, 1.15.

    Args:
        params: shape [rows, ...].
        sp_ids: for each example int64 ids, shape [ids], where TensorFlow has a SparseTensor.
        sp_weights: for each example the weights of its ids, shape [ids], or None for ones.
        combiner: "mean", "sqrtn" or "sum"; the default of TensorFlow 1 is "mean".
        sparse: whether the gradient is that of the touched rows.

    Returns:
        Shape [examples, ...].

    Raises:
        LikeTfError: the combiner is unknown, or the weights do not fit the ids.

    Counterpart: tf.compat.v1.nn.embedding_lookup_sparse.
    """
    who = "embedding_lookup_sparse"
    if combiner not in COMBINERS:
        raise LikeTfError(f"{who}: expected a combiner of {list(COMBINERS)}, got {combiner!r}. Name one of them.")
    counts = [len(row) for row in sp_ids]
    if sp_weights is not None and [len(row) for row in sp_weights] != counts:
        raise LikeTfError(
            f"{who}: expected weights for {counts} ids, got {[len(row) for row in sp_weights]}. Give one for each id."
        )
    empty = torch.zeros(0, dtype=torch.int64, device=params.device)
    ids = torch.cat([empty, *(row.reshape(-1).long() for row in sp_ids)])
    examples = torch.repeat_interleave(torch.tensor(counts, dtype=torch.int64, device=params.device))
    rows = F.embedding(ids, params.flatten(1), sparse=sparse)
    weights = (
        rows.new_ones(len(ids)) if sp_weights is None else torch.cat([rows.new_zeros(0), *sp_weights]).to(rows.dtype)
    )
    combined = _segment_sum(rows * weights.unsqueeze(1), examples, len(counts))
    if combiner != "sum":
        divisor = _segment_sum(weights if combiner == "mean" else weights.square(), examples, len(counts))
        if sp_weights is None:
            # Segments without ids are never divided there.
            divisor = divisor.clamp(min=1.0)
        combined = combined / (divisor if combiner == "mean" else divisor.sqrt()).unsqueeze(1)
    return combined.reshape(len(counts), *params.shape[1:])


def _segment_sum(values: Tensor, segments: Tensor, count: int) -> Tensor:
    return values.new_zeros(count, *values.shape[1:]).index_add(0, segments, values)
