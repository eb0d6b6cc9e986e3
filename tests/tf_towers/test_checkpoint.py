"""Checkpoints of `tf.train.Saver`, read and written without the graph."""
# ruff: noqa: F821 - programs find tf, np, tf_towers and small there

import os

import numpy as np
import pytest

from parity.trace.safetensors import TensorFile


def _saved_by_tensorflow(folder, version):
    """Trains, saves with a Saver, and returns what was read beside what the session held."""
    path = folder + "/model.ckpt"
    with tf.variable_scope("net"):
        w = tf.get_variable("w", [3, 2])
        tf.get_variable("half", [2], tf.float16, tf.ones_initializer())
    sliced = tf.get_variable("sliced", [4, 3], partitioner=tf.fixed_size_partitioner(2))
    step = tf.train.get_or_create_global_step()
    tf.get_variable("words", initializer=tf.constant(["one", "two"]), trainable=False)
    loss = tf.reduce_sum(tf.square(w)) + tf.reduce_sum(tf.square(tf.convert_to_tensor(sliced)))
    train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([train]):
        train = average.apply([w])
    saver = tf.train.Saver(write_version=getattr(tf.train.SaverDef, version))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        saved = saver.save(session, path, global_step=step)
        held = session.run({one.op.name: one for one in tf.global_variables() if "sliced" not in one.op.name})
        held["sliced"] = session.run(tf.convert_to_tensor(sliced))
    found, by_folder = tf_towers.read_checkpoint(saved), tf_towers.read_checkpoint(folder)
    assert list(found) == list(by_folder) == sorted(found)
    return {
        "names": list(found),
        "equal": [
            name
            for name in held
            if found[name].dtype == np.asarray(held[name]).dtype and np.array_equal(found[name], held[name])
        ],
        "step": int(found["global_step"]),
        "words": [one.decode() for one in found["words"]],
    }


def _restored(path, version, global_step):
    """Writes a checkpoint and restores it with a plain Saver."""
    arrays = {
        "w": np.arange(6.0).reshape(2, 3),
        "b": np.float32([1, 2]),
        "count": np.int64(7),
        "words": np.array([b"one"], object),
        "empty": np.zeros([0, 2], np.float32),
        "more": np.ones(3),
    }
    written = tf_towers.write_checkpoint(path, arrays, version, global_step)
    known = {name: value for name, value in arrays.items() if name != "more"}
    variables = {name: tf.get_variable(name, initializer=tf.zeros_like(tf.constant(v))) for name, v in known.items()}
    with tf.Session() as session:
        tf.train.Saver().restore(session, written)
        restored = session.run(variables)
    again = tf_towers.read_checkpoint(written)
    return {
        "written": written,
        "restored": all(np.array_equal(restored[name], value) for name, value in known.items()),
        "again": sorted(name for name in again if name == "global_step" or np.array_equal(again[name], arrays[name])),
        "newest": tf.train.latest_checkpoint(path.rpartition("/")[0]),
        "step": int(again["global_step"]) if "global_step" in again else None,
    }


def _refused(what, **arguments):
    return {"said": small.refused(getattr(tf_towers, what), **arguments)}


def _refused_arrays(path, kind, version):
    arrays = {
        "objects": {"w": np.array([{}], object)},
        "unsigned": {"w": np.ones(2, np.uint64)},
        "dates": {"w": np.array(["2020-01-01"], "datetime64[D]")},
        "nothing": {},
        "no name": {"": np.ones(2)},
    }[kind]
    return {"said": small.refused(tf_towers.write_checkpoint, path, arrays, version)}


def _written(path, version="V2"):
    tf_towers.write_checkpoint(path, {"w": np.ones([2, 3], np.float32), "b": np.ones(4)}, version)


@pytest.mark.parametrize("version", ["V2", "V1"])
def test_what_a_saver_saved_is_read_to_the_bit_with_its_slots_averages_and_step(tf, tmp_path, version):
    answer = tf(_saved_by_tensorflow, folder=str(tmp_path), version=version)
    assert {"net/w", "net/w/Adam", "net/w/Adam_1", "net/w/ExponentialMovingAverage"} <= set(answer["names"])
    assert {"beta1_power", "global_step", "net/half", "sliced", "sliced/Adam", "words"} <= set(answer["names"])
    slots = {"sliced/Adam", "sliced/Adam_1"}
    assert set(answer["equal"]) == set(answer["names"]) - slots
    assert answer["step"] == 1
    assert answer["words"] == ["one", "two"]


@pytest.mark.parametrize("version", ["V2", "V1"])
@pytest.mark.parametrize("step", [None, 20])
def test_what_is_written_a_plain_saver_restores_and_finds_as_the_newest(tf, tmp_path, version, step):
    answer = tf(_restored, path=str(tmp_path / "model.ckpt"), version=version, global_step=step)
    assert answer["restored"]
    assert answer["written"] == str(tmp_path / "model.ckpt") + ("-20" if step else "") == answer["newest"]
    assert answer["again"] == sorted(
        ["b", "count", "empty", "more", "w", "words"] + (["global_step"] if step is not None else [])
    )
    assert answer["step"] == step


def test_a_folder_that_was_moved_is_read_by_its_state_file(tf, tmp_path):
    (tmp_path / "there").mkdir()
    tf(_written, path=str(tmp_path / "there" / "model.ckpt"))
    (tmp_path / "there").rename(tmp_path / "here")

    answer = tf(_names_of, path=str(tmp_path / "here"))
    assert answer["names"] == ["b", "w"]
    (tmp_path / "here" / "model.ckpt.index").unlink()
    said = tf(_refused, what="read_checkpoint", path=str(tmp_path / "here"))["said"]
    assert said == (
        f"read_checkpoint: expected model.ckpt, which {tmp_path}/here/checkpoint names, in {tmp_path}/here, got no such "
        "checkpoint. Copy it there, or name another."
    )


def test_a_pipe_in_the_place_of_a_part_is_refused_and_not_waited_for(tf, tmp_path):
    tf(_written, path=str(tmp_path / "model.ckpt"))
    [shard] = tmp_path.glob("model.ckpt.data-*")
    shard.unlink()
    os.mkfifo(shard)
    said = tf(_refused, what="read_checkpoint", path=str(tmp_path / "model.ckpt"))["said"]
    assert said == f"read_checkpoint: expected a file at {shard}, got another thing. Copy the checkpoint again."


def _names_of(path):
    return {"names": list(tf_towers.read_checkpoint(path))}


def test_a_checkpoint_is_rewritten_for_whoever_has_no_tensorflow(tf, tmp_path):
    out, nowhere = tmp_path / "out.safetensors", tmp_path / "none" / "out.safetensors"
    answer = tf(_rewritten, path=str(tmp_path / "model.ckpt"), out=str(out), nowhere=str(nowhere))
    assert (answer["code"], answer["said"]) == (0, [f"{out}: 2 variables", "left out, for they are strings: words"])
    assert sorted(TensorFile(str(out)).names()) == ["b", "w"]
    assert (answer["refused"], answer["why"]) == (
        2,
        [f"tf_towers.checkpoint: read: expected the folder {nowhere.parent} to exist, got none. Make it first."],
    )


def _rewritten(path, out, nowhere):
    import contextlib
    import io

    from tf_towers.checkpoint.__main__ import main

    arrays = {"w": np.ones([2, 3], np.float32), "b": np.ones(4), "words": np.array([b"one"], object)}
    tf_towers.write_checkpoint(path, arrays)
    said, why = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(why):
        code, refused = main(["read", path, out]), main(["read", path, nowhere])
    return {
        "code": code,
        "said": said.getvalue().splitlines(),
        "refused": refused,
        "why": why.getvalue().splitlines(),
    }


def test_names_that_are_no_checkpoint_are_refused_in_one_line(tf, tmp_path):
    def said(path):
        return tf(_refused, what="read_checkpoint", path=str(path))["said"]

    tf(_written, path=str(tmp_path / "model.ckpt"))
    (tmp_path / "empty").mkdir()
    assert said(tmp_path / "none") == (
        f"read_checkpoint: expected a checkpoint at {tmp_path}/none, got neither that file nor {tmp_path}/none.index. "
        "Name a V2 prefix, a V1 file, or the folder of either."
    )
    assert said(tmp_path / "model.ckpt.index") == (
        f"read_checkpoint: expected the prefix of a checkpoint, got one of its files, {tmp_path}/model.ckpt.index. "
        f"Name {tmp_path}/model.ckpt."
    )
    assert said(tmp_path / "empty") == (
        f"read_checkpoint: expected a readable state file 'checkpoint' in the folder {tmp_path}/empty, got none. "
        "Name the checkpoint itself: a V2 prefix or a V1 file."
    )
    (tmp_path / "empty" / "checkpoint").write_bytes(b"\x80\x04 no text")
    assert "expected a readable state file" in said(tmp_path / "empty")


@pytest.mark.parametrize("version", ["V2", "V1"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "pickle", "empty"])
def test_a_damaged_checkpoint_is_refused_in_one_line_and_nothing_in_it_runs(tf, tmp_path, version, damage):
    tf(_written, path=str(tmp_path / "model.ckpt"), version=version)
    ran = tmp_path / "ran"
    pickled = b"cos\nmkdir\n(S'" + str(ran).encode() + b"'\ntR."
    for name in ("model.ckpt",) if version == "V1" else ("model.ckpt.index", "model.ckpt.data-00000-of-00001"):
        whole = (tmp_path / name).read_bytes()
        middle = len(whole) // 8
        flipped = whole[:middle] + bytes([whole[middle] ^ 0x10]) + whole[middle + 1 :]
        broken = {"cut": whole[:-9], "flipped": flipped, "pickle": pickled, "empty": b""}[damage]
        (tmp_path / name).write_bytes(broken)
        said = tf(_refused, what="read_checkpoint", path=str(tmp_path / "model.ckpt"))["said"]
        (tmp_path / name).write_bytes(whole)
        assert said.startswith("read_checkpoint: expected ")
        assert "\n" not in said
        assert "opy" in said
    assert not ran.exists()
    assert tf(_names_of, path=str(tmp_path / "model.ckpt"))["names"] == ["b", "w"]


def test_what_cannot_be_written_is_refused_in_one_line(tf, tmp_path):
    path = str(tmp_path / "model.ckpt")

    def said(kind, version="V2"):
        return tf(_refused_arrays, path=path, kind=kind, version=version)["said"]

    assert said("objects") == (
        "write_checkpoint: expected w in a dtype that a V2 checkpoint holds, got object. Convert it."
    )
    assert said("dates").endswith("got datetime64[D]. Convert it.")
    assert said("unsigned", "V1") == (
        "write_checkpoint: expected w in a dtype that a V1 checkpoint holds, got uint64. "
        "Write version V2, or convert it."
    )
    assert said("nothing") == "write_checkpoint: expected arrays by name, got none. Give at least one."
    assert said("no name") == "write_checkpoint: expected arrays by name, got an empty name. Give at least one."
    assert said("unsigned", "V3") == "write_checkpoint: expected version to be 'V1' or 'V2', got 'V3'."
    none = str(tmp_path / "no" / "model.ckpt")
    assert tf(_refused_folder, path=none)["said"] == (
        f"write_checkpoint: expected the folder {tmp_path}/no to exist, got none. Make it first."
    )
    assert list(tmp_path.iterdir()) == []


def _refused_folder(path):
    return {"said": small.refused(tf_towers.write_checkpoint, path, {"w": np.ones(2)})}


def test_two_formats_at_one_path_are_refused_for_a_saver_would_restore_the_older(tf, tmp_path):
    path = str(tmp_path / "model.ckpt")
    tf(_written, path=path)
    assert tf(_refused_v1, path=path)["said"] == (
        f"write_checkpoint: expected nothing of another format at {path}, got {path}.index. Remove it, or name another."
    )


def _refused_v1(path):
    return {"said": small.refused(tf_towers.write_checkpoint, path, {"w": np.ones(2)}, "V1")}


def test_a_step_that_contradicts_the_arrays_is_refused(tf, tmp_path):
    assert tf(_refused_step, path=str(tmp_path / "m"))["said"] == (
        "write_checkpoint: expected global_step to be 3 as in the arrays, got 4. Leave one of them out."
    )


def _refused_step(path):
    return {"said": small.refused(tf_towers.write_checkpoint, path, {"global_step": np.int64(3)}, "V2", 4)}


def test_reading_holds_what_was_written_whatever_the_shape(tf, tmp_path):
    for seed in range(3):
        random = np.random.default_rng(seed)
        shape = tuple(int(n) for n in random.integers(0, 4, size=int(random.integers(0, 4))))
        value = random.standard_normal(shape)
        answer = tf(_there_and_back, path=str(tmp_path / f"m{seed}"), value=value)
        assert np.array_equal(answer["value"], value)
        assert answer["value"].shape == shape


def _there_and_back(path, value):
    tf_towers.write_checkpoint(path, {"a/b": value})
    return {"value": np.asarray(tf_towers.read_checkpoint(path)["a/b"])}
