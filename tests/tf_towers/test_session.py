# ruff: noqa: F821 - programs find tf, tf_towers and small there


def _configured(towers, threads):
    with tf.device(f"/cpu:{towers}"):
        last = tf.constant(1.0) + tf.placeholder_with_default(1.0, [])
    with tf_towers.session(tf.get_default_graph(), towers, threads) as session:
        names = [device.name for device in session.list_devices() if ":CPU:" in device.name]
        value = session.run(last)
        config = session._config
    return {
        "devices": [small.cpu(name) for name in names],
        "value": float(value),
        "threads": [config.inter_op_parallelism_threads, config.intra_op_parallelism_threads],
        "soft": config.allow_soft_placement,
    }


def test_a_session_has_a_cpu_for_the_variables_and_one_for_each_tower(tf):
    answer = tf(_configured, towers=3, threads=1)
    assert answer["devices"] == ["/cpu:0", "/cpu:1", "/cpu:2", "/cpu:3"]
    assert answer["value"] == 2.0
    assert answer["threads"] == [1, 1]
    assert answer["soft"]


def test_the_number_of_threads_is_passed_on(tf):
    assert tf(_configured, towers=1, threads=2)["threads"] == [2, 2]


def _locked_up():
    import tf_towers.step

    def tower(x, y):
        never = tf.FIFOQueue(1, [x.dtype], [[]])
        waited = tf.cond(x[0, 0] > 1e3, never.dequeue, lambda: tf.zeros([], x.dtype))
        return small.linear(x, y) + waited

    opened = small.stepper(tf_towers.build(tower, small.inputs(4), towers=1, optimizer=small.sgd(0.0)))
    batch, endless = small.batch(4), small.batch(4)
    endless["x"][0, 0] = 1e6
    losses, told = [float(opened.step(batch)["loss/0"])], ""
    least, tf_towers.step.LEAST_SECONDS = tf_towers.step.LEAST_SECONDS, 1.0
    times, tf_towers.step.TIMES_AS_LONG = tf_towers.step.TIMES_AS_LONG, 1.0
    try:
        opened.step(endless)
    except tf.errors.DeadlineExceededError as error:
        told = type(error).__name__
    finally:
        tf_towers.step.LEAST_SECONDS, tf_towers.step.TIMES_AS_LONG = least, times
    return {"told": told, "losses": [*losses, float(opened.step(batch)["loss/0"])]}


def test_a_step_that_never_ends_is_given_up_and_the_next_one_runs(tf):
    answer = tf(_locked_up)
    assert answer["told"] == "DeadlineExceededError"
    assert answer["losses"][0] == answer["losses"][1]


def _paced():
    from tf_towers.step import Pace

    pace, limits = Pace(), []
    training = tf_towers.build(small.linear, small.inputs(4), towers=1, optimizer=small.sgd(0.0))
    for _ in range(2):
        stepper = tf_towers.Stepper(training, tf_towers.session(training.graph, 1), pace)
        stepper.initialize()
        limits.append(pace.limit())
        stepper.step(small.batch(4))
        stepper.close()
    return {"limits": limits}


def test_a_new_session_of_a_tower_knows_from_the_ones_before_when_to_give_up(tf):
    assert tf(_paced) == {"limits": [None, 60.0]}
