"""What names of variables say: the same in every habit of writing them."""

import pytest

from parity.mapping.names import meanings, renumbered, slot_partner
from parity.mapping.similarity import Similarity, candidate_family, reference_families
from parity.mapping.variables import Variable


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("conv01/kernel", "conv1.weight"),
        ("conv_1/kernel:0", "Conv1.weight"),
        ("module/batch_norm/gamma", "batchnorm.weight"),
        ("layer/1/0/w", "layer.1.0.weight"),
        ("block/fn/w_query", "block.query.weight"),
    ],
)
def test_two_habits_of_writing_a_name_say_the_same(one, other):
    assert meanings([one]) == meanings([other])


@pytest.mark.parametrize("name", ["/", ".", "/:0", ""])
def test_a_name_of_marks_alone_says_nothing(name):
    (meaning,) = meanings([name])
    assert not any(meaning.where) and not meaning.role


@pytest.mark.parametrize(("one", "other"), [("layer/1/0/w", "layer/10/w"), ("conv1/kernel", "conv2/kernel")])
def test_other_numbers_say_something_else(one, other):
    assert meanings([one]) != meanings([other])


def test_names_that_share_their_words_are_alike_and_their_numbers_count_where_both_sides_have_them():
    names = ["encoder/conv1/kernel", "encoder/conv2/kernel", "decoder/dense/kernel"]
    others = ["enc.conv1.weight", "enc.conv2.weight", "dec.fc.weight"]
    alike = Similarity(names, others)
    for name, other in zip(names, others, strict=True):
        assert alike([name], [other]) == pytest.approx(1.0)
        assert (alike([name], [each for each in others if each != other]) < 0.95).all()
    # Where the numbers are other ones on both sides, they mean different things: only words count.
    shifted = Similarity(names, ["enc.conv0.weight", "enc.conv1.weight", "dec.fc.weight"])
    assert shifted(names[:1], ["enc.conv1.weight", "enc.conv0.weight"]).tolist() == [[pytest.approx(1.0)] * 2]


def families(*variables):
    """Of variables given by name, number of axes and ops."""
    made = [Variable(name, (3,) * axes, use=use) for name, axes, use in variables]
    return reference_families(made, meanings([each.name for each in made]))


@pytest.mark.parametrize(
    ("use", "family"),
    [
        ("Conv2D+L2Loss", "conv"),
        ("Conv2DBackpropInput", "deconv"),
        ("MatMul", "dense"),
        ("Einsum", "dense"),
        ("GatherV2+MatMul", "dense"),
        ("ResourceGather", "embedding"),
        ("CudnnLSTM", "recurrent"),
        ("Add", ""),
        (None, ""),
    ],
)
@pytest.mark.parametrize("kernel_first", [True, False])
def test_a_bias_belongs_to_what_the_kernel_of_its_layer_does_wherever_it_stands(use, family, kernel_first):
    layer = [("a/layer/kernel", 2, use), ("a/layer/bias", 1, "BiasAdd")]
    listed = layer if kernel_first else layer[::-1]
    found = families(*listed, ("a/other/kernel", 2, "Mul"), ("a/other/bias", 1, "Add"))
    assert found == [family, family, "", ""]


def test_of_two_kernels_of_a_layer_the_first_whose_ops_say_names_the_bias():
    found = families(
        ("a/x/w_3", 2, None),
        ("a/x/w_3", 2, "MatMul"),
        ("a/x/w_3", 2, "Conv2D"),
        ("a/x/b_3", 1, None),
        ("a/y/w", 2, "Mul"),
    )
    assert found == ["", "dense", "conv", "dense", ""]


@pytest.mark.parametrize(
    ("name", "axes", "use", "family"),
    [
        ("a/norm/gamma", 1, "Mul", "norm"),
        ("a/norm/beta", 1, "Add", "norm"),
        ("a/norm/moving_mean", 1, None, "norm"),
        ("a/norm/moving_variance_1", 1, None, "norm"),
        ("a/norm/scale", 2, "Mul", "norm"),
        ("a/norm/my_offset", 1, "Add", "norm"),
        ("a/norm/my_offset", 2, "MatMul", "dense"),
        ("a/norm/x", 1, "FusedBatchNormV3", "norm"),
        ("a/norm/x", 1, "MatMul", ""),  # a vector that is multiplied with is no kernel
        ("a/gamma/x", 1, "Mul", ""),
    ],
)
def test_what_a_variable_of_a_norm_is_known_by(name, axes, use, family):
    assert families((name, axes, use), ("b/other/kernel", 2, "Conv2D"))[0] == family


@pytest.mark.parametrize(
    ("use", "family"),
    [
        ("ConvTranspose2d", "deconv"),
        ("LazyConv2d", "conv"),
        ("BatchNorm1d", "norm"),
        ("EmbeddingBag", "embedding"),
        ("LSTMCell", "recurrent"),
        ("GRU", "recurrent"),
        ("RNNBase", "recurrent"),
        ("NonDynamicallyQuantizableLinear", "dense"),
        ("MultiheadAttention", "dense"),
        ("Own", ""),
        ("", ""),
    ],
)
def test_the_class_of_a_module_says_its_family(use, family):
    assert candidate_family(use) == family


@pytest.mark.parametrize(
    ("reference", "candidate", "found"),
    [
        (["conv1", "conv2", "conv3"], ["conv0", "conv1", "conv2"], ["conv1", "conv2", "conv3"]),
        (["fc1", "fc2", "fc3"], ["fc6", "fc0", "fc3"], ["fc3", "fc1", "fc2"]),
        (["fc1", "fc10", "fc2"], ["fc0", "fc1", "fc2"], ["fc1", "fc2", "fc10"]),
        (["fc1", "fc2", "fc3"], ["fc0", "fc2"], ["fc0", "fc2"]),  # one is missing: it may be the first
        (["a1", "b1", "b2"], ["a0", "b0", "b1"], ["a1", "b1", "b2"]),
        (["a1", "a2", "b5"], ["a0", "a1", "c5"], ["a1", "a2", "c5"]),
        (["a1/x1", "a1/x2", "a2/x1"], ["a0/x0", "a0/x1", "a1/x0"], ["a1/x1", "a1/x2", "a2/x1"]),
        (["a1/x1", "a2/x2"], ["a0/x0", "a0/x1"], ["a0/x1", "a0/x2"]),  # numbers of each depth count by themselves
    ],
)
def test_layers_of_as_many_numbers_are_counted_as_the_reference_counts(reference, candidate, found):
    given, own, wanted = (
        meanings([f"{name}/kernel" for name in (*names, "other", "last")]) for names in (reference, candidate, found)
    )
    assert renumbered(given, own) == wanted


@pytest.mark.parametrize(
    ("slot", "candidates", "partner"),
    [
        ("adam_m", ["exp_avg", "adam"], "exp_avg"),
        ("Adam_V", ["exp_avg", "exp_avg_sq"], "exp_avg_sq"),
        ("my_own_m", ["m", "exp_avg", "my"], "m"),
        ("my_own", ["own", "my_own"], "my_own"),  # its own name first
        ("m", ["m_other"], None),
        ("m_adam", ["exp_avg", "m"], None),
        ("accum_update", ["acc_delta", "square_avg"], "acc_delta"),
    ],
)
def test_a_slot_that_is_kept_by_hand_is_known_by_its_last_word(slot, candidates, partner):
    assert slot_partner(slot, candidates) == partner
