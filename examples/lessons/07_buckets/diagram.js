// A backward pass and its all-reduces on a line of time; a bucket goes when it is full, and one at a time.
diagram({
  about: "Backward computes layer after layer, from the last to the first; a bucket is sent when all its layers are ready. Units of time: one layer's backward is 10.",
  controls: [
    { name: "layers", label: "Layers in a bucket", options: [1, 2, 3, NUMBERS.layers], value: 2 },
    { name: "wire", label: "Time to send a layer", min: 1, max: 20, value: 8 },
    { name: "latency", label: "Latency of each send", min: 0, max: 20, value: 3 },
  ],
  draw({ layers, wire, latency }) {
    const all = NUMBERS.layers, each = 10, run = (size) => {
      const sends = [];
      let free = 0;
      for (let done = size; done <= all; done += size) {
        const start = Math.max(done * each, free);
        free = start + latency + size * wire;
        sends.push([start, free, range(size).map((at) => all - 1 - (done - size + at))]);
      }
      return sends;
    };
    const sends = run(layers), end = sends[sends.length - 1][1], alone = run(all)[0][1], best = Math.min(...divisors(all).map((size) => run(size).at(-1)[1]));
    const width = 560, long = Math.max(end, alone), across = (time) => 80 + (width - 90) * time / long;
    const shapes = [label(74, 36, "backward", "right"), label(74, 86, "all-reduce", "right"), label(74, 136, "one bucket", "right")];
    range(all).forEach((at) => shapes.push(box(across(at * each) + 1, 14, across(each) - across(0) - 2, 34, [String(all - 1 - at)], "soft")));
    const colours = ["a", "b", "c", "d"];
    sends.forEach(([from, to, inside], at) => {
      shapes.push(box(across(from), 64, across(to) - across(from), 34, [across(to) - across(from) > 13 * inside.length ? inside.join(",") : ""], "good"));
      shapes.push(line([[across((at + 1) * layers * each), 50], [across((at + 1) * layers * each), 63]], colours[at % 4]));
    });
    shapes.push(box(across(all * each), 114, across(alone) - across(all * each), 34, [], ""), line([[across(end), 8], [across(end), 156]], "axis"));
    shapes.push(label(Math.min(across(end), width - 40), 170, `done at ${n(end)}`, "dim"));
    const hidden = sum(sends.map(([from, to]) => Math.max(0, Math.min(to, all * each) - Math.min(from, all * each)))), spent = sum(sends.map(([from, to]) => to - from));
    return {
      width, height: 178, shapes,
      told: `${sends.length} bucket${sends.length > 1 ? "s" : ""} of ${layers} layer${layers > 1 ? "s" : ""}: the step's gradients are there at ${n(end)}, ${n(100 * hidden / spent, 3)} % of the sending is hidden behind backward. One bucket for everything: ${n(alone)}. ${end === best ? "No other size here is faster." : `The best size here takes ${n(best)}.`}`,
      caption: "Measured: what was in each bucket, in the order of sending", head: ["bucket_cap_mb holds", "buckets", "bytes", "first sent before backward ended"],
      rows: Object.entries(NUMBERS.sent).map(([name, buckets]) => [name, buckets.map((bucket) => bucket.layers.join("+")).join(" | "), sum(buckets.map((bucket) => bucket.bytes)), NUMBERS.early[name] ? "yes" : "no"]),
    };
  },
});
