"""Rules of accessibility, by axe, of the page that a browser shows."""

import json
from importlib.resources import files

AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
# With the default `resultTypes` most of the time goes into selectors of what passes.
VIOLATIONS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify(
  found.violations.map((each) => each.id + ": " + each.nodes.map((node) => node.target.join(" ")).join(", "))))"""
PATIENCE = 300  # the largest page, 15,000 elements, takes 10 s of a processor


def violations(tab):
    """Returns what the page of a tab breaks, a line for each rule; what is folded is opened first."""
    tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; }); 0")
    tab.evaluate(f"{AXE}; 0")
    beyond = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return broken_rules(tab) + [f"{beyond} pixels stand out at the right"] * (beyond > 0)


def broken_rules(tab):
    """The same of a page that axe has been loaded into, as it is now."""
    return json.loads(tab.evaluate(VIOLATIONS, patience=PATIENCE))
