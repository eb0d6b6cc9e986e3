// The four reports of the lesson as ladders: the quantities of a step in order, with how far beyond the tolerance they are.
diagram({
  about: "Quantities of a step in the order in which they are computed, each with its worst tensor, in multiples of the tolerance. Within the line is rounding.",
  controls: [
    { name: "port", label: "Port", options: ["right", "one", "two", "three"], value: "one" },
    { name: "step", label: "Step", min: 0, max: 2, value: 0 },
  ],
  draw({ port, step }) {
    const found = NUMBERS.cases[port], rows = new Map();
    for (const [at, key, verdict, multiple] of found.checks) {
      if (at !== step || verdict === "not_run") continue;
      const name = key.split("/")[0], row = rows.get(name) || { worst: 0, count: 0, wrong: 0 };
      row.count += 1;
      row.wrong += verdict === "same" ? 0 : 1;
      row.worst = Math.max(row.worst, typeof multiple === "number" ? multiple : 1e15);
      rows.set(name, row);
    }
    const width = 560, low = -6, high = 15, left = 100, across = (value) => left + (width - left - 70) * (Math.min(high, Math.max(low, Math.log10(Math.max(value, 1e-300)))) - low) / (high - low);
    const shapes = [], first = [...rows].find(([, row]) => row.wrong);
    let y = 8;
    for (const [name, row] of rows) {
      const wrong = row.wrong > 0;
      shapes.push(label(left - 8, y + 15, name, first && first[0] === name ? "right big" : "right"), bar(left, y, across(row.worst) - left, 20, wrong ? "b" : "c"));
      shapes.push(label(across(row.worst) + 6, y + 15, wrong ? `${n(row.worst, 4)} ×` : "same", "left dim"));
      y += 27;
    }
    shapes.push(line([[across(1), 2], [across(1), y]], "axis"), label(across(1), y + 14, "tolerance", "dim"));
    const told = first
      ? `Port ${port}, step ${step}: everything before ${first[0]} is the same; ${first[0]} is the first to differ, by ${n(first[1].worst, 3)} times the tolerance.`
      : `Port ${port}, step ${step}: every quantity is the same, down to rounding.`;
    return {
      width, height: y + 24, shapes, told,
      caption: `Tensors of step ${step}`, head: ["quantity", "tensors", "not the same", "worst, of tolerance"],
      rows: [...rows].map(([name, row]) => [name, row.count, row.wrong, n(row.worst, 3)]),
    };
  },
});
