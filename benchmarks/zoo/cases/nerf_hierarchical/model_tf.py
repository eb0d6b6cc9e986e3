"""A neural radiance field after the paper's official code: a coarse and a fine network, stratified samples, importance samples from
the coarse weights, compositing over white. The draws of both samplers are inputs."""
import numpy as np
import tensorflow.compat.v1 as tf

NEAR, FAR = 2.0, 6.0
N_SAMPLES = 10
MULTIRES, MULTIRES_VIEWS = 4, 2
NETDEPTH, NETWIDTH = 4, 24
SKIPS = [2]


def get_embedder(multires):
    freq_bands = 2.0 ** np.linspace(0.0, multires - 1, multires)

    def embed(x):
        out = [x]
        for freq in freq_bands:
            for p_fn in (tf.sin, tf.cos):
                out.append(p_fn(x * freq))
        return tf.concat(out, -1)

    return embed


def run_network(name, pts, viewdirs):
    """One of the two networks at points [rays, samples, 3]."""
    n_samples = pts.shape[1]
    inputs_pts = get_embedder(MULTIRES)(tf.reshape(pts, [-1, 3]))
    dirs = tf.tile(viewdirs[:, None], [1, n_samples, 1])
    inputs_views = get_embedder(MULTIRES_VIEWS)(tf.reshape(dirs, [-1, 3]))
    with tf.variable_scope(name):
        outputs = inputs_pts
        for i in range(NETDEPTH):
            outputs = tf.layers.dense(outputs, NETWIDTH, activation=tf.nn.relu, name="dense_%d" % i)
            if i in SKIPS:
                outputs = tf.concat([inputs_pts, outputs], -1)
        alpha_out = tf.layers.dense(outputs, 1, name="alpha")
        bottleneck = tf.layers.dense(outputs, NETWIDTH, name="bottleneck")
        outputs = tf.concat([bottleneck, inputs_views], -1)
        outputs = tf.layers.dense(outputs, NETWIDTH // 2, activation=tf.nn.relu, name="views_0")
        outputs = tf.layers.dense(outputs, 3, name="rgb")
        outputs = tf.concat([outputs, alpha_out], -1)
    return tf.reshape(outputs, [-1, n_samples, 4])


def raw2outputs(raw, z_vals, rays_d):
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = tf.concat([dists, 1e10 * tf.ones_like(dists[..., :1])], axis=-1)
    dists = dists * tf.norm(rays_d[..., None, :], axis=-1)
    rgb = tf.math.sigmoid(raw[..., :3])
    alpha = 1.0 - tf.exp(-tf.nn.relu(raw[..., 3]) * dists)
    weights = alpha * tf.math.cumprod(1.0 - alpha + 1e-10, axis=-1, exclusive=True)
    rgb_map = tf.reduce_sum(weights[..., None] * rgb, axis=-2)
    depth_map = tf.reduce_sum(weights * z_vals, axis=-1)
    acc_map = tf.reduce_sum(weights, -1)
    rgb_map = rgb_map + (1.0 - acc_map[..., None])
    return rgb_map, weights, depth_map


def sample_pdf(bins, weights, u):
    weights += 1e-5
    pdf = weights / tf.reduce_sum(weights, -1, keepdims=True)
    cdf = tf.cumsum(pdf, -1)
    cdf = tf.concat([tf.zeros_like(cdf[..., :1]), cdf], -1)
    inds = tf.searchsorted(cdf, u, side="right")
    below = tf.maximum(0, inds - 1)
    above = tf.minimum(int(cdf.shape[-1]) - 1, inds)
    inds_g = tf.stack([below, above], -1)
    cdf_g = tf.gather(cdf, inds_g, axis=-1, batch_dims=1)
    bins_g = tf.gather(bins, inds_g, axis=-1, batch_dims=1)
    denom = cdf_g[..., 1] - cdf_g[..., 0]
    denom = tf.where(denom < 1e-5, tf.ones_like(denom), denom)
    t = (u - cdf_g[..., 0]) / denom
    return bins_g[..., 0] + t * (bins_g[..., 1] - bins_g[..., 0])


def img2mse(x, y):
    return tf.reduce_mean(tf.square(x - y))


def tower(rays_o, rays_d, target, t_rand, u):
    viewdirs = rays_d / tf.norm(rays_d, axis=-1, keepdims=True)

    t_vals = tf.cast(tf.linspace(np.float64(0.0), np.float64(1.0), N_SAMPLES), rays_o.dtype)
    z_vals = NEAR * (1.0 - t_vals) + FAR * t_vals
    mids = 0.5 * (z_vals[1:] + z_vals[:-1])
    upper = tf.concat([mids, z_vals[-1:]], -1)
    lower = tf.concat([z_vals[:1], mids], -1)
    z_vals = lower + (upper - lower) * t_rand

    pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
    raw = run_network("coarse", pts, viewdirs)
    rgb_map_0, weights, _ = raw2outputs(raw, z_vals, rays_d)

    z_vals_mid = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
    z_samples = tf.stop_gradient(sample_pdf(z_vals_mid, weights[..., 1:-1], u))
    z_vals = tf.sort(tf.concat([z_vals, z_samples], -1), -1)
    pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
    raw = run_network("fine", pts, viewdirs)
    rgb_map, _, depth_map = raw2outputs(raw, z_vals, rays_d)

    img_loss = img2mse(rgb_map, target)
    img_loss0 = img2mse(rgb_map_0, target)
    psnr = -10.0 * tf.log(img_loss) / np.log(10.0)
    return img_loss + img_loss0, {"rgb0": rgb_map_0, "weights0": weights, "z_fine": z_vals, "rgb": rgb_map, "depth": depth_map,
                                  "psnr": psnr}
