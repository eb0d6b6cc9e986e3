"use strict";
// Unpacks the numbers of a grid, writes them for people and gives them colours. See parity/report/html/grid.py for how they are packed.

const VERDICTS = { same: "same", different: "different", incomparable: "incomparable", not_run: "not judged", absent: "no such tensor here" };

const RANKS = { different: 3, incomparable: 2, same: 1, not_run: 0, absent: 0 };

// Returns the bytes that an element of the page holds as zlib in base64.
async function inflated(id) {
  const text = atob(document.getElementById(id).textContent);
  const packed = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) packed[place] = text.charCodeAt(place);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// The names of all tensors, and for each run which of them it has: [first, how many] of those that follow each other.
async function readKeys(grids) {
  const names = JSON.parse(new TextDecoder().decode(await inflated("names")));
  for (const grid of grids) grid.keys = grid.keys.flatMap(([from, count]) => names.slice(from, from + count));
}

async function unpack(number, grid) {
  const bytes = new Uint8Array(await inflated("grid-" + number));
  const count = grid.keys.length * grid.steps.length;
  grid.difference = widened(bytes, 0, count);
  grid.allowed = widened(bytes, 3 * count, count);
  grid.ranks = grid.states.map(([verdict]) => RANKS[verdict]);
  grid.state = new Uint32Array(count);
  for (let start = 6 * count, shift = 0; start < bytes.length; start += count, shift += 8) {
    for (let cell = 0; cell < count; cell++) grid.state[cell] |= bytes[start + cell] << shift;
  }
  grid.unpacked = true;
}

// The upper 24 bits after the sign of a float64, in three planes of bytes, become the float64 again.
function widened(bytes, start, count) {
  const numbers = new Float64Array(count);
  const words = new Uint32Array(numbers.buffer);
  const high = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1 ? 1 : 0;
  for (let cell = 0; cell < count; cell++) {
    const code = bytes[start + cell] | (bytes[start + count + cell] << 8) | (bytes[start + 2 * count + cell] << 16);
    words[2 * cell + high] = code << 7;
  }
  return numbers;
}

function multipleOf(difference, allowed) {
  if (difference === 0) return 0;
  return allowed > 0 ? difference / allowed : Infinity;
}

function shown(number, digits = 3) {
  if (Number.isNaN(number)) return "not a number";
  if (!Number.isFinite(number)) return "not finite";
  const size = Math.abs(number);
  if (number !== 0 && (size < 1e-3 || size >= 1e5)) return number.toExponential(digits - 1);
  return String(Number(number.toPrecision(digits)));
}

// Far beyond the tolerance: every power of ten to 10^12 has its shade. Far within: every power down to 10^-6.
function shadeOf(verdict, multiple) {
  if (verdict === "same") return multiple > 0 ? Math.max(0, Math.min(1, 1 + Math.log10(multiple) / 6)) : 0;
  return multiple > 0 ? Math.max(0, Math.min(1, Math.log10(multiple) / 12)) : 1;
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue("--" + name).trim();
  const ramp = (from, to) => Array.from({ length: 65 }, (_, place) => mixed(named(from), named(to), place / 64));
  return {
    same: ramp("cell-far", "cell-near"), different: ramp("cell-over", "cell-worst"),
    incomparable: named("cell-incomparable"), not_run: named("cell-skipped"), absent: named("cell-absent"),
    ink: named("ink"), dim: named("dim"), card: named("card"), line: named("line"),
  };
}

function mixed(from, to, part) {
  const channel = (text, place) => parseInt(text.slice(1 + 2 * place, 3 + 2 * place), 16);
  return "rgb(" + [0, 1, 2].map((n) => Math.round(channel(from, n) * (1 - part) + channel(to, n) * part)).join(",") + ")";
}

function colourOf(colours, verdict, multiple) {
  const found = colours[verdict];
  return typeof found === "string" ? found : found[Math.round(64 * shadeOf(verdict, multiple))];
}

// Everything known of one cell, and the sentence that says it.
function cellOf(grid, row, column) {
  const place = row * grid.steps.length + column;
  const [verdict, note] = grid.states[grid.state[place]];
  const difference = grid.difference[place], allowed = grid.allowed[place];
  return { key: grid.keys[row], step: grid.steps[column], verdict, note, difference, allowed, multiple: multipleOf(difference, allowed) };
}

function told(cell) {
  const judged = cell.verdict === "same" || cell.verdict === "different";
  const much = judged && !cell.note ? ", " + (cell.allowed > 0 ? shown(cell.multiple) + " times the tolerance" : "must be equal") : "";
  return "step " + cell.step + ": " + VERDICTS[cell.verdict] + much + (cell.note ? ", " + cell.note : "");
}
