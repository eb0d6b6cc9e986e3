# ruff: noqa: F821 - programs find tf, tf_towers and small there
"""What is found of a tower's forward pass: its ops, the variables they read, and what they give."""

import numpy as np


def _tower(x, y):
    table = tf.get_variable("table", [4, 3], x.dtype)
    w = tf.get_variable("layer/w", [3, 2], x.dtype)
    b = tf.get_variable("layer/b", [2], x.dtype)
    found = tf.nn.embedding_lookup(table, tf.cast(tf.reduce_sum(tf.abs(x), 1) * 0 + 2, tf.int32)) + x
    hidden = tf.reshape(tf.nn.bias_add(tf.matmul(found, w * 2), b), [-1, 2])
    turned = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h)), [0, hidden])[1]
    either = tf.cond(tf.reduce_sum(x) > 1e9, lambda: turned * 2, lambda: turned * 3)
    return tf.reduce_mean(tf.square(either)) + tf.nn.l2_loss(w)


def _forward(towers):
    import numpy as np

    training = tf_towers.build(
        _tower, small.inputs(4), towers, lambda: tf_towers.make_optimizer({"name": "sgd", "learning_rate": 0.1}), "mean"
    )
    stepper = small.stepper(training)
    passed = stepper.forward(small.batch(4), str(towers - 1))
    before = stepper.state()
    stepper.close()
    taken = {f"{op.name}/{place}": each for op, _ in passed for place, each in enumerate(op.operands)}
    found = {f"operand:{name}": each.value for name, each in taken.items() if each.value is not None}
    passed = [
        (op._replace(operands=[each._replace(value=None) for each in op.operands]), value) for op, value in passed
    ]
    found.update({"ops": [list(op) for op, _ in passed], "known": [value is not None for _, value in passed]})
    found.update(
        {f"value:{number}": np.asarray(value) for number, (_, value) in enumerate(passed) if value is not None}
    )
    found.update({"before:" + name: np.asarray(value) for name, value in before.items()})
    return found


def test_a_towers_ops_are_found_with_the_variables_that_they_read(tf):
    answer = tf(_forward, towers=2)
    by_kind = {}
    for number, (name, kind, inputs, weights, shape, *_) in enumerate(answer["ops"]):
        by_kind.setdefault(kind, (number, name, inputs, weights, shape))
    product, biased = by_kind["MatMul"], by_kind["BiasAdd"]
    assert product[1].startswith("tower_1/")
    assert (product[3], biased[3]) == (["layer/w"], ["layer/b"])
    assert biased[2] == [product[0]]
    gathered = next(kind for kind in by_kind if "Gather" in kind)
    assert by_kind[gathered][3] == ["table"]
    assert product[4] == [2, 2]
    value = answer[f"value:{biased[0]}"] - answer["before:var/layer/b"]
    np.testing.assert_allclose(value, answer[f"value:{product[0]}"], rtol=1e-5, atol=1e-6)


def test_each_op_says_which_line_of_the_tower_made_it(tf):
    answer = tf(_forward, towers=2)
    lines = {kind: line for _, kind, _, _, _, _, line, _ in answer["ops"]}
    file, number, function, text = lines["BiasAdd"][:4]
    assert (function, text) == ("_tower", "hidden = tf.reshape(tf.nn.bias_add(tf.matmul(found, w * 2), b), [-1, 2])")
    assert file == "tests/tf_towers/test_forward.py"  # below the folder that is searched for modules
    # TensorFlow's own frames, which lie further in, are passed over: so is what a loop's body calls for another function.
    assert lines["MatMul"] == lines["BiasAdd"]
    assert (lines["Square"][2], lines["Square"][1] - number) == ("_tower", 3)


def test_each_op_says_what_it_takes_constants_and_weights_too(tf):
    answer = tf(_forward, towers=2)
    number, product = next((n, op) for n, op in enumerate(answer["ops"]) if op[1] == "MatMul")
    biased = next(op for op in answer["ops"] if op[1] == "BiasAdd")
    assert (biased[7][0][2], f"operand:{biased[0]}/0" in answer) == (number, False)  # the output of that op
    np.testing.assert_allclose(answer[f"operand:{biased[0]}/1"], answer["before:var/layer/b"], rtol=1e-6)
    np.testing.assert_allclose(answer[f"operand:{product[0]}/1"], 2 * answer["before:var/layer/w"], rtol=1e-6)


def test_what_is_inside_of_loops_and_branches_is_known_from_what_leaves_them(tf):
    answer = tf(_forward, towers=1)
    kinds = [op[1] for op in answer["ops"]]
    inside = [number for number, kind in enumerate(kinds) if kind == "Tanh"]
    assert inside and not any(answer["known"][number] for number in inside)
    leaving = next(number for number, kind in enumerate(kinds) if kind == "Exit" and answer["known"][number])
    assert inside[0] in answer["ops"][leaving][2]
    assert answer["known"][kinds.index("Merge", leaving)] or answer["known"][kinds.index("Square")]


def _gradients(towers):
    import numpy as np

    training = tf_towers.build(
        _tower, small.inputs(4), towers, lambda: tf_towers.make_optimizer({"name": "sgd", "learning_rate": 0.1}), "mean"
    )
    stepper = small.stepper(training)
    stepper.forward(small.batch(4), "0")
    passed = stepper.forward(small.batch(4), "0", gradients=True)
    again = stepper.forward(small.batch(4), "0", gradients=True)
    known = stepper.step(small.batch(4))
    stepper.close()
    found = {"gradient:" + op.kind: np.asarray(value) for op, value in passed if value is not None}
    pairs = [(passed[number][1], again[number][1]) for number in range(len(passed))]
    found["repeats"] = all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)
    found["bias"] = np.asarray(known["tower_grad/0/layer/b"])
    return found


def test_the_gradient_of_the_loss_is_had_in_place_of_each_output(tf):
    answer = tf(_gradients, towers=2)
    assert answer["repeats"]
    np.testing.assert_allclose(answer["gradient:BiasAdd"].sum(0), answer["bias"], rtol=1e-6)
    assert answer["gradient:Exit"].shape == (2, 2)


def _tower_of_pieces(x, y):
    w = tf.get_variable("w", [3, 2], x.dtype)
    one, other = tf.split(tf.matmul(x, w), 2, axis=1, name="halves")
    _, _, last = tf.split(x, 3, axis=1, name="thirds")
    return tf.reduce_mean(tf.square(one)) + tf.reduce_mean(tf.exp(other)) + tf.reduce_mean(tf.sin(last))


def _pieces_taken():
    training = tf_towers.build(
        _tower_of_pieces,
        small.inputs(2),
        1,
        lambda: tf_towers.make_optimizer({"name": "sgd", "learning_rate": 0.1}),
        "mean",
    )
    stepper = small.stepper(training)
    passed = stepper.forward(small.batch(2), "0")
    stepper.close()
    found = {f"value:{op.kind}:{number}": np.asarray(value) for number, (op, value) in enumerate(passed)}
    return dict(found, ops=[[op.name.split("/")[-1], op.kind, list(op.inputs)] for op, _ in passed])


def test_of_an_op_with_several_outputs_each_that_is_taken_stands_for_itself(tf):
    answer = tf(_pieces_taken)
    names = [name for name, *_ in answer["ops"]]
    taken = {kind: [names[number] for number in inputs] for _, kind, inputs in answer["ops"]}
    assert (taken["Square"], taken["Exp"], taken["Sin"]) == (["halves"], ["halves:1"], ["thirds:2"])
    assert [name for name in names if name.startswith(("halves", "thirds"))] == ["halves", "halves:1", "thirds:2"]
    values = {kind: value for key, value in answer.items() if key != "ops" for kind in [key.split(":")[1]]}
    half = answer[f"value:Split:{names.index('halves:1')}"]
    assert half.shape == (2, 1)
    np.testing.assert_allclose(values["Exp"], np.exp(half), rtol=1e-12)


def _pieces_of_micro_batches():
    training = tf_towers.build(
        _tower_of_pieces,
        small.inputs(8),
        2,
        lambda: tf_towers.make_optimizer({"name": "sgd", "learning_rate": 0.1}),
        "mean",
        accumulate={"steps": 2},
    )
    stepper = small.stepper(training)
    passes = {tower: stepper.forward(small.batch(8), tower) for tower in ("0", "0.0", "0.1", "1")}
    stepper.close()
    return {
        tower: [np.asarray(value) for _, value in passed if value is not None][-1] for tower, passed in passes.items()
    }


def test_a_tower_without_a_number_of_its_micro_batch_is_its_first(tf):
    answer = tf(_pieces_of_micro_batches)
    assert np.array_equal(answer["0"], answer["0.0"])
    assert not np.array_equal(answer["0"], answer["0.1"]) and not np.array_equal(answer["0"], answer["1"])


def _tower_of_two(x, y):
    w = tf.get_variable("layer/w", [3, 2], x.dtype)
    hidden = tf.matmul(x, w)
    return tf.reduce_mean(tf.tanh(hidden)), {"other": tf.reduce_sum(tf.exp(hidden))}


def _passes_of_two():
    training = tf_towers.build(
        _tower_of_two,
        small.inputs(4),
        1,
        lambda: tf_towers.make_optimizer({"name": "sgd", "learning_rate": 0.1}),
        "mean",
    )
    stepper = small.stepper(training)
    passes = {end: stepper.forward(small.batch(4), "0", ends_at=end) for end in ("", "other", "nothing of this name")}
    stepper.close()
    return {"passes": [[op.kind for op, _ in passed] for passed in passes.values()]}


def test_a_pass_ends_at_the_output_that_is_named(tf):
    loss, other, unknown = tf(_passes_of_two)["passes"]
    assert (loss[-1], other[-1], unknown) == ("Mean", "Sum", loss)
    assert "Tanh" not in other and "Exp" not in loss
