"""What runs, as far as source says: who calls a function, and which branches constants rule out."""

import ast

import pytest

from parity.scan.model.calls import Calls
from parity.scan.model.constants import NO_CONSTANT, Constants
from parity.scan.model.reach import Reach
from parity.scan.model.repository import Repository
from parity.scan.reading.files import source_files
from parity.scan.scan import _read, scan


def reach_of(folder, **sources):
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(f"import tensorflow as tf\n{text}\n", encoding="utf-8")
    modules, unread, _ = _read(list(source_files([folder])), [folder], None)
    assert unread == []
    return Reach(Constants(Calls(Repository(modules))))


def why(reach, called="here"):
    (call, module), *_ = reach.calls.repository.calls_of(called)
    return reach.why_not(call, module)


@pytest.mark.parametrize(
    "source",
    [
        "here()",
        "def f():\n    here()\nf()",
        "def f():\n    here()\nrun(f)",
        "def f():\n    here()\ndef g():\n    f()\ng()",
        "def main(_):\n    here()\ntf.app.run()",
        "@register\ndef f():\n    here()",
        "class Net(Base):\n    def f(self):\n        here()",
        "class Net:\n    def f(self):\n        here()\nNet().f()",
        "def f():\n    here()\ncall_by_name('f')",
        "def f():\n    here()\ncall_by_name(scope, 'f')",
        "MODE = 'a'\nif MODE == 'a':\n    here()",
        "MODE = 'a'\nsettings.MODE = 'b'\nif MODE == 'b':\n    here()",
        "MODE = 'a'\nMODE = read()\nif MODE == 'b':\n    here()",
        "if fast:\n    MODE = 'a'\nif MODE == 'b':\n    here()",
        "MODE = 'a'\ndef f():\n    global MODE\n    MODE = 'b'\nf()\nif MODE == 'b':\n    here()",
        "MODE = 'a'\ndef f(MODE):\n    if MODE == 'b':\n        here()\nf(given())",
        "p = Options(weight=0.)\nq = Options(weight=1.)\nif p.weight > 0:\n    here()",
        "p = Options(weight=0.)\nsetattr(p, 'weight', 1.)\nif p.weight > 0:\n    here()",
        "o = {'on': False}\no['on'] = True\nif o['on']:\n    here()",
        "o = {'on': False}\no[read()] = True\nset_of(o, 'on')\nif o['on']:\n    here()",
        "o = {'on': False}\no.update(on=True)\nif o['on']:\n    here()",
        "tf.flags.DEFINE_float('weight', 0., '')\nq = f(weight=0.)\nif FLAGS.weight > 0:\n    here()",
    ],
)
def test_what_may_run_is_taken_to_run(tmp_path, source):
    assert why(reach_of(tmp_path, train=source)) == ""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f():\n    here()", "nothing here calls f()"),
        ("def f(n):\n    here()\n    f(n - 1)", "nothing here calls f()"),
        ("def f():\n    here()\ndef g():\n    f()", "nothing here calls g()"),
        ("def f():\n    g()\n    here()\ndef g():\n    f()", "a function that calls itself only"),
        ("class Net:\n    def f(self):\n        here()", "nothing here calls f()"),
        ("def f(x, scope='f'):\n    here()", "nothing here calls f()"),
        ("def f():\n    here()\ng(scope='f')", "nothing here calls f()"),
        ("def f():\n    here()\nwith tf.variable_scope(None, 'f'):\n    g()", "nothing here calls f()"),
        ("def f():\n    here()\nf.size = 224", "nothing here calls f()"),
        ("@slim.add_arg_scope\ndef f():\n    here()", "nothing here calls f()"),
        ("MODE = 'a'\ng(MODE=MODE)\nif MODE == 'b':\n    here()", "MODE == 'b' is always False here"),
        ("o = {'on': False}\nif o['on'] is True:\n    here()", "o['on'] is True is always False here"),
        ("MODE = 'a'\nif MODE == 'b':\n    here()", "MODE == 'b' is always False here"),
        ("MODE = 'a'\nif MODE == 'a':\n    pass\nelse:\n    here()", "MODE == 'a' is always True here"),
        ("MODE = 'a'\nx = here() if MODE in ('b', 'c') else 1", "MODE in ('b', 'c') is always False here"),
        ("ON = False\nif ON and some():\n    here()", "ON and some() is always False here"),
        ("def f():\n    on = True\n    if on:\n        return\n    here()\nf()", "on is always True here"),
        ("p = Options(weight=0.)\nif p.weight > 0:\n    here()", "p.weight > 0 is always False here"),
    ],
)
def test_what_nothing_calls_or_constants_rule_out_does_not_run(tmp_path, source, reason):
    assert why(reach_of(tmp_path, train=source)) == reason


def test_a_function_of_another_module_of_that_name_is_another(tmp_path):
    reach = reach_of(
        tmp_path, slow="def update():\n    pass", fast="def update():\n    here()", train="import slow\nslow.update()"
    )
    assert why(reach) == "nothing here calls update()"


def test_a_constant_of_another_module_is_followed(tmp_path):
    reach = reach_of(tmp_path, settings="MODE = 'a'", train="from settings import MODE\nif MODE == 'b':\n    here()")
    assert why(reach) == "MODE == 'b' is always False here"


def test_an_option_that_a_file_may_set_is_open(tmp_path):
    text = "import yaml\nclass Options:\n    weight = 0.0"
    reach = reach_of(tmp_path, settings=text, train="if options.weight > 0:\n    here()")
    assert why(reach) == ""


def test_values_that_are_computed_are_unknown(tmp_path):
    reach = reach_of(tmp_path, train="here(read(), -1, (1, 'a'), name)")
    (call, module), *_ = reach.calls.repository.calls_of("here")
    assert [reach.constants.value(each, module) for each in call.args] == [NO_CONSTANT, -1, (1, "a"), NO_CONSTANT]
    assert isinstance(call, ast.Call)


TOWERS = """import tensorflow as tf
from net import loss_of
MODE = "adam"
N = 1


def towers(x):
    optimizer = made()
    losses = []
    for i in range(N):
        with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
            losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
    return optimizer.minimize(tf.reduce_mean(losses))


def made():
    if MODE == "adam":
        return tf.train.AdamOptimizer(0.1)
    return tf.train.RMSPropOptimizer(0.1)


if N > 1:
    towers(read())
"""


def test_towers_are_judged_though_a_constant_turns_them_off(tmp_path):
    (tmp_path / "train.py").write_text(TOWERS.replace('adam":', 'rms":'), encoding="utf-8")
    assert [str(each.severity.word) for each in scan([tmp_path]).findings if each.rule == "TP502"] == ["warning"]


def test_what_a_constant_rules_out_is_a_note_that_says_so(tmp_path):
    (tmp_path / "train.py").write_text(TOWERS, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == "note"
    assert finding.message.endswith("; it does not run: MODE == 'adam' is always True here")


TF = "import tensorflow as tf\n"
SCRIPT = """import tensorflow as tf


def train(x, n):
    optimizer = tf.train.RMSPropOptimizer(0.1)
    losses = []
    for i in range(n):
        with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
            losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
    return optimizer.minimize(tf.reduce_mean(losses))


train(tf.placeholder(tf.float32, [2, 2]), 2)
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    losses = []", "    losses, rate = [], given", "given in line 6 is bound nowhere in its module"),
        ("train(tf.", "print(given)\ntrain(tf.", "given in line 13 is bound nowhere in its module"),
        ("    losses = []", "    losses = [] ]", "line 6 is no Python"),
        (
            "import tensorflow",
            "from net import *\nimport tensorflow",
            "given in line 15 is bound nowhere in its module",
        ),
    ],
)
def test_what_a_script_that_ends_before_is_found_for_is_a_note(tmp_path, old, new, why):
    if "net" in new:
        (tmp_path / "net.py").write_text("import tensorflow as tf\n", encoding="utf-8")
        new += "\n"
    text = SCRIPT.replace(old, new, 1) + ("print(given)\n" if "net" in new else "")
    text = text.replace("\n as tf", " as tf")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert (finding.severity.word, finding.message.rpartition("; it does not run: ")[2]) == ("note", why)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("    losses = []", "    losses = []\n    if n > 8:\n        print(given)"),
        ("    losses = []", "    losses = []\n    try:\n        unicode, given\n    except NameError:\n        pass"),
        ("    losses = []", "    losses = [xrange(2)] and []"),
        ("import tensorflow", "from elsewhere import *\nprint(given)\nimport tensorflow"),
        ("import tensorflow", "from net import *\nprint(given)\nimport tensorflow"),
        ("import tensorflow", "def other():\n    return given\nimport tensorflow"),
        ("    losses = []", "    try:\n        losses = []\n    except OSError as e:\n        losses = [e]"),
        ("import tensorflow", "def f(a, (b, c)):\n    return b, c\nimport tensorflow"),
        ("import tensorflow", "globals().update(a=1)\nprint(a)\nimport tensorflow"),
        ("import tensorflow", "for a, (b, *c) in []:\n    pass\nprint(a, b, c, lambda d: d)\nimport tensorflow"),
        ("import tensorflow", "def f(a, *b, c=1, **d):\n    global e\n    e = a, b, c, d\nprint(e)\nimport tensorflow"),
    ],
)
def test_what_a_script_that_may_run_is_found_for_is_a_warning(tmp_path, old, new):
    (tmp_path / "net.py").write_text("import tensorflow as tf\ngiven = 1\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(SCRIPT.replace(old, new, 1) if old else SCRIPT, encoding="utf-8")
    assert [each.severity.word for each in scan([tmp_path]).findings if each.rule == "TP502"] == ["warning"]


@pytest.mark.parametrize(
    ("line", "preprocessing", "more", "word"),
    [
        ("from preprocessing import factory", "import tensorflow as tf", "", "note"),
        ("from preprocessing import crop, factory", "def crop():\n    pass", "", "note"),
        ("from .preprocessing import factory", "def crop():\n    pass", "", "note"),
        ("from preprocessing import factory", "def factory():\n    pass", "", "warning"),
        ("from preprocessing import factory", "from other import factory", "", "warning"),
        ("from preprocessing import factory", "from other import *", "", "warning"),
        ("from preprocessing import *", "def crop():\n    pass", "", "warning"),
        ("from elsewhere import factory", "def crop():\n    pass", "", "warning"),
        ("from preprocessing import factory", "def crop():\n    pass", "slim/preprocessing.py", "warning"),
        ("from preprocessing import factory", "def crop():\n    pass", "preprocessing/factory.py", "warning"),
        ("try:\n    from preprocessing import factory\nexcept ImportError:\n    pass", "a = 1", "", "warning"),
    ],
)
def test_what_a_script_with_an_import_that_ends_it_is_found_for_is_a_note(tmp_path, line, preprocessing, more, word):
    (tmp_path / "preprocessing.py").write_text(preprocessing, encoding="utf-8")
    if more:
        (tmp_path / more).parent.mkdir()
        (tmp_path / more).write_text("factory = 1\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(f"{line}\n{SCRIPT}", encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == word
    assert finding.message.endswith("imports factory, which preprocessing does not have") is (word == "note")


@pytest.mark.parametrize(
    ("line", "texts", "word"),
    [
        ("from nets import inception", {}, "note"),
        ("from nets import other, inception", {"nets/other.py": "a = 1"}, "note"),
        ("from nets import inception", {"nets/__init__.py": "from nets.other import crop"}, "note"),
        ("from nets import inception", {"nets/__init__.py": "from nets.other import inception"}, "warning"),
        ("from nets import inception", {"nets/__init__.py": "from nets.other import *"}, "warning"),
        ("from nets import inception", {"nets/inception.py": "a = 1"}, "warning"),
        ("from nets import inception", {"nets/inception/__init__.py": ""}, "warning"),
        ("from nets import inception_pb2", {}, "warning"),
        ("from nets import inception", {"lib/nets/inception.py": "a = 1"}, "warning"),
        ("from .nets import inception", {"nets/nets/inception.py": "a = 1"}, "warning"),
        ("from .nets import inception", {"nets/nets/other.py": "a = 1"}, "warning"),
        ("from other import inception", {}, "warning"),
    ],
)
def test_what_a_script_that_lacks_a_module_of_its_own_package_is_found_for_is_a_note(tmp_path, line, texts, word):
    for name, text in {"nets/train.py": f"{line}\n{SCRIPT}", **texts}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == word


def word_of(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    (finding,) = (each for each in scan([folder]).findings if each.rule == "TP502")
    return finding.severity.word, finding.message.rpartition("; it does not run: ")[2]


@pytest.mark.parametrize(
    ("line", "texts", "why"),
    [
        (
            "from lib.nets import a",
            {"lib/__init__.py": "", "lib/b.py": ""},
            "line 1 imports lib.nets, which is nowhere",
        ),
        ("import lib.nets", {"lib/__init__.py": ""}, "line 1 imports lib.nets, which is nowhere"),
        ("from lib import a", {"lib/__init__.py": "b = 1"}, "line 1 imports a, which lib does not have"),
        ("from . import nets", {}, "line 1 imports nets, which is nowhere"),
        ("from given import crop", {"lib.py": TF + "def crop():\n    pass"}, "line 1 imports given, which is nowhere"),
        ("import lib", {"lib.py": TF + "from . import nets"}, "in lib.py, line 2 imports nets, which is nowhere"),
    ],
)
def test_an_import_that_ends_a_script_is_named(tmp_path, line, texts, why):
    assert word_of(tmp_path, {"train.py": f"{line}\n{SCRIPT}", **texts}) == ("note", why)


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("from lib.nets import a", {"lib/b.py": ""}),
        ("from lib.nets import a", {"lib/__init__.py": "", "lib/nets.pyx": ""}),
        ("from lib.nets import a", {"lib/__init__.py": "", "setup.py": "build('nets')"}),
        ("from lib import a", {"lib/__init__.py": "from elsewhere import *"}),
        ("from . import nets", {"nets.so": ""}),
        ("from given import crop, cut", {"lib.py": TF + "def crop():\n    pass"}),
        ("from given import crop", {"lib.py": TF + "def crop():\n    pass", "requirements.txt": "given\n"}),
        ("from given import crop", {"lib.py": TF + "def crop():\n    pass", "README.md": "pip install given"}),
        ("from json import crop", {"lib.py": TF + "def crop():\n    pass"}),
        ("import lib", {"lib.py": TF + "try:\n    from . import nets\nexcept ImportError:\n    pass"}),
    ],
)
def test_an_import_that_may_find_its_module_ends_nothing(tmp_path, line, texts):
    assert word_of(tmp_path, {"train.py": f"{line}\n{SCRIPT}", **texts})[0] == "warning"


@pytest.mark.parametrize(
    ("start", "word"),
    [
        ({"start.py": "from . import nets\nfrom towers import train\ntrain(1, 2)"}, "note"),
        ({"start.py": "from towers import train\ntrain(1, 2)"}, "warning"),
        (
            {
                "start.py": "from . import nets\nfrom towers import train\ntrain(1, 2)",
                "b.py": "from towers import train\ntrain(1, 2)",
            },
            "warning",
        ),
        ({}, "note"),
    ],
)
def test_what_only_scripts_that_end_lead_to_is_a_note(tmp_path, start, word):
    scripts = {name: TF + text for name, text in start.items()}
    assert word_of(tmp_path, {"towers.py": SCRIPT[: SCRIPT.index("train(tf.p")], **scripts})[0] == word


@pytest.mark.parametrize(
    ("read", "texts", "why"),
    [
        ("lib.net", {"lib.py": TF + "def nets():\n    pass"}, "lib.net in line 4 is nowhere: lib.py does not have it"),
        ("lib.net", {"lib.py": TF + "def net():\n    pass"}, ""),
        ("lib.net", {"lib.py": TF + "from other import *"}, ""),
        ("lib.net", {"lib.py": TF, "lib/net.py": TF}, ""),
        ("lib.net", {"lib.py": TF, "slim/lib.py": TF}, ""),
        ("FLAGS.rate", {}, "FLAGS.rate in line 4 is nowhere: no option of this name is defined"),
        ("FLAGS.rate", {"options.py": "define('rate')"}, ""),
        ("FLAGS.rate()", {}, ""),
        ("cfgs.rate", {"cfgs.py": TF + "other = 1"}, ""),
        ("FLAGS.log_dir", {}, ""),
    ],
)
def test_what_a_script_that_reads_what_is_not_there_is_found_for_is_a_note(tmp_path, read, texts, why):
    script = SCRIPT.replace("\n\n", f"\nimport lib, cfgs\nFLAGS = tf.flags.FLAGS\nprint({read})\n", 1)
    found = word_of(tmp_path, {"train.py": script, **texts})
    assert found == ("note", why) if why else found[0] == "warning"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("return given", "note"),
        ("if reuse is None:\n        print(given)\n    return x", "note"),
        ("if not reuse:\n        print(given)\n    return x", "note"),
        ("if reuse:\n        print(given)\n    return x", "warning"),
        ("if reuse is None and n > 8:\n        print(given)\n    return x", "warning"),
        ("if n > 8:\n        if reuse is None:\n            print(given)\n    return x", "warning"),
    ],
)
def test_what_the_first_tower_ends_is_a_note(tmp_path, body, word):
    function = f"def net(x, reuse, n=1):\n    {body}\n\n\ndef train("
    script = SCRIPT.replace("def train(", function).replace("tf.layers.dense(x, 3)", "net(x, None)")
    assert word_of(tmp_path, {"train.py": script})[0] == word


@pytest.mark.parametrize(
    ("file", "texts", "word"),
    [
        ("old/train.py", {}, "note"),
        ("train_old.py", {"other.py": "import other_old"}, "note"),
        ("threshold/train.py", {}, "warning"),
        ("old/train.py", {"run.sh": "python old/train.py"}, "warning"),
        ("old/train.py", {"run.sh": "python train.py"}, "note"),
        ("old/train.py", {"start.py": "import tensorflow as tf\nfrom old.train import train"}, "warning"),
        ("old/train.py", {"old/start.py": "import tensorflow as tf\nfrom old.train import train"}, "note"),
    ],
)
def test_what_an_old_copy_that_nothing_starts_is_found_for_is_a_note(tmp_path, file, texts, word):
    for name, text in {file: SCRIPT, **texts}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == word
    assert finding.message.endswith("and nothing here imports or starts it") is (word == "note")


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("def f(a=False):\n    if a:\n        here()\nf()", False),
        ("def f(a=False):\n    if a:\n        here()\nf(False)", False),
        ("def f(a=False):\n    if a:\n        here()\nf()\nf(True)", True),
        ("def f(a=False):\n    if a:\n        here()\nf(*given)", True),
        ("def f(a=False):\n    if a:\n        here()\nf(**given)", True),
        ("def f(a=False):\n    if a:\n        here()\nrun(f)", True),
        ("def f(a=False):\n    a = read()\n    if a:\n        here()\nf()", True),
        ("class A:\n    def f(self, a=False):\n        if a:\n            here()\nx = A()\nx.f(False)", False),
        ("class A:\n    def f(self, a=False):\n        if a:\n            here()\nx = A()\nx.f(True)", True),
        (
            "class A:\n    def f(self, a=False):\n        if a:\n            here()\n"
            "class B:\n    def f(self, a=False):\n        pass\nx, y = A(), B()\nx.f()\ny.f(True)",
            False,
        ),
        (
            "class A:\n    def __init__(self, a=0):\n        self.a = a\n    def f(self):\n        if self.a > 0:\n"
            "            here()\nA(0).f()",
            False,
        ),
        (
            "class A:\n    def __init__(self, a=0):\n        self.a = a\n    def f(self):\n        if self.a > 0:\n"
            "            here()\nclass B(A):\n    pass\nA(0).f()\nB(1).f()",
            True,
        ),
    ],
)
def test_a_parameter_is_what_all_calls_give_it(tmp_path, source, runs):
    assert (why(reach_of(tmp_path, train=source)) == "") is runs


AVERAGED = SCRIPT.replace(
    "    return optimizer.minimize(tf.reduce_mean(losses))",
    """
    average = tf.train.ExponentialMovingAverage(0.9)
    return tf.group(optimizer.minimize(tf.reduce_mean(losses)), average.apply(tf.trainable_variables()))""",
)


@pytest.mark.parametrize(("line", "word"), [("", "warning"), ("from . import nets", "note")])
def test_averages_are_not_read_by_a_script_that_ends_at_its_imports(tmp_path, line, word):
    reads = "tf.train.Saver(tf.train.ExponentialMovingAverage(0.9).variables_to_restore())"
    (tmp_path / "train.py").write_text(AVERAGED, encoding="utf-8")
    (tmp_path / "evaluate.py").write_text(f"{TF}{line}\nimport train\n{reads}\n", encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP305")
    assert finding.severity.word == word


LIBRARY = """import tensorflow as tf


class Trainer(object):
    def __init__(self, n):
        self.n = n

    def build(self, x):
        optimizer = tf.train.RMSPropOptimizer(0.1)
        losses = []
        for i in range(self.n):
            with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
                losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
        return optimizer.minimize(tf.reduce_mean(losses))
"""
NOTHING_MAKES = "nothing here makes a Trainer: who uses it may, and the source does not say how"


@pytest.mark.parametrize(
    ("file", "text", "made"),
    [
        ("other.py", "from library import Trainer", False),
        ("other.py", "from library import Trainer\nclass Larger(Trainer):\n    pass", False),
        ("README.md", "It has a Trainer.", False),
        ("other.py", "from library import Trainer\nTrainer(n=number()).build(x)", True),
        ("other.py", "from library import Trainer as T\nT(n=number()).build(x)", True),
        ("other.py", "import library\nclass Larger(library.Trainer):\n    pass\nLarger(number()).build(x)", True),
        ("other.py", "TRAINERS = by_name('Trainer')", True),
        ("other.py", "import library\ngetattr(library, name)().build(x)", True),
        ("other.py", "import importlib\nimportlib.import_module(name).made().build(x)", True),
        ("README.md", "`Trainer(2).build(x)` builds it.", True),
        ("train.yaml", "class: Trainer", True),
    ],
)
def test_what_is_in_a_class_that_nothing_makes_is_a_note(tmp_path, file, text, made):
    (tmp_path / "library.py").write_text(LIBRARY, encoding="utf-8")
    head = "import tensorflow as tf\n" if file.endswith(".py") else ""
    (tmp_path / file).write_text(f"{head}{text}\n", encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == ("warning" if made else "note")
    assert finding.message.endswith(f"; {NOTHING_MAKES}") is not made


@pytest.mark.parametrize(("mark", "level"), [("", "note"), ("@tf.registered\n", "warning")])
def test_a_class_with_a_decorator_may_be_made(tmp_path, mark, level):
    (tmp_path / "library.py").write_text(LIBRARY.replace("class Trainer", f"{mark}class Trainer"), encoding="utf-8")
    assert [each.severity.word for each in scan([tmp_path]).findings if each.rule == "TP502"] == [level]


@pytest.mark.parametrize(("call", "level"), [("", "note"), ("\n\ntrain(1, 2)", "warning")])
def test_what_is_in_a_function_with_towers_that_nothing_calls_is_a_note(tmp_path, call, level):
    (tmp_path / "train.py").write_text(f"{SCRIPT.rpartition('train(tf')[0].rstrip()}{call}\n", encoding="utf-8")
    (finding,) = (each for each in scan([tmp_path]).findings if each.rule == "TP502")
    assert finding.severity.word == level
    assert finding.message.endswith("; nothing here calls train()") is (level == "note")
