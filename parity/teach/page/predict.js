// Questions whose answers the page checks: within one per cent is right, as prediction goes.
const WITHIN = 0.01;

function judge(written, answer, shown) {
  const value = Number(written.replace(/[,\s]/g, "").replace("\u2212", "-"));
  if (!written.trim() || !Number.isFinite(value)) return "Write a number.";
  if (Math.abs(value - answer) <= WITHIN * Math.abs(answer)) return `Right: ${shown}.`;
  if (Math.abs(value + answer) <= WITHIN * Math.abs(answer)) return "Not yet: look at the sign.";
  return value < answer ? "Not yet: it is more." : "Not yet: it is less.";
}

for (const question of document.querySelectorAll(".predict")) {
  const input = question.querySelector("input"), said = question.querySelector("[role=status]");
  const check = () => (said.textContent = judge(input.value, Number(question.dataset.answer), question.dataset.shown));
  question.querySelector("button").addEventListener("click", check);
  input.addEventListener("keydown", (event) => event.key === "Enter" && check());
}
