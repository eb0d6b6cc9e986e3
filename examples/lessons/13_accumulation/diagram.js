// A step in pieces on a line of time: computing, and the all-reduces between.
const WAYS = ["at once", "every piece", "no_sync", "backward alone"];

diagram({
  about: "One update, in time. Computing all examples takes 100 units; an all-reduce takes what you choose, and here nothing is computed meanwhile.",
  controls: [
    { name: "way", label: "How", options: WAYS, value: "no_sync" },
    { name: "pieces", label: "Pieces", min: 1, max: 8, value: NUMBERS.pieces },
    { name: "wire", label: "Time of an all-reduce", min: 1, max: 60, value: 25 },
  ],
  draw({ way, pieces, wire }) {
    const width = 600, examples = NUMBERS.x.length / NUMBERS.ranks, cut = (how) => (how === "at once" ? 1 : pieces);
    const reduces = (how) => (how === "every piece" || how === "backward alone" ? pieces : 1);
    const time = (how) => 100 + wire * reduces(how), longest = Math.max(...WAYS.map(time));
    const across = (at) => 110 + (width - 125) * at / longest, shapes = [];
    WAYS.forEach((how, row) => {
      const y = 16 + row * 46, count = cut(how), every = reduces(how) > 1;
      let at = 0;
      shapes.push(label(102, y + 20, how, how === way ? "right" : "right dim"));
      range(count).forEach((piece) => {
        shapes.push(box(across(at), y, across(at + 100 / count) - across(at) - 1, 30, "", how === way ? "soft" : ""));
        at += 100 / count;
        if (every || piece === count - 1) {
          shapes.push(box(across(at), y, across(at + wire) - across(at) - 1, 30, "", "good"));
          at += wire;
        }
      });
    });
    const keeps = Math.ceil(examples / cut(way));
    shapes.push(box(112, 206, 26, 16, "", "soft"), label(144, 219, "forward and backward of a piece", "left"), box(352, 206, 26, 16, "", "good"), label(384, 219, "all-reduce", "left"));
    return {
      width, height: 232, shapes,
      told: `${way}: ${cut(way)} ${cut(way) === 1 ? "piece" : "pieces"}, ${reduces(way)} all-reduce${reduces(way) === 1 ? "" : "s"}, done at ${n(time(way))}; the batch at once and no_sync: ${n(time("no_sync"))}. ` +
        `At most ${keeps} example${keeps === 1 ? "" : "s"} at a time.`,
      caption: `Measured, ${NUMBERS.ranks} ranks, ${NUMBERS.pieces} pieces`, head: ["", "all-reduces", "bytes reduced by a rank", "first gradient"],
      rows: Object.entries(NUMBERS.torch.runs).map(([name, ranks]) => [name, ranks[0].reduces, ranks[0].bytes, ranks[0].gradient[0]]),
    };
  },
});
