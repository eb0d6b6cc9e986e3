"""Lists of variables, names, shapes and uses alone, of towers and of plain torch ports, with the pairs that are meant."""

from parity.mapping import Variable

CONV, DEPTH, DENSE, ADD, NORM = "Conv2D", "DepthwiseConv2dNative", "MatMul", "BiasAdd", "FusedBatchNormV3"


class Port:
    """Collects a tower's variables and a port's; `meant` is the reference's name to the candidate's, and the transform."""

    def __init__(self):
        self.reference, self.candidate, self.meant = [], [], {}

    def tf(self, name, shape, use="", kind="weight"):
        self.reference.append(Variable(name, tuple(shape), kind=kind, use=use or None))

    def torch(self, name, shape, use="", kind="weight"):
        self.candidate.append(Variable(name, tuple(shape), kind=kind, use=use or None))

    def means(self, name, to, transform="identity"):
        self.meant[name] = (tuple([to] if isinstance(to, str) else to), transform)

    def conv(self, tf, torch, size, inputs, outputs, bias=True, names=("kernel", "bias")):
        self.tf(f"{tf}/{names[0]}", (size, size, inputs, outputs), CONV)
        self.torch(f"{torch}.weight", (outputs, inputs, size, size), "Conv2d")
        self.means(f"{tf}/{names[0]}", f"{torch}.weight", "hwio_to_oihw")
        if bias:
            self.vector(f"{tf}/{names[1]}", f"{torch}.bias", outputs, ADD, "Conv2d")

    def dense(self, tf, torch, inputs, outputs, bias=True, names=("kernel", "bias"), transform="transpose"):
        self.tf(f"{tf}/{names[0]}", (inputs, outputs), DENSE)
        self.torch(f"{torch}.weight", (outputs, inputs), "Linear")
        self.means(f"{tf}/{names[0]}", f"{torch}.weight", transform)
        if bias:
            self.vector(f"{tf}/{names[1]}", f"{torch}.bias", outputs, ADD, "Linear")

    def vector(self, tf, torch, size, tf_use, torch_use, kind="weight"):
        self.tf(tf, (size,), tf_use, kind)
        self.torch(torch, (size,), torch_use, kind)
        self.means(tf, torch)

    def norm(self, tf, torch, size, use="BatchNorm2d"):
        self.vector(f"{tf}/gamma", f"{torch}.weight", size, NORM, use)
        self.vector(f"{tf}/beta", f"{torch}.bias", size, NORM, use)
        self.vector(f"{tf}/moving_mean", f"{torch}.running_mean", size, "", use, "statistic")
        self.vector(f"{tf}/moving_variance", f"{torch}.running_var", size, "", use, "statistic")


def plain_convnet():
    """tf.layers' default names against a Sequential."""
    port, numbers = Port(), iter(range(10))
    for at, (inputs, outputs) in enumerate([(3, 16), (16, 16), (16, 16), (16, 16)]):
        tail = f"_{at}" if at else ""
        number = 3 * next(numbers)
        port.conv(f"conv2d{tail}", f"features.{number}", 3, inputs, outputs)
        port.norm(f"batch_normalization{tail}", f"features.{number + 1}", outputs)
    port.dense("dense", "classifier.0", 16, 32)
    port.dense("dense_1", "classifier.2", 32, 32)
    port.dense("dense_2", "classifier.4", 32, 10)
    return port


def residual_net():
    """slim's bottleneck scopes, the shortcut made first, against torchvision's names, the downsample registered last."""
    port = Port()
    port.conv("resnet_v1/conv1", "conv1", 7, 3, 8, bias=False, names=("weights", ""))
    port.norm("resnet_v1/conv1/BatchNorm", "bn1", 8)
    inputs = 8
    for block, units in ((1, 2), (2, 2)):
        width = 4 * block
        for unit in range(units):
            tf, torch = f"resnet_v1/block{block}/unit_{unit + 1}/bottleneck_v1", f"layer{block}.{unit}"
            made = []
            if unit == 0:
                made.append(("shortcut", "downsample.0", "downsample.1", 1, inputs, 4 * width))
            made.append(("conv1", "conv1", "bn1", 1, inputs, width))
            made.append(("conv2", "conv2", "bn2", 3, width, width))
            made.append(("conv3", "conv3", "bn3", 1, width, 4 * width))
            for name, conv, norm, size, into, out in made:
                port.conv(f"{tf}/{name}", f"{torch}.{conv}", size, into, out, bias=False, names=("weights", ""))
                port.norm(f"{tf}/{name}/BatchNorm", f"{torch}.{norm}", out)
            inputs = 4 * width
    port.dense("resnet_v1/logits", "fc", inputs, 10, names=("weights", "biases"))
    order = {v.name: n for n, v in enumerate(port.candidate)}
    port.candidate.sort(
        key=lambda v: (
            v.name.rpartition(".downsample")[0]
            or v.name.rpartition(".")[0].rpartition(".")[0]
            or ("" if order[v.name] < 6 else "~"),
            "downsample" in v.name,
            order[v.name],
        )
    )
    return port


def mobile_net():
    """Depthwise and pointwise kernels."""
    port = Port()
    port.conv("MobilenetV1/Conv2d_0", "features.0.0", 3, 3, 8, bias=False, names=("weights", ""))
    port.norm("MobilenetV1/Conv2d_0/BatchNorm", "features.0.1", 8)
    for at in range(1, 4):
        scope = f"MobilenetV1/Conv2d_{at}"
        port.tf(f"{scope}_depthwise/depthwise_weights", (3, 3, 8, 1), DEPTH)
        port.torch(f"features.{at}.0.weight", (8, 1, 3, 3), "Conv2d")
        port.means(f"{scope}_depthwise/depthwise_weights", f"features.{at}.0.weight", "hwcm_to_depthwise")
        port.norm(f"{scope}_depthwise/BatchNorm", f"features.{at}.1", 8)
        port.conv(f"{scope}_pointwise", f"features.{at}.3", 1, 8, 8, bias=False, names=("weights", ""))
        port.norm(f"{scope}_pointwise/BatchNorm", f"features.{at}.4", 8)
    port.conv("MobilenetV1/Logits/Conv2d_1c_1x1", "classifier", 1, 8, 10, names=("weights", "biases"))
    return port


def transformer():
    """Separate kernels of query, key and value against packed ones; heads with axes of their own."""
    port, d = Port(), 16
    port.tf("embedding/table", (50, d), "GatherV2")
    port.torch("embed.weight", (50, d), "Embedding")
    port.means("embedding/table", "embed.weight")
    for at in range(2):
        tf, torch = f"encoder/layer_{at}", f"encoder.layers.{at}"
        port.torch(f"{torch}.self_attn.in_proj_weight", (3 * d, d), "MultiheadAttention")
        port.torch(f"{torch}.self_attn.in_proj_bias", (3 * d,), "MultiheadAttention")
        for row, what in enumerate(("query", "key", "value")):
            port.tf(f"{tf}/attention/{what}/kernel", (d, 4, d // 4), "Einsum")
            port.tf(f"{tf}/attention/{what}/bias", (4, d // 4), "AddV2")
            packed = f"{torch}.self_attn.in_proj_"
            port.means(
                f"{tf}/attention/{what}/kernel", f"{packed}weight", f"reshape({d}, {d}) | transpose | rows({row}, 3)"
            )
            port.means(f"{tf}/attention/{what}/bias", f"{packed}bias", f"reshape({d}) | rows({row}, 3)")
        port.tf(f"{tf}/attention/output/kernel", (4, d // 4, d), "Einsum")
        port.torch(f"{torch}.self_attn.out_proj.weight", (d, d), "NonDynamicallyQuantizableLinear")
        port.means(
            f"{tf}/attention/output/kernel", f"{torch}.self_attn.out_proj.weight", f"reshape({d}, {d}) | transpose"
        )
        port.vector(
            f"{tf}/attention/output/bias",
            f"{torch}.self_attn.out_proj.bias",
            d,
            "AddV2",
            "NonDynamicallyQuantizableLinear",
        )
        for name, own in (("LayerNorm", "norm1"), ("LayerNorm_1", "norm2")):
            port.vector(f"{tf}/{name}/gamma", f"{torch}.{own}.weight", d, "Mul", "LayerNorm")
            port.vector(f"{tf}/{name}/beta", f"{torch}.{own}.bias", d, "AddV2", "LayerNorm")
        port.dense(f"{tf}/ffn/dense", f"{torch}.linear1", d, 32)
        port.dense(f"{tf}/ffn/dense_1", f"{torch}.linear2", 32, d)
    port.dense("logits", "head", d, 50)
    return port


def recurrent_net():
    """A bidirectional LSTM of two layers, fw before bw in each."""
    port, h = Port(), 6
    port.tf("embeddings", (40, 8), "GatherV2")
    port.torch("embed.weight", (40, 8), "Embedding")
    port.means("embeddings", "embed.weight")
    for layer, inputs in ((0, 8), (1, 12)):
        for way, tail in (("fw", ""), ("bw", "_reverse")):
            scope = f"layer_{layer}/bidirectional_rnn/{way}/lstm_cell"
            port.tf(f"{scope}/kernel", (inputs + h, 4 * h), "MatMul")
            port.tf(f"{scope}/bias", (4 * h,), "BiasAdd")
            own = f"l{layer}{tail}"
            for what, shape in (
                ("weight_ih", (4 * h, inputs)),
                ("weight_hh", (4 * h, h)),
                ("bias_ih", (4 * h,)),
                ("bias_hh", (4 * h,)),
            ):
                port.torch(f"lstm.{what}_{own}", shape, "LSTM")
            port.means(f"{scope}/kernel", (f"lstm.weight_ih_{own}", f"lstm.weight_hh_{own}"), "lstm_gates")
            port.means(f"{scope}/bias", (f"lstm.bias_ih_{own}", f"lstm.bias_hh_{own}"), "lstm_bias(1.0)")
    port.dense("output", "fc", 12, 3)
    return port


def auto_encoder():
    """Dense layers of one shape on the way down and up, raw names; mu and the log of the variance side by side."""
    port = Port()
    for name, own, inputs, outputs in (
        ("enc/h1", "encoder.0", 20, 12),
        ("enc/h2", "encoder.2", 12, 12),
        ("enc/mu", "fc_mu", 12, 4),
        ("enc/log_sigma", "fc_logvar", 12, 4),
        ("dec/h1", "decoder.0", 4, 12),
        ("dec/h2", "decoder.2", 12, 12),
        ("dec/out", "decoder.4", 12, 20),
    ):
        port.dense(name, own, inputs, outputs, names=("w", "b"))
    return port


def adversaries():
    """A generator and a discriminator, the port's in the other order."""
    port = Port()
    port.dense("discriminator/dense", "netD.0", 10, 16)
    port.dense("discriminator/dense_1", "netD.2", 16, 16)
    port.dense("discriminator/dense_2", "netD.4", 16, 1)
    many = len(port.candidate)
    port.dense("generator/dense", "netG.0", 10, 16)
    port.dense("generator/dense_1", "netG.2", 16, 16)
    port.dense("generator/dense_2", "netG.4", 16, 10)
    port.candidate = port.candidate[many:] + port.candidate[:many]
    return port


def wide_and_deep():
    """Columns with equal numbers of buckets: only their names tell them."""
    port, columns = Port(), ("city", "device", "hour", "language")
    for name in columns:
        port.tf(f"dnn/input_from_feature_columns/input_layer/{name}_embedding/embedding_weights", (100, 8), "GatherV2")
        port.means(
            f"dnn/input_from_feature_columns/input_layer/{name}_embedding/embedding_weights",
            f"deep_embeddings.{name}.weight",
        )
    port.dense("dnn/hiddenlayer_0", "deep.0", 32, 16)
    port.dense("dnn/hiddenlayer_1", "deep.2", 16, 16)
    port.dense("dnn/logits", "deep.4", 16, 1)
    for name in columns:
        port.tf(f"linear/linear_model/{name}/weights", (100, 1), "GatherV2")
        port.means(f"linear/linear_model/{name}/weights", f"wide.{name}.weight")
    port.vector("linear/linear_model/bias_weights", "wide_bias", 1, "BiasAdd", "")
    for name in reversed(columns):
        port.torch(f"deep_embeddings.{name}.weight", (100, 8), "Embedding")
        port.torch(f"wide.{name}.weight", (100, 1), "Embedding")
    return port


def detection_head():
    """Classes and boxes from maps of three sizes."""
    port = Port()
    port.conv("backbone/conv1", "backbone.0", 3, 3, 8)
    port.conv("backbone/conv2", "backbone.2", 3, 8, 8)
    for at in range(3):
        port.conv(f"head/class_{at}", f"cls_heads.{at}", 3, 8, 12)
        port.conv(f"head/box_{at}", f"reg_heads.{at}", 3, 8, 12)
    cls = [v for v in port.candidate if not v.name.startswith("reg_heads")]
    port.candidate = cls + [v for v in port.candidate if v.name.startswith("reg_heads")]
    return port


def flattened_net():
    """A dense layer behind a map, raw get_variable names."""
    port = Port()
    port.tf("w1", (5, 5, 1, 8), CONV)
    port.tf("b1", (8,), ADD)
    port.tf("w2", (5, 5, 8, 16), CONV)
    port.tf("b2", (16,), ADD)
    port.tf("w3", (7 * 7 * 16, 32), DENSE)
    port.tf("b3", (32,), ADD)
    port.tf("w4", (32, 10), DENSE)
    port.tf("b4", (10,), ADD)
    for name, own, shape, use, text in (
        ("1", "conv1", (8, 1, 5, 5), "Conv2d", "hwio_to_oihw"),
        ("2", "conv2", (16, 8, 5, 5), "Conv2d", "hwio_to_oihw"),
        ("3", "fc1", (32, 784), "Linear", "flatten_hwc(7, 7, 16)"),
        ("4", "fc2", (10, 32), "Linear", "transpose"),
    ):
        port.torch(f"{own}.weight", shape, use)
        port.torch(f"{own}.bias", shape[:1], use)
        port.means(f"w{name}", f"{own}.weight", text)
        port.means(f"b{name}", f"{own}.bias")
    return port


def upside_down():
    """A dense layer whose outputs become a map, normalised before they do; transposed convolutions."""
    port, channels = Port(), 16
    size = 4 * 4 * channels
    made = f"unflatten_hwc(4, 4, {channels})"
    port.dense("generator/dense", "net.0", 10, size, transform=made)
    port.means("generator/dense/bias", "net.0.bias", made)
    port.norm("generator/batch_normalization", "net.1", size, "BatchNorm1d")
    for name, own in (
        ("gamma", "weight"),
        ("beta", "bias"),
        ("moving_mean", "running_mean"),
        ("moving_variance", "running_var"),
    ):
        port.means(f"generator/batch_normalization/{name}", f"net.1.{own}", made)
    for at, (inputs, outputs) in enumerate([(16, 8), (8, 1)]):
        scope, own = f"generator/conv2d_transpose{f'_{at}' if at else ''}", f"net.{4 + 3 * at}"
        port.tf(f"{scope}/kernel", (5, 5, outputs, inputs), "Conv2DBackpropInput")
        port.torch(f"{own}.weight", (inputs, outputs, 5, 5), "ConvTranspose2d")
        port.means(f"{scope}/kernel", f"{own}.weight", "hwoi_to_iohw")
        port.vector(f"{scope}/bias", f"{own}.bias", outputs, ADD, "ConvTranspose2d")
    return port


def fused_attention():
    """One kernel for query, key and value, as GPT-2 has it, against three layers; a dense layer as a convolution."""
    port, d = Port(), 8
    port.tf("model/wte", (30, d), "GatherV2+MatMul")
    port.torch("tok_emb.weight", (30, d), "Embedding")
    port.means("model/wte", "tok_emb.weight")
    for at in range(2):
        tf, torch = f"model/h{at}", f"blocks.{at}"
        port.vector(f"{tf}/ln_1/g", f"{torch}.ln1.weight", d, "Mul", "LayerNorm")
        port.vector(f"{tf}/ln_1/b", f"{torch}.ln1.bias", d, "AddV2", "LayerNorm")
        port.tf(f"{tf}/attn/c_attn/w", (d, 3 * d), "MatMul")
        port.tf(f"{tf}/attn/c_attn/b", (3 * d,), "AddV2")
        names = [f"{torch}.attn.{name}" for name in ("q_proj", "k_proj", "v_proj")]
        for name in names:
            port.torch(f"{name}.weight", (d, d), "Linear")
            port.torch(f"{name}.bias", (d,), "Linear")
        port.means(f"{tf}/attn/c_attn/w", [f"{name}.weight" for name in names], "split(3)")
        port.means(f"{tf}/attn/c_attn/b", [f"{name}.bias" for name in names], "split(3)")
        port.tf(f"{tf}/attn/c_proj/w", (1, d, d), "MatMul")
        port.torch(f"{torch}.attn.out_proj.weight", (d, d), "Linear")
        port.means(f"{tf}/attn/c_proj/w", f"{torch}.attn.out_proj.weight", f"reshape({d}, {d}) | transpose")
        port.vector(f"{tf}/attn/c_proj/b", f"{torch}.attn.out_proj.bias", d, "AddV2", "Linear")
    return port


def old_style_names():
    """Weights and biases by hand: W_conv1, b_conv1; a dense layer as a convolution over the whole map."""
    port = Port()
    for at, (size, inputs, outputs, own) in enumerate([(3, 1, 8, "features.0"), (3, 8, 8, "features.3")]):
        port.tf(f"W_conv{at + 1}", (size, size, inputs, outputs), CONV)
        port.tf(f"b_conv{at + 1}", (outputs,), "AddV2")
        port.torch(f"{own}.weight", (outputs, inputs, size, size), "Conv2d")
        port.torch(f"{own}.bias", (outputs,), "Conv2d")
        port.means(f"W_conv{at + 1}", f"{own}.weight", "hwio_to_oihw")
        port.means(f"b_conv{at + 1}", f"{own}.bias")
    port.tf("W_fc6", (5, 5, 8, 16), CONV)
    port.tf("b_fc6", (16,), "AddV2")
    port.torch("classifier.0.weight", (16, 200), "Linear")
    port.torch("classifier.0.bias", (16,), "Linear")
    port.means("W_fc6", "classifier.0.weight", "reshape(200, 16) | flatten_hwc(5, 5, 8)")
    port.means("b_fc6", "classifier.0.bias")
    port.tf("scale", (), "Mul")
    port.torch("scale", (1,), "")
    port.means("scale", "scale", "reshape(1)")
    return port


def plain_recurrent():
    """A plain recurrent cell, an attention with keys of another size, and two embeddings of one shape."""
    port, d, h = Port(), 8, 6
    port.tf("embeddings", (40, d), "GatherV2")
    port.tf("nce_weights", (40, d), "GatherV2")
    port.torch("in_embed.weight", (40, d), "Embedding")
    port.torch("nce.weight", (40, d), "")
    port.means("embeddings", "in_embed.weight")
    port.means("nce_weights", "nce.weight")
    port.tf("rnn/basic_rnn_cell/kernel", (d + h, h), "MatMul")
    port.tf("rnn/basic_rnn_cell/bias", (h,), "BiasAdd")
    for what, shape in (("weight_ih", (h, d)), ("weight_hh", (h, h)), ("bias_ih", (h,)), ("bias_hh", (h,))):
        port.torch(f"rnn.{what}_l0", shape, "RNN")
    port.means("rnn/basic_rnn_cell/kernel", ("rnn.weight_ih_l0", "rnn.weight_hh_l0"), "rnn_kernel")
    port.means("rnn/basic_rnn_cell/bias", ("rnn.bias_ih_l0", "rnn.bias_hh_l0"), "sum")
    for name, own, size in (("q", "q", h), ("k", "k", 4), ("v", "v", 4)):
        port.tf(f"att/{name}/kernel", (size, h), "MatMul")
        port.torch(f"att.{own}_proj_weight", (h, size), "MultiheadAttention")
        port.means(f"att/{name}/kernel", f"att.{own}_proj_weight", "transpose | rows(0, 1)")
    return port


def decoder_of_a_transformer():
    """Two attentions in a layer, the port's packed, the tower's dense layers by tf.layers' default names."""
    port, d, numbers = Port(), 8, iter(range(99))

    def dense(inputs, outputs):
        number = next(numbers)
        name = f"decoder/dense{f'_{number}' if number else ''}"
        port.tf(f"{name}/kernel", (inputs, outputs), "MatMul")
        port.tf(f"{name}/bias", (outputs,), "BiasAdd")
        return name

    for at in range(2):
        for what in ("self_attn", "multihead_attn"):
            own = f"layers.{at}.{what}"
            port.torch(f"{own}.in_proj_weight", (3 * d, d), "MultiheadAttention")
            port.torch(f"{own}.in_proj_bias", (3 * d,), "MultiheadAttention")
            for row in range(3):
                name = dense(d, d)
                port.means(f"{name}/kernel", f"{own}.in_proj_weight", f"transpose | rows({row}, 3)")
                port.means(f"{name}/bias", f"{own}.in_proj_bias", f"rows({row}, 3)")
            name = dense(d, d)
            for role, text in (("kernel", "transpose"), ("bias", "identity")):
                part = f"{own}.out_proj.{'weight' if role == 'kernel' else role}"
                port.torch(part, (d, d) if role == "kernel" else (d,), "NonDynamicallyQuantizableLinear")
                port.means(f"{name}/{role}", part, text)
        for own, inputs, outputs in ((f"layers.{at}.linear1", d, 16), (f"layers.{at}.linear2", 16, d)):
            name = dense(inputs, outputs)
            port.torch(f"{own}.weight", (outputs, inputs), "Linear")
            port.torch(f"{own}.bias", (outputs,), "Linear")
            port.means(f"{name}/kernel", f"{own}.weight", "transpose")
            port.means(f"{name}/bias", f"{own}.bias")
    return port


def points():
    """Convolutions over points written in two dimensions, the first over a whole axis, against those in one dimension."""
    port = Port()
    for tf, torch, inputs, outputs in (
        ("align/c1", "align.0", (1, 3, 1), 10),
        ("align/c2", "align.3", (1, 1, 10), 20),
        ("points/c1", "body.0", (1, 3, 1), 14),
        ("points/c2", "body.3", (1, 1, 14), 14),
        ("points/c3", "body.6", (1, 1, 14), 42),  # as many channels as the first kernel has elements
    ):
        channels = inputs[1] * inputs[2]
        port.tf(f"{tf}/w", (*inputs, outputs), CONV)
        port.torch(f"{torch}.weight", (outputs, channels, 1), "Conv1d")
        flat = inputs[1] == 1
        text = f"reshape(1, {channels}, {outputs}) | wio_to_oiw" if flat else f"hwio_to_oihw | reshape({outputs}, 3, 1)"
        port.means(f"{tf}/w", f"{torch}.weight", text)
        port.vector(f"{tf}/b", f"{torch}.bias", outputs, ADD, "Conv1d")
        norm = f"{torch.split('.')[0]}.{int(torch.split('.')[1]) + 1}"
        port.vector(f"{tf}/bn/gamma", f"{norm}.weight", outputs, "Mul", "BatchNorm1d")
        port.vector(f"{tf}/bn/beta", f"{norm}.bias", outputs, "Sub", "BatchNorm1d")
    return port


def everything_a_convolution():
    """Kernels and biases with an axis of length 1 in front, packed for attention on both sides, and a depthwise one."""
    port, d = Port(), 8
    for at in range(2):
        tf, torch = f"model/h{at}", f"blocks.{at}"
        port.tf(f"{tf}/attn/c_attn/w", (1, d, 3 * d), DENSE)
        port.torch(f"{torch}.attn.in_proj_weight", (3 * d, d), "MultiheadAttention")
        port.means(f"{tf}/attn/c_attn/w", f"{torch}.attn.in_proj_weight", f"reshape({d}, {3 * d}) | transpose")
        port.tf(f"{tf}/attn/c_attn/b", (1, 3 * d), "AddV2")
        port.torch(f"{torch}.attn.in_proj_bias", (3 * d,), "MultiheadAttention")
        port.means(f"{tf}/attn/c_attn/b", f"{torch}.attn.in_proj_bias", f"reshape({3 * d})")
        port.tf(f"{tf}/attn/c_proj/w", (1, d, d), DENSE)
        port.torch(f"{torch}.attn.out_proj.weight", (d, d), "NonDynamicallyQuantizableLinear")
        port.means(f"{tf}/attn/c_proj/w", f"{torch}.attn.out_proj.weight", f"reshape({d}, {d}) | transpose")
        port.vector(f"{tf}/attn/c_proj/b", f"{torch}.attn.out_proj.bias", d, "AddV2", "NonDynamicallyQuantizableLinear")
    port.tf("mix/depthwise", (1, 3, d, 2), DEPTH)
    port.torch("mix.weight", (2 * d, 1, 3), "Conv1d")
    port.means("mix/depthwise", "mix.weight", f"hwcm_to_depthwise | reshape({2 * d}, 1, 3)")
    return port


def bias_of_each_row():
    """A table that its name calls a bias, looked up as another table is, and dense biases of one row."""
    port = Port()
    port.tf("row_table", (50, 4), "GatherV2")
    port.torch("second_order.weight", (50, 4), "Embedding")
    port.means("row_table", "second_order.weight")
    port.tf("row_bias", (50, 1), "GatherV2")
    port.torch("first_order.weight", (50, 1), "Embedding")
    port.means("row_bias", "first_order.weight")
    for at, (inputs, outputs) in enumerate(((20, 12), (12, 6))):
        port.tf(f"layer_{at}", (inputs, outputs), DENSE)
        port.torch(f"mlp.{2 * at}.weight", (outputs, inputs), "Linear")
        port.means(f"layer_{at}", f"mlp.{2 * at}.weight", "transpose")
        port.tf(f"bias_{at}", (1, outputs), "AddV2")
        port.torch(f"mlp.{2 * at}.bias", (outputs,), "Linear")
        port.means(f"bias_{at}", f"mlp.{2 * at}.bias", f"reshape({outputs})")
    return port


def gated_cells(order="0, 1, 2"):
    """Gates by hand, packed with a bias for each product, and each on its own, against torch's GRU and GRUCell."""
    port, h = Port(), 6
    for own, torch, inputs in (("W", "weight_ih_l0", 5), ("U", "weight_hh_l0", h)):
        port.tf(f"cell/{own}", (inputs, 3 * h), DENSE)
        port.torch(f"first.{torch}", (3 * h, inputs), "GRU")
        port.means(f"cell/{own}", f"first.{torch}", f"gates({order})")
    for own, torch in (("b_w", "bias_ih_l0"), ("b_u", "bias_hh_l0")):
        port.tf(f"cell/{own}", (3 * h,), "AddV2")
        port.torch(f"first.{torch}", (3 * h,), "GRU")
        port.means(f"cell/{own}", f"first.{torch}", f"gates({order})")
    for what, shape in (("weight_ih", (12, 7)), ("weight_hh", (12, 4)), ("bias_ih", (12,)), ("bias_hh", (12,))):
        port.torch(f"second.{what}", shape, "GRUCell")
    for row, gate in enumerate(("reset", "update", "new")):
        for own, torch, inputs in (("x", "ih", 7), ("h", "hh", 4)):
            port.tf(f"{gate}/kernel_{own}", (inputs, 4), DENSE)
            port.tf(f"{gate}/bias_{own}", (4,), ADD)
            port.means(f"{gate}/kernel_{own}", f"second.weight_{torch}", f"transpose | rows({row}, 3)")
            port.means(f"{gate}/bias_{own}", f"second.bias_{torch}", f"rows({row}, 3)")
    return port


PORTS = {
    make.__name__: make
    for make in (
        plain_convnet,
        residual_net,
        mobile_net,
        transformer,
        recurrent_net,
        auto_encoder,
        adversaries,
        wide_and_deep,
        detection_head,
        flattened_net,
        upside_down,
        fused_attention,
        old_style_names,
        plain_recurrent,
        decoder_of_a_transformer,
        points,
        everything_a_convolution,
        bias_of_each_row,
        gated_cells,
    )
}
