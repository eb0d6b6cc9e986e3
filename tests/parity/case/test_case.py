# ruff: noqa: E501  (messages under test are easier to read whole)
from pathlib import Path

import pytest
from pydantic import ValidationError

from parity.case import NOT_OFFERED, OVERRIDES, Adam, CaseError, Momentum, Sgd, find_source, load_case

EXAMPLES = Path(__file__).parents[3] / "examples"
TOP = """name = "tiny"
steps = 3
batch_size = 8
towers = 2
combine = "mean"
batches = "data:batches"
"""
OPTIMIZER = """[optimizer]
name = "sgd"
learning_rate = 0.1
"""
TF = """[tf]
tower = "model_tf:tower"
"""
TORCH = """[torch]
model = "model_torch:Model"
loss = "model_torch:loss"
"""
WHOLE = TOP + OPTIMIZER + TF + TORCH


@pytest.fixture
def folder(tmp_path):
    directory = tmp_path / "tiny"
    directory.mkdir()
    (tmp_path / "data.py").write_text("def batches(steps, batch_size, seed): pass\n")
    (directory / "model_tf.py").write_text("def tower(): pass\ndef optimizer(): pass\n")
    (directory / "model_torch.py").write_text("class Model: pass\nloss = optimizer = lambda model: None\n")
    return directory


def load(folder, text, **overrides):
    (folder / "case.toml").write_text(text)
    return load_case(folder, **overrides)


def refused(folder, text, **overrides):
    with pytest.raises(CaseError) as caught:
        load(folder, text, **overrides)
    return str(caught.value).replace(str(folder) + "/", "")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in EXAMPLES.glob("*/case.toml")))
def test_the_examples_are_cases(name):
    case = load_case(EXAMPLES / name)
    assert case.name == name
    assert case.directory == (EXAMPLES / name).resolve()


def test_a_minimal_case_has_the_documented_defaults(folder):
    case = load(folder, WHOLE)
    assert (case.seed, case.precision, case.init, case.expect, case.mapping) == (0, "float32", "perturbed", None, {})
    assert (case.tf.variables, case.tf.batch_norm_updates, case.tf.python) == ("cpu", "first", None)
    assert (case.torch.combine, case.torch.backend, case.torch.opt_level) == (None, "gloo", "O0")
    assert case.torch.sync_batch_norm is False
    assert case.mapping_of == {"act": {}, "noise": {}, "feed": {}, "metric": {}}
    assert case.folders == (folder, folder.parent)


def test_threads_and_buckets_are_positive_numbers_and_by_default_the_sides_own(folder):
    assert (load(folder, WHOLE).tf.threads, load(folder, WHOLE).torch.threads) == (None, None)
    both = WHOLE.replace(TF, TF + "threads = 2\n").replace(TORCH, TORCH + "threads = 3\nbucket_cap_mb = 0.5\n")
    case = load(folder, both)
    assert (case.tf.threads, case.torch.threads, case.torch.bucket_cap_mb) == (2, 3, 0.5)
    text = refused(
        folder, both.replace("threads = 2", "threads = 0").replace("threads = 3", "threads = 1.5").replace("0.5", "0.0")
    )
    assert "tf.threads: expected at least 1, got 0. Write such a number." in text
    assert "torch.threads: expected a whole number, got 1.5." in text
    assert "torch.bucket_cap_mb: expected more than 0.0, got 0.0. Write such a number." in text


def test_the_file_and_its_folder_load_the_same(folder):
    assert load(folder, WHOLE) == load_case(str(folder / "case.toml"))


def test_a_case_never_changes(folder):
    with pytest.raises(ValidationError, match="frozen"):
        load(folder, WHOLE).steps = 4


@pytest.mark.parametrize(
    ("table", "made"),
    [
        ('name = "sgd"\nlearning_rate = 1', Sgd(name="sgd", learning_rate=1.0)),
        (
            'name = "momentum"\nlearning_rate = 0.1\nmomentum = 0.9',
            Momentum(name="momentum", learning_rate=0.1, momentum=0.9, use_nesterov=False),
        ),
        ('name = "adam"', Adam(name="adam", learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8)),
    ],
)
def test_optimizers_have_tensorflows_defaults(folder, table, made):
    case = load(folder, TOP + TF + TORCH + "[optimizer]\n" + table)
    assert case.optimizer == made
    assert type(case.optimizer.learning_rate) is float


def test_mapping_tables_take_names_lists_and_transforms(folder):
    case = load(
        folder,
        WHOLE
        + '[mapping]\n"a/w" = "a.weight"\n"b" = { to = ["c", "d"], transform = "lstm_gates" }\n'
        + '[mapping.act]\n"x" = { to = "y", transform = "nhwc_to_nchw" }\n[mapping.metric]\nm = "n"\n',
    )
    assert [(name, entry.to, entry.transform) for name, entry in case.mapping.items()] == [
        ("a/w", ("a.weight",), None),
        ("b", ("c", "d"), "lstm_gates"),
    ]
    assert case.mapping_of["act"]["x"].transform == "nhwc_to_nchw"
    assert case.mapping_of["metric"]["m"].to == ("n",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("towers = 2", "towers = 2\nsede = 1", "case.toml:5: sede: expected a key of this table, got an unknown one. Did you mean 'seed'?"),
        ("towers = 2", "", "case.toml:1: towers: expected to be there, got none. Write towers = 2."),
        ("towers = 2", "towers = 3", "case.toml:3: batch_size: expected a multiple of towers = 3, so that every tower gets as many examples, got 8. Write 6 or 9, or another number of towers."),
        ("towers = 2", "towers = 9", "got 8. Write 9, or another number of towers."),
        ("towers = 2", "towers = true", "case.toml:4: towers: expected a whole number, got true."),
        ("steps = 3", "steps = 0", "case.toml:2: steps: expected at least 1, got 0."),
        ("steps = 3", 'steps = "3"', "case.toml:2: steps: expected a whole number, got '3'."),
        ("steps = 3", "steps = 3.0", "case.toml:2: steps: expected a whole number, got 3.0."),
        ('combine = "mean"', "", "case.toml:1: combine: expected \"mean\" or \"sum\", got none. Write combine = \"mean\" or \"sum\", whichever the legacy combine_gradients does: towers that sum take steps as many times as large as there are towers, so there is no default."),
        ('combine = "mean"', 'combine = "max"', "case.toml:5: combine: expected 'mean' or 'sum', got 'max'."),
        ("data:batches", "data", "case.toml:6: batches: expected \"module:function\", got 'data'."),
        ("data:batches", "dta:batches", "case.toml:6: batches: expected dta.py in "),
        ("model_tf:tower", "model_tf:twoer", "model_tf.py to define 'twoer', got no such name. Did you mean 'tower'?"),
        ('name = "sgd"', 'name = "sdg"', "case.toml:8: optimizer.name: expected one of 'sgd', 'momentum', 'adam', 'rmsprop', 'adagrad', 'adadelta', 'ftrl', got 'sdg'. Did you mean 'sgd'?"),
        ('name = "sgd"', "", "optimizer.name: expected to be there, got none. Write name, one of sgd, momentum, adam, rmsprop, adagrad, adadelta, ftrl."),
        ('name = "sgd"', 'name = "momentum"', "optimizer.momentum: expected to be there, got none. Write momentum = 0.9, for TensorFlow has no default."),
        ('name = "sgd"', 'name = "sgd"\nbeta1 = 0.9', "case.toml:9: optimizer.beta1: expected a key of this table, got an unknown one."),
        ("learning_rate = 0.1", "learning_rate = nan", "case.toml:9: optimizer.learning_rate: expected a finite number, got nan."),
        ("learning_rate = 0.1", "learning_rate = -0.1", "case.toml:9: optimizer.learning_rate: expected more than 0"),
        ("learning_rate = 0.1", "learning_rate = true", "case.toml:9: optimizer.learning_rate: expected a number, got true."),
        (OPTIMIZER, "optimizer = 3\n", "case.toml:7: optimizer: expected a table, got 3."),
        (OPTIMIZER, "", "optimizer: expected an optimizer, got none. Write [optimizer] with name and learning_rate"),
        (TF, "", "case.toml:1: tf: expected to be there, got none. Write [tf] with tower"),
        (TF, TF + 'optimizer = "model_tf:optimizer"\n', "case.toml:12: tf.optimizer: expected either [optimizer] or an optimizer of its own, got both."),
        (TF, TF + 'batch_norm_updates = "frist"\n', "case.toml:12: tf.batch_norm_updates: expected 'first', 'last', 'all_ordered' or 'unordered', got 'frist'."),
        (TORCH, TORCH + 'opt_level = "00"\n', "case.toml:15: torch.opt_level: expected 'O0', 'O1', 'O2' or 'O3', got '00'. Write \"O0\", with the letter O and a zero."),
        (TORCH, TORCH + '[mapping]\na = 3\n', "case.toml:16: mapping.a: expected a name or a table, got 3."),
        (TORCH, TORCH + '[mapping]\na = { to = "b", transform = "no" }\n', "case.toml:16: mapping.a.transform: expected one of axes"),
        (TORCH, TORCH + '[mapping]\na = { to = [1] }\n', "case.toml:16: mapping.a.to: expected a name, or a list of names, got [1]."),
        (TORCH, TORCH + '[mapping]\na = { to = "b", transfrm = "sum" }\n', "case.toml:16: mapping.a.transfrm: expected a key of this table, got an unknown one. Did you mean 'transform'?"),
        (TORCH, TORCH + '[mapping.act]\na = { transform = "identity" }\n', "case.toml:16: mapping.act.a.to: expected to be there"),
        ('name = "tiny"', 'name = "tiny"\ndirectory = "x"', "case.toml:2: directory: expected a key of this table, got an unknown one."),
        ('name = "tiny"', 'name = "tiny"\nmapping_of = {}', "case.toml:2: mapping_of: expected a key of this table, got an unknown one."),
        ('name = "tiny"', 'name = "tiny"\ninit = "zeros"', 'case.toml:2: init: expected "perturbed", "model" or "checkpoint:PATH", got \'zeros\'.'),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line_what_was_expected_and_what_to_write(folder, old, new, message):
    assert old in WHOLE
    text = refused(folder, WHOLE.replace(old, new, 1))
    assert message in text
    assert "got 1 problem." in text


def test_a_file_as_windows_editors_save_it_is_read_with_its_lines(folder):
    (folder / "case.toml").write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())
    assert load_case(folder).towers == 2
    (folder / "case.toml").write_bytes(
        b"\xef\xbb\xbf" + WHOLE.replace("towers", "towres").replace("\n", "\r\n").encode()
    )
    with pytest.raises(CaseError, match=r"case\.toml:4: towres: expected a key of this table, got an unknown one"):
        load_case(folder)


def test_a_file_name_in_place_of_a_module_is_told_the_module(folder):
    text = refused(folder, WHOLE.replace("model_tf:tower", "model_tf.py:tower"))
    assert "tf.tower: expected a module, got the file 'model_tf.py'. Write 'model_tf'." in text


def test_every_problem_of_a_file_is_in_one_message(folder):
    text = refused(folder, WHOLE.replace("steps", "stps").replace("towers = 2", "towers = 0").replace(TORCH, ""))
    assert "got 4 problems" in text
    assert [line.split(": ")[1] for line in text.splitlines()[1:]] == ["steps", "torch", "stps", "towers"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (("mapping", "noise", "*"), OPTIMIZER + '[mapping.noise]\n"*" = "b"'),
    ],
)
def test_what_this_version_cannot_do_is_refused_and_never_ignored(folder, key, text):
    rest = "".join(table for table in (TF, TORCH) if table not in text)
    message = refused(folder, TOP + text + "\n" + rest)
    assert f"{'.'.join(key)}: expected what this version can do, got " in message
    assert "which is not offered yet by this version" in message
    assert "got 1 problem." in message
    assert key in {row.key for row in NOT_OFFERED}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            'learning_rate = { schedule = "x" }',
            "optimizer.learning_rate.schedule: expected 'exponential_decay', 'natural_exp_decay', 'inverse_time_decay', "
            "'polynomial_decay', 'piecewise_constant', 'cosine_decay' or 'cosine_decay_restarts', got 'x'. "
            "Write one of them.",
        ),
        (
            'learning_rate = { schedule = "exponential_decay", decaysteps = 3 }',
            "optimizer.learning_rate.decaysteps: expected a key of this table, got an unknown one. Did you mean "
            "'decay_steps'?",
        ),
        ("learning_rate = -1.0", "optimizer.learning_rate: expected more than 0.0, got -1.0. Write such a number."),
        ("learning_rate = 0.1\nclip = 1.0", "optimizer.clip: expected a table, got 1.0. Write it like that."),
        (
            'learning_rate = 0.1\nclip = { by = "nrm", limit = 1.0 }',
            "optimizer.clip.by: expected 'global_norm', 'norm' or 'value', got 'nrm'. Write one of them.",
        ),
    ],
)
def test_a_mistake_inside_the_table_of_an_optimizer_is_told_by_its_key(folder, table, message):
    assert message in refused(folder, TOP + TF + TORCH + '[optimizer]\nname = "sgd"\n' + table)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("accumulate = 0", "optimizer.accumulate.steps: expected at least 1, got 0. Write such a number."),
        ("accumulate = 1.5", "optimizer.accumulate: expected a table, got 1.5. Write it like that."),
        (
            'accumulate = { steps = 2, redcue = "sum" }',
            "optimizer.accumulate.redcue: expected a key of this table, got an unknown one. Did you mean 'reduce'?",
        ),
        (
            "accumulate = 3",
            "batch_size: expected a multiple of towers = 2 times accumulate = 3, so that every micro-batch is as large, "
            "got 8. Write 6 or 12, or other numbers of them.",
        ),
        (
            "accumulate = { steps = 8 }",
            "batch_size: expected a multiple of towers = 2 times accumulate = 8, so that every micro-batch is as large, "
            "got 8. Write 16, or other numbers of them.",
        ),
        ('loss_scale = "dynamic"', "optimizer.loss_scale: expected a number, got 'dynamic'. Write it like that."),
        ("loss_scale = 0", "optimizer.loss_scale: expected more than 0.0, got 0. Write such a number."),
        (
            "loss_scale = { factor = 1.0 }",
            "optimizer.loss_scale.factor: expected more than 1.0, got 1.0. Write such a number.",
        ),
        (
            "loss_scale = { inital = 8.0 }",
            "optimizer.loss_scale.inital: expected a key of this table, got an unknown one. Did you mean 'initial'?",
        ),
    ],
)
def test_a_mistake_in_accumulation_or_loss_scale_is_told_by_its_key(folder, line, message):
    text = refused(folder, TOP + OPTIMIZER + line + "\n" + TF + TORCH)
    assert message in text
    assert "got 1 problem." in text


def test_accumulation_is_a_number_or_a_table_and_so_is_a_loss_scale(folder):
    def read(lines):
        dumped = load(folder, TOP + OPTIMIZER + lines + "\n" + TF + TORCH).optimizer.model_dump(exclude_none=True)
        return dumped["accumulate"], dumped["loss_scale"]

    assert read("accumulate = 2\nloss_scale = 128") == ({"steps": 2, "reduce": "mean"}, 128.0)
    dynamic = {"initial": 32768.0, "growth_interval": 5, "factor": 2.0}
    lines = 'accumulate = { steps = 4, reduce = "sum" }\nloss_scale = { growth_interval = 5 }'
    assert read(lines) == ({"steps": 4, "reduce": "sum"}, dynamic)
    assert load(folder, TOP + OPTIMIZER + lines + "\n" + TF + TORCH).micro_batches == 4
    assert load(folder, WHOLE).micro_batches == 1


ACCUMULATE = OPTIMIZER + "accumulate = 2\n"
AT_TOWER = OPTIMIZER + 'clip = { by = "value", limit = 1.0, at = "tower" }\n'
DECAY = OPTIMIZER + "weight_decay = { coefficient = 0.1 }\n"


@pytest.mark.parametrize(
    ("combine", "optimizer", "lines", "message"),
    [
        ("sum", OPTIMIZER, 'reduce = "prescaled"', 'tf.reduce: expected combine = "mean" with it, since prescaled is a way to average, got combine = "sum". Leave tf.reduce out, or write the mean.'),
        ("mean", OPTIMIZER, 'reduce = "sum"', 'tf.reduce: expected "mean", as combine requires, got "sum". Leave tf.reduce out.'),
        ("mean", ACCUMULATE, 'uneven = "pad"', "tf.uneven: expected no optimizer.accumulate with it, got both. Leave one of them out."),
        ("mean", OPTIMIZER, 'uneven = "pad"\ncut = "feeds"', 'tf.uneven: expected no tf.cut = "feeds" with it, got both.'),
        ("mean", OPTIMIZER, 'variables = "replicated"\nshare = "own"', 'tf.share: expected no tf.variables = "replicated" with it, got both.'),
        ("mean", OPTIMIZER, 'variables = "replicated"\nreduce = "mean_of_losses"', 'tf.reduce: expected no tf.variables = "replicated" with it'),
        ("mean", ACCUMULATE, 'reduce = "mean_of_losses"', "tf.reduce: expected no optimizer.accumulate with it"),
        ("mean", OPTIMIZER + "loss_scale = 2\n", 'reduce = "mean_of_losses"', "tf.reduce: expected no optimizer.loss_scale with it"),
        ("mean", AT_TOWER, 'reduce = "mean_of_losses"', 'tf.reduce: expected no optimizer.clip.at = "tower" with it'),
        ("mean", OPTIMIZER, 'reduce = "mean_of_losses"\nmissing = "zeros"', 'tf.missing: expected no tf.reduce = "mean_of_losses" with it'),
        ("mean", OPTIMIZER, 'reduce = "mean_of_losses"\nsparse = "slices"', 'tf.sparse: expected no tf.reduce = "mean_of_losses" with it'),
        ("mean", DECAY, 'regularization = "none"', "tf.regularization: expected no optimizer.weight_decay with it, which no tower would add to its loss, got both."),
        ("mean", OPTIMIZER + 'clip = { by = "norm", limit = 1.0, sum_duplicates = true }\n', "", 'optimizer.clip.sum_duplicates: expected sparse gradients to clip: at = "tower", or tf.sparse = "slices", got neither. Leave it out, or write one of them.'),
        ("mean", ACCUMULATE, 'batch_norm_updates = "unordered"', "tf.batch_norm_updates: expected no optimizer.accumulate with it, got both. Leave one of them out."),
        ("mean", OPTIMIZER, 'batch_norm_updates = "unordered"\nuneven = "drop"', "tf.batch_norm_updates: expected no tf.uneven with it, got both. Leave one of them out."),
        ("mean", OPTIMIZER, 'shre = "own"', "tf.shre: expected a key of this table, got an unknown one. Did you mean 'share'?"),
        ("mean", OPTIMIZER, 'cut = "cue"', "tf.cut: expected 'split', 'slices', 'feeds', 'queue' or 'iterator', got 'cue'."),
    ],
)  # fmt: skip
def test_choices_of_the_towers_that_exclude_each_other_are_refused(folder, combine, optimizer, lines, message):
    top = TOP.replace('combine = "mean"', f'combine = "{combine}"')
    text = refused(folder, top + optimizer + TF + lines + "\n" + TORCH)
    assert message in text
    assert "got 1 problem." in text


PART = '[optimizers.head]\nonly = "head"\nname = "sgd"\nlearning_rate = 0.2\n'


def test_further_optimizers_are_read_by_name(folder):
    case = load(folder, WHOLE + PART)
    assert case.optimizers == {"head": Sgd(name="sgd", learning_rate=0.2, only="head")}
    assert load(folder, WHOLE).optimizers == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE + PART.replace('only = "head"\n', ""), 'optimizers.head.only: expected a pattern of the names of its variables, got none. Write only = "head", a regular expression.'),
        (WHOLE + PART + "ema = { decay = 0.9 }\n", "optimizers.head.ema: expected ema in [optimizer], got it in [optimizers]. Write it there"),
        (WHOLE + PART + "rho = 0.9\n", "optimizers.head.rho: expected a key of this table, got an unknown one."),
        (WHOLE + PART.replace("0.2", "-0.2"), "optimizers.head.learning_rate: expected more than 0.0, got -0.2."),
        (WHOLE + PART.replace('"sgd"', '"sdg"'), "optimizers.head.name: expected one of 'sgd', 'momentum'"),
        (WHOLE.replace(OPTIMIZER, OPTIMIZER + 'only = "x"\n'), "optimizer.only: expected it in a table [optimizers.NAME], got it in [optimizer]. Leave it out here: the first optimizer has what no other takes."),
        (WHOLE.replace(TORCH, TORCH + 'optimizer = "model_torch:optimizer"\n') + PART, "torch.optimizer: expected no [optimizers] with it, which say what trains on both sides, got both."),
        (WHOLE.replace(TORCH, TORCH + 'opt_level = "O1"\n') + PART, "torch.opt_level: expected O0 with [optimizers], since mixed precision patches one optimizer here, got O1."),
        (WHOLE.replace(TF, TF + 'reduce = "mean_of_losses"\n') + PART + 'loss = "x"\n', "tf.reduce: expected no losses of [optimizers] with it, since there is one mean of one loss, got both."),
    ],
)  # fmt: skip
def test_a_mistake_in_a_further_optimizer_is_told_by_its_key(folder, text, message):
    found = refused(folder, text)
    assert message in found
    assert "got 1 problem." in found


def test_a_race_of_more_towers_than_orders_can_be_tried_for_is_refused(folder):
    text = refused(
        folder, WHOLE.replace("towers = 2", "towers = 8").replace(TF, TF + 'batch_norm_updates = "unordered"\n')
    )
    assert (
        "tf.batch_norm_updates: expected at most 4 towers with it, for which all possible orders can be tried, got 8. "
        'Write fewer towers, or "all_ordered".'
    ) in text


def test_the_choices_of_the_towers_are_read_and_left_to_the_builder_otherwise(folder):
    lines = 'uneven = "sizes"\nreduce = "examples"\nshare = "own"\nmissing = "present"\nupdate_ops = "grouped"\n'
    case = load(folder, TOP.replace("8", "7") + AT_TOWER + TF + lines + TORCH)
    assert case.batch_size == 7
    assert case.tf.model_dump(exclude_none=True) == {
        "tower": "model_tf:tower",
        "variables": "cpu",
        "batch_norm_updates": "first",
        "uneven": "sizes",
        "reduce": "examples",
        "share": "own",
        "missing": "present",
        "update_ops": "grouped",
    }
    assert case.optimizer.clip.model_dump(exclude_none=True) == {"by": "value", "limit": 1.0, "at": "tower"}


def test_clipping_decay_averages_and_a_schedule_are_read(folder):
    case = load(
        folder,
        TOP + TF + TORCH + '[optimizer]\nname = "ftrl"\nclip = { by = "value", limit = 1.0 }\nema = { decay = 0.9 }\n'
        'weight_decay = { coefficient = 1e-4, only = "kernel" }\n'
        'learning_rate = { schedule = "polynomial_decay", learning_rate = 0.1, decay_steps = 5 }',
    )
    assert case.optimizer.model_dump(exclude_none=True) == {
        "name": "ftrl",
        "clip": {"by": "value", "limit": 1.0},
        "weight_decay": {"coefficient": 1e-4, "only": "kernel"},
        "ema": {"decay": 0.9, "num_updates": False, "order": "after"},
        "learning_rate": {"schedule": "polynomial_decay", "learning_rate": 0.1, "decay_steps": 5},
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
    }


def test_empty_tables_and_offered_values_of_restricted_keys_pass(folder):
    text = (
        TOP
        + OPTIMIZER
        + TF
        + 'variables = "first_gpu"\n'
        + TORCH
        + "sync_batch_norm = false\n[expect]\n[mapping.noise]\n"
    )
    assert load(folder, text).tf.variables == "first_gpu"


def test_optimizers_of_the_users_own_come_in_pairs_or_beside_a_description(folder):
    own_tf, own_torch = TF + 'optimizer = "model_tf:optimizer"\n', TORCH + 'optimizer = "model_torch:optimizer"\n'
    assert load(folder, TOP + own_tf + own_torch).optimizer is None
    assert load(folder, TOP + OPTIMIZER + TF + own_torch).torch.optimizer == "model_torch:optimizer"
    assert "torch.optimizer: expected an optimizer with tf.optimizer" in refused(folder, TOP + own_tf + TORCH)
    assert "tf.optimizer: expected an optimizer with torch.optimizer" in refused(folder, TOP + TF + own_torch)


JOINED = TF + 'batch_norm = "synchronised"\n'


def test_synchronised_towers_ask_what_the_port_does(folder):
    assert 'torch.sync_batch_norm: expected true or false with tf.batch_norm = "synchronised", got neither. ' in (
        refused(folder, TOP + OPTIMIZER + JOINED + TORCH)
    )
    for value in ("true", "false"):
        case = load(folder, TOP + OPTIMIZER + JOINED + TORCH + f"sync_batch_norm = {value}\n")
        assert (case.tf.batch_norm, case.torch.sync_batch_norm) == ("synchronised", value == "true")
    assert load(folder, TOP + OPTIMIZER + TF + TORCH).tf.batch_norm is None


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ('share = "make_template"', 'no tf.share = "make_template" with it, which builds one whole model before'),
        ('share = "model_first"', 'no tf.share = "model_first" with it, which builds one whole model before'),
        ('batch_norm_updates = "last"', 'no tf.batch_norm_updates = "last" with it, since the statistics move once'),
        (
            'reduce = "examples"',
            'no tf.reduce = "examples" with it, since each tower\'s gradient has a part of every',
        ),
    ],
)
def test_what_synchronised_towers_cannot_be_built_with_is_refused(folder, key, message):
    text = refused(folder, TOP + OPTIMIZER + JOINED + key + "\n" + TORCH + "sync_batch_norm = true\n")
    assert f"tf.batch_norm: expected {message}" in text


def test_a_schedule_and_a_step_of_the_ports_own_are_read_and_looked_up(folder):
    own = 'scheduler = "model_torch:{0}"\nstep = "model_torch:{0}"\nsync_batch_norm = true\n'
    case = load(folder, TOP + OPTIMIZER + TF + TORCH + own.format("loss"))
    assert (case.torch.scheduler, case.torch.step, case.torch.sync_batch_norm) == (*["model_torch:loss"] * 2, True)
    text = refused(folder, TOP + OPTIMIZER + TF + TORCH + own.format("nothing"))
    assert "torch.scheduler: expected " in text and "torch.step: expected " in text
    assert text.count("to define 'nothing', got no such name") == 2


@pytest.mark.parametrize("name", ["accumulate", "loss_scale"])
def test_a_step_of_the_ports_own_has_no_table_that_cuts_it_up(folder, name):
    value = {"accumulate": "accumulate = { steps = 2 }", "loss_scale": "loss_scale = 128.0"}[name]
    text = refused(folder, TOP + OPTIMIZER + value + "\n" + TF + TORCH + 'step = "model_torch:loss"\n')
    assert f"torch.step: expected no optimizer.{name} with it" in text
    assert f"Leave torch.step or optimizer.{name} out." in text


def test_overrides_replace_the_files_values_and_are_checked_like_them(folder):
    case = load(folder, WHOLE, towers=4, tf_python="python3.7", steps=None, opt_level="O0", precision="float64")
    assert (case.towers, case.tf.python, case.steps, case.precision) == (4, "python3.7", 3, "float64")
    text = refused(folder, WHOLE, steps=0, opt_level="O4", tf_python="")
    assert "  --steps: steps: expected at least 1, got 0." in text
    assert "  --opt-level: torch.opt_level: expected 'O0', 'O1', 'O2' or 'O3', got 'O4'" in text
    assert "got an unknown" not in text
    assert "expected an override that exists, got 'tower'. Did you mean 'towers'?" in refused(folder, WHOLE, tower=2)


def test_every_override_goes_to_a_key_that_a_case_has(folder):
    case = load(folder, WHOLE)
    for key in OVERRIDES.values():
        value = case
        for part in key:
            assert part in type(value).model_fields
            value = getattr(value, part)


def test_bad_toml_is_refused_with_line_and_column(folder):
    assert "(at line 2, column 9)" in refused(folder, 'name = "x"\nsteps = = 3\n')


def test_a_file_that_is_not_there_or_not_text_is_refused(folder):
    with pytest.raises(CaseError, match=r"expected a case file at .*none\.toml, got: No such file"):
        load_case(folder / "none.toml")
    (folder / "case.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(CaseError, match=r"expected UTF-8 in .*, got byte 8"):
        load_case(folder)


def test_a_source_is_found_beside_the_case_and_then_above_it_without_being_run(folder):
    (folder / "bomb.py").write_text("raise SystemExit\ndef f(): pass\n")
    assert find_source("bomb:f", folder) == folder / "bomb.py"
    assert find_source("data:batches", folder) == folder.parent / "data.py"
    (folder / "data.py").write_text("batches: object = None\n")
    assert find_source("data:batches", folder) == folder / "data.py"
    package = folder / "pack" / "inner"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from other import (a as b, c)\ntry:\n  import x.y\nexcept ImportError:\n  d, e = 1, 2\n"
    )
    for name in "bcxde":
        assert find_source(f"pack.inner:{name}", folder) == package / "__init__.py"
    with pytest.raises(CaseError, match="to define 'a', got no such name"):
        find_source("pack.inner:a", folder)


def test_a_source_that_does_not_parse_is_refused_with_its_line(folder):
    (folder / "old.py").write_text("x = 1\nprint x\n")
    with pytest.raises(CaseError, match=r"expected Python in .*old\.py, got at line 2: "):
        find_source("old:x", folder)


@pytest.mark.parametrize("value", ["-" * 100_000 + "1", "a" + ".b" * 100_000])
def test_a_source_that_is_nested_too_deep_is_refused_as_one_that_does_not_parse(folder, value):
    (folder / "deep.py").write_text(f"x = {value}\n")
    with pytest.raises(CaseError, match=r"expected Python in .*deep\.py, got at line 1: .+\. Fix it"):
        find_source("deep:x", folder)


def test_a_star_import_may_define_any_name(folder):
    (folder / "star.py").write_text("from model_tf import *\n")
    assert find_source("star:tower", folder) == folder / "star.py"
