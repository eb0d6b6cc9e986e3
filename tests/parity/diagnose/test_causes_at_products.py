"""A product with a matrix is computed again: in another order of a flatten, with the matrix transposed."""

import numpy as np
import pytest

from parity.diagnose.layers.products import Product, other_product

RANDOM = np.random.default_rng(0)
IMAGES, MATRIX, BIAS = RANDOM.normal(size=(3, 2, 4, 5)), RANDOM.normal(size=(40, 6)), RANDOM.normal(size=6)
SQUARE = RANDOM.normal(size=(5, 5))


def flat(order):
    return IMAGES.transpose(0, *order).reshape(3, 40) @ MATRIX


@pytest.mark.parametrize("bias", [0.0, BIAS])
def test_another_order_of_a_flatten_is_named(bias):
    cause = other_product(Product("logits", IMAGES, MATRIX, flat((1, 2, 3)) + bias, flat((3, 1, 2)) + bias))
    assert cause.name == "flatten_order"
    assert "flattened as channels, rows, columns in place of rows, columns, channels" in cause.title
    assert 'transform = "flatten_hwc(2, 4, 5)"' in cause.fix


def test_an_order_of_a_flatten_that_no_transform_has_is_named_without_one():
    cause = other_product(Product("logits", IMAGES, MATRIX, flat((1, 2, 3)), flat((2, 1, 3))))
    assert "flattened as columns, rows, channels in place of" in cause.title
    assert "flatten_hwc" not in cause.fix


def test_a_matrix_that_is_transposed_is_named():
    given = Product("dense", IMAGES, SQUARE, IMAGES @ SQUARE + 1, IMAGES @ SQUARE.T + 1)
    assert other_product(given).name == "transposed_kernel"


def test_another_product_is_not_named():
    assert other_product(Product("dense", IMAGES, MATRIX, flat((1, 2, 3)), flat((1, 2, 3)) * 1.5)) is None
    assert other_product(Product("dense", IMAGES, MATRIX, flat((1, 3, 2)), flat((3, 1, 2)))) is None
