"""Engines without a data file: the options of a package, or of a program's own --help, held against the table kept by hand.

Nothing is written: their tables hold no history, and what an option takes is not in a help text. LMDeploy's command line
is read from its package; TensorRT-LLM's too, whose wheel is large, so name a path where one is at hand. TGI's launcher,
llama.cpp and Ollama are programs: name a file with what `PROGRAM --help` (`ollama serve --help`) prints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from lockllm.engines.kernel.argparse import Table
from lockllm.engines.llamacpp import options as llamacpp
from lockllm.engines.lmdeploy import options as lmdeploy
from lockllm.engines.tensorrt_llm import options as tensorrt_llm
from lockllm.engines.tgi import options as tgi
from lockllm.facts import variables
from tools.refresh import packages

_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_VARIABLE = re.compile(r"\bOLLAMA_[A-Z0-9_]+\b")


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """An engine whose table is kept by hand."""

    known: Callable[[], Iterable[str]]
    distribution: str = ""  # empty: no package has its command line
    start: str = ""  # `file:function` that adds the options
    helpers: str = ""  # file whose functions it calls for some of them
    pattern: re.Pattern[str] = _FLAG


ENGINES = {
    "lmdeploy": Program(
        known=lambda: _flags(lmdeploy.TABLE), distribution="lmdeploy",
        start="lmdeploy/cli/serve.py:add_parser_api_server", helpers="lmdeploy/cli/utils.py",
    ),
    "tensorrt-llm": Program(
        known=lambda: _flags(tensorrt_llm.TABLE), distribution="tensorrt-llm", start="tensorrt_llm/commands/serve.py:serve",
    ),
    "tgi": Program(known=lambda: _flags(tgi.TABLE)),
    "llama.cpp": Program(known=lambda: (flag for each in llamacpp.OPTIONS for flag in (*each.flags, *each.off))),
    "ollama": Program(known=lambda: (row.name for row in variables.rows("ollama")), pattern=_VARIABLE),
}  # fmt: skip


def run(engine: str, asked: Sequence[str]) -> int:
    """Print what the table lacks, and what the source has no more; 1 where the table lacks something."""
    program = ENGINES[engine]
    if not asked:
        raise SystemExit(_how(engine, program))
    lacking = False
    for each in asked:
        where, there = _there(engine, program, each)
        known = frozenset(program.known())
        print(where)
        for title, names in (("not in the table", there - known), ("not in this source", known - there)):
            print(f"  {title}: {', '.join(sorted(names)) or 'none'}")
        lacking = lacking or bool(there - known)
    return int(lacking)


def _there(engine: str, program: Program, asked: str) -> tuple[str, frozenset[str]]:
    """What a source has: a file of --help, else a package."""
    path = Path(asked)
    if path.is_file() and path.suffix != ".whl":
        return asked, frozenset(program.pattern.findall(path.read_text(errors="replace"))) - {"-h", "--help"}
    if not program.distribution:
        raise SystemExit(_how(engine, program))
    release, texts = packages.open_release(program.distribution, asked)
    return f"{program.distribution} {release}", frozenset(_added(program, texts))


def _added(program: Program, texts: Mapping[str, str]) -> Iterator[str]:
    """The spellings of every `add_argument` and `click.option` of a function and of the helpers that it calls."""
    path, _, function = program.start.partition(":")
    helpers = _functions(texts[program.helpers]) if program.helpers else {}
    waiting = [*_functions(texts[path]).get(function, ())]
    while waiting:
        node = waiting.pop()
        for each in ast.walk(node):
            name = getattr(each.func, "attr", "") if isinstance(each, ast.Call) else ""
            if name in ("add_argument", "option") and isinstance(each, ast.Call):
                words = [str(word.value) for word in each.args if isinstance(word, ast.Constant)]
                yield from (part for word in words for part in word.split("/") if part.startswith("-"))
            waiting += helpers.pop(name, [])


def _functions(text: str) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def _flags(table: Table) -> frozenset[str]:
    return frozenset(table.flags)


def _how(engine: str, program: Program) -> str:
    if program.distribution:
        return f"name a release of {program.distribution}, a wheel, or a folder of installed packages"
    return f"no package has the command line of {engine}: name a file with what its --help prints"
