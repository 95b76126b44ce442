"""Every module stands on its own: it imports first, without a warning, and without what costs tens of milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "lockllm"
HEAVY = {
    "asyncio",
    "blake3",
    "http.client",
    "huggingface_hub",
    "importlib.metadata",
    "jinja2",
    "multiprocessing",
    "packaging",
    "pynvml",
    "rich",
    "ssl",
    "tokenizers",
    "tomlkit",
    "torch",
    "urllib.request",
}
# An interpreter that has imported nothing of ours forks once a module: as fresh as one started anew, and faster.
EACH = """
import json, os, sys
heavy = set(json.loads(sys.argv[1]))
for name in sys.argv[2:]:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
            found = sorted(heavy & set(sys.modules))
            print(json.dumps([name, f"imports {', '.join(found)}" if found else ""]), flush=True)
        except BaseException as error:
            print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def modules() -> list[str]:
    names = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))]
    return [".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in names if parts[-1] != "__main__"]


def test_each_module_imports_alone_without_a_warning_and_without_a_heavy_library() -> None:
    asked = [sys.executable, "-W", "error", "-c", EACH, json.dumps(sorted(HEAVY)), *modules()]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True)
    told = dict(json.loads(line) for line in done.stdout.splitlines())
    assert set(told) == set(modules())
    assert {name: wrong for name, wrong in told.items() if wrong} == {}


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder.name for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
