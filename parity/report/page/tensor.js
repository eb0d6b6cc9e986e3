// Shows one tensor: its numbers at a step, and its course over the steps against the tolerance.

const SVG = "http://www.w3.org/2000/svg";
const PLOT = { width: 380, height: 200, left: 46, right: 8, top: 10, bottom: 26 };

function element(name, words, ...inside) {
  const made = document.createElement(name);
  for (const [word, value] of Object.entries(words)) word === "text" ? (made.textContent = value) : made.setAttribute(word, value);
  made.append(...inside);
  return made;
}

function drawn(name, words, text) {
  const made = document.createElementNS(SVG, name);
  for (const [word, value] of Object.entries(words)) made.setAttribute(word, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function showTensor(panel, grid, row, column, first, closer) {
  const cell = cellOf(grid, row, column);
  const course = grid.steps.map((_, place) => cellOf(grid, row, place)).filter((found) => found.verdict !== "absent");
  const facts = [["step", cell.step], ["verdict", VERDICTS[cell.verdict]]];
  if (cell.note) facts.push(["what", cell.note]);
  if (measured(cell)) {
    facts.push(["difference", shown(cell.difference, 4)], ["tolerance", cell.allowed > 0 ? shown(cell.allowed, 4) : "none: must be equal"]);
    if (cell.allowed > 0) facts.push(["ratio", shown(cell.multiple, 4) + " times the tolerance"]);
  }
  const known = first ? [element("h4", { text: first.heading }), listOf(first.rows)] : [];
  const parts = [
    element("h3", {}, element("code", { text: cell.key })), listOf(facts), ...known,
    element("h4", { text: "Course over the steps" }), chartOf(course, cell.step), tableOf(course), ...closer,
  ];
  panel.setAttribute("aria-label", cell.key + ", " + told(cell));
  panel.replaceChildren(...parts);
}

function measured(cell) {
  return (cell.verdict === "same" || cell.verdict === "different") && Number.isFinite(cell.difference);
}

function listOf(facts) {
  return element("dl", { class: "rows" }, ...facts.flatMap(([term, text]) => [element("dt", { text: term }), element("dd", { text })]));
}

function tableOf(course) {
  const head = ["step", "difference", "tolerance", "ratio", "verdict"].map((text) => element("th", { scope: "col", text }));
  const rows = course.map((cell) => element("tr", {}, element("th", { scope: "row", text: cell.step }),
    ...[...(measured(cell) ? [cell.difference, cell.allowed, cell.multiple].map((n) => shown(n)) : ["-", "-", "-"]), VERDICTS[cell.verdict]].map((text) => element("td", { text }))));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  return element("details", {}, element("summary", { text: "The same as a table" }), element("div", { class: "wide", tabindex: "0" }, table));
}

function chartOf(course, step) {
  const logs = course.flatMap((cell) => [cell.difference, cell.allowed]).filter((n) => n > 0 && Number.isFinite(n)).map(Math.log10);
  if (!logs.length) {
    return element("p", { class: "dim", text: "Nothing to draw: no difference that is finite and not zero." });
  }
  const svg = drawn("svg", { viewBox: "0 0 " + PLOT.width + " " + PLOT.height, role: "img", class: "chart" });
  const low = Math.floor(logs.reduce((a, b) => Math.min(a, b))), high = Math.max(low + 1, Math.ceil(logs.reduce((a, b) => Math.max(a, b))));
  const [begin, end] = [course[0].step, course[course.length - 1].step];
  const x = (at) => PLOT.left + (end > begin ? (at - begin) / (end - begin) : 0.5) * (PLOT.width - PLOT.left - PLOT.right);
  const y = (value) => {
    const part = value > 0 ? Math.max(0, Math.min(1, (Math.log10(value) - low) / (high - low))) : 0;
    return PLOT.height - PLOT.bottom - part * (PLOT.height - PLOT.top - PLOT.bottom);
  };
  axes(svg, low, high, begin, end, x, y);
  svg.append(drawn("line", { class: "at", x1: x(step), x2: x(step), y1: PLOT.top, y2: PLOT.height - PLOT.bottom }));
  const spread = course.length > 1 ? [0] : [-24, 24];
  const line = (name) => course.flatMap((cell) => spread.map((aside) => (x(cell.step) + aside).toFixed(1) + "," + y(cell[name]).toFixed(1))).join(" ");
  svg.append(drawn("polyline", { class: "allowed", points: line("allowed") }), drawn("polyline", { class: "difference", points: line("difference") }));
  for (const cell of course.filter(measured)) {
    svg.append(drawn("circle", { class: cell.verdict === "different" ? "dot over" : "dot", cx: x(cell.step), cy: y(cell.difference), r: cell.step === step ? 4.5 : 2.4 }));
  }
  const worst = course.reduce((a, b) => (b.multiple > a.multiple ? b : a));
  svg.setAttribute("aria-label", "Difference (line) and tolerance (dashed), logarithmic, over " + course.length + " steps; at most " + shown(worst.multiple) + " times the tolerance, at step " + worst.step);
  return element("figure", {}, svg, element("figcaption", { class: "dim", text: "line: difference; dashed: tolerance; zero is drawn at the foot" }));
}

function axes(svg, low, high, begin, end, x, y) {
  const every = Math.ceil((high - low) / 6);
  for (let power = low; power <= high; power += every) {
    const at = y(10 ** power);
    svg.append(drawn("line", { class: "axis", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: at, y2: at }));
    svg.append(drawn("text", { x: PLOT.left - 22, y: at + 3.5 }, "1e" + power));
  }
  for (const at of new Set([begin, Math.round((begin + end) / 2), end])) svg.append(drawn("text", { x: x(at), y: PLOT.height - 9 }, at));
}
