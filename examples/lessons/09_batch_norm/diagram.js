// Normalises the lesson's batch with the statistics of each tower, or of all.
diagram({
  about: "The lesson's eight values before and after batch norm (without gamma and beta), and the moving mean that each rule leaves after one step.",
  controls: [
    { name: "towers", label: "Towers", options: [1, 2, 4], value: 2 },
    { name: "how", label: "Statistics", options: ["per tower", "synchronised"], value: "per tower" },
    { name: "order", label: "Batch", options: ["sorted", "mixed"], value: "sorted" },
  ],
  draw({ towers, how, order }) {
    const z = order === "sorted" ? NUMBERS.z : range(8).map((at) => NUMBERS.z[(at % 2) * 4 + Math.floor(at / 2)]);
    const piece = z.length / towers, colours = ["a", "b", "c", "d"], width = 560;
    const normal = (values) => { const middle = mean(values), deviation = Math.sqrt(mean(values.map((value) => (value - middle) ** 2)) + NUMBERS.epsilon); return values.map((value) => (value - middle) / deviation); };
    const pieces = range(towers).map((tower) => z.slice(tower * piece, (tower + 1) * piece));
    const after = how === "synchronised" ? normal(z) : pieces.flatMap(normal), whole = normal(z);
    const low = Math.min(...z, ...after) - 0.3, high = Math.max(...z, ...after) + 0.3, across = (value) => 90 + (width - 110) * (value - low) / (high - low);
    const shapes = [label(80, 40, "before", "right"), label(80, 100, "after", "right"), label(80, 160, "one device", "right")];
    [[z, 36], [after, 96], [whole, 156]].forEach(([values, y]) => {
      shapes.push(line([[90, y], [width - 10, y]], "axis"));
      values.forEach((value, at) => shapes.push(drawn("circle", { cx: across(value), cy: y, r: 7, class: colours[Math.floor(at / piece)] }), label(across(value), y - 11 - (at % 2) * 9, String(at), "dim")));
    });
    const keep = NUMBERS.momentum, means = how === "synchronised" ? range(towers).map(() => mean(z)) : pieces.map(mean);
    const rules = how === "synchronised" ? [["all together", (1 - keep) * mean(z)]] : [["first tower", (1 - keep) * means[0]], ["last tower", (1 - keep) * means[towers - 1]], ["all, in order", means.reduce((old, each) => keep * old + (1 - keep) * each, 0)]];
    const most = Math.max(...rules.map(([, value]) => Math.abs(value)), 1e-9), zero = 330;
    rules.forEach(([words, value], at) => {
      const y = 186 + at * 26, long = Math.abs(value) / most * 150;
      shapes.push(label(140, y + 14, words, "right"), bar(value < 0 ? zero - long : zero, y, long, 18, colours[at]), label(value < 0 ? zero - long - 6 : zero + long + 6, y + 14, n(value, 4), value < 0 ? "right" : "left"));
    });
    shapes.push(line([[zero, 182], [zero, 186 + rules.length * 26]], "axis"));
    const off = Math.max(...after.map((value, at) => Math.abs(value - whole[at])));
    return {
      width, height: 270, shapes,
      told: `${towers} tower${towers > 1 ? "s" : ""}, ${how} statistics, ${order} batch: the normalised values are ${off < 1e-9 ? "those of one device" : `up to ${n(off, 3)} away from those of one device`}. The moving mean becomes ${rules.map(([words, value]) => `${n(value, 4)} by ${words}`).join(", ")}.`,
      caption: `Measured, ${NUMBERS.count} towers and ranks, sorted batch`, head: ["", "moving mean", "first gradient"],
      rows: [
        ["towers, first", NUMBERS.tf.first.mean, NUMBERS.tf.first.gradient[0]],
        ["DDP, rank 0", NUMBERS.torch["per rank"][0].mean, NUMBERS.torch["per rank"][0].gradient[0]],
        ["synchronised, towers", NUMBERS.tf.synchronised.mean, NUMBERS.tf.synchronised.gradient[0]],
        ["synchronised, ranks", NUMBERS.torch.synchronised[0].mean, NUMBERS.torch.synchronised[0].gradient[0]],
        ["one device", NUMBERS.torch.whole.mean, NUMBERS.torch.whole.gradient[0]],
      ],
    };
  },
});
