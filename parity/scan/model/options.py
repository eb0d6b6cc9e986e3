"""Options of scripts: their defaults, and the values that anything in the repository gives them."""

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Module
from parity.scan.model.names import chain
from parity.scan.model.repository import Flag, Repository

# Objects whose attributes are options, by their names.
HOLDERS = re.compile(
    r"^(_?flags|args?|arguments|opts?|options?|h?params?|hps|hp|conf(ig)?s?|cfgs?|settings|parsed(_args)?|config_.*|.*_(args|opts?|config|params))$",
    re.IGNORECASE,
)
# They say whether there are towers, or whether the script trains: that is what is asked about, whatever their defaults.
OF_TOWERS_OR_TRAINING = re.compile(
    r"gpu|tower|clone|device|replica|distrib|parallel|horovod|hvd|"
    r"(^|_)(train|training|mode|phase|task|action|command|cmd|job|job_name|stage|run|do|eval|test|infer|predict)($|_)",
    re.IGNORECASE,
)
CLASSES_OF_OPTIONS = re.compile(r"config|flags|param|option|setting|args", re.IGNORECASE)
MAKERS_OF_OPTIONS = ("HParams", "set_defaults")
CONFIGURATIONS = frozenset(
    [".yml", ".yaml", ".json", ".cfg", ".ini", ".gin", ".conf", ".toml", ".config", ".sh", ".env"]
)
# What code that reads a configuration mentions, by the file's ending; others may be read by anything.
READERS_OF_CONFIGURATIONS = {
    ".yml": re.compile(r"yaml|omegaconf|hydra|sacred|\.ya?ml", re.IGNORECASE),
    ".yaml": re.compile(r"yaml|omegaconf|hydra|sacred|\.ya?ml", re.IGNORECASE),
    ".json": re.compile(r"json", re.IGNORECASE),
    ".ini": re.compile(r"configparser|configobj|\.ini", re.IGNORECASE),
    ".toml": re.compile(r"toml", re.IGNORECASE),
    ".gin": re.compile(r"\bgin\b", re.IGNORECASE),
}
PAGES = re.compile(r"\.md$|\.rst$|^README(\.txt)?$", re.IGNORECASE)
SOURCES = (".py", ".pyw", ".ipynb")
# Commands that start a script and all give an option: its default is what none of them takes. One of a page is an example.
FEWEST_COMMANDS = 2
SHELL = (".sh", ".bash")
SET_IN_SHELL = re.compile(r"""^\s*(?:export\s+)?(\w+)=(?:"([^"$`\n]*)"|'([^'\n]*)'|([^\s"'`$;&|(]*))\s*(?:#.*)?$""")
READ_IN_SHELL = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# Letters of a value of an option, and of a command: what is longer is left as it stands, or a file of a few megabytes that
# sets one long value and reads it over and over would be written out as terabytes.
LONGEST_IN_SHELL, LONGEST_COMMAND = 200, 10_000
# From the beginning of a path on: looked for from each of its letters, a long line without one takes minutes.
SCRIPT = re.compile(r"((?<![\w./${}-])[\w./${}-]+\.py|-m\s+[\w.]+)\b")
VALUE = r"[\w.+$-][\w.+$/{}-]*"
NO_LITERAL = object()  # of what is not a literal
NO_LITERALS = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)  # by which Python refuses one


@dataclass(eq=False)
class Options:
    """What values options may have.

    Attributes:
      repository: that defines them.
    """

    repository: Repository
    _known: dict[tuple[str, Module], tuple[object, ...]] = field(default_factory=dict)
    _settings: dict[str, list[ast.expr]] = field(default_factory=dict)
    _set: dict[str, list[ast.expr]] = field(default_factory=dict)
    _readers: dict[tuple[Module, str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Notes what source gives options: where they are made, and by assignments."""
        for module in self.repository.modules:
            for function in module.functions:
                for node in function.nodes:
                    if isinstance(node, ast.Call) and chain(node.func).endswith(MAKERS_OF_OPTIONS):
                        for each in node.keywords:
                            self._settings.setdefault(each.arg or "", []).append(each.value)
                    elif isinstance(node, ast.Assign):
                        for target in node.targets:
                            self._note(target, node.value, module.parents.get(node))

    def _note(self, target: ast.expr, value: ast.expr, holder: ast.AST | None) -> None:
        name = name_of(target)
        if name:
            self._set.setdefault(name, []).append(value)
        elif (
            isinstance(target, ast.Name) and isinstance(holder, ast.ClassDef) and CLASSES_OF_OPTIONS.search(holder.name)
        ):
            self._settings.setdefault(target.id, []).append(value)
        elif isinstance(value, ast.Dict) and is_holder(target):
            for key, each in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._settings.setdefault(key.value, []).append(each)

    def is_flag(self, name: str) -> bool:
        """Whether an option is one of a command line."""
        return name in self.repository.definitions

    def values(self, name: str, module: Module) -> tuple[object, ...]:
        """Returns the values of an option that a module reads, the default first; none where they are open."""
        if (name, module) not in self._known:
            values = list(self._values(name, module)) if not OF_TOWERS_OR_TRAINING.search(name) else [NO_LITERAL]
            is_open = any(each is NO_LITERAL for each in values)
            different = [each for number, each in enumerate(values) if not _is_in(each, values[:number])]
            self._known[name, module] = () if is_open else tuple(different)
        return self._known[name, module]

    def _values(self, name: str, module: Module) -> Iterator[object]:
        defaults = [_default_of(flag) for flag in self._definitions(name, module)]
        defaults += [_literal(value) for value in self._settings.get(name, ())]
        # Of a file of settings each line is a default.
        defaults += [_literal(value) for value in self._set.get(name, ())]
        if not defaults and self.is_flag(name):
            yield from (_converted(text, None) for text in self._configured(name, module))
        if not defaults or NO_LITERAL in defaults:
            yield from defaults
            return
        given = [_converted(text, defaults[0]) for text in self._given(name, module)]
        yield from given if given and self.is_always_given(name, module) else [*defaults, *given]

    def _definitions(self, name: str, module: Module) -> list[Flag]:
        """Returns the definitions that a module may read: its own, else those around it, else all."""
        flags = self.repository.definitions.get(name, [])
        own = [flag for flag in flags if flag.module is module]
        near = [
            flag
            for flag in flags
            if flag.module in imported_modules(module, self.repository)
            or module in imported_modules(flag.module, self.repository)
        ]
        # What a program reads of its own configuration is no flag of a script that it has nothing to do with.
        return own or near or ([] if any(self._configured(name, module)) else flags)

    def is_always_given(self, name: str, module: Module) -> bool:
        """Whether all command lines that start a script that leads to a module, of several, give an option."""
        option = re.compile(rf"--{re.escape(name).replace('_', '[_-]')}(?![\w-])")
        lines = [
            (line, path)
            for path, text in self.repository.texts
            if path.suffix != ".py" and "python" in text
            for line in _commands(path, text)
            if re.search(r"\bpython[\d.]*\b", line)
            and SCRIPT.search(line)
            and self._may_be_of(module, line, path, by_name=True)
        ]
        enough = len(lines) >= FEWEST_COMMANDS or any(path.suffix in SHELL for _, path in lines)
        return enough and all(option.search(line) for line, _ in lines)

    def _given(self, name: str, module: Module) -> Iterator[str]:
        """Yields what command lines and configurations give an option, as text."""
        word = re.escape(name)
        option = re.compile(rf"""--{word.replace("_", "[_-]")}(?:=|\s+|["']\s*,\s*(?=["']))?["']?({VALUE})?""")
        for path, text in self.repository.texts:
            for line in _commands(path, text) if f"--{name}" in text or f"--{name.replace('_', '-')}" in text else ():
                for match in option.finditer(line):
                    # A word goes on behind it: another option, or the name in a list of them.
                    if re.match(r"[\w-]", line[match.start() + 2 + len(name) :]):
                        continue
                    before = line[: match.start()]
                    if not match[1] and path.suffix == ".py" and "[" not in before and not SCRIPT.search(before):
                        continue  # where it is defined
                    if self._may_be_of(module, before, path):
                        yield match[1] if match[1] and not match[1].startswith("--") else "True"
            if f"--no{name}" in text:
                yield "False"
        yield from self._configured(name, module)

    def _configured(self, name: str, module: Module) -> Iterator[str]:
        """Yields what configurations that a module's program may read give an option, as text."""
        setting = re.compile(rf"""(?<![\w.-])["']?{re.escape(name)}["']?\s*[:=]\s*["']?({VALUE})""")
        for path, text in self.repository.texts:
            is_one = name in text and (path.suffix in CONFIGURATIONS or _is_of_settings(path))
            if is_one and self._reads(module, path.suffix):
                yield from (match[1] for match in setting.finditer(text))

    def _reads(self, module: Module, suffix: str) -> bool:
        """Whether a program that a module belongs to mentions what reads configurations of a kind."""
        words = READERS_OF_CONFIGURATIONS.get(suffix)
        if words is None:
            return True
        if (module, suffix) not in self._readers:
            known = self.repository
            around = [each for each in known.modules if module in imported_modules(each, known)]
            around += imported_modules(module, known)
            imported = {part for each in around for name in each.imports.values() for part in name.split(".")}
            files = {each.path for each in around}
            # Also a file that mentions no TensorFlow, and what starts the script with what it has read.
            self._readers[module, suffix] = any(
                words.search(text)
                for path, text in known.texts
                if path.suffix in SOURCES and (path in files or path.stem in imported or module.path.name in text)
            )
        return self._readers[module, suffix]

    def _may_be_of(self, module: Module, before: str, path: Path, by_name: bool = False) -> bool:
        """Whether a command line that begins so may start a script that leads to a module.

        Args:
          module: that is asked about.
          before: the line as far as it goes.
          path: of the text that it is in.
          by_name: whether it has to name such a script.
        """
        if path.suffix == ".py":
            return True
        scripts = SCRIPT.findall(before)
        if not scripts:
            # A page that names no script speaks of what lies in its folder.
            return not PAGES.search(path.name) or _home_of(path) in module.path.parents
        name = scripts[-1].removeprefix("-m").strip()
        end = name if name.endswith(".py") else f"{name.replace('.', '/')}.py"
        end = end.rpartition("}")[2].rpartition("$")[2].lstrip("./")
        started = self._files(end)
        # Of several files of a name it is the one that is nearest to where the command stands.
        fewest = min((_steps(each.path, path) for each in started), default=0)
        nearest = [each for each in started if _steps(each.path, path) == fewest]
        if not nearest:
            return not by_name
        return any(module in imported_modules(each, self.repository) for each in nearest)

    def _files(self, end: str) -> list[Module]:
        """Returns the files whose paths end so, as far as any do: a repository may lie in a folder of another name."""
        while end:
            files = [each for each in self.repository.modules if each.path.as_posix().endswith(f"/{end}")]
            if files:
                return files
            end = end.partition("/")[2]
        return []


def is_holder(node: ast.expr) -> bool:
    """Whether an expression is an object whose attributes are options, by its name or that of what it is part of."""
    return any(HOLDERS.match(name) for name in chain(node).split("."))


def name_of(node: ast.expr) -> str:
    """Returns the name of the option that an expression reads or sets: `FLAGS.name`, `params["name"]`; else ""."""
    if isinstance(node, ast.Attribute) and is_holder(node.value):
        return node.attr
    if isinstance(node, ast.Subscript) and is_holder(node.value) and isinstance(node.slice, ast.Constant):
        return node.slice.value if isinstance(node.slice.value, str) else ""
    return ""


def words_for(name: str, value: object, default: object, dashes: str) -> str:
    """Returns how an option is given another value than its default: `--name=value`, or as much of it as is known.

    Args:
      name: of the option.
      value: that it needs, `NO_LITERAL` where that is any other one.
      default: that it has.
      dashes: before its name.
    """
    if value is not NO_LITERAL:
        return f"{dashes}{name}={value}"
    return f"{dashes}{name}" if default is False or default is None else f"another {dashes}{name} than {default}"


def _is_of_settings(path: Path) -> bool:
    """Whether a file of Python has settings, by its name or its folder's."""
    return path.suffix == ".py" and bool(CLASSES_OF_OPTIONS.search(f"{path.parent.name}/{path.stem}"))


def _home_of(page: Path) -> Path:
    """Returns the folder that a page is about: the one above a folder of documentation."""
    return page.parent.parent if re.match(r"docs?$|documentation$", page.parent.name, re.IGNORECASE) else page.parent


def _steps(path: Path, other: Path) -> int:
    """How many folders lie between two files."""
    shared = sum(1 for each in path.parents if each in other.parents)
    return len(path.parents) + len(other.parents) - 2 * shared


def _commands(path: Path, text: str) -> Iterable[str]:
    """Returns the lines of a text, those that go on in the next one joined.

    Of a shell's script without comments, and with the values that it has given its variables: those that stand there as they
    are.
    """
    lines = re.sub(r"\\\s*(\\n[\"',\s]*)?\n", " ", text).split("\n")
    return _run_by_a_shell(lines) if path.suffix in SHELL else lines


def _run_by_a_shell(lines: Sequence[str]) -> Iterator[str]:
    known = dict[str, str]()
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        if len(line) > LONGEST_COMMAND:
            yield line
            continue
        given = SET_IN_SHELL.match(line)
        if given:
            value = next((each for each in given.groups()[1:] if each is not None), "")
            known[given[1]] = value if len(value) <= LONGEST_IN_SHELL else f"${given[1]}"
        yield READ_IN_SHELL.sub(lambda read: known.get(read[1] or read[2], read[0]), line)


def _is_in(value: object, values: list[object]) -> bool:
    return any(type(each) is type(value) and each == value for each in values)


def _literal(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else NO_LITERAL
    except NO_LITERALS:
        return NO_LITERAL


def _default_of(flag: Flag) -> object:
    keywords = {each.arg: each.value for each in flag.call.keywords}
    if flag.required or None in keywords:
        return NO_LITERAL
    if flag.style == "flags":
        given = keywords.get("default", flag.call.args[1] if len(flag.call.args) > 1 else None)
        return _literal(given)
    if "default" in keywords:
        return _literal(keywords["default"])
    action = _literal(keywords.get("action"))
    return {"store_true": False, "store_false": True}.get(str(action))


def _converted(text: str, default: object) -> object:
    """Returns a value as an option of a default's type takes it; `NO_LITERAL` of what a shell has yet to fill in."""
    if "$" in text:
        return NO_LITERAL
    if isinstance(default, bool):
        return text.lower() not in ("false", "0", "no", "f", "n")
    if default is None:
        return _literal_of_text(text)
    try:
        return type(default)(text) if isinstance(default, int | float) else text
    except ValueError:
        return default


def _literal_of_text(text: str) -> object:
    # Of a text that anybody wrote: what nests too deep for the parser, or what it warns of, is a text too.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # as Python 3.11 has it
        try:
            return ast.literal_eval(text)
        except NO_LITERALS:
            return text
