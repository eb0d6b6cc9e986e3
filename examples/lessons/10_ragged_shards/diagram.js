// Hands out the lesson's examples to any number of ranks, and works out the metric over what was handed out.
diagram({
  about: "The lesson's ten examples as cards, distributed round-robin. The colour of a card says whether its example counts once or twice.",
  controls: [
    { name: "ranks", label: "Ranks", min: 1, max: 8, value: NUMBERS.ranks },
    { name: "sampler", label: "Sampler", options: ["DistributedSampler", "drop_last", "ExactSampler"], value: "DistributedSampler" },
    { name: "size", label: "Examples", min: 8, max: NUMBERS.size, value: NUMBERS.size },
  ],
  draw({ ranks, sampler, size }) {
    const each = sampler === "drop_last" ? Math.floor(size / ranks) : Math.ceil(size / ranks);
    const dealt = range(ranks).map((rank) => range(each).map((at) => rank + at * ranks)
      .filter((index) => sampler !== "ExactSampler" || index < size).map((index) => index % size));
    const all = dealt.flat(), count = (index) => all.filter((other) => other === index).length;
    const twice = range(size).filter((index) => count(index) > 1), never = range(size).filter((index) => count(index) === 0);
    const found = mean(all.map((index) => NUMBERS.squared[index])), right = mean(NUMBERS.squared.slice(0, size));
    const width = 560, cell = Math.min(64, (width - 70) / each), shapes = [];
    dealt.forEach((indices, rank) => {
      const y = 6 + rank * 34;
      shapes.push(label(60, y + 19, `rank ${rank}`, "right"));
      indices.forEach((index, at) => shapes.push(box(68 + at * cell, y, cell - 4, 28, [String(index)], count(index) > 1 ? "bad" : "soft")));
    });
    const y = 16 + ranks * 34, most = Math.max(found, right), scale = (value) => 270 * value / most;
    [["each once", right, "c"], ["what was handed out", found, twice.length || never.length ? "b" : "c"]].forEach(([words, value, kind], at) => {
      shapes.push(label(160, y + 15 + at * 28, words, "right"), bar(170, y + at * 28, scale(value), 20, kind), label(176 + scale(value), y + 15 + at * 28, n(value, 4), "left"));
    });
    const off = 100 * (found / right - 1), list = (items) => items.join(", ");
    return {
      width, height: y + 60, shapes,
      told: `${size} examples over ${ranks} rank${ranks > 1 ? "s" : ""} by ${sampler}: ${twice.length ? `${list(twice)} come twice` : "none comes twice"}, ${never.length ? `${list(never)} never come` : "all come"}. The mean squared error is off by ${Math.abs(off) < 1e-9 ? "nothing" : n(off, 3) + " %"}.`,
      caption: `Measured, ${NUMBERS.size} examples, ${NUMBERS.ranks} ranks`, head: ["", "handed out", "mean squared error"],
      rows: [["DistributedSampler", NUMBERS.used.padded.length, NUMBERS.means.padded], ["drop_last", NUMBERS.used.dropping.length, NUMBERS.means.dropping], ["ExactSampler, evaluate", NUMBERS.used.exact.length, NUMBERS.torch.evaluated]],
    };
  },
});
