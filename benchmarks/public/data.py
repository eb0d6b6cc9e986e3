"""Makes the noise that stands for a data set: `python data.py FOLDER NAME...`, by TensorFlow 1.15's interpreter."""

import gzip
import json
import os
import pickle
import struct
import sys

import numpy as np
import tensorflow as tf

DRAW = np.random.RandomState(1)


def _bytes(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value) for value in values]))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _pixels(*shape):
    return DRAW.randint(0, 256, shape).astype(np.uint8)


def _records(path, examples):
    with tf.python_io.TFRecordWriter(path) as writer:
        for example in examples:
            writer.write(example)


def mnist(folder):
    for name, count in (("train", 5600), ("t10k", 100)):
        for kind, values in (("images-idx3", _pixels(count, 28, 28)), ("labels-idx1", DRAW.randint(0, 10, count))):
            with gzip.open("%s/%s-%s-ubyte.gz" % (folder, name, kind), "wb") as file:
                file.write(struct.pack(">I", 0x800 | values.ndim))
                file.write(b"".join(struct.pack(">I", size) for size in values.shape))
                file.write(values.astype(np.uint8).tobytes())


def mnistrec(folder):
    for name in ("train", "validation"):
        examples = (_example(image_raw=_bytes(_pixels(784).tobytes()), label=_ints([n % 10])) for n in range(1200))
        _records("%s/%s.tfrecords" % (folder, name), examples)


def cifar(folder):
    os.makedirs(folder + "/cifar-10-batches-bin")
    open(folder + "/cifar-10-binary.tar.gz", "w").close()  # what is not missing is not fetched
    for number in range(1, 6):
        rows = _pixels(60, 3073)
        rows[:, 0] %= 10
        rows.tofile("%s/cifar-10-batches-bin/data_batch_%d.bin" % (folder, number))


def images(folder):
    picture = tf.placeholder(tf.uint8, [80, 80, 3])
    encoded = tf.image.encode_jpeg(picture)
    paths = ["%s/%d.jpg" % (folder, number) for number in range(40)]
    with tf.Session() as session:
        for path in paths:
            with open(path, "wb") as file:
                file.write(session.run(encoded, {picture: _pixels(80, 80, 3)}))
    with open(folder + "/train.txt", "w") as file:
        file.write("".join("%s,%d\n" % (path, number % 10) for number, path in enumerate(paths)))


def patches(folder):
    for split in ("train", "valid"):
        os.makedirs("%s/%s" % (folder, split))
        for number in range(2):
            labels = DRAW.randint(0, 10, 300).astype(np.int32)
            examples = (
                _example(patch_raw=_bytes(_pixels(32, 32, 3).tobytes()), label=_bytes(x.tobytes())) for x in labels
            )
            _records("%s/%s/%d.tfrecords" % (folder, split, number), examples)


def youtube(folder):
    videos = (
        _example(id=_bytes(b"v%d" % n), labels=_ints(DRAW.randint(0, 12, 2)), mean_rgb=_floats(DRAW.randn(16)))
        for n in range(200)
    )
    _records(folder + "/video.tfrecord", videos)
    clips = []
    for number in range(200):
        context = tf.train.Features(feature={"id": _bytes(b"v%d" % number), "labels": _ints(DRAW.randint(0, 12, 2))})
        frames = tf.train.FeatureList(feature=[_bytes(_pixels(16).tobytes()) for _ in range(3 + number % 4)])
        lists = tf.train.FeatureLists(feature_list={"rgb": frames})
        clips.append(tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString())
    _records(folder + "/frame.tfrecord", clips)


def text(folder):
    lines = [DRAW.randint(0, 30, 9) for _ in range(64)]
    _records(folder + "/train.tfrecords", (_example(inputs=_ints(row[:8]), labels=_ints(row[1:])) for row in lines))
    info = {"filenames": ["train.tfrecords"], "bin_sizes": [], "num_batch": 16}
    with open(folder + "/record_info-train.bsz-4.tlen-8.json", "w") as file:
        json.dump(info, file)
    with open(folder + "/corpus-info.json", "w") as file:
        json.dump({"vocab_size": 30, "cutoffs": [0, 30], "dataset": "ptb"}, file)


def stories(folder):
    def word(low, high):
        return "".join(chr(97 + code) for code in DRAW.randint(0, 20, DRAW.randint(low, high)))

    for name in ("test_test", "test_val"):
        split = name.split("_")[1]
        with open("%s/cloze_%s__spring2016 - cloze_test_ALL_%s.csv" % (folder, name, split), "w") as file:
            file.write("id,x,x,x,x,x,x,x\n")
            for number in range(60):
                words = [word(2, 3) for _ in range(4)] + [word(2, 5), word(2, 5)]
                file.write("%d,%s,%d\n" % (number, ",".join(words), DRAW.randint(1, 3)))
    with open(folder + "/params_shapes.json", "w") as file:
        json.dump([[60, 16], [20, 16]], file)
    for number in range(10):
        np.save("%s/params_%d.npy" % (folder, number), DRAW.randn(128).astype(np.float32))


def modelnet(folder):
    import h5py

    with h5py.File(folder + "/clouds.h5", "w") as file:
        file["data"] = DRAW.randn(40, 64, 3).astype(np.float32)
        file["label"] = DRAW.randint(0, 40, (40, 1)).astype(np.uint8)
    with open(folder + "/files.txt", "w") as file:
        file.write(folder + "/clouds.h5\n")


def masked(folder):
    """Sentences of 12 tokens, of which 3 are to be guessed, as BERT's pre-training reads them."""
    examples = (
        _example(
            input_ids=_ints(DRAW.randint(0, 40, 12)),
            input_mask=_ints([1] * (8 + n % 5) + [0] * (4 - n % 5)),
            segment_ids=_ints([0] * 6 + [1] * 6),
            masked_lm_positions=_ints(DRAW.choice(8, 3, replace=False)),
            masked_lm_ids=_ints(DRAW.randint(0, 40, 3)),
            masked_lm_weights=_floats([1.0, 1.0, float(n % 2)]),
            next_sentence_labels=_ints([n % 2]),
        )
        for n in range(200)
    )
    _records(folder + "/train.tfrecords", examples)


def clicks(folder):
    """Users with what they saw before, what they were shown, and whether they clicked."""

    def shown(count):
        return [
            (n, DRAW.randint(0, 20, 2 + n % 3).tolist(), int(DRAW.randint(0, 20)), int(DRAW.randint(0, 2)))
            for n in range(count)
        ]

    train, test = shown(80), [(user, before, (item, 3), 1) for user, before, item, _ in shown(8)]
    with open(folder + "/ad_dataset_lookalike_jimmy_10.pkl", "wb") as file:
        for each in (train, test, DRAW.randint(0, 5, 20).tolist(), (80, 20, 5)):
            pickle.dump(each, file, 2)
    with open(folder + "/label_lookalike_jimmy_10.pkl", "wb") as file:
        pickle.dump([n % 2 for n in range(8)], file, 2)


MAKERS = (mnist, mnistrec, cifar, images, patches, youtube, text, stories, modelnet, masked, clicks)

if __name__ == "__main__":
    for maker in MAKERS:
        if maker.__name__ in sys.argv[2:]:
            os.makedirs("%s/%s" % (sys.argv[1], maker.__name__))
            maker("%s/%s" % (sys.argv[1], maker.__name__))
