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
