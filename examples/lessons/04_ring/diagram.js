// The ring for any number of ranks, one step after the other; the steps for four ranks are those that were measured.
diagram({
  about: "Which ranks' parts are in each chunk. A chunk is finished, and green, when it holds everybody's.",
  controls: [
    { name: "size", label: "Ranks (and chunks)", min: 2, max: 8, value: NUMBERS.most },
    { name: "step", label: "Steps done", min: 0, max: 14, value: 3 },
  ],
  draw({ size, step }) {
    const done = Math.min(step, 2 * (size - 1)), names = "01234567".slice(0, size);
    let holds = names.split("").map((name) => range(size).map(() => name));
    let sent = range(size).map(() => -1);
    range(done).forEach((at) => {
      const reducing = at < size - 1, turn = reducing ? at : at - size, before = holds.map((row) => [...row]);
      range(size).forEach((rank) => {
        const chunk = ((rank - turn) % size + size) % size, right = (rank + 1) % size;
        holds[right][chunk] = reducing ? [...new Set([...before[rank][chunk], ...before[right][chunk]])].sort().join("") : before[rank][chunk];
        sent[rank] = chunk;
      });
    });
    const width = 560, left = 66, cell = (width - left - 4) / size, tall = 30, shapes = [];
    range(size).forEach((chunk) => shapes.push(label(left + (chunk + 0.5) * cell, 13, `chunk ${chunk}`, "dim")));
    holds.forEach((row, rank) => {
      const y = 20 + rank * (tall + 6);
      shapes.push(label(left - 8, y + 19, `rank ${rank}`, "right"));
      row.forEach((who, chunk) => {
        const whole = who.length === size, going = sent[rank] === chunk;
        shapes.push(box(left + chunk * cell + 2, y, cell - 4, tall, [whole ? "all" : who], whole ? "good" : going ? "soft" : ""));
        if (going) shapes.push(label(left + (chunk + 1) * cell - 10, y + 12, "▼", "dim"));
      });
    });
    const y = 34 + size * (tall + 6), finished = holds.flat().filter((who) => who.length === size).length;
    const ring = 2 * (size - 1) / size, star = 2 * (size - 1), scale = (value) => 300 * value / 14;
    [["ring, each rank sends", ring, "a"], ["through rank 0, its traffic", star, "b"]].forEach(([words, value, kind], at) => {
      shapes.push(label(180, y + 15 + at * 28, words, "right"), bar(190, y + at * 28, scale(value), 20, kind), label(196 + scale(value), y + 15 + at * 28, `${n(value, 4)} tensors`, "left"));
    });
    const phase = done === 0 ? "Nothing is sent yet" : done < size ? "Reduce-scatter: partial sums go round" : done < 2 * (size - 1) ? "All-gather: finished chunks go round" : "Everybody has the sum";
    return {
      width, height: y + 56, shapes,
      told: `${size} ranks, ${done} of ${2 * (size - 1)} steps done. ${phase}; ${finished} of ${size * size} chunks are finished. In all each rank sends ${n(ring, 4)} times the tensor.`,
      caption: `Measured, ${NUMBERS.size.toLocaleString("en")} bytes on each rank`, head: ["ranks", "sent by each", "2(N-1)/N", "through rank 0"],
      rows: NUMBERS.sizes.map((each) => [String(each), NUMBERS.runs[each][0].sent, NUMBERS.bounds[each], NUMBERS.runs[each][0].through_root]),
    };
  },
});
