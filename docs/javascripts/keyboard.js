// Code and tables that are wider than the window scroll by keyboard too: the theme lets the mouse scroll them alone.
const scrollers = ".md-typeset pre > code, .md-typeset__scrollwrap";

function reach() {
  for (const each of document.querySelectorAll(scrollers)) {
    const scrolls = each.scrollWidth > each.clientWidth;
    if (scrolls && !each.hasAttribute("tabindex")) each.setAttribute("tabindex", "0");
    if (!scrolls) each.removeAttribute("tabindex");
  }
  // The theme's buttons over a block of code are in a <nav> each. They lead nowhere, and are no landmarks.
  for (const each of document.querySelectorAll("nav.md-code__nav:not([role])")) each.setAttribute("role", "presentation");
}

let due = false;
function soon() {
  if (due) return;
  due = true;
  setTimeout(() => { due = false; reach(); }, 50);
}

// The theme wraps tables, adds buttons, and takes `tabindex` away again where no mouse is, each when it is scrolled to.
new MutationObserver(soon).observe(document.body, { attributeFilter: ["tabindex"], childList: true, subtree: true });
addEventListener("resize", soon);
reach();
