"use strict";

const fields = { text: document.getElementById("text"), level: document.getElementById("level"), rule: document.getElementById("rule"), kind: document.getElementById("kind") };
const rows = [...document.querySelectorAll(".row")];

function fits(row) {
  const text = fields.text.value.toLowerCase();
  if (text && !row.textContent.toLowerCase().includes(text)) return false;
  return ["level", "rule", "kind"].every((name) => {
    const wanted = fields[name].value;
    // What has no level has nothing to be filtered by.
    return !wanted || !(name in row.dataset) || row.dataset[name] === wanted;
  });
}

function filter() {
  let count = 0;
  for (const row of rows) {
    row.hidden = !fits(row);
    if (!row.hidden) count += 1;
  }
  document.getElementById("shown").textContent = `${count} of ${rows.length} shown`;
}

for (const field of Object.values(fields)) field.addEventListener("input", filter);
document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
filter();
