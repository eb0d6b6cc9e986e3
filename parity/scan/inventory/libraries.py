"""Ways of libraries to spread training over devices, named for what they are."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from parity.scan.inventory.program import Use
from parity.scan.model.module import Module
from parity.scan.model.names import chain
from parity.scan.model.places import place_of
from parity.scan.model.repository import Repository, source_of
from parity.scan.result import EVALUATION, Fact, Towers


class Way(NamedTuple):
    """One way.

    Fields:
      kind: as it is reported.
      meaning: what it does, and what it becomes under DDP.
    """

    kind: str
    meaning: str


_MIRRORED = Way(
    "MirroredStrategy",
    "One process with a copy of the variables on each GPU; it sums gradients: the loss is divided by the global batch. "
    "DDP averages.",
)
_SERVERS = Way(
    "parameter servers",
    "Workers are processes that read and write variables on servers, asynchronously unless synchronised. DDP is "
    "synchronous.",
)
_DEPLOY = Way(
    "slim model_deploy",
    "Clones whose losses are divided by their number; gradients are summed. The regularisation is in the first "
    "clone only.",
)
_HOROVOD = Way("Horovod", "A process for each GPU whose gradients are averaged: DDP's own layout, without towers.")
_MPI = Way(
    "MPI", "A process for each GPU or machine whose gradients are added up by Allreduce: DDP's own layout. It averages."
)
_TENSORPACK = Way(
    "tensorpack trainer", "Towers that tensorpack builds; gradients are averaged, or summed by its options."
)
_REPLICATED = Way(
    "replicate_model_fn",
    "Towers that the estimator builds of its model_fn; gradients are summed unless told to average.",
)
_KERAS = Way(
    "multi_gpu_model", "Keras cuts the batch, the last part takes the remainder; the loss is that of the whole batch."
)
# A function that many libraries have copied.
_PARALLEL = Way(
    "make_parallel",
    "A Keras model for each GPU that a library builds: it cuts the batch, and puts outputs together; the loss is that of "
    "the whole batch.",
)
_TPU = Way("TPU", "A copy for each core of a TPU; gradients are averaged by CrossShardOptimizer.")
_COLLECTIVE = Way(
    "MultiWorkerMirroredStrategy",
    "A process for each machine; gradients are summed over all of them: divide by the global batch.",
)
ESTIMATOR = "tf.estimator"
_ESTIMATOR = Way(
    ESTIMATOR, "The Estimator has the training loop; towers, where there are any, are built by its model_fn."
)
LIBRARY_WAYS: Mapping[str, Way] = {
    "MirroredStrategy": _MIRRORED,
    "OneDeviceStrategy": Way("OneDeviceStrategy", "One device: there is nothing to combine."),
    "CollectiveAllReduceStrategy": _COLLECTIVE,
    "MultiWorkerMirroredStrategy": _COLLECTIVE,
    "ParameterServerStrategy": _SERVERS,
    "CentralStorageStrategy": Way(
        "CentralStorageStrategy", "Variables on the CPU, towers on the GPUs, gradients summed."
    ),
    "TPUStrategy": _TPU,
    "CrossShardOptimizer": _TPU,
    "TPUEstimator": _TPU,
    "replica_device_setter": _SERVERS,
    "SyncReplicasOptimizer": _SERVERS,
    "ClusterSpec": _SERVERS,
    "multi_gpu_model": _KERAS,
    "replicate_model_fn": _REPLICATED,
    "TowerOptimizer": _REPLICATED,
    "create_clones": _DEPLOY,
    "optimize_clones": _DEPLOY,
    "DeploymentConfig": _DEPLOY,
    "SyncMultiGPUTrainer": _TENSORPACK,
    "SyncMultiGPUTrainerReplicated": _TENSORPACK,
    "SyncMultiGPUTrainerParameterServer": _TENSORPACK,
    "AsyncMultiGPUTrainer": _TENSORPACK,
    "HorovodTrainer": _TENSORPACK,
}
# Names that a script gives its own classes too: of the library alone.
NEURALGYM_WAYS: Mapping[str, Way] = {
    "MultiGPUTrainer": Way(
        "neuralgym trainer", "Towers that neuralgym builds of graph_def; it combines their gradients."
    ),
    "SecondaryMultiGPUTrainer": Way(
        "neuralgym secondary trainer",
        "Towers of a second loss that neuralgym builds of graph_def; it trains them in a callback, before the first loss.",
    ),
}
TRAINERS = re.compile(r"^\w*MultiGPU\w*Trainer$")
# What a trainer of one's own calls of tensorpack, under either of its names.
TENSORPACK_BUILDERS = re.compile(r"(^|\.)DataParallelBuilder\.(build_on_towers|call_for_each_tower)$")
_T2T = Way(
    "tensor2tensor",
    "Towers that tensor2tensor builds of one model, as many as num_gpus: the loss is the mean of theirs. DDP averages.",
)
PREPARATIONS = ("SyncReplicasOptimizer", "optimize_clones", "DeploymentConfig", "ClusterSpec", "init", "allreduce")
# Of an Estimator, what does not train.
EVALUATING = frozenset(
    [
        "predict",
        "evaluate",
        "export_savedmodel",
        "export_saved_model",
        "get_variable_names",
        "get_variable_value",
        "latest_checkpoint",
        "eval_dir",
        "model_dir",
        "config",
        "params",
        "model_fn",
    ]
)
# Too general a name without what stands before it.
WHOLE = {
    "hvd.init": _HOROVOD,
    "hvd.DistributedOptimizer": _HOROVOD,
    "hvd.BroadcastGlobalVariablesHook": _HOROVOD,
    "hvd.allreduce": _HOROVOD,
    "tf.estimator.Estimator": _ESTIMATOR,
    "tf.contrib.learn.Estimator": _ESTIMATOR,
}


def library_towers(repository: Repository) -> Iterator[Towers]:
    """Yields a place for each way and function, by module and line; each class of strategies is a way of its own."""
    for module in repository.modules:
        if is_test(module):
            continue
        for function in module.functions:
            uses = [Use(call, module, module.resolved(call.func)) for call in function.calls]
            known = [(use, way) for use in uses if (way := _way(use, repository)) is not None]
            for of_way in dict.fromkeys(_name_of_way(*each) for each in known):
                same = [each for each in known if _name_of_way(*each) == of_way]
                use, way = min(same, key=lambda each: _rank(each[0]))
                facts = (Fact("what it is", way.meaning), Fact("call", source_of(use.call)))
                called = [_evaluated_by(each.call, module) for each, _ in same]
                if all(called):
                    words = (
                        f"{way.kind}, by which nothing is trained here: only {', '.join(sorted(set().union(*called)))}"
                    )
                    facts = (Fact("what it is", words), facts[1])
                yield Towers(EVALUATION if all(called) else way.kind, place_of(use.call, module), function.name, facts)


def _name_of_way(use: Use, way: Way) -> str:
    # A function that chooses among strategies builds other copies with each of them; all else of one kind is one thing.
    return use.last if use.last.endswith("Strategy") else way.kind


def _way(use: Use, repository: Repository) -> Way | None:
    if use.last == "make_parallel":
        return _PARALLEL if "." in use.name and use.last not in repository.named else None
    if use.last in ("Allreduce", "allreduce", "Iallreduce") and any(
        name.partition(".")[0] == "mpi4py" for name in use.module.imports.values()
    ):
        # Of anything else, a loss or an accuracy is reported.
        function = use.module.within.get(use.call)
        text = f"{source_of(use.call, 200)} {function.name if function else ''}"
        return _MPI if re.search("grad", text, re.IGNORECASE) else None
    if use.last == "replica_device_setter" and not _has_servers(use):
        return None
    if use.last == "create_run_config" and use.name.startswith("tensor2tensor."):
        number = use.argument("num_gpus")
        return None if number is None or source_of(number) in ("0", "1", "None") else _T2T
    if use.name.startswith("neuralgym."):
        return NEURALGYM_WAYS.get(use.last)
    if TENSORPACK_BUILDERS.search(use.name) or (TRAINERS.search(use.last) and _is_of_tensorpack(use, repository)):
        return _TENSORPACK
    return WHOLE.get(use.name) or LIBRARY_WAYS.get(use.last)


def _is_of_tensorpack(use: Use, repository: Repository) -> bool:
    """Whether a trainer is imported, beside tensorpack, from what the repository lacks: an example of tensorpack's."""
    names = use.module.imports
    if chain(use.call.func).partition(".")[0] not in names or any(
        use.last in each.classes for each in repository.modules
    ):
        return False
    return any(whole.lstrip("*").partition(".")[0] == "tensorpack" for whole in names.values())


def _has_servers(use: Use) -> bool:
    """Whether a `replica_device_setter` places variables on servers: on a device of the same process it only places them."""
    if any(key.arg is None for key in use.call.keywords):
        return True
    cluster = use.argument("cluster", 4)
    if cluster is not None and source_of(cluster) != "None":
        return True
    tasks = use.argument("ps_tasks", 0)
    if tasks is None or source_of(tasks) == "0":
        return False
    device = use.argument("ps_device", 1)
    return not (isinstance(device, ast.Constant) and isinstance(device.value, str) and "job" not in device.value)


def is_test(module: Module) -> bool:
    """Whether a module is one of unit tests: what it builds is looked at, and nothing is trained by it."""
    return any(base.rpartition(".")[2] == "TestCase" for bases in module.classes.values() for base in bases)


def _evaluated_by(call: ast.Call, module: Module) -> set[str]:
    """Returns the methods by which an Estimator is used, if all of them only evaluate or predict; else nothing."""
    given = module.parents.get(call)
    if not module.resolved(call.func).endswith("Estimator") or not isinstance(given, ast.Assign):
        return set()
    name = chain(given.targets[0])
    methods = set[str]()
    for each in module.inside(module.tree):
        if isinstance(each, ast.Name | ast.Attribute) and chain(each) == name:
            above = module.parents.get(each)
            if above is given:
                continue
            if not isinstance(above, ast.Attribute):
                return set()
            methods.add(above.attr)
    idle = {"predict", "evaluate", "export_savedmodel", "export_saved_model"}
    return methods if methods <= EVALUATING and methods & idle else set()


def _rank(use: Use) -> int:
    """Of several calls of one way in one function, what builds the copies comes before what only prepares it."""
    return PREPARATIONS.index(use.last) + 1 if use.last in PREPARATIONS else 0
