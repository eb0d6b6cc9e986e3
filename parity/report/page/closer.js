// Shows how the values of one tensor are spread on both sides, how their difference is, and where it is largest.

const BARS = { width: 380, height: 120, left: 8, right: 8, top: 8, bottom: 22 };

// Of the tensors that were looked at, the one of this cell; else the same tensor at another step.
function closerOf(data, run, row, column) {
  const same = data.closer.filter(({ place }) => place[0] === run && place[1] === row);
  return same.find(({ place }) => place[2] === column) || same[0];
}

function closely(data, grid, run, row, column) {
  if (!data.closer.length) return [];
  const found = closerOf(data, run, row, column);
  if (!found) {
    return [element("h4", { text: "Values" }), element("p", { class: "dim", text: "Not kept: only those of the first tensors that differ, and of the ones nearest to their tolerance, are in this page." })];
  }
  const step = grid.steps[found.place[2]], left = found.size - found.finite;
  const which = found.place[2] === column ? "" : " (kept for that step only)";
  return [
    element("h4", { text: "Values at step " + step + which }),
    barsOf(found.values, ["reference", "candidate"], "line: reference; filled: candidate; " + found.size.toLocaleString("en") + " values" + (left ? ", " + left.toLocaleString("en") + " not finite and left out" : "")),
    element("h4", { text: "Candidate minus reference" }),
    barsOf(found.apart, ["apart"], "number of values by their difference"),
    element("h4", { text: "Largest differences" }), placesOf(found.worst),
  ];
}

function barsOf({ low, high, counts }, names, caption) {
  const most = Math.max(1, ...counts.flat()), parts = counts[0].length;
  const wide = (BARS.width - BARS.left - BARS.right) / parts, foot = BARS.height - BARS.bottom;
  const svg = drawn("svg", { viewBox: "0 0 " + BARS.width + " " + BARS.height, role: "img", class: "bars" });
  const tall = (count) => (count ? Math.max(1.5, (count / most) * (foot - BARS.top)) : 0);
  counts.forEach((each, side) => {
    const made = drawn("g", { class: names[side] });
    each.forEach((count, part) => made.append(drawn("rect", { x: (BARS.left + part * wide).toFixed(1), y: (foot - tall(count)).toFixed(1), width: Math.max(1, wide - 1).toFixed(1), height: tall(count).toFixed(1) })));
    svg[names[side] === "candidate" ? "prepend" : "append"](made);
  });
  svg.append(drawn("line", { class: "axis", x1: BARS.left, x2: BARS.width - BARS.right, y1: foot, y2: foot }));
  svg.append(drawn("text", { x: BARS.left, y: BARS.height - 7, class: "from" }, low), drawn("text", { x: BARS.width - BARS.right, y: BARS.height - 7, class: "to" }, high));
  const told = counts.map((each, side) => (names[side] === "apart" ? "differences" : names[side]) + ": " + each.join(", "));
  svg.setAttribute("aria-label", "Histogram from " + low + " to " + high + " in " + parts + " parts; " + told.join("; "));
  return element("figure", {}, svg, element("figcaption", { class: "dim", text: caption }));
}

function placesOf(worst) {
  if (!worst.length) return element("p", { class: "dim", text: "Nowhere: all values are equal." });
  const head = ["place", "reference", "candidate"].map((text) => element("th", { scope: "col", text }));
  const rows = worst.map(([index, one, other]) => element("tr", {}, element("th", { scope: "row", text: index }), element("td", { text: one }), element("td", { text: other })));
  return element("div", { class: "wide", tabindex: "0" }, element("table", { class: "places" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}
