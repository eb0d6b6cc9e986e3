"""A transformer on patches of a picture, written as the BERT and GPT code of its time."""
import tensorflow.compat.v1 as tf

PATCH, WIDTH, HEADS, LAYERS, CLASSES = 4, 24, 3, 2, 9


def gelu(x):
    return x * 0.5 * (1.0 + tf.erf(x / 2.0 ** 0.5))


def norm(x, scope, epsilon=1e-6):
    with tf.variable_scope(scope):
        n = int(x.shape[-1])
        g = tf.get_variable("scale", [n], x.dtype, tf.ones_initializer())
        b = tf.get_variable("bias", [n], x.dtype, tf.zeros_initializer())
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        s = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
        return (x - mean) * tf.rsqrt(s + epsilon) * g + b


def dense(x, units, scope):
    with tf.variable_scope(scope):
        w = tf.get_variable("kernel", [int(x.shape[-1]), units], x.dtype, tf.truncated_normal_initializer(stddev=0.1))
        b = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        return tf.tensordot(x, w, [[2], [0]]) + b if len(x.shape) == 3 else tf.matmul(x, w) + b


def split_heads(x):
    n, t = tf.shape(x)[0], int(x.shape[1])
    return tf.transpose(tf.reshape(x, [n, t, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def attention(x, scope):
    with tf.variable_scope(scope):
        n, t = tf.shape(x)[0], int(x.shape[1])
        q, k, v = [split_heads(dense(x, WIDTH, name)) for name in ("query", "key", "value")]
        w = tf.matmul(q, k, transpose_b=True) * (WIDTH // HEADS) ** -0.5
        w = tf.nn.softmax(w)
        a = tf.reshape(tf.transpose(tf.matmul(w, v), [0, 2, 1, 3]), [n, t, WIDTH])
        return dense(a, WIDTH, "out")


def block(x, scope):
    with tf.variable_scope(scope):
        x = x + attention(norm(x, "LayerNorm_0"), "MultiHeadDotProductAttention_1")
        y = norm(x, "LayerNorm_2")
        with tf.variable_scope("MlpBlock_3"):
            return x + dense(gelu(dense(y, 3 * WIDTH, "Dense_0")), WIDTH, "Dense_1")


def tower(images, labels):
    dtype = images.dtype
    with tf.variable_scope("embedding"):
        kernel = tf.get_variable("kernel", [PATCH, PATCH, 3, WIDTH], dtype, tf.truncated_normal_initializer(stddev=0.1))
        bias = tf.get_variable("bias", [WIDTH], dtype, tf.zeros_initializer())
        x = tf.nn.bias_add(tf.nn.conv2d(images, kernel, [1, PATCH, PATCH, 1], "VALID"), bias)
        x = tf.reshape(x, [-1, (16 // PATCH) ** 2, WIDTH])
    with tf.variable_scope("Transformer"):
        cls = tf.get_variable("cls", [1, 1, WIDTH], dtype, tf.zeros_initializer())
        x = tf.concat([tf.tile(cls, [tf.shape(x)[0], 1, 1]), x], axis=1)
        x = x + tf.get_variable("pos_embedding", [1, 1 + (16 // PATCH) ** 2, WIDTH], dtype,
                                tf.random_normal_initializer(stddev=0.02))
        tokens = {"embedded": x}
        for i in range(LAYERS):
            x = block(x, "encoderblock_%d" % i)
            tokens["block_%d" % i] = x
        x = norm(x, "encoder_norm")
    feature = x[:, 0]
    logits = dense(feature, CLASSES, "head")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, dict(tokens, feature=feature, logits=logits)
