// Shows one slide at a time; without this script all stand below each other.
const SLIDES = [...document.querySelectorAll(".slide")], BACK = document.getElementById("back"), ON = document.getElementById("on");
let now = 0;

function turn(to, focus = true) {
  now = Math.min(SLIDES.length - 1, Math.max(0, to));
  SLIDES.forEach((slide, at) => (slide.hidden = at !== now));
  BACK.disabled = now === 0;
  ON.disabled = now === SLIDES.length - 1;
  document.getElementById("place").textContent = `${now + 1} of ${SLIDES.length}`;
  history.replaceState(null, "", `#slide-${now + 1}`);
  scrollTo(0, 0);
  if (focus) SLIDES[now].focus({ preventScroll: true });
}

const KEYS = {
  ArrowRight: () => now + 1, ArrowDown: () => now + 1, PageDown: () => now + 1, " ": () => now + 1,
  ArrowLeft: () => now - 1, ArrowUp: () => now - 1, PageUp: () => now - 1, Home: () => 0, End: () => SLIDES.length - 1,
};
addEventListener("keydown", (event) => {
  // A button takes its own space, and what scrolls its own arrows; a slide that is longer than the window scrolls first.
  const own = event.target.closest("button, summary, input, pre, .wide");
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in KEYS) || own) return;
  const root = document.documentElement, down = event.key === "ArrowDown" || event.key === "ArrowUp";
  if (down && root.scrollHeight > root.clientHeight) return;
  event.preventDefault();
  turn(event.shiftKey && event.key === " " ? now - 1 : KEYS[event.key]());
});
BACK.addEventListener("click", () => turn(now - 1, false));
ON.addEventListener("click", () => turn(now + 1, false));
addEventListener("hashchange", () => turn(Number(location.hash.replace("#slide-", "")) - 1 || 0));
document.getElementById("turn").hidden = false;
turn(Number(location.hash.replace("#slide-", "")) - 1 || 0);
document.documentElement.dataset.drawn = String(performance.now());
