// How far ports are from the towers, over the tensors of a step or over steps, with the looks of a search by halving.
const PORTS = { "as it should be": "right", "one bug fixed": "second", "as it came": "both" }, LEAST = 1e-18;

// The places that a search by halving looks at, as the lesson's script searches.
function looksOf(values, tolerance) {
  let low = 0, high = values.length;
  const looks = [];
  while (low < high) {
    const middle = Math.floor((low + high) / 2), same = values[middle] <= tolerance;
    looks.push(middle);
    if (same) low = middle + 1; else high = middle;
  }
  return { first: low, looks };
}

diagram({
  about: "The largest difference from the towers, relative, logarithmic, in the order of computation; 0 is drawn at the lower end. Numbered are the looks of a search by halving.",
  controls: [
    { name: "over", label: "Over", options: ["tensors of step 0", "weights before a step"], value: "tensors of step 0" },
    { name: "port", label: "Port", options: Object.keys(PORTS), value: "as it came" },
    { name: "dtype", label: "Precision", options: ["float64", "float32"], value: "float64" },
    { name: "power", label: "Tolerance, as a power of ten", min: -16, max: -3, value: -12 },
  ],
  draw({ over, port, dtype, power }) {
    const layers = over === "tensors of step 0", values = (layers ? NUMBERS.layers : NUMBERS.by_step)[PORTS[port]][dtype];
    const names = layers ? NUMBERS.tensors : values.map((_, step) => String(step)), tolerance = 10 ** power;
    const { first, looks } = looksOf(values, tolerance), left = 66, row = 15, width = 600;
    const across = (value) => left + (width - left - 40) * Math.min(1, Math.max(0, Math.log10(Math.max(LEAST, value)) + 18) / 18);
    const shapes = [];
    values.forEach((value, place) => {
      const y = 6 + place * row, look = looks.indexOf(place) + 1;
      shapes.push(label(left - 8, y + 11, names[place], place === first ? "right big" : "right dim"));
      shapes.push(bar(left, y + 1, Math.max(1, across(value) - left), row - 3, value > tolerance ? "b" : "c"));
      if (look) shapes.push(label(across(value) + 5, y + 11, String(look), "left"));
    });
    const y = 6 + values.length * row;
    shapes.push(line([[left, 2], [left, y], [width - 40, y]], "axis"), line([[across(tolerance), 2], [across(tolerance), y]], "axis"));
    for (const level of [-18, -15, -12, -9, -6, -3, 0]) shapes.push(label(across(10 ** level), y + 15, `1e${level}`, "dim"));
    const thing = (place) => (layers ? names[place] : `the weights before step ${names[place]}`);
    return {
      width, height: y + 22, shapes,
      told: `The port ${port}, ${dtype}, tolerance 1e${power}: ${looks.length} looks at ${values.length} places. ` +
        (first === values.length ? "Nothing is beyond the tolerance." : `The first beyond it is ${thing(first)}, ${n(values[first], 4)}; ${values.filter((value) => value > tolerance).length} are.`),
      caption: "The looks", head: ["look", layers ? "tensor" : "before step", "difference"],
      rows: looks.map((place, at) => [String(at + 1), names[place], n(values[place], 4)]),
    };
  },
});
