"""Detection as set prediction: a small convolutional backbone, an encoder and a decoder of transformers, queries that are learnt, and a
loss on every decoder layer's predictions against targets that come matched to the queries."""
import math

import tensorflow.compat.v1 as tf

NUM_CLASSES = 4
NUM_QUERIES = 5
DIM = 16
HEADS = 2
FFN = 24
DEC_LAYERS = 2
STRIDE = 8
EOS_COEF = 0.1
BBOX_COEF, GIOU_COEF = 5.0, 2.0


def layer_norm(x, name):
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [DIM], x.dtype, tf.ones_initializer())
        beta = tf.get_variable("beta", [DIM], x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.rsqrt(variance + 1e-5) * gamma + beta


def backbone(x, training):
    with tf.variable_scope("backbone"):
        for i, filters in enumerate([8, 12, 16]):
            x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
            x = tf.layers.conv2d(x, filters, 3, strides=2, padding="valid", use_bias=False, name="conv%d" % i)
            x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, fused=False, name="bn%d" % i)
            x = tf.nn.relu(x)
    return x


def position_embedding_sine(mask, num_pos_feats=DIM // 2, temperature=10000.0, eps=1e-6):
    not_mask = 1.0 - mask
    y_embed = tf.cumsum(not_mask, axis=1)
    x_embed = tf.cumsum(not_mask, axis=2)
    scale = 2 * math.pi
    y_embed = y_embed / (y_embed[:, -1:, :] + eps) * scale
    x_embed = x_embed / (x_embed[:, :, -1:] + eps) * scale
    dim_t = tf.constant([temperature ** (2 * (i // 2) / num_pos_feats) for i in range(num_pos_feats)], mask.dtype)

    def waves(embed):
        pos = embed[..., None] / dim_t
        pos = tf.stack([tf.sin(pos[..., 0::2]), tf.cos(pos[..., 1::2])], axis=4)
        shape = tf.shape(pos)
        return tf.reshape(pos, [shape[0], pos.shape[1], pos.shape[2], num_pos_feats])

    return tf.concat([waves(y_embed), waves(x_embed)], axis=3)


def attention(query, key, value, key_mask, name):
    """Multi-head attention; key_mask is 1 where there is padding."""
    def heads(x, part):
        x = tf.layers.dense(x, DIM, name=part)
        return tf.transpose(tf.reshape(x, [-1, x.shape[1], HEADS, DIM // HEADS]), [0, 2, 1, 3])

    with tf.variable_scope(name):
        q, k, v = heads(query, "query"), heads(key, "key"), heads(value, "value")
        scores = tf.matmul(q / math.sqrt(DIM // HEADS), k, transpose_b=True)
        if key_mask is not None:
            scores += -1e9 * key_mask[:, None, None, :]
        out = tf.matmul(tf.nn.softmax(scores), v)
        out = tf.reshape(tf.transpose(out, [0, 2, 1, 3]), [-1, query.shape[1], DIM])
        return tf.layers.dense(out, DIM, name="output")


def feed_forward(x):
    return tf.layers.dense(tf.layers.dense(x, FFN, activation=tf.nn.relu, name="linear1"), DIM, name="linear2")


def encoder_layer(src, pos, mask):
    with tf.variable_scope("encoder_0"):
        q = src + pos
        src = layer_norm(src + attention(q, q, src, mask, "self_attn"), "norm1")
        return layer_norm(src + feed_forward(src), "norm2")


def decoder_layer(tgt, memory, pos, query_pos, mask, index):
    with tf.variable_scope("decoder_%d" % index):
        q = tgt + query_pos
        tgt = layer_norm(tgt + attention(q, q, tgt, None, "self_attn"), "norm1")
        tgt = layer_norm(tgt + attention(tgt + query_pos, memory + pos, memory, mask, "multihead_attn"), "norm2")
        return layer_norm(tgt + feed_forward(tgt), "norm3")


def heads(hs):
    with tf.variable_scope("class_embed", reuse=tf.AUTO_REUSE):
        logits = tf.layers.dense(hs, NUM_CLASSES + 1, name="dense")
    with tf.variable_scope("bbox_embed", reuse=tf.AUTO_REUSE):
        y = tf.layers.dense(hs, DIM, activation=tf.nn.relu, name="dense_0")
        y = tf.layers.dense(y, DIM, activation=tf.nn.relu, name="dense_1")
        return logits, tf.sigmoid(tf.layers.dense(y, 4, name="dense_2"))


def corners(boxes):
    centre, size = boxes[..., :2], boxes[..., 2:]
    return centre - size / 2, centre + size / 2


def area(low, high):
    return tf.reduce_prod(high - low, axis=-1)


def generalized_iou(a, b):
    (a_low, a_high), (b_low, b_high) = corners(a), corners(b)
    overlap = tf.nn.relu(tf.minimum(a_high, b_high) - tf.maximum(a_low, b_low))
    inter = tf.reduce_prod(overlap, axis=-1)
    union = area(a_low, a_high) + area(b_low, b_high) - inter
    hull = area(tf.minimum(a_low, b_low), tf.maximum(a_high, b_high))
    return inter / union - (hull - union) / hull


def set_loss(logits, pred_boxes, classes, boxes):
    empty = tf.equal(classes, NUM_CLASSES)
    matched = 1.0 - tf.cast(empty, logits.dtype)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
    weights = matched + EOS_COEF * (1.0 - matched)
    loss_ce = tf.reduce_sum(weights * ce) / tf.reduce_sum(weights)
    num_boxes = tf.maximum(tf.reduce_sum(matched), 1.0)
    loss_bbox = tf.reduce_sum(tf.reduce_sum(tf.abs(pred_boxes - boxes), -1) * matched) / num_boxes
    loss_giou = tf.reduce_sum((1.0 - generalized_iou(pred_boxes, boxes)) * matched) / num_boxes
    return loss_ce, loss_bbox, loss_giou


def tower(images, padded, classes, boxes, training=True):
    with tf.variable_scope("detr"):
        features = backbone(images, training)
        mask = padded[:, ::STRIDE, ::STRIDE]
        pos = position_embedding_sine(mask)
        src = tf.layers.conv2d(features, DIM, 1, name="input_proj")
        tokens = int(src.shape[1]) * int(src.shape[2])
        src, pos, mask = tf.reshape(src, [-1, tokens, DIM]), tf.reshape(pos, [-1, tokens, DIM]), tf.reshape(mask, [-1, tokens])
        query_embed = tf.get_variable("query_embed", [NUM_QUERIES, 2 * DIM], src.dtype, tf.random_normal_initializer(dtype=src.dtype))
        memory = encoder_layer(src, pos, mask)
        query_embed = tf.tile(query_embed[None], [tf.shape(src)[0], 1, 1])
        query_pos, tgt = tf.split(query_embed, 2, axis=-1)
        total, ends = 0.0, {"features": features, "memory": memory}
        for i in range(DEC_LAYERS):
            tgt = decoder_layer(tgt, memory, pos, query_pos, mask, i)
            with tf.variable_scope("decoder_norm", reuse=tf.AUTO_REUSE):
                hs = layer_norm(tgt, "norm")
            logits, pred_boxes = heads(hs)
            ends["logits_%d" % i], ends["boxes_%d" % i] = logits, pred_boxes
            loss_ce, loss_bbox, loss_giou = set_loss(logits, pred_boxes, classes, boxes)
            total += loss_ce + BBOX_COEF * loss_bbox + GIOU_COEF * loss_giou
    ends.update(loss_ce=loss_ce, loss_bbox=loss_bbox, loss_giou=loss_giou)
    return total, ends
