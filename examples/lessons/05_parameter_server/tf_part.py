"""A cluster in one process: a parameter server and two workers, synchronous and asynchronous (Python 3.7 and up)."""

import socket
import threading

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
WITHIN = 60.0  # seconds
WORKERS = 2


def start_cluster(tries=5):
    """Returns the cluster and its three servers: real ones, that talk over gRPC, though all are in this process."""
    listeners = [socket.socket() for _ in range(1 + WORKERS)]
    for listener in listeners:
        listener.bind(("127.0.0.1", 0))  # any port that is free
    places = ["127.0.0.1:%d" % listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    cluster = tf.train.ClusterSpec({"ps": places[:1], "worker": places[1:]})
    try:
        servers = [tf.train.Server(cluster, "ps", 0)]
        return cluster, servers + [tf.train.Server(cluster, "worker", index) for index in range(WORKERS)]
    except tf.errors.OpError:  # somebody else took a port in between
        if not tries:
            raise
        return start_cluster(tries - 1)


def build(cluster, index, scope, weights):
    """Builds a worker's own graph: variables on the parameter server, everything else on the worker."""
    device = "/job:worker/task:%d" % index
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=device)), tf.variable_scope(scope):
        x, y = tf.placeholder(tf.float64, [None, len(weights)]), tf.placeholder(tf.float64, [None])
        w = tf.get_variable("w", [len(weights)], tf.float64, tf.constant_initializer(weights))
        return x, y, w, tf.reduce_mean(tf.square(tf.tensordot(x, w, 1) - y)), tf.train.get_or_create_global_step()


def synchronous(cluster, target, index, shard, weights, learning_rate, steps, together):
    with tf.Graph().as_default():
        x, y, w, loss, step = build(cluster, index, "synchronous", weights)
        with tf.device("/job:ps/task:0"):
            optimizer = tf.train.GradientDescentOptimizer(learning_rate)
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, WORKERS, WORKERS)
        train = optimizer.minimize(loss, step)
        hook = optimizer.make_session_run_hook(index == 0, num_tokens=0)
        options = {"log_step_count_steps": None, "save_summaries_steps": None, "save_summaries_secs": None}
        if index:
            together.wait(WITHIN)  # a worker that finds nothing initialised looks again after 30 s only
        with tf.train.MonitoredTrainingSession(
            target, index == 0, hooks=[hook], stop_grace_period_secs=5, max_wait_secs=int(WITHIN), **options
        ) as session:
            if not index:
                together.wait(WITHIN)
            for _ in range(steps):
                together.wait(WITHIN)
                session.run(train, {x: shard[0], y: shard[1]})
            together.wait(WITHIN)
            found = session.run([w, step])
            together.wait(WITHIN)
    return {"weights": found[0], "updates": found[1], "home": w.device}


class Asynchronous(object):
    """A worker that computes a gradient, and applies it later, whatever has happened to the weights meanwhile."""

    def __init__(self, cluster, target, index, shard, weights, learning_rate):
        self.graph = tf.Graph()
        with self.graph.as_default():
            x, y, self.w, loss, self.step = build(cluster, index, "asynchronous", weights)
            self.gradient = tf.gradients(loss, self.w)[0]
            self.fed = tf.placeholder(tf.float64, [len(weights)])
            optimizer = tf.train.GradientDescentOptimizer(learning_rate, use_locking=True)
            with tf.control_dependencies([optimizer.apply_gradients([(self.fed, self.w)])]):
                self.apply = tf.assign_add(self.step, 1, use_locking=True)
            self.start = tf.global_variables_initializer()
        self.session, self.feed = tf.Session(target, graph=self.graph), {x: shard[0], y: shard[1]}

    def compute(self):
        self.read_at, self.held = self.session.run([self.step, self.gradient], self.feed)

    def update(self):
        """Applies the gradient and returns how many updates it comes too late."""
        return int(self.session.run(self.apply, {self.fed: self.held}) - 1 - self.read_at)


def asynchronous(workers, order):
    """Runs ``order``, pairs of worker and "compute" or "update"; returns weights, updates and staleness."""
    workers[0].session.run(workers[0].start)
    stale = [late for late in (getattr(workers[index], what)() for index, what in order) if late is not None]
    weights, updates = workers[0].session.run([workers[0].w, workers[0].step])
    return {"weights": weights, "updates": updates, "stale": stale}


def race(workers, rounds):
    """Lets the workers run as fast as they can, each in a thread."""
    workers[0].session.run(workers[0].start)
    stale = []

    def work(worker):
        for _ in range(rounds):
            worker.compute()
            stale.append(worker.update())

    in_threads(work, workers)
    weights, updates = workers[0].session.run([workers[0].w, workers[0].step])
    return {"weights": weights, "updates": updates, "stale": sorted(stale)}


def in_threads(function, items):
    answers = {}
    threads = [threading.Thread(target=lambda item=item: answers.update({id(item): function(item)})) for item in items]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    if len(answers) < len(items):
        raise RuntimeError("a worker failed, or did not end within %g s; see above" % WITHIN)
    return [answers[id(item)] for item in items]


def measure(x, y, weights, learning_rate, steps, rounds, slow):
    cluster, servers = start_cluster()
    targets = [server.target for server in servers[1:]]
    shards = list(zip(np.split(np.array(x), WORKERS), np.split(np.array(y), WORKERS)))
    together = threading.Barrier(WORKERS)
    found = in_threads(
        lambda index: synchronous(
            cluster, targets[index], index, shards[index], weights, learning_rate, steps, together
        ),
        [0, 1],
    )
    workers = [Asynchronous(cluster, targets[i], i, shards[i], weights, learning_rate) for i in range(WORKERS)]
    turn = [(0, "compute"), (1, "compute"), (0, "update"), (1, "update")]
    late = [(1, "compute")] + [(0, "compute"), (0, "update")] * slow + [(1, "update")]
    answer = {
        "synchronous": found,
        "even": asynchronous(workers, turn * steps),
        "late": asynchronous(workers, late),
        "race": race(workers, rounds),
    }
    for worker in workers:
        worker.session.close()
    return answer
