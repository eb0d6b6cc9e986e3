// What the lessons' diagrams are made of: controls, a picture that is drawn anew at every change, words and a table.

const NUMBERS = JSON.parse(document.getElementById("numbers").textContent);
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes, words) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words !== undefined) made.textContent = words;
  return made;
}

// A number as a reader wants it: five digits, and zero as 0.
function n(value, digits = 5) {
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-3 ? value.toExponential(digits - 3) : String(Number(value.toPrecision(digits)));
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;
const range = (count, from = 0) => Array.from({ length: count }, (_, index) => from + index);
const divisors = (count) => range(count, 1).filter((each) => count % each === 0);

// Shapes of a picture.
const box = (x, y, width, height, words = [], kind = "") => [
  drawn("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), rx: 6, class: kind }),
  ...[].concat(words).map((each, place, all) => label(x + width / 2, y + height / 2 + 4.5 + (place - (all.length - 1) / 2) * 15, each)),
];
const bar = (x, y, width, height, kind = "a") => drawn("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), rx: 2, class: kind });
const label = (x, y, words, kind = "") => drawn("text", { x, y, class: kind }, words);
const arrow = (x1, y1, x2, y2, kind = "") => drawn("line", { x1, y1, x2, y2, class: "arrow " + kind, "marker-end": "url(#tip)" });
const line = (points, kind = "a") => drawn("polyline", { points: points.map((point) => point.join(",")).join(" "), class: "line-" + kind });

// A chart of lines that differ in colour and dashes: series {name: [values]}, in a frame of the picture. What lies beyond `low` or
// `high` is not drawn at the edge, where it would look like a plateau: the line ends there in a triangle, and its name says how far
// it goes. `end` is the number at the right end of the horizontal axis, by default of the last value.
function chart(x, y, width, height, series, { log = false, low, high, across = "step", end } = {}) {
  const kinds = ["a", "b", "c", "d"], by = log ? (value) => Math.log10(Math.max(value, 1e-300)) : (value) => value;
  const all = Object.values(series).flat().filter((value) => Number.isFinite(value) && (!log || value > 0));
  const bottom = by(low ?? Math.min(...all)), top = by(high ?? Math.max(...all)), span = top - bottom || 1;
  const shapes = [line([[x, y], [x, y + height], [x + width, y + height]], "axis")];
  const up = (level) => y + height - (level - bottom) / span * height;
  const told = (level) => n(log ? 10 ** level : level, 3);
  for (const level of ticks(bottom, top, log)) {
    if (Math.min(up(level) - y, y + height - up(level)) < 15) continue;
    shapes.push(line([[x, up(level)], [x + width, up(level)]], "axis"), label(x - 6, up(level) + 4, told(level), "right dim"));
  }
  Object.entries(series).forEach(([name, values], place) => {
    const kind = kinds[place % 4], row = y + 8 + place * 16;
    const levels = values.map((value) => by(Number.isFinite(value) ? value : Number.MAX_VALUE));
    const at = (level, index) => [x + width * index / Math.max(1, levels.length - 1), up(level)];
    const { pieces, leaves } = cut(levels, bottom, top);
    for (const piece of pieces) shapes.push(line(piece.map(([level, index]) => at(level, index).map((each) => each.toFixed(1))), kind));
    for (const [level, index] of leaves) shapes.push(triangle(...at(level, index), level === top, kind));
    const most = values.every(Number.isFinite) ? "to " + n(Math.max(...values), 3) : "without end", least = n(Math.min(...values), 3);
    const beyond = [levels.some((level) => level > top) ? `, leaves the chart upwards, ${most}` : "", levels.some((level) => level < bottom) ? `, leaves the chart downwards, to ${least}` : ""];
    shapes.push(line([[x + 12, row], [x + 44, row]], kind), label(x + 50, row + 4, name + beyond.join(""), "left"));
  });
  const longest = Math.max(...Object.values(series).map((values) => values.length));
  shapes.push(label(x - 6, y + 6, told(top), "right dim"), label(x - 6, y + height, told(bottom), "right dim"));
  shapes.push(label(x + width / 2, y + height + 16, across + (log ? ", vertical axis logarithmic" : ""), "dim"));
  shapes.push(label(x, y + height + 16, "0", "dim"), label(x + width, y + height + 16, n(end ?? longest - 1), "right dim"));
  return shapes;
}

// The levels between two at which an axis is marked: whole powers of ten, at most six, or quarters.
function ticks(bottom, top, log) {
  if (!log) return [1, 2, 3].map((part) => bottom + part * (top - bottom) / 4);
  const every = Math.max(1, Math.ceil((top - bottom) / 6)), first = Math.ceil(bottom / every) * every;
  return range(Math.max(0, Math.floor((top - first) / every) + 1)).map((place) => first + place * every);
}

// The pieces of a line that lie between two levels, as [level, index], and the places where it leaves or enters.
function cut(levels, bottom, top) {
  const pieces = [], leaves = [];
  let goesOn = false;
  for (let index = 1; index < levels.length; index++) {
    const from = levels[index - 1], rise = levels[index] - from, inside = from >= bottom && from <= top;
    const [low, high] = rise ? [(bottom - from) / rise, (top - from) / rise].sort((one, other) => one - other) : inside ? [0, 1] : [1, 0];
    const begin = Math.max(0, low), end = Math.min(1, high);
    if (begin > end) { goesOn = false; continue; }
    const level = (part) => Math.min(top, Math.max(bottom, from + part * rise));
    if (!goesOn) pieces.push([[level(begin), index - 1 + begin]]);
    pieces[pieces.length - 1].push([level(end), index - 1 + end]);
    if (begin > 0) leaves.push([rise > 0 ? bottom : top, index - 1 + begin]);
    if (end < 1) leaves.push([rise > 0 ? top : bottom, index - 1 + end]);
    goesOn = end === 1;
  }
  return { pieces, leaves };
}

const triangle = (x, y, upwards, kind) => drawn("polygon", { points: [[x - 6, y], [x + 6, y], [x, y + (upwards ? -10 : 10)]].map((point) => point.map((each) => each.toFixed(1)).join(",")).join(" "), class: kind });

// controls: [{name, label, options: [...], value}] or [{name, label, min, max, value, step}]; options are radio buttons.
// draw(values) returns {width, height, shapes, told, head, rows}.
function diagram({ about, controls, draw }) {
  const values = {}, place = document.getElementById("controls"), picture = document.getElementById("picture");
  document.getElementById("about").textContent = about;
  for (const control of controls) {
    values[control.name] = control.value;
    place.append(control.options ? choice(control, set) : slider(control, set));
  }
  function set(name, value) {
    values[name] = value;
    show();
  }
  function show() {
    const { width, height, shapes, told, caption = "", head = [], rows = [] } = draw({ ...values });
    const tip = drawn("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
    tip.append(drawn("path", { class: "tip", d: "M0 0L8 4L0 8z" }));
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(tip, ...shapes.flat(9));
    document.getElementById("told").textContent = told;
    picture.setAttribute("aria-label", told);
    table(caption, head, rows);
  }
  show();
  document.documentElement.dataset.drawn = String(performance.now());
}

function slider({ name, label: words, min, max, step = 1, value, show = (each) => n(each) }, set) {
  const input = element("input", { type: "range", id: name, min, max, step, value });
  const output = element("output", { for: name }, show(value));
  input.addEventListener("input", () => {
    output.textContent = show(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
    set(name, Number(input.value));
  });
  return element("label", {}, words, input, output);
}

function choice({ name, label: words, options, value }, set) {
  const field = element("fieldset", {}, element("legend", {}, words));
  for (const option of options) {
    const input = element("input", { type: "radio", name, value: option });
    input.checked = option === value;
    input.addEventListener("change", () => set(name, option));
    field.append(element("label", {}, input, String(option)));
  }
  return field;
}

function table(caption, head, rows) {
  const made = document.getElementById("rows");
  made.replaceChildren();
  if (!rows.length) return;
  made.append(element("caption", {}, caption));
  made.append(element("thead", {}, element("tr", {}, ...head.map((words) => element("th", { scope: "col" }, words)))));
  const lines = rows.map(([first, ...rest]) =>
    element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((value) => element("td", {}, n(value)))));
  made.append(element("tbody", {}, ...lines));
}
