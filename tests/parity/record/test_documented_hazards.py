import ast
from pathlib import Path

from parity.record import hazards

PAGE = Path(__file__).parents[3] / "docs" / "record.md"


def test_the_page_lists_every_hazard_of_a_program():
    tree = ast.parse(Path(hazards.__file__).read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {each for each in texts if "_" in each and each.islower() and each.isidentifier()}
    keys = {
        "outside_wrapper",
        "past_wrapper",
        "broadcast_buffers",
        "find_unused_parameters",
        "of_no_model",
        "no_sync_too_late",
        "tower_grad",
    }
    page = PAGE.read_text("utf-8")
    assert len(names - keys) > 15
    assert {name for name in names - keys if f"`{name}`" not in page} == set()
