import pytest
import torch

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.options import level, overridden

FIELDS = ("cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32", "master_weights", "loss_scale")
APEX = {
    "O0": (torch.float32, False, None, False, 1.0),
    "O1": (None, True, None, None, "dynamic"),
    "O2": (torch.float16, False, True, True, "dynamic"),
    "O3": (torch.float16, False, False, False, 1.0),
}


def _fields(properties):
    return tuple(getattr(properties, name) for name in FIELDS)


@pytest.mark.parametrize("name", APEX)
def test_the_levels_hold_the_options_of_apex(name):
    assert _fields(level(name)) == APEX[name]


@pytest.mark.parametrize("name", APEX)
def test_bfloat16_takes_the_place_of_float16_and_needs_no_loss_scale(name):
    expected = tuple({torch.float16: torch.bfloat16, "dynamic": 1.0}.get(value, value) for value in APEX[name])
    assert _fields(level(name, torch.bfloat16)) == expected


@pytest.mark.parametrize("wrong", ["00", "O4", "o1", None, 1])
def test_an_unknown_level_is_refused(wrong):
    with pytest.raises(AmpError, match=r"expected opt_level 'O0'.*Write the letter O, not the number zero\."):
        level(wrong)


def test_another_half_dtype_is_refused():
    with pytest.raises(AmpError, match=r"expected half_dtype torch.float16 or torch.bfloat16, got torch.float64"):
        level("O1", torch.float64)


@pytest.mark.parametrize(
    ("opt_level", "name", "value", "result"),
    [
        ("O1", "cast_model_type", False, False),
        ("O1", "cast_model_type", torch.float32, torch.float32),
        ("O2", "cast_model_type", torch.float32, torch.float32),
        ("O1", "patch_torch_functions", False, False),
        ("O2", "keep_batchnorm_fp32", "False", False),
        ("O3", "keep_batchnorm_fp32", "True", True),
        ("O3", "master_weights", True, True),
        ("O0", "loss_scale", "dynamic", "dynamic"),
        ("O2", "loss_scale", "128.0", 128.0),
        ("O1", "loss_scale", 64, 64.0),
    ],
)
def test_an_override_takes_the_place_of_the_default(opt_level, name, value, result):
    changed = overridden(level(opt_level), {name: value})
    assert getattr(changed, name) == result
    others = [field for field in FIELDS if field != name]
    assert all(getattr(changed, field) == getattr(level(opt_level), field) for field in others)


def test_casting_the_model_to_bfloat16_is_the_level_in_bfloat16():
    assert overridden(level("O2"), {"cast_model_type": torch.bfloat16}) == level("O2", torch.bfloat16)


@pytest.mark.parametrize("opt_level", APEX)
def test_none_overrides_nothing(opt_level):
    assert overridden(level(opt_level), dict.fromkeys(FIELDS)) == level(opt_level)


@pytest.mark.parametrize(
    ("opt_level", "name", "value", "message"),
    [
        ("O1", "cast_model_type", torch.float16, r"expected float32 weights with O1.*Use opt_level 'O2' or 'O3'"),
        ("O2", "cast_model_type", torch.int32, r"expected a floating point dtype, None or False"),
        ("O2", "cast_model_type", "half", r"got cast_model_type='half'\. Pass torch\.float16\."),
        ("O2", "patch_torch_functions", True, r"expected False with O2.*Use opt_level 'O1'"),
        ("O0", "patch_torch_functions", True, r"expected False with O0"),
        ("O3", "patch_torch_functions", True, r"expected False with O3"),
        ("O1", "keep_batchnorm_fp32", True, r"expected None with O1.*Leave it out"),
        ("O1", "keep_batchnorm_fp32", False, r"expected None with O1"),
        ("O2", "keep_batchnorm_fp32", "yes", r"expected True, False, 'True', 'False' or None.*'yes'"),
        ("O1", "master_weights", True, r"expected None with O1.*or use O2"),
        ("O1", "master_weights", False, r"expected None with O1"),
        ("O2", "loss_scale", "big", r"expected 'dynamic' or a number, got loss_scale='big'"),
    ],
)
def test_what_apex_refuses_is_refused_with_a_remedy(opt_level, name, value, message):
    with pytest.raises(AmpError, match=message):
        overridden(level(opt_level), {name: value})


def test_the_errors_are_also_those_that_scripts_for_apex_catch():
    with pytest.raises(RuntimeError):
        level("O5")
    with pytest.raises(ValueError):
        level("O5")
