"""Part affinity fields: a small trunk and three stages of two branches, in the chained style of caffe-tensorflow networks."""
import tensorflow.compat.v1 as tf

STAGES = 3
PAF, HEAT = 4, 4
WEIGHT_DECAY = 5e-4


def layer(op):
    def layer_decorated(self, *args, **kwargs):
        name = kwargs["name"]
        layer_input = self.terminals[0] if len(self.terminals) == 1 else list(self.terminals)
        layer_output = op(self, layer_input, *args, **kwargs)
        self.layers[name] = layer_output
        self.feed(layer_output)
        return self

    return layer_decorated


class BaseNetwork(object):
    def __init__(self, inputs):
        self.terminals = []
        self.layers = dict(inputs)
        self.kernels = []
        self.setup()

    def feed(self, *args):
        self.terminals = [self.layers[a] if isinstance(a, str) else a for a in args]
        return self

    @layer
    def normalize_vgg(self, x, name):
        return tf.subtract(x / 256.0, 0.5, name=name)

    @layer
    def conv(self, x, k, c_o, name, relu=True):
        with tf.variable_scope(name):
            kernel = tf.get_variable("weights", [k, k, x.shape.as_list()[-1], c_o], x.dtype,
                                     initializer=tf.truncated_normal_initializer(stddev=0.1))
            biases = tf.get_variable("biases", [c_o], x.dtype, initializer=tf.constant_initializer(0.0))
            self.kernels.append(kernel)
            output = tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding="SAME"), biases)
            return tf.nn.relu(output) if relu else output

    @layer
    def max_pool(self, x, k, s, name):
        return tf.nn.max_pool(x, [1, k, k, 1], [1, s, s, 1], padding="SAME", name=name)

    @layer
    def concat(self, inputs, axis, name):
        return tf.concat(axis=axis, values=inputs, name=name)


class CmuNetwork(BaseNetwork):
    def setup(self):
        (self.feed("image")
             .normalize_vgg(name="preprocess")
             .conv(3, 8, name="conv1_1")
             .conv(3, 8, name="conv1_2")
             .max_pool(2, 2, name="pool1_stage1")
             .conv(3, 12, name="conv2_1")
             .conv(3, 8, name="conv2_2_CPM"))
        for branch, n in (("L1", PAF), ("L2", HEAT)):
            (self.feed("conv2_2_CPM")
                 .conv(3, 8, name="conv3_1_CPM_" + branch)
                 .conv(1, 12, name="conv3_2_CPM_" + branch)
                 .conv(1, n, relu=False, name="Mconv_stage1_" + branch))
        for stage in range(2, STAGES + 1):
            (self.feed("Mconv_stage%d_L1" % (stage - 1), "Mconv_stage%d_L2" % (stage - 1), "conv2_2_CPM")
                 .concat(3, name="concat_stage%d" % stage))
            for branch, n in (("L1", PAF), ("L2", HEAT)):
                (self.feed("concat_stage%d" % stage)
                     .conv(5, 8, name="Mconv1_stage%d_%s" % (stage, branch))
                     .conv(1, 8, name="Mconv2_stage%d_%s" % (stage, branch))
                     .conv(1, n, relu=False, name="Mconv_stage%d_%s" % (stage, branch)))


def tower(images, vectmap, heatmap, mask):
    with tf.variable_scope("pose"):
        net = CmuNetwork({"image": images})
    batchsize = tf.cast(tf.shape(images)[0], images.dtype)
    losses_paf, losses_heat = [], []
    for stage in range(1, STAGES + 1):
        l1, l2 = net.layers["Mconv_stage%d_L1" % stage], net.layers["Mconv_stage%d_L2" % stage]
        losses_paf.append(tf.nn.l2_loss((l1 - vectmap) * mask, name="loss_l1_stage%d" % stage))
        losses_heat.append(tf.nn.l2_loss((l2 - heatmap) * mask, name="loss_l2_stage%d" % stage))
    loss_paf = tf.add_n(losses_paf) / batchsize
    loss_heat = tf.add_n(losses_heat) / batchsize
    decay = tf.add_n([WEIGHT_DECAY * tf.nn.l2_loss(kernel) for kernel in net.kernels])
    outputs = {"features": net.layers["conv2_2_CPM"], "paf": l1, "heat": l2}
    outputs.update({"loss_paf": loss_paf, "loss_heat": loss_heat})
    return loss_paf + loss_heat + decay, outputs
