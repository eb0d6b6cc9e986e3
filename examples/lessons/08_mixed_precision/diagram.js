// Rounds the lesson's gradients to float16 under a loss scale of your choice, on a logarithmic line.
diagram({
  about: "The lesson's forty gradients on their way through float16. Below the grey band everything is zero, above it infinite.",
  controls: [
    { name: "power", label: "Loss scale", min: 0, max: 24, value: 0, show: (each) => n(2 ** each) },
    { name: "size", label: "Gradients times", options: [0.001, 1, 1000], value: 1 },
    { name: "dtype", label: "Half precision", options: ["float16", "bfloat16"], value: "float16" },
  ],
  draw({ power, size, dtype }) {
    const [bits, least, largest] = dtype === "float16" ? [11, -24, 65504] : [8, -133, 3.3895e38];
    const half = (value) => {
      const spacing = 2 ** Math.max(Math.floor(Math.log2(value)) - bits + 1, least), units = value / spacing, low = Math.floor(units);
      const up = units - low > 0.5 || (units - low === 0.5 && low % 2 === 1);
      const found = (low + (up ? 1 : 0)) * spacing;
      return found > largest ? Infinity : found;
    };
    const exact = NUMBERS.exact.map((value) => value * size), scale = 2 ** power, found = exact.map((value) => half(value * scale) / scale);
    const zero = found.filter((value) => value === 0).length, over = found.filter((value) => !Number.isFinite(value)).length;
    const errors = found.map((value, at) => Math.min(1, Math.abs(value / exact[at] - 1) || 0)).sort((one, other) => one - other), error = over ? NaN : (errors[19] + errors[20]) / 2;
    const width = 560, low = -14, high = 10, across = (value) => 30 + (width - 60) * (Math.min(high, Math.max(low, Math.log10(value))) - low) / (high - low);
    const [from, to] = [across(2 ** (least - 1)), across(largest)];
    const shapes = [bar(from, 40, to - from, 70, "soft"), label((from + to) / 2, 32, `what ${dtype} can hold`, "dim")];
    exact.forEach((value, at) => {
      const kind = found[at] === 0 ? "b" : Number.isFinite(found[at]) ? "a" : "d";
      shapes.push(drawn("circle", { cx: across(value * scale), cy: 52 + (at % 6) * 9, r: 4.5, class: kind }));
    });
    range(9).forEach((at) => shapes.push(label(across(10 ** (low + at * 3)), 132, `1e${low + at * 3}`, "dim")));
    shapes.push(line([[10, 116], [width - 10, 116]], "axis"));
    [["zero", zero, "b"], ["kept", 40 - zero - over, "a"], ["infinite", over, "d"]].forEach(([words, count, kind], at) => {
      shapes.push(label(80, 164 + at * 26, words, "right"), bar(90, 150 + at * 26, count * 9, 18, kind), label(98 + count * 9, 164 + at * 26, String(count), "left"));
    });
    const verdict = over ? "A dynamic scale would skip this step and halve itself." : zero ? "A larger scale would save them." : "Nothing is lost.";
    return {
      width, height: 226, shapes,
      told: `Loss scale ${n(scale)}, ${dtype}: of 40 gradients ${zero} become zero and ${over} infinite${over ? "" : `; the median error is ${n(100 * error, 3)} %`}. ${verdict}`,
      caption: "Measured, in both frameworks", head: ["", "zeros", "median error"],
      rows: [["float16", NUMBERS.lost.plain, `${n(100 * NUMBERS.off.plain, 3)} %`], [`float16, loss times ${n(NUMBERS.scale)}`, NUMBERS.lost.scaled, `${n(100 * NUMBERS.off.scaled, 3)} %`]],
    };
  },
});
