"""Where towers are built, in the forms in which programs have them; and what looks like it and is none."""

import pytest

from parity.scan.result import EVALUATION, SERIAL, TOWERS, WRITTEN_OUT, Severity
from parity.scan.scan import scan

HEAD = "import tensorflow as tf\n"
FORMS = {
    "a device that a helper chooses": """
def place(number):
    return tf.device("/gpu:%d" % number)

def tower(number):
    with tf.device("/device:GPU:{}".format(number)):
        return optimizer.compute_gradients(tf.nn.l2_loss(weights()))

grads = []
for number in range(2):
    grads.append(tower(number))
""",
    "names of devices": """
for device in available_devices:
    with tf.device(device), tf.variable_scope("m", reuse=tf.AUTO_REUSE):
        losses.append(tf.reduce_mean(tf.layers.dense(x, 2)))
train = optimizer.minimize(tf.add_n(losses) / len(losses))
""",
    "a function that is given, by number": """
def spread(fn, devices, shards):
    outputs = []
    for i, shard in enumerate(shards):
        with tf.name_scope("parallel_%d" % i), tf.device(devices[i]):
            outputs.append(fn(shard))
    return outputs

train = optimizer.minimize(tf.reduce_mean(spread(model, devices, shards)))
""",
    "a comprehension": """
grads = [optimizer.compute_gradients(loss(piece)) for piece in tf.split(x, 2)]
""",
    "a setter of devices": """
for i in range(FLAGS.num_gpus):
    setter = local_setter(worker="/gpu:%d" % i)
    with tf.variable_scope("resnet", reuse=bool(i != 0)), tf.device(setter):
        pairs.append(list(zip(tf.gradients(loss(xs[i]), weights), weights)))
""",
    "scopes without devices": """
for i, clone in enumerate(clones):
    with tf.name_scope("clone_%d" % i):
        pairs.append(optimizer.compute_gradients(clone.loss))
""",
    "Keras": """
import keras
def parallel(model, gpus):
    merged = []
    for i in range(gpus):
        with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
            merged.append(model(keras.layers.Lambda(piece)(model.inputs)))
    return merged
network = parallel(network, 2)
network.fit(x, y)
""",
}
NONE = {
    "layers on devices": """
cells = []
for i in range(num_layers):
    with tf.device("/gpu:%d" % (i % 2)):
        cells.append(tf.contrib.rnn.BasicLSTMCell(10))
train = optimizer.minimize(loss(cells))
""",
    "a chain of layers": """
for i in range(4):
    with tf.device("/gpu:%d" % i):
        x = tf.layers.dense(x, 10)
train = optimizer.minimize(tf.reduce_mean(x))
""",
    "one device": """
with tf.device("/gpu:0"):
    train = optimizer.minimize(tf.reduce_mean(tf.layers.dense(x, 10)))
""",
    "shared scales": """
for i in range(4):
    with tf.variable_scope("scale_%d" % i, reuse=i > 0):
        scales.append(tf.layers.conv2d(x, 4, 3))
train = optimizer.minimize(tf.add_n(scales))
""",
    "workers of a cluster": """
for i in range(workers):
    with tf.device("/job:ps/task:%d" % i):
        tables.append(tf.get_variable("table_%d" % i, [3, 3]))
train = optimizer.minimize(loss(tables))
""",
    "epochs": """
for epoch in range(10):
    for batch in batches:
        session.run(train_op, {x: batch})
""",
}
LIBRARIES = {
    "strategy = tf.distribute.MirroredStrategy()": "MirroredStrategy",
    "strategy = tf.contrib.distribute.CollectiveAllReduceStrategy()": "MultiWorkerMirroredStrategy",
    "import horovod.tensorflow as hvd\nhvd.init()\nopt = hvd.DistributedOptimizer(opt)": "Horovod",
    "with tf.device(tf.train.replica_device_setter(cluster=cluster)): pass": "parameter servers",
    "from keras.utils import multi_gpu_model\nm = multi_gpu_model(m, gpus=2)": "multi_gpu_model",
    "from keras_extras.utils.multi_gpu import make_parallel\nm = make_parallel(m, 2)": "make_parallel",
    "from deployment import model_deploy\nclones = model_deploy.create_clones(config, fn)": "slim model_deploy",
    "fn = tf.contrib.estimator.replicate_model_fn(model_fn)": "replicate_model_fn",
    "from tensorpack import *\ncosts = DataParallelBuilder.build_on_towers([0, 1], tower, devices)": "tensorpack trainer",
    "from mpi4py import MPI\ncomm.Allreduce(flat_grads, total, op=MPI.SUM)": "MPI",
    "with tf.device(tf.train.replica_device_setter(ps_tasks=FLAGS.ps_tasks)): pass": "parameter servers",
}
NO_LIBRARIES = {
    "a setter that only places variables": "f = tf.train.replica_device_setter(1, '/cpu:0', worker_device='/gpu:0')",
    "a setter without servers": "f = tf.train.replica_device_setter(worker_device=worker)",
    "an accuracy of all processes": "from mpi4py import MPI\ncomm.Allreduce(accuracy, total, op=MPI.SUM)",
    "no MPI": "network.allreduce(grads)",
    "a function of its own": "def make_parallel(jobs):\n    return jobs\n\n\nimport pools\nm = pools.make_parallel(jobs)",
    "a unit test": """
class CloneTest(tf.test.TestCase):
    def test_clones(self):
        clones = model_deploy.create_clones(config, model_fn)
""",
    "an Estimator on one device": "estimator = tf.estimator.Estimator(model_fn)\nestimator.train(inputs)",
}


def scanned(folder, source, name="train.py"):
    path = folder / name
    path.write_text(HEAD + source, encoding="utf-8")
    return scan([folder])


@pytest.mark.parametrize("form", FORMS)
def test_towers_are_found_however_they_are_written(tmp_path, form):
    assert [each.kind for each in scanned(tmp_path, FORMS[form]).towers] == [TOWERS]


@pytest.mark.parametrize("form", NONE)
def test_what_is_no_tower_gives_nothing(tmp_path, form):
    result = scanned(tmp_path, NONE[form])
    assert (list(result.towers), list(result.findings)) == ([], [])


@pytest.mark.parametrize("call", LIBRARIES)
def test_ways_of_libraries_are_named_for_what_they_are(tmp_path, call):
    (towers,) = scanned(tmp_path, call).towers
    assert towers.kind == LIBRARIES[call]


@pytest.mark.parametrize("form", NO_LIBRARIES)
def test_what_is_no_way_of_a_library_gives_nothing(tmp_path, form):
    assert list(scanned(tmp_path, NO_LIBRARIES[form]).towers) == []


BESIDE = """
def main():
    losses, {name} = [], []
    for i in range(FLAGS.num_gpus):
        with tf.device("/gpu:%d" % i):
            losses.append(optimizer.compute_gradients(tf.nn.l2_loss(model(xs[i]))))
    for i in range(FLAGS.num_gpus):
        with tf.device("/gpu:%d" % i):
            {name}.append({made})
"""


@pytest.mark.parametrize(
    ("name", "made", "kind"),
    [
        ("images", "sample_from(loss_model(xs[i]))", EVALUATION),
        ("eval_ops", "optimizer.compute_gradients(loss(xs[i]))", EVALUATION),
        ("others", "optimizer.compute_gradients(loss(xs[i]))", TOWERS),
    ],
)
def test_a_loop_that_only_collects_samples_beside_one_that_trains_does_not_train(tmp_path, name, made, kind):
    source = "def sample_from(y):\n    return tf.layers.dense(y, 2)\n" + BESIDE.format(name=name, made=made)
    assert [each.kind for each in scanned(tmp_path, source).towers] == [TOWERS, kind]


@pytest.mark.parametrize(
    ("cut", "used", "fact"),
    [
        ("", "x", "not decided from the source: record it"),
        ("shards = tf.split(x, 2)", "shards[i]", "tf.split, tf.split(x, 2)"),
        ("shards = tf.split(x, 2)\nnumber = 0", "shards[number]", "tf.split, tf.split(x, 2)"),
    ],
)
def test_a_text_that_is_split_is_no_cut_of_the_batch_and_a_counter_is_a_number(tmp_path, cut, used, fact):
    source = f"""
gpus = FLAGS.gpus.split(",")
{cut}
for i in range(len(gpus)):
    with tf.device("/gpu:%d" % i):
        grads.append(optimizer.compute_gradients(tf.nn.l2_loss(tf.layers.dense({used}, 3))))
        number += 1
"""
    (towers,) = scanned(tmp_path, source).towers
    assert towers.fact("batch") == fact


def test_a_vector_of_losses_that_is_minimised_is_their_sum_in_each_script(tmp_path):
    (tmp_path / "parallel.py").write_text(
        HEAD
        + """
def spread(fn, x):
    losses = []
    for i, shard in enumerate(tf.split(x, 2)):
        with tf.device("/gpu:%d" % i):
            losses.append(fn(shard))
    return tf.concat(losses, axis=0)
"""
    )
    for name, loss in (("a", "loss"), ("b", "loss"), ("c", "tf.reduce_mean(loss)")):
        text = f"from parallel import spread\nloss = spread(model, x)\ntrain = optimizer.minimize({loss})\n"
        (tmp_path / f"{name}.py").write_text(f"{HEAD}{text}tf.summary.scalar('loss', tf.reduce_mean(loss))\n")
    result = scan([tmp_path])
    summed = [each.place.path.rpartition("/")[2] for each in result.findings if each.rule == "TP101"]
    assert summed == ["a.py", "b.py"]
    assert result.towers[0].fact("combination") == "sum of the losses"


def test_a_factory_that_does_not_mention_tensorflow_is_followed(tmp_path):
    (tmp_path / "nets.py").write_text(
        f"{HEAD}def net(x):\n    return tf.layers.batch_normalization(x, training=True)\n"
    )
    (tmp_path / "factory.py").write_text("from nets import net\n\ndef get(name):\n    return net(name)\n")
    source = """
from factory import get
from script import *
for i in range(FLAGS.num_gpus):
    with tf.device("/gpu:%d" % i), tf.variable_scope("net", reuse=i > 0):
        grads.append(optimizer.compute_gradients(tf.nn.l2_loss(get(xs[i]))))
updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
train_op = tf.group(optimizer.apply_gradients(grads[0]), *updates)
"""
    found = [(each.rule, each.severity) for each in scanned(tmp_path, source).findings if each.rule == "TP301"]
    assert found == [("TP301", Severity.WARNING)]


@pytest.mark.parametrize(("own", "severity"), [(0, Severity.WARNING), (1, Severity.NOTE)])
def test_the_net_that_a_script_chooses_is_looked_at_and_not_that_of_another_script(tmp_path, own, severity):
    (tmp_path / "nets.py").write_text(
        f"""{HEAD}
def net(x, kind):
    if kind == 0:
        return tf.layers.batch_normalization(x, training=True)
    return tf.layers.dense(x, 3)
"""
    )
    (tmp_path / "other.py").write_text(f"{HEAD}import nets\nKIND = {1 - own}\ny = nets.net(x, kind=KIND)\n")
    source = f"""
import nets
from script import *
KIND = {own}
for i in range(FLAGS.num_gpus):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i) as scope, tf.variable_scope("net", reuse=i > 0):
        grads.append(optimizer.compute_gradients(tf.nn.l2_loss(nets.net(xs[i], kind=KIND))))
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope)
train_op = tf.group(optimizer.apply_gradients(grads[0]), *updates)
"""
    found = [(each.rule, each.severity) for each in scanned(tmp_path, source).findings if each.rule == "TP302"]
    assert found == [("TP302", severity)]


MODELS = """
class Model:
    def model_fn(self, x):
        return {"grads": self.optimizer.compute_gradients(tf.nn.l2_loss(x))}


class First(Model):
    def model_fn(self, x):
        return Model.model_fn(self, x)
"""
REDUCED = """
def COMBINER(towers):
    return [tf.reduce_mean(each) for each in zip(*towers)]


def replicate(model, n):
    output = {}
    for i in range(n):
        with tf.device("/gpu:%d" % i):
            y = model.model_fn(i)
            for key in y:
                output[key].append(y[key])
    return COMBINER(output["grads"])
"""


@pytest.mark.parametrize(("combiner", "count"), [("average_gradients", 1), ("outputs_of", 0)])
def test_towers_by_a_method_of_many_classes_are_found_where_gradients_are_combined(tmp_path, combiner, count):
    more = "".join(f"class Model{n}(Model):\n    def model_fn(self, x):\n        return x\n" for n in range(3))
    (tmp_path / "models.py").write_text(f"{HEAD}{MODELS}{more}", encoding="utf-8")
    (tmp_path / "runner.py").write_text(HEAD + REDUCED.replace("COMBINER", combiner), encoding="utf-8")
    assert len([each for each in scan([tmp_path]).towers if each.kind == TOWERS]) == count


def test_towers_that_only_evaluate_are_called_so(tmp_path):
    source = (
        "for i in range(num_gpus):\n    with tf.device('/gpu:%d' % i):\n        y.append(tf.layers.dense(xs[i], 3))\n"
    )
    assert [each.kind for each in scanned(tmp_path, source).towers] == [EVALUATION]


LOOP_OF_A_TEST = """
for i in range(num_gpus):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        y.append({call})
{behind}
"""


@pytest.mark.parametrize(
    ("call", "behind", "kind"),
    [
        ("model(xs[i], is_training=False)", "", EVALUATION),
        ("model_for_eval(xs[i], False)", "", EVALUATION),
        ("model(xs[i], is_training=True)", "", TOWERS),
        ("model(xs[i], is_training=False)", "train = optimizer.minimize(loss_of(y))", TOWERS),
    ],
)
def test_towers_that_say_that_they_do_not_train_are_for_evaluation(tmp_path, call, behind, kind):
    body = LOOP_OF_A_TEST.format(call=call, behind=behind).replace("\n", "\n    ")
    model = "def model(x, is_training):\n    loss = tf.layers.dense(x, 3)\n    return loss\nmodel_for_eval = model\n"
    trainer = "\ndef train(loss):\n    return optimizer.minimize(loss)\n"
    source = f"{model}def outputs(xs, model=model, model_for_eval=model):\n    y = []{body}\n{trainer}"
    assert [each.kind for each in scanned(tmp_path, source).towers] == [kind]


@pytest.mark.parametrize(
    ("behind", "kind"),
    [
        ("estimator.predict(inputs)", EVALUATION),
        ("print(estimator.model_dir, estimator.evaluate(inputs))", EVALUATION),
        ("estimator.train(inputs)\nestimator.predict(inputs)", "tf.estimator"),
        ("tf.estimator.train_and_evaluate(estimator, a, b)", "tf.estimator"),
        ("estimator.model_dir", "tf.estimator"),
    ],
)
def test_an_estimator_that_only_evaluates_or_predicts_is_called_so(tmp_path, behind, kind):
    # It is said of an Estimator where something else spreads the training.
    source = (
        f"spread = tf.distribute.MirroredStrategy()\nestimator = tf.estimator.Estimator(model_fn=model)\n{behind}\n"
    )
    assert {each.kind for each in scanned(tmp_path, source).towers} == {"MirroredStrategy", kind}


@pytest.mark.parametrize(
    ("test", "fact"),
    [("i == n - 1", "tf.nn.l2_loss in one tower only, line 10 of"), ("n > 2", "tf.nn.l2_loss in every tower")],
)
def test_the_inventory_says_whose_loss_has_the_weight_decay(tmp_path, test, fact):
    source = f"""def total(loss, decays=False):
    if decays:
        loss += tf.nn.l2_loss(weights())
    return loss
grads = []
for i in range(n):
    with tf.device("/gpu:%d" % i):
        loss = tf.layers.dense(x[i], 2)
        grads.append(optimizer.compute_gradients(total(loss, {test})))
"""
    (towers,) = scanned(tmp_path, source).towers
    assert towers.fact("weight decay").startswith(fact)


def test_sessions_in_blocks_for_devices_are_called_so(tmp_path):
    source = "for i in range(2):\n    with tf.device('/gpu:%d' % i):\n        sess.run(train_op, {x: b[i]})\n"
    assert [each.kind for each in scanned(tmp_path, source).towers] == [SERIAL]


@pytest.mark.parametrize("name", ["tower_grads", "xs", "loss", "N", "train"])
@pytest.mark.parametrize("around", ["enumerate({})", "list({})", "{} + {}", "set({})", "({}, {})"])
def test_a_name_that_is_given_to_itself_ends(tmp_path, name, around):
    behind = f"for pair in {name}:\n    train({name}, tf.gradients({name}, {name}))\n"
    source = f"{name} = {around.format(name, name)}\n{LOOP}{behind}"
    assert [each.kind for each in scanned(tmp_path, source).towers] == [TOWERS]


def test_what_is_in_another_file_is_followed(tmp_path):
    (tmp_path / "combining.py").write_text(
        HEAD
        + "def merge(tower_grads):\n    return [(tf.add_n([g for g, _ in p]), p[0][1]) for p in zip(*tower_grads)]\n"
    )
    source = """
from combining import merge
for i in range(2):
    with tf.device("/gpu:%d" % i):
        tower_grads.append(optimizer.compute_gradients(loss(xs[i])))
train = optimizer.apply_gradients(merge(tower_grads), global_step=step)
"""
    result = scanned(tmp_path, source)
    (towers,) = result.towers
    assert towers.fact("combination") == "sum in merge()"
    (error,) = [each for each in result.findings if each.rule == "TP101"]
    assert error.place.path.endswith("combining.py")


def test_what_is_done_with_one_gpu_is_not_held_against_the_towers(tmp_path):
    source = """
if gpus <= 1:
    y = tf.layers.batch_normalization(x, training=True)
    ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
else:
    for i in range(gpus):
        with tf.device("/gpu:%d" % i):
            tower_grads.append(optimizer.compute_gradients(loss(tf.layers.batch_normalization(xs[i], training=True))))
            if i == 0:
                ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
"""
    assert "TP301" not in {each.rule for each in scanned(tmp_path, source).findings}


PARSERS = {
    "parser.add_argument('--num-gpus', type=int, default=1)\nN = parse_args().num_gpus": "--num-gpus 2",
    "tf.flags.DEFINE_integer('gpus', 1, '')\nN = tf.flags.FLAGS.gpus": "--gpus=2",
    "parser.add_argument('--gpus', type=int)\nparser.add_argument('data')\nN = parse_args().gpus": "--gpus 2 DATA",
    "parser.add_argument('--gpus')\nparser.add_argument('--to', required=True)\nN = parse_args().gpus": "--gpus 2 --to TO",
    "parser.add_argument('--gpus')\nparser.add_argument('--batch_size')\nN = parse_args().gpus": "--gpus 2 --batch_size 8",
}
LOOP = """
for i in range(N):
    with tf.device("/gpu:%d" % i):
        tower_grads.append(optimizer.compute_gradients(tf.reduce_mean(tf.layers.dense(xs[i], 3))))
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("flags", PARSERS)
def test_the_plan_has_the_script_s_own_flags(tmp_path, flags):
    (plan,) = scanned(tmp_path, flags + LOOP).plans
    record, port = plan.commands
    assert record.startswith("parity record --steps 4 --out train.trace ")
    assert record.endswith(f"train.py {PARSERS[flags]}")
    assert port == "parity port train.trace --out train_port"


def test_a_script_that_counts_gpus_is_given_some(tmp_path):
    source = "from tensorflow.python.client import device_lib\nN = len(device_lib.list_local_devices())" + LOOP
    (plan,) = scanned(tmp_path, source).plans
    assert " --gpus 2 " in plan.commands[0]


@pytest.mark.parametrize(
    ("layer", "size", "reason"),
    [
        ("tf.layers.dense(xs[i], 3)", "S", ""),
        ("tf.py_func(f, [xs[i]], tf.float32)", "L", "a Python function in a tower"),
        ("tf.contrib.seq2seq.BasicDecoder(xs[i])", "L", "a contrib module"),
        ("tf.nn.ctc_loss(xs[i], y, z)", "L", "an op that is written by hand"),
    ],
)
def test_the_effort_is_by_what_the_port_takes(tmp_path, layer, size, reason):
    source = "N = 2" + LOOP.replace("tf.layers.dense(xs[i], 3)", layer)
    (effort,) = scanned(tmp_path, source + "\ntrain = optimizer.apply_gradients(average(tower_grads), step)").efforts
    assert effort.size == size
    assert reason in "".join(each.what for each in effort.reasons)


METHOD_BY_NAME = """import tensorflow as tf
from steps import gradients_of


class Training(object):
    def build(self):
        for number, device in enumerate(self.devices):
            with tf.device(device), tf.variable_scope("net", reuse=number > 0):
                self.towers.append(self.gradients_of(self.build_loss(number)))

    gradients_of = gradients_of
"""
STEPS = """import tensorflow as tf


def gradients_of(self, loss):
    return self.optimizer.compute_gradients(loss)
"""


@pytest.mark.parametrize(("assignment", "kinds"), [("    gradients_of = gradients_of\n", [TOWERS]), ("", [])])
def test_a_function_that_a_class_names_is_its_method(tmp_path, assignment, kinds):
    text = METHOD_BY_NAME.replace("    gradients_of = gradients_of\n", assignment)
    (tmp_path / "training.py").write_text(text, encoding="utf-8")
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    assert [each.kind for each in scan([tmp_path]).towers] == kinds


OF_MANY_CLASSES = """import tensorflow as tf


def build(model, devices):
    tower_grads = []
    for number, device in enumerate(devices):
        with tf.device(device), tf.name_scope("tower_%d" % number):
            tower_grads.append(model.train_model(number))
    return tower_grads
"""
A_CLASS = """import tensorflow as tf


class Model:
    def train_model(self, number):
        return self.optimizer.compute_gradients(self.loss(number))
"""


@pytest.mark.parametrize(("collected", "kinds"), [("tower_grads", [TOWERS]), ("outputs", [])])
def test_a_loop_that_collects_gradients_builds_towers_whichever_class_they_come_from(tmp_path, collected, kinds):
    (tmp_path / "ops.py").write_text(OF_MANY_CLASSES.replace("tower_grads", collected), encoding="utf-8")
    for number in range(4):  # more than a call of an unknown object is followed to
        (tmp_path / f"model_{number}.py").write_text(A_CLASS, encoding="utf-8")
    assert [each.kind for each in scan([tmp_path]).towers] == kinds


WRITTEN_TWICE = """import tensorflow as tf

with tf.device("/gpu:0"):
    loss_1 = tf.reduce_mean(tf.square(tf.matmul(x_1, w)))
    grads_1 = optimizer.compute_gradients(loss_1)
with tf.device("/gpu:1"):
    loss_2 = tf.reduce_mean(tf.square(tf.matmul(x_2, w)))
    grads_2 = optimizer.compute_gradients(loss_2)
"""


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("", "", [WRITTEN_OUT]),
        ("/gpu:1", "/gpu:0", []),
        ("/gpu:1", "/cpu:0", []),
        ("tf.square(tf.matmul(x_2, w))", "tf.sigmoid(loss_1)", []),
        ("    grads_2 = optimizer.compute_gradients(loss_2)\n", "", []),
    ],
)
def test_blocks_that_compute_the_same_on_gpus_of_their_own_are_towers(tmp_path, old, new, kinds):
    result = scanned(tmp_path, WRITTEN_TWICE.replace(old, new) if old else WRITTEN_TWICE)
    assert [each.kind for each in result.towers] == kinds
    assert [each.place.line for each in result.towers] == [4] * len(kinds)


def test_blocks_in_a_function_are_listed_once(tmp_path):
    text = "import tensorflow as tf\ndef train():\n" + WRITTEN_TWICE.partition("\n\n")[2].replace("\n", "\n    ").join(
        ["    ", ""]
    )
    assert [(each.kind, each.function) for each in scanned(tmp_path, text).towers] == [(WRITTEN_OUT, "train")]


@pytest.mark.parametrize(
    ("source", "number", "kinds"),
    [
        ("tensor2tensor.utils.trainer_lib", "2", ["tensor2tensor"]),
        ("tensor2tensor.utils.trainer_lib", "1", []),
        ("mine.trainer_lib", "2", []),
    ],
)
def test_towers_of_tensor2tensor_are_named_where_it_is_given_their_number(tmp_path, source, number, kinds):
    text = f"""import tensorflow as tf
from {source} import create_run_config
config = create_run_config(model_name="transformer", num_gpus={number})
"""
    assert [each.kind for each in scanned(tmp_path, text).towers] == kinds


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("import neuralgym as ng", ["neuralgym secondary trainer", "neuralgym trainer"]),
        ("from mine import trainers as ng", []),
    ],
)
def test_trainers_of_neuralgym_are_named_for_what_they_are(tmp_path, line, kinds):
    source = f"""import tensorflow as tf
{line}
second = ng.callbacks.SecondaryMultiGPUTrainer(num_gpus=2, graph_def=losses)
trainer = ng.train.MultiGPUTrainer(num_gpus=2, graph_def=losses)
"""
    assert [each.kind for each in scanned(tmp_path, source).towers] == kinds


@pytest.mark.parametrize(
    ("source", "defined", "kinds"),
    [
        ("from tensorpack import *", "", ["tensorpack trainer"]),
        ("from elsewhere import *", "", []),
        ("from tensorpack import *", "class MultiGPUGANTrainer:\n    pass", []),
    ],
)
def test_a_trainer_of_an_example_of_tensorpack_is_named(tmp_path, source, defined, kinds):
    (tmp_path / "train.py").write_text(
        f"import tensorflow as tf\n{source}\nfrom GAN import MultiGPUGANTrainer\nMultiGPUGANTrainer(2, data, model)\n",
        encoding="utf-8",
    )
    (tmp_path / "other.py").write_text(f"import tensorflow as tf\n{defined}\n", encoding="utf-8")
    assert [each.kind for each in scan([tmp_path]).towers] == kinds


def test_each_strategy_that_a_function_chooses_among_is_a_place(tmp_path):
    source = """
def build(config):
    if config.one_machine:
        return tf.distribute.MirroredStrategy()
    if config.new:
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    return tf.contrib.distribute.CollectiveAllReduceStrategy(num_gpus_per_worker=config.gpus)
"""
    kinds = [each.kind for each in scanned(tmp_path, source).towers]
    assert kinds == ["MirroredStrategy", "MultiWorkerMirroredStrategy", "MultiWorkerMirroredStrategy"]


DEVICE_BY_A_FUNCTION = """import tensorflow as tf


class Devices:
    def __call__(self, net, parts, optimizer):
        grads = []
        for i in range(self.number):
            def device_of(op):
                return "/cpu:0" if op.type == "Gather" else "/gpu:%d" % {number}
            with tf.device(device_of):
                grads.append(optimizer.compute_gradients(net(parts[i])))
        return grads
"""


@pytest.mark.parametrize(("number", "kinds"), [("i", [TOWERS]), ("0", [])])
def test_a_device_by_a_function_of_the_loop_is_one_of_towers(tmp_path, number, kinds):
    result = scanned(tmp_path, DEVICE_BY_A_FUNCTION.replace("{number}", number))
    assert [each.kind for each in result.towers] == kinds
