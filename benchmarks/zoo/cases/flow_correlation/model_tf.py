"""Optical flow from coarse to fine: feature pyramid, warping, correlation, and a dilated context network."""
import tensorflow.compat.v1 as tf

FLOW_SCALE = 20.0
GAMMA = 4e-4


def leaky(x):
    return tf.maximum(0.1 * x, x)


def conv(x, filters, name, stride=1, dilation=1, activation=leaky):
    return tf.layers.conv2d(x, filters, 3, strides=stride, padding="same", dilation_rate=dilation,
                            activation=activation, name=name)


def extract_features(image, reuse):
    """Two levels, at a half and at a quarter of the size; shared by both frames."""
    with tf.variable_scope("featpyr", reuse=reuse):
        level1 = conv(conv(image, 8, "conv1a", stride=2), 8, "conv1b")
        level2 = conv(conv(level1, 12, "conv2a", stride=2), 12, "conv2b")
    return level1, level2


def cost_volume(c1, warped, search_range, name):
    """Mean over channels of the products with every displacement, rows of displacements first."""
    with tf.name_scope(name):
        padded = tf.pad(warped, [[0, 0], [search_range] * 2, [search_range] * 2, [0, 0]])
        _, h, w, _ = c1.shape.as_list()
        costs = []
        for y in range(2 * search_range + 1):
            for x in range(2 * search_range + 1):
                costs.append(tf.reduce_mean(c1 * padded[:, y:y + h, x:x + w], axis=3, keepdims=True))
        return leaky(tf.concat(costs, axis=3))


def dense_image_warp(image, flow):
    """Bilinear sampling at x + flow; what lies outside is the nearest border pixel."""
    _, h, w, channels = image.shape.as_list()
    batch = tf.shape(image)[0]
    grid_x, grid_y = tf.meshgrid(tf.range(w), tf.range(h))
    query_x = tf.cast(grid_x, flow.dtype) + flow[..., 0]
    query_y = tf.cast(grid_y, flow.dtype) + flow[..., 1]

    def interval(query, size):
        low = tf.minimum(tf.maximum(tf.cast(0, query.dtype), tf.floor(query)), tf.cast(size - 2, query.dtype))
        alpha = tf.minimum(tf.maximum(tf.cast(0, query.dtype), query - low), tf.cast(1, query.dtype))
        low = tf.cast(low, tf.int32)
        return low, low + 1, tf.expand_dims(alpha, 3)

    x0, x1, alpha_x = interval(query_x, w)
    y0, y1, alpha_y = interval(query_y, h)
    flat = tf.reshape(image, [batch * h * w, channels])
    offsets = tf.reshape(tf.range(batch) * h * w, [-1, 1, 1])

    def gather(y, x):
        return tf.gather(flat, offsets + y * w + x)

    top = alpha_x * (gather(y0, x1) - gather(y0, x0)) + gather(y0, x0)
    bottom = alpha_x * (gather(y1, x1) - gather(y1, x0)) + gather(y1, x0)
    return alpha_y * (bottom - top) + top


def deconv(x, name):
    return tf.layers.conv2d_transpose(x, 2, 4, strides=2, padding="same", name=name)


def predict_flow(x, level):
    """Densely connected: every layer also reads what came before."""
    with tf.variable_scope("predict_flow%d" % level):
        x = tf.concat([conv(x, 16, "conv_0"), x], axis=3)
        x = tf.concat([conv(x, 8, "conv_1"), x], axis=3)
        return x, conv(x, 2, "flow", activation=None)


def refine_flow(features, flow):
    with tf.variable_scope("ctxt"):
        x = conv(features, 16, "dc_conv1", dilation=1)
        x = conv(x, 8, "dc_conv2", dilation=2)
        return flow + conv(x, 2, "dc_conv3", activation=None)


def multiscale_loss(flows, target, valid):
    """Robust L1, summed over the pixels of known flow, and averaged over the batch."""
    losses = []
    for flow, weight in zip(flows, [0.08, 0.32]):
        ratio = target.shape.as_list()[1] // flow.shape.as_list()[1]
        window = [1, ratio, ratio, 1]
        scaled = tf.nn.avg_pool(target / FLOW_SCALE, window, window, "VALID")
        known = tf.nn.avg_pool(tf.expand_dims(valid, 3), window, window, "VALID")[..., 0]
        error = tf.pow(tf.reduce_sum(tf.abs(scaled - flow), axis=3) + 0.01, 0.4)
        losses.append(weight * tf.reduce_mean(tf.reduce_sum(error * known, axis=[1, 2])))
    return tf.add_n(losses)


def tower(first, second, flow, valid):
    with tf.variable_scope("pwcnet"):
        c1_fine, c1_coarse = extract_features(first, reuse=False)
        c2_fine, c2_coarse = extract_features(second, reuse=True)
        corr2 = cost_volume(c1_coarse, c2_coarse, 1, "corr2")
        upfeat, flow2 = predict_flow(tf.concat([corr2, c1_coarse], axis=3), 2)
        up_flow = deconv(flow2, "up_flow2")
        up_feat = deconv(upfeat, "up_feat2")
        warped = dense_image_warp(c2_fine, up_flow * (FLOW_SCALE / 2))
        corr1 = cost_volume(c1_fine, warped, 2, "corr1")
        features, flow1 = predict_flow(tf.concat([corr1, c1_fine, up_flow, up_feat], axis=3), 1)
        flow1 = refine_flow(features, flow1)
    loss = multiscale_loss([flow1, flow2], flow, valid)
    kernels = [v for v in tf.trainable_variables() if "kernel" in v.op.name]
    total = loss + GAMMA * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
    end_points = {"c1_fine": c1_fine, "c1_coarse": c1_coarse, "corr2": corr2, "flow2": flow2, "up_flow": up_flow,
                  "warped": warped, "corr1": corr1, "flow1": flow1}
    end_points["flow_loss"] = loss
    return total, end_points
