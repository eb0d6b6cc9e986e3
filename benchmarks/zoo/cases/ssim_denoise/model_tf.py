"""Residual denoiser, after the DnCNN repositories in TensorFlow 1, with the mix of SSIM and L1 of image restoration code.

SSIM is the usual hand-written one: a Gaussian window made with numpy, applied without padding.
"""
import numpy as np
import tensorflow.compat.v1 as tf

ALPHA = 0.84


def fspecial_gauss(size, sigma):
    x, y = np.mgrid[-(size // 2):size // 2 + 1, -(size // 2):size // 2 + 1]
    g = np.exp(-(x ** 2 + y ** 2) / (2.0 * sigma ** 2))
    return g / g.sum()


def tf_ssim(img1, img2, size=7, sigma=1.5, max_val=1.0):
    """SSIM of every image, averaged over positions and channels."""
    channels = img1.shape.as_list()[-1]
    window = np.tile(fspecial_gauss(size, sigma)[:, :, None, None], [1, 1, channels, 1])
    window = tf.constant(window, img1.dtype)
    c1 = (0.01 * max_val) ** 2
    c2 = (0.03 * max_val) ** 2

    def blur(x):
        return tf.nn.depthwise_conv2d(x, window, strides=[1, 1, 1, 1], padding="VALID")

    mu1, mu2 = blur(img1), blur(img2)
    mu1_sq, mu2_sq, mu1_mu2 = mu1 * mu1, mu2 * mu2, mu1 * mu2
    sigma1_sq = blur(img1 * img1) - mu1_sq
    sigma2_sq = blur(img2 * img2) - mu2_sq
    sigma12 = blur(img1 * img2) - mu1_mu2
    value = ((2 * mu1_mu2 + c1) * (2 * sigma12 + c2)) / ((mu1_sq + mu2_sq + c1) * (sigma1_sq + sigma2_sq + c2))
    return tf.reduce_mean(value, [1, 2, 3])


def dncnn(x, is_training, filters=14, output_channels=3):
    with tf.variable_scope("block1"):
        output = tf.layers.conv2d(x, filters, 3, padding="same", activation=tf.nn.relu, name="conv1")
    for layers in range(2, 4):
        with tf.variable_scope("block%d" % layers):
            output = tf.layers.conv2d(output, filters, 3, padding="same", use_bias=False, name="conv%d" % layers)
            output = tf.layers.batch_normalization(output, momentum=0.95, epsilon=1e-3, training=is_training, fused=False,
                                                   name="bn%d" % layers)
            output = tf.nn.relu(output)
    with tf.variable_scope("block4"):
        return tf.layers.conv2d(output, output_channels, 3, padding="same", name="conv4")


def tower(noisy, clean, training=True):
    residual = dncnn(noisy, training)
    denoised = noisy - residual
    with tf.variable_scope("loss"):
        ssim = tf.reduce_mean(tf_ssim(clean, denoised))
        l1 = tf.reduce_mean(tf.abs(clean - denoised))
        loss = ALPHA * (1.0 - ssim) + (1.0 - ALPHA) * l1
    with tf.variable_scope("psnr"):
        mse = tf.reduce_mean(tf.squared_difference(clean, denoised), [1, 2, 3])
        psnr = tf.reduce_mean(-10.0 * tf.log(mse) / np.log(10.0))
    return loss, {"residual": residual, "denoised": denoised, "ssim": ssim, "l1": l1, "psnr": psnr}
