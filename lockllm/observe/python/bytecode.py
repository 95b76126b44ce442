"""Compiled modules: whether what an interpreter loads in place of a source was made from that source.

An import takes `__pycache__/x.cpython-311.pyc` where its header names the time and size of `x.py` (PEP 552), and never looks
at the source then. Only compiling the source again shows that the bytecode is its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from lockllm.checkpoint import links
from lockllm.facts.observation import Check, CheckStatus
from lockllm.observe.python import distributions, interpreter
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import child, files

_NAME = "check.bytecode_current"
_SECONDS = 900.0
_MOST_TOLD = 3
_DEEP = "run lockllm verify --deep, which compiles the sources again"
_COMPILE = """
import importlib.util, json, marshal, os, sys, types
sys.setrecursionlimit(20000)
told = {"differ": [], "count": 0}
def loaded(source, compiled):
    with open(compiled, "rb") as file:
        raw = file.read()
    flags = int.from_bytes(raw[4:8], "little")
    if len(raw) < 16 or raw[:4] != importlib.util.MAGIC_NUMBER or flags > 3 or flags == 2:
        return None
    with open(source, "rb") as file:
        text = file.read()
    info = os.stat(source)
    if flags == 0 and raw[8:16] != b"".join((int(n) & 0xFFFFFFFF).to_bytes(4, "little") for n in (info.st_mtime, info.st_size)):
        return None
    if flags == 3 and raw[8:16] != importlib.util.source_hash(text):
        return None
    return text, raw[16:]
def same(text, raw):
    try:
        code = marshal.loads(raw)
    except Exception:
        return False
    if not isinstance(code, types.CodeType):
        return False
    try:
        return code == compile(text, code.co_filename, "exec", dont_inherit=True, optimize=0)
    except Exception:
        return False
for site, tops in places:
    for top in tops:
        walked = os.walk(os.path.join(site, top)) if os.path.isdir(os.path.join(site, top)) else [(site, [], [top])]
        for folder, _, names in walked:
            for name in names:
                source = os.path.join(folder, name)
                compiled = importlib.util.cache_from_source(source, optimization="") if name.endswith(".py") else ""
                if not os.path.isfile(compiled) or not os.path.isfile(source):
                    continue
                pair = loaded(source, compiled)
                if pair is not None:
                    told["count"] += 1
                    if not same(*pair) and len(told["differ"]) < 1000:
                        told["differ"].append(os.path.relpath(compiled, site))
"""


def is_loaded(compiled: Path, source: Path) -> bool:
    """Whether an import takes a compiled file, by its header. One with a hash in its header counts as loaded."""
    try:
        with files.opened(compiled) as file:
            head = file.read(16)
        info = os.stat(links.inner(str(source)))
    except OSError:
        return False
    flags = int.from_bytes(head[4:8], "little")
    if len(head) < 16 or flags not in (0, 1, 3):
        return False
    stamp = b"".join((int(number) & 0xFFFFFFFF).to_bytes(4, "little") for number in (info.st_mtime, info.st_size))
    return flags != 0 or head[8:16] == stamp


def unproven(names: Sequence[str]) -> Check:
    """The finding where no source was compiled. `names`: compiled files that were written after the installation."""
    if not names:
        return Check(_NAME, CheckStatus.PASS, "no compiled module was written after its package was installed")
    rest = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    detail = f"written after the installation, and not compared with the source: {', '.join(names[:_MOST_TOLD])}{rest}"
    return Check(_NAME, CheckStatus.UNKNOWN, detail, "__pycache__", _DEEP)


def compared(environment: Environment, wanted: Iterable[str], program: Path) -> tuple[Check, tuple[str, ...]]:
    """Compile the sources of these distributions with their own interpreter; the finding, and what differs.

    The code is compared as Python compares code: order in sets and file names do not count.
    """
    if (why := interpreter.refusal(program)) is not None:
        return Check(_NAME, CheckStatus.UNKNOWN, f"{program} is not run: {why}", str(program), _DEEP), ()
    places = json.dumps(_places(environment, wanted))
    argv = (str(program), "-I", "-S", "-B", "-W", "ignore")
    code = f"import json\nplaces = json.loads({places!r}){_COMPILE}{child.PRINT}"
    answer = child.ask(argv, code, _SECONDS, rights=interpreter.rights(program))
    if isinstance(answer, str):
        return Check(_NAME, CheckStatus.UNKNOWN, f"{program} {answer}", str(program), f"run {program} -V"), ()
    differ = tuple(sorted(name for name in answer.get("differ", ()) if isinstance(name, str)))
    if not differ:
        return Check(_NAME, CheckStatus.PASS, f"{answer.get('count')} compiled modules are their sources'"), ()
    rest = f" and {len(differ) - _MOST_TOLD} more" if len(differ) > _MOST_TOLD else ""
    detail = f"not compiled from the source beside them: {', '.join(differ[:_MOST_TOLD])}{rest}"
    fix = "delete the __pycache__ folders of the package, and install it again"
    return Check(_NAME, CheckStatus.FAIL, detail, "__pycache__", fix), differ


def _places(environment: Environment, wanted: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The site folder of each distribution, and the top-level folders and modules that it brought there."""
    places = []
    for name in sorted(set(map(distributions.normal, wanted))):
        one = environment.distributions.get(name)
        rows = distributions.recorded(one) if one is not None else None
        if one is not None and rows:
            tops = sorted({row[0].partition("/")[0] for row in rows if row[0].endswith(".py")})
            places.append((str(one.folder.parent), tops))
    return places
