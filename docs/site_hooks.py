"""What the site does beyond mkdocs: links out of docs/ lead to copies, packages list what they re-export."""

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
COPIES = "source"  # the folder of the site that they are in
INNER = re.compile(r'<nav class="md-nav" aria-label="[^"]*">')  # of one heading's subheadings: headings share names
PACKAGE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def on_files(files: Any, *, config: Any) -> Any:
    """Adds the files outside docs/ that pages link to."""
    named = {target for page in files.documentation_pages() for target in outside(page.src_uri, page.content_string)}
    for target in sorted(named):
        files.append(File.generated(config, f"{COPIES}/{target}.txt", content=copied(ROOT / target)))
    return files


def copied(path: Path) -> str:
    """Returns the text of a file, or of all files of a folder under their names."""
    if path.is_file():
        return path.read_text(encoding="utf-8")
    inside = sorted(file for file in path.iterdir() if file.is_file())
    return "\n\n".join(f"==== {file.name} ====\n\n{file.read_text(encoding='utf-8')}" for file in inside)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Points links that leave docs/ at the copies, and lists the public names of packages."""
    here = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        target = left(here, match[1])
        if target is None:
            return match[0]
        return "](" + posixpath.relpath(f"{COPIES}/{target}.txt", posixpath.dirname(here) or ".")

    level = 3 if re.search(r"^## ", markdown, re.MULTILINE) else 2  # no heading is skipped
    return PACKAGE.sub(lambda match: listed(match[1], level), LINK.sub(moved, markdown))


def on_post_page(output: str, **_: Any) -> str:
    """Corrects the theme's HTML of a page."""
    return accessible(output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Corrects the theme's HTML of the page about missing pages."""
    return accessible(output_content)


def accessible(html: str) -> str:
    """Names the theme's search dialog, and takes lists inside a table of contents for lists, not for landmarks."""
    dialog = 'data-md-component="search" role="dialog"'
    return INNER.sub('<nav class="md-nav" role="presentation">', html).replace(dialog, f'{dialog} aria-label="Search"')


def listed(package: str, level: int) -> str:
    """Returns a package's docstring and an entry for each name that it re-exports, by `__all__` or ``as`` itself.

    mkdocstrings by itself takes a function for the module of its name; a module without re-exports is left to it.
    """
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    homes = homes_of(ast.parse(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    if not homes:
        return f"::: {package}"
    entry = f"::: {{}}.{{}}\n    options: {{{{heading_level: {level}, show_root_heading: true}}}}"
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return "\n\n".join([told, *(entry.format(homes[name], name) for name in sorted(homes))])


def homes_of(tree: ast.Module) -> dict[str, str]:
    """Returns the names that a package re-exports, each with the module that it comes from."""
    public: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = set(ast.literal_eval(node.value))
    imports = [
        (node.module, alias) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    ours = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    return {
        alias.name: module
        for module, alias in imports
        if module and module.split(".")[0] in ours and (alias.asname == alias.name or alias.name in public)
    }


def outside(page: str, markdown: str) -> list[str]:
    """Returns the files outside docs/ that a page links to, as paths from the top of the project."""
    return [target for link in LINK.findall(markdown) if (target := left(page, link)) is not None]


def left(page: str, link: str) -> str | None:
    """Returns where a link of a page leads, as a path from the top of the project; None where it stays in docs/."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if target.startswith("docs/") else target
