"""NeuMF: generalised matrix factorisation beside a multi layer perceptron, each with embeddings of its own."""
import tensorflow.compat.v1 as tf

NUM_USERS = 37
NUM_ITEMS = 53
MF_DIM = 8
LAYERS = [24, 18, 10]   # the first is the width of both embeddings together
REG = 0.02


def embedding_table(name, rows, columns, dtype):
    return tf.get_variable(name, [rows, columns], dtype=dtype,
                           initializer=tf.random_normal_initializer(stddev=0.3, dtype=dtype))


def inference(user_input, item_input, dtype):
    with tf.variable_scope("embedding"):
        mf_user = embedding_table("mf_embedding_user", NUM_USERS, MF_DIM, dtype)
        mf_item = embedding_table("mf_embedding_item", NUM_ITEMS, MF_DIM, dtype)
        mlp_user = embedding_table("mlp_embedding_user", NUM_USERS, LAYERS[0] // 2, dtype)
        mlp_item = embedding_table("mlp_embedding_item", NUM_ITEMS, LAYERS[0] // 2, dtype)
        item_bias = tf.get_variable("item_bias", [NUM_ITEMS], dtype=dtype, initializer=tf.zeros_initializer())

    latent = [tf.nn.embedding_lookup(mf_user, user_input), tf.nn.embedding_lookup(mf_item, item_input),
              tf.nn.embedding_lookup(mlp_user, user_input), tf.nn.embedding_lookup(mlp_item, item_input)]
    with tf.variable_scope("gmf"):
        mf_vector = tf.multiply(latent[0], latent[1])
    with tf.variable_scope("mlp"):
        mlp_vector = tf.concat([latent[2], latent[3]], axis=-1)
        for i, units in enumerate(LAYERS[1:], 1):
            mlp_vector = tf.layers.dense(mlp_vector, units, activation=tf.nn.relu, name="layer%d" % i)
    predict_vector = tf.concat([mf_vector, mlp_vector], axis=-1)
    logits = tf.layers.dense(predict_vector, 1, name="prediction")
    logits = tf.squeeze(logits, axis=-1) + tf.nn.embedding_lookup(item_bias, item_input)
    return mf_vector, mlp_vector, logits, latent


def tower(users, items, negatives, confidence):
    dtype = confidence.dtype.base_dtype
    num_neg = negatives.get_shape().as_list()[1]

    # one row for each candidate: the item itself, then its negatives
    item_input = tf.concat([tf.expand_dims(items, 1), negatives], axis=1)
    user_input = tf.tile(tf.expand_dims(users, 1), [1, 1 + num_neg])
    labels = tf.concat([tf.ones_like(tf.expand_dims(items, 1)), tf.zeros_like(negatives)], axis=1)

    with tf.variable_scope("neumf"):
        mf_vector, mlp_vector, logits, latent = inference(
            tf.reshape(user_input, [-1]), tf.reshape(item_input, [-1]), dtype)

    logits = tf.reshape(logits, [-1, 1 + num_neg])
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, dtype), logits=logits)
    present = tf.cast(tf.not_equal(confidence, 0), dtype)
    loss = tf.reduce_sum(confidence * cross_entropy) / tf.reduce_sum(present)
    batch = tf.cast(tf.size(item_input), dtype)
    loss += REG * tf.add_n([tf.nn.l2_loss(x) for x in latent]) / batch
    return loss, {"gmf": mf_vector, "mlp": mlp_vector, "logits": logits}
