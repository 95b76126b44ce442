"""Launch forms: which program, module or subcommand is which engine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from lockllm import engines
from lockllm.engines.protocol import Form, Identity, Shape

HOST_PROGRAMS: dict[str, tuple[Shape, ...]] = {
    "tritonserver": (Shape(wrapper="triton"),),
    "mlc_llm": (Shape(("serve",), wrapper="mlc-llm"),),
    "bentoml": (Shape(("serve",), wrapper="bentoml"),),
    "djl-serving": (Shape(wrapper="djl"),),
    "serve": (Shape(("run",), wrapper="ray-serve"), Shape(("deploy",), wrapper="ray-serve")),
    "lms": (Shape(("server", "start"), wrapper="lm-studio"),),
    "nim-serve": (Shape(wrapper="nim"),),
}
"""Base name of a program that hosts an engine, which it chooses at start -> its shapes, most precise first."""

HOST_MODULES: dict[str, tuple[Shape, ...]] = {
    "dynamo.trtllm": (Shape(wrapper="dynamo"),),
    "huggingfaceserver": (Shape(wrapper="kserve"),),
    "mlc_llm": (Shape(("serve",), wrapper="mlc-llm"),),
    "ray.serve.scripts": (Shape(("run",), wrapper="ray-serve"),),
}
"""The same by the module that `python -m` runs (or its file)."""

_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*)?[a-z]?(\.exe)?\Z")
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})


class Owned(msgspec.Struct, frozen=True):
    """A shape and the engine whose it is; none for a host."""

    engine: str
    shape: Shape


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """The launch forms of several engines and of the hosts."""

    programs: Mapping[str, tuple[Owned, ...]]
    modules: Mapping[str, tuple[Owned, ...]]
    paths: tuple[tuple[re.Pattern[str], Owned], ...]

    def of_path(self, path: str) -> tuple[Owned, ...]:
        """The shape of a program by its whole path: of several the one that says most of it."""
        plain = path.replace("\\", "/").rstrip("/").removesuffix(".exe")
        hits = [(len(match.group()), owned) for pattern, owned in self.paths if (match := pattern.search(plain))]
        return (max(hits, key=lambda hit: hit[0])[1],) if hits else ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A shape that a command line has."""

    engine: str  # empty where the engine behind is unknown
    shape: Shape
    program: tuple[str, ...]
    args: tuple[str, ...]

    @property
    def form(self) -> Form | None:
        """The launch form, or None where the engine behind is unknown."""
        if not self.engine:
            return None
        word = self.shape.subcommand or (self.shape.words[-1] if self.shape.words else "")
        return Form(engine=self.engine, args=self.args, program=self.program, subcommand=word)


def tables_of(identities: Iterable[Identity]) -> Tables:
    """The launch forms of these engines beside those of the hosts."""
    programs: dict[str, tuple[Owned, ...]] = {}
    modules: dict[str, tuple[Owned, ...]] = {}
    paths: list[tuple[re.Pattern[str], Owned]] = []
    for each in identities:
        for into, shapes in ((programs, each.programs), (modules, each.modules)):
            for name, listed in shapes.items():
                into[name] = (*into.get(name, ()), *(Owned(each.name, shape) for shape in listed))
        paths += [(re.compile(pattern), Owned(each.name, shape)) for pattern, shape in each.program_paths]
    for into, shapes in ((programs, HOST_PROGRAMS), (modules, HOST_MODULES)):
        for name, listed in shapes.items():
            into[name] = (*into.get(name, ()), *(Owned("", shape) for shape in listed))
    return Tables(programs=programs, modules=modules, paths=tuple(paths))


def tables() -> Tables:
    """The launch forms of the engines that are known so far."""
    return _tables(tuple(each.name for each in engines.identities()))


def hint() -> re.Pattern[str]:
    """A word of every command line that is a launch form of an engine: cheap to look for among many processes."""
    return _hint(tuple(each.name for each in engines.identities()))


@lru_cache(maxsize=4)
def _tables(names: tuple[str, ...]) -> Tables:
    return tables_of(map(engines.identity, names))


@lru_cache(maxsize=4)
def _hint(names: tuple[str, ...]) -> re.Pattern[str]:
    words = {name for each in map(engines.identity, names) for name in each.programs}
    words |= {name.partition(".")[0] for each in map(engines.identity, names) for name in each.modules}
    return re.compile("|".join(map(re.escape, sorted(words))), re.IGNORECASE)


def recognise(argv: Sequence[str], engine: str | None = None) -> Form | None:
    """The launch form that an unwrapped command line is, or None. With `engine` only a form of that engine counts."""
    found = find(argv)
    form = found.form if found else None
    return form if form is None or engine in (None, form.engine) else None


def find(argv: Sequence[str]) -> Found | None:
    """The shape of a command line, those of hosts whose engine is unknown included."""
    if not argv or argv[0].startswith("-"):
        return None
    listed = tables()
    module = python_module(argv)
    if module is not None:
        name, start = module
        return _match(listed.modules.get(name, ()), argv, start)
    name, start = python_script(argv)
    owned = listed.of_path(argv[start - 1]) or listed.programs.get(name, ())
    if not owned and name.endswith(".py"):
        owned = _module_file(argv[start - 1], listed)
    return _match(owned, argv, start)


def base(path: str) -> str:
    """The last component of a path, `.exe` left out."""
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].removesuffix(".exe")


def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter."""
    return bool(_PYTHON.match(base(program)))


def python_module(argv: Sequence[str]) -> tuple[str, int] | None:
    """`python -m NAME`: the name and where its arguments begin."""
    if not argv or not is_python(argv[0]):
        return None
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        word = argv[at]
        if word in _PYTHON_VALUES:
            at += 2
        elif re.match(r"-[bBdEiIOPqsSuvx]*m\Z", word):
            return (argv[at + 1], at + 2) if at + 1 < len(argv) else None
        elif re.match(r"-[bBdEiIOPqsSuvx]*m[A-Za-z_]", word):
            return word[word.index("m") + 1 :], at + 1
        elif re.match(r"-[bBdEiIOPqsSuvx]*c", word):
            return None
        else:
            at += 1
    return None


def python_script(argv: Sequence[str]) -> tuple[str, int]:
    """The program proper and where its arguments begin: `python /usr/bin/vllm serve` is `vllm`, 2."""
    if not is_python(argv[0]):
        return base(argv[0]), 1
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        if re.match(r"-[bBdEiIOPqsSuvx]*c", argv[at]):
            return base(argv[0]), 1
        at += 2 if argv[at] in _PYTHON_VALUES else 1
    return (base(argv[at]), at + 1) if at < len(argv) else (base(argv[0]), 1)


def _match(owned: Sequence[Owned], argv: Sequence[str], start: int) -> Found | None:
    for each in owned:
        at = start
        for word in each.shape.words:
            optional = word.startswith("[")
            if at < len(argv) and argv[at] == word.strip("[]"):
                at += 1
            elif not optional:
                break
        else:
            if at < len(argv) and argv[at] in each.shape.never:
                continue
            return Found(engine=each.engine, shape=each.shape, program=tuple(argv[:at]), args=tuple(argv[at:]))
    return None


def _module_file(path: str, listed: Tables) -> tuple[Owned, ...]:
    dotted = path.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    for name, owned in listed.modules.items():
        if "." in name and dotted.endswith("." + name):
            return owned
    return ()
