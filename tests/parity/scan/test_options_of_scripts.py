"""What runs only with an option that nothing in a repository gives: a note that names it."""

import tracemalloc

import pytest

from parity.scan.scan import scan

SCRIPT = """import argparse
import tensorflow as tf
from settings import chosen

{define}


def train(x, n):
    if {test}:
        optimizer = tf.train.RMSPropOptimizer(0.1)
    else:
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    losses = []
    for i in range(n):
        with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
            losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
    return optimizer.minimize(tf.reduce_mean(losses))


train(tf.placeholder(tf.float32, [2, 2]), 2)
"""
FLAGS = "FLAGS = tf.flags.FLAGS\ntf.flags.DEFINE_string('optimizer', 'momentum', 'Which.')"
PARSER = "parser = argparse.ArgumentParser()\nparser.add_argument({})\nargs = parser.parse_args()"
RMSPROP = "FLAGS.optimizer == 'rmsprop'"


def finding_of(folder, define=FLAGS, test=RMSPROP, **texts):
    (folder / "train.py").write_text(SCRIPT.format(define=define, test=test), encoding="utf-8")
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (finding,) = (each for each in scan([folder]).findings if each.rule == "TP502")
    return finding.severity.word, finding.message.rpartition("; ")[2].removesuffix(", which nothing here gives")


@pytest.mark.parametrize(
    ("define", "test", "needs"),
    [
        (FLAGS, RMSPROP, "only with --optimizer=rmsprop"),
        (FLAGS, "'rmsprop' == FLAGS.optimizer and n > 1", "only with another --optimizer than momentum"),
        (FLAGS, "FLAGS.optimizer != 'momentum'", "only with another --optimizer than momentum"),
        (FLAGS + "\nname = FLAGS.optimizer", "name == 'rmsprop'", "only with --optimizer=rmsprop"),
        (PARSER.format("'--optimizer', default='sgd'"), "args.optimizer == 'rmsprop'", "only with --optimizer=rmsprop"),
        (PARSER.format("'--rms', action='store_true'"), "args.rms", "only with --rms"),
        (PARSER.format("'--decay'"), "args.decay", "only with --decay"),
        (PARSER.format("'--decay', default=0, type=int"), "args.decay > 0", "only with another --decay than 0"),
        ("hparams = tf.contrib.training.HParams(rms=False)", "hparams.rms", "only with rms"),
        ("import yaml\ncfg = yaml.load('a')\ncfg.TRAIN.RMS = False", "cfg.TRAIN.RMS", "only with RMS"),
        ("params = {'way': 'a'}\nparams.update(chosen())", "params['way'] == 'b'", "only with way=b"),
        ("import yaml\nclass Config:\n    way = 'a'\nconfig = chosen(Config)", "config.way == 'b'", "only with way=b"),
    ],
)
def test_what_another_value_than_the_default_needs_is_a_note_that_names_it(tmp_path, define, test, needs):
    assert finding_of(tmp_path, define, test) == ("note", needs)


@pytest.mark.parametrize(
    ("define", "test"),
    [
        (FLAGS, "FLAGS.optimizer == 'momentum'"),
        (FLAGS, "FLAGS.optimizer == chosen()"),
        (FLAGS + "\nFLAGS.optimizer = 'rmsprop'", RMSPROP),
        (
            PARSER.format("'--way', default='a'") + "\nparser.set_defaults(way='b')",
            "args.way == 'b'",
        ),
        ("params = {'way': 'a'}\nparams['way'] = 'b'", "params['way'] == 'b'"),
        ("cfg = chosen()\ncfg.TRAIN.RMS = False\ncfg.TRAIN.RMS = chosen()", "cfg.TRAIN.RMS"),
        # They say whether there are towers, or whether the script trains.
        (PARSER.format("'--num_gpus', default=1, type=int"), "args.num_gpus > 1"),
        (PARSER.format("'--mode', default='eval'"), "args.mode == 'train'"),
    ],
)
def test_what_a_default_allows_or_leaves_open_is_a_warning(tmp_path, define, test):
    assert finding_of(tmp_path, define, test)[0] == "warning"


@pytest.mark.parametrize(
    ("define", "test"),
    [
        (FLAGS + "\nFLAGS.optimizer = chosen()", RMSPROP),
        (FLAGS.replace("'momentum'", "chosen()"), RMSPROP),
        ("FLAGS = chosen()", RMSPROP),
        (PARSER.format("'--optimizer', required=True"), "args.optimizer == 'rmsprop'"),
        (PARSER.format("'optimizer'"), "args.optimizer == 'rmsprop'"),
        ("params = {'way': 'a'}\nparams['way'] = chosen()", "params['way'] == 'b'"),
        ("class Net:\n    way = 'a'\nnet = chosen(Net)\nnet.way = chosen()", "net.way == 'b'"),
        ("net = chosen()", "net.way == 'b' and n > 1"),
    ],
)
def test_what_a_name_chooses_that_nothing_gives_is_a_note_and_a_warning_where_something_does(tmp_path, define, test):
    value = "rmsprop" if "rmsprop" in test else "b"
    assert finding_of(tmp_path, define, test) == ("note", f"only where {test}")
    assert (
        finding_of(tmp_path, define, test, other_py=f"{'optimizer' if value != 'b' else 'way'} = '{value}'")[0]
        == "warning"
    )
    assert finding_of(tmp_path, define + f"\nprint('{value}')", test, other_py="")[0] == "warning"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run_sh", "python train.py --optimizer=rmsprop\n"),
        ("run_sh", "python train.py \\\n  --batch 3 \\\n  --optimizer rmsprop\n"),
        ("run_sh", 'python train.py --optimizer="$1"\n'),
        ("scripts__run_sh", "cd ..; python train.py --optimizer=rmsprop\n"),
        ("README_md", "Run `python train.py --optimizer rmsprop`.\n"),
        ("Makefile", "train:\n\tpython train.py --optimizer=rmsprop\n"),
        ("notes_ipynb", '{"cells": [{"cell_type": "code", "source": ["!python train.py --optimizer=rmsprop"]}]}'),
        ("configs__first_py", "optimizer = 'rmsprop'\n"),
        ("start_py", 'call(["python", "train.py", "--optimizer", "rmsprop"])\n'),
    ],
)
def test_what_a_script_or_a_configuration_gives_is_a_warning(tmp_path, name, text):
    assert finding_of(tmp_path, **{name: text})[0] == "warning"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run_sh", "python train.py --optimizer=adam\n"),
        ("run_sh", "python train.py --optimizer_name=rmsprop\n"),
        ("run_sh", "python other.py --optimizer=rmsprop\n"),
        ("README_md", "Of RMSProp (rmsprop) as an optimizer nothing is said.\n"),
        ("conf_yaml", "my_optimizer: rmsprop\n"),
        ("start_py", "optimizer = 'rmsprop'\n"),
    ],
)
def test_what_is_given_another_value_or_to_another_script_is_a_note(tmp_path, name, text):
    (tmp_path / "other.py").write_text("import tensorflow as tf\n", encoding="utf-8")
    word, why = finding_of(tmp_path, **{name: text})
    assert (word, why.partition(",")[0]) == ("note", "only with --optimizer=rmsprop")


@pytest.mark.parametrize(
    ("name", "text", "reader"),
    [("conf_yaml", "optimizer: rmsprop\n", "yaml"), ("conf_json", '{"optimizer": "rmsprop"}\n', "json")],
)
def test_a_configuration_counts_where_the_program_reads_such_files(tmp_path, name, text, reader):
    assert finding_of(tmp_path, **{name: text})[0] == "note"
    (tmp_path / "settings.py").write_text(f"import {reader}\nchosen = {reader}.load\n", encoding="utf-8")
    assert finding_of(tmp_path, **{name: text})[0] == "warning"
    (tmp_path / "settings.py").write_text("chosen = open\n", encoding="utf-8")
    assert finding_of(tmp_path, **{name: text})[0] == "note"


def test_a_program_that_starts_the_script_may_read_a_configuration_for_it(tmp_path):
    (tmp_path / "start.py").write_text("import yaml\ncall(['python', 'train.py'])\n", encoding="utf-8")
    assert finding_of(tmp_path, conf_yaml="optimizer: rmsprop\n")[0] == "warning"


@pytest.mark.parametrize(("other", "word"), [("--optimizer=adam", "note"), ("--batch=3", "warning")])
def test_a_default_that_all_commands_set_otherwise_is_a_note(tmp_path, other, word):
    script = f"python train.py --optimizer=sgd\npython train.py {other}\n"
    found, why = finding_of(tmp_path, test="FLAGS.optimizer == 'momentum'", run_sh=script)
    assert found == word
    assert (why == "only with --optimizer=momentum, and all commands here give another") == (word == "note")


@pytest.mark.parametrize(("name", "word"), [("README_md", "warning"), ("run_sh", "note")])
def test_a_default_that_one_command_sets_otherwise_is_a_warning_if_that_is_an_example(tmp_path, name, word):
    script = "python train.py --optimizer=sgd\npython other.py --optimizer=sgd\n"
    (tmp_path / "other.py").write_text("import tensorflow as tf\n", encoding="utf-8")
    assert finding_of(tmp_path, test="FLAGS.optimizer == 'momentum'", **{name: script})[0] == word


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("OPT=sgd\npython train.py --optimizer=${OPT}\n", "note"),
        (
            'OPT=sgd  # or momentum\n#python train.py --optimizer=momentum\nCMD="python train.py --optimizer $OPT"\n',
            "note",
        ),
        ("export OPT='momentum'\npython train.py --optimizer=$OPT\n", "warning"),
        ("OPT=$1\npython train.py --optimizer=$OPT\n", "warning"),
        ("OPT=`cat best`\npython train.py --optimizer=$OPT\n", "warning"),
    ],
)
def test_what_a_shell_s_script_gives_is_read_with_its_variables_and_without_its_comments(tmp_path, script, word):
    assert finding_of(tmp_path, test="FLAGS.optimizer == 'momentum'", run_sh=script)[0] == word


def test_a_long_value_that_a_script_reads_over_and_over_is_not_written_out(tmp_path):
    text = f"A={'x' * 100_000}\n" + "$A" * 50_000 + "\n" + "python train.py --optimizer=$A\n" * 1000
    tracemalloc.start()
    try:
        assert finding_of(tmp_path, run_sh=text)[0] == "warning"  # anything may be in it
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("page", "word"),
    [
        ("nets__README_md", "note"),
        ("docs__use_md", "warning"),
        ("README_md", "warning"),
        ("runs__flags_txt", "warning"),
    ],
)
def test_a_page_that_names_no_script_speaks_of_its_folder(tmp_path, page, word):
    assert finding_of(tmp_path, **{page: "Give --optimizer=rmsprop\n"})[0] == word


@pytest.mark.parametrize(("reads", "word"), [("import yaml", "note"), ("", "warning")])
def test_a_flag_of_another_script_is_none_of_a_program_that_reads_its_own_configuration(tmp_path, reads, word):
    (tmp_path / "other.py").write_text(f"import tensorflow as tf\n{FLAGS}\n", encoding="utf-8")
    define = f"{reads}\nconfig = chosen()"
    found = finding_of(tmp_path, define, "config.optimizer == 'momentum'", conf_yaml="optimizer: sgd\n")
    assert found[0] == word


@pytest.mark.parametrize(("given", "word"), [("'sgd'", "note"), ("'rmsprop'", "warning"), ("chosen()", "note")])
def test_a_parameter_that_becomes_the_object_it_chooses_is_what_it_was_given(tmp_path, given, word):
    define = f"""
def optimizer_of(optimizer):
    if optimizer == 'adam':
        optimizer = tf.train.AdamOptimizer(0.1)
    if optimizer == 'rmsprop':
        optimizer = tf.train.RMSPropOptimizer(0.1)
    return optimizer


solver = optimizer_of({given})"""
    source = SCRIPT.replace("tf.train.RMSPropOptimizer(0.1)", "solver").format(define=define, test="True")
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == word


@pytest.mark.parametrize(
    ("script", "word"), [("train.py", "warning"), ("slim/train.py", "warning"), ("old/train.py", "note")]
)
def test_of_two_scripts_of_a_name_the_one_that_is_started_is_given_a_value(tmp_path, script, word):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "train.py").write_text("import tensorflow as tf\n", encoding="utf-8")
    assert finding_of(tmp_path, run_sh=f"python {script} --optimizer=rmsprop\n")[0] == word


def test_a_name_that_is_no_word_and_values_that_are_no_numbers_are_taken_as_they_are(tmp_path):
    define = "params = {'a+b(': 1, '[': [1], 'u': {}}\nparams['['] = {1: 2}"
    test = "params['a+b('] == 2 or params['['] > 2 or params['u'] < 1 or params['u']"
    assert finding_of(tmp_path, define, test, run_sh="python train.py --a+b( 1 --[ 2 --u\n")[0] == "warning"
    word, why = finding_of(tmp_path, define, "params['a+b('] == 2")
    assert (word, why.partition(",")[0]) == ("note", "only with a+b(=2")


def test_a_switch_that_a_script_turns_on_is_a_warning(tmp_path):
    define = PARSER.format("'--rms', action='store_true'")
    assert finding_of(tmp_path, define, "args.rms", run_sh="python train.py --rms\n")[0] == "warning"


def test_a_switch_that_a_script_turns_off_is_a_warning(tmp_path):
    define = FLAGS.replace("_string('optimizer', 'momentum'", "_bool('plain', True")
    assert finding_of(tmp_path, define, "not FLAGS.plain")[0] == "note"
    assert finding_of(tmp_path, define, "not FLAGS.plain", run_sh="python train.py --noplain\n")[0] == "warning"


DEPLOY = """import tensorflow as tf

tf.flags.DEFINE_integer("num_ps_tasks", 0, "")
FLAGS = tf.flags.FLAGS


class Config(object):
    def __init__(self, num_ps_tasks=0):
        self._num_ps_tasks = num_ps_tasks

    def device(self):
        class Chooser(object):
            def choose(self, op):
                if op.node_def.op == "Variable":
                    return "/job:ps"
                return op.device
        if not self._num_ps_tasks:
            return "/cpu:0"
        chooser = Chooser()
        return chooser.choose


def train(x, n):
    config = Config(num_ps_tasks=FLAGS.num_ps_tasks)
    losses = []
    for i in range(n):
        with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
            with tf.device(config.device()):
                losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
    return tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(losses))


train(tf.placeholder(tf.float32, [2, 2]), 2)
"""


@pytest.mark.parametrize(("default", "needs"), [(0, True), (2, False)])
def test_a_chooser_of_devices_with_servers_names_the_option_where_there_are_none(tmp_path, default, needs):
    text = DEPLOY.replace('"num_ps_tasks", 0', f'"num_ps_tasks", {default}')
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP601")
    assert finding.message.endswith("only with another --num_ps_tasks than 0, which nothing here gives") == needs


@pytest.mark.parametrize("value", ["1" + "-1" * 60_000, "-" * 120_000 + "1", "1or", "9" * 5_000])
@pytest.mark.parametrize("text", ["python train.py --decay={}", "decay: {}"])
def test_a_value_that_the_parser_refuses_or_warns_of_is_a_text(tmp_path, value, text):
    """Warnings are errors in the tests; too deep a nesting was one for the scan."""
    name = "run_sh" if text.startswith("python") else "run_yml"
    define = "import yaml\n" + PARSER.format("'--decay'")
    assert finding_of(tmp_path, define, "args.decay == 2", **{name: text.format(value)})[0] in ("note", "warning")


TABLE = """import tensorflow as tf

FLAGS = tf.flags.FLAGS
tf.flags.DEFINE_string('optimizer', 'momentum', 'Which.')


def rmsprop(rate):
    return tf.train.RMSPropOptimizer(rate)


def momentum(rate):
    return tf.train.MomentumOptimizer(rate, 0.9)


MADE = {"rmsprop": rmsprop, "momentum": momentum}


def made(name, rate):
    return LOOKED_UP


def train(x, n):
    optimizer = made(FLAGS.optimizer, 0.1)
    losses = []
    for i in range(n):
        with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
            losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
    return optimizer.minimize(tf.reduce_mean(losses))


train(tf.placeholder(tf.float32, [2, 2]), 2)
"""


@pytest.mark.parametrize(
    ("looked_up", "command", "word"),
    [
        ("MADE[name](rate)", "", "note"),
        ("MADE.get(name)(rate) if name in MADE else None", "", "note"),
        ("MADE[name](rate)", "python train.py --optimizer=rmsprop", "warning"),
        ("MADE[read()](rate)", "", "warning"),
        ("[MADE[name](rate) for each in MADE.values()]", "", "warning"),
    ],
)
def test_an_entry_of_a_table_that_no_option_takes_is_a_note(tmp_path, looked_up, command, word):
    (tmp_path / "train.py").write_text(TABLE.replace("LOOKED_UP", looked_up), encoding="utf-8")
    (tmp_path / "run.sh").write_text(command, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == word
    assert finding.message.endswith("; only with --optimizer=rmsprop, which nothing here gives") is (word == "note")
