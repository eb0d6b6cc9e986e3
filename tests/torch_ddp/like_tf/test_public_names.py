import inspect
import subprocess
import sys

import pytest

from torch_ddp import like_tf

from .semantics_table import COMMAND, committed_names

NAMES = [
    "LAMB",
    "LARS",
    "Adadelta",
    "Adagrad",
    "AdagradDA",
    "Adam",
    "AdamW",
    "AvgPool2d",
    "BasicRNNCell",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "Dense",
    "Dropout",
    "DropoutWrapper",
    "Embedding",
    "ExponentialMovingAverage",
    "Flatten",
    "Ftrl",
    "GRUBlockCell",
    "GRUCell",
    "GradientDescent",
    "LSTMCell",
    "LazyAdam",
    "LikeTfError",
    "MaxPool2d",
    "Momentum",
    "MomentumW",
    "MovingAverage",
    "MultiRNNCell",
    "Nadam",
    "ProximalAdagrad",
    "ProximalGradientDescent",
    "RMSProp",
    "SampledValues",
    "Scheduler",
    "SeparableConv2d",
    "absolute_difference",
    "atrous_conv2d",
    "avg_pool",
    "bidirectional_dynamic_rnn",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "clip_grads_by_global_norm_",
    "compute_weighted_loss",
    "conv",
    "conv2d_transpose",
    "cosine_decay",
    "cosine_decay_restarts",
    "cosine_distance",
    "ctc_loss",
    "dropout",
    "dynamic_rnn",
    "embedding_lookup_sparse",
    "exponential_decay",
    "extract_image_patches",
    "flatten",
    "global_norm",
    "glorot_normal_",
    "glorot_uniform_",
    "group_norm",
    "he_normal_",
    "he_uniform_",
    "hinge_loss",
    "huber_loss",
    "instance_norm",
    "inverse_time_decay",
    "keras_uniform_",
    "l2_loss",
    "l2_normalize",
    "layer_norm",
    "lecun_normal_",
    "lecun_uniform_",
    "linear_warm_up",
    "local_response_normalization",
    "log_loss",
    "log_uniform_candidate_sampler",
    "max_pool",
    "mean_squared_error",
    "natural_exp_decay",
    "nce_loss",
    "noam_decay",
    "orthogonal_",
    "pad_same",
    "piecewise_constant",
    "polynomial_decay",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "same_padding",
    "sampled_softmax_loss",
    "separable_conv2d",
    "sigmoid_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy",
    "sparse_softmax_cross_entropy_with_logits",
    "truncated_normal_",
    "variance_scaling_",
    "weighted_cross_entropy_with_logits",
]
WITHOUT_A_ROW = {"LikeTfError"}


def test_the_public_names_are_these():
    assert like_tf.__all__ == NAMES
    assert all(hasattr(like_tf, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_does(name):
    doc = inspect.getdoc(getattr(like_tf, name))
    assert doc
    assert doc.splitlines()[0].endswith(".")


def test_the_page_of_semantics_names_every_public_name_and_no_other():
    missing = set(like_tf.__all__) - WITHOUT_A_ROW - committed_names()
    unknown = committed_names() - set(like_tf.__all__)
    assert not missing, f"docs/semantics.md has no row for {sorted(missing)}. Add one to a test, then: {COMMAND}"
    assert not unknown, f"docs/semantics.md names {sorted(unknown)}, which torch_ddp.like_tf has not. Run: {COMMAND}"


def _modules_after(statement):
    code = f"{statement}\nimport sys\nprint('tensorflow' in sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout


def test_importing_does_not_import_tensorflow():
    assert _modules_after("import torch_ddp.like_tf").strip() == "False"


def test_the_check_for_tensorflow_can_fail():
    assert _modules_after("import sys, types\nsys.modules['tensorflow'] = types.ModuleType('tensorflow')") == "True\n"
