"""What each tool notices of an edited checkpoint: lockllm, `hf cache verify`, `sha256sum -c` and model_signing, on the same files.

python -m benchmarks.integrity --hf PATH --model-signing PATH

A stand-in Hub on the loopback serves the repository; `hf download` fills the cache; each edit meets a fresh copy.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.checkpoint.edits import SHARDS, Edit, edits, sharded
from tests.conftest import TINY
from tests.hub.standin import File, Repo, running

NAME = "org/tiny"
SPEC = '[checkpoint]\npath = "{path}"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'
ONLY = [word for group in ("checkpoint", "chat_template", "check") for word in ("--only", group)]
Run = Callable[[Path, Path], "tuple[int, str]"]
"""Given a copy's home and its snapshot: the exit code of a tool, and all that it prints."""


def main() -> None:
    """Prints the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--hf", default=shutil.which("hf"))
    options.add_argument("--model-signing", default=shutil.which("model_signing"))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, running() as hub:
        base = Path(folder)
        plain = sharded(TINY / "model", base / "plain")
        files = {path.name: File(path.read_bytes(), lfs=path.name in SHARDS) for path in sorted(plain.iterdir())}
        repo = hub.repos[NAME] = Repo()
        repo.push(files)
        env = {
            "PATH": os.environ["PATH"], "HOME": str(base), "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1", "LOCKLLM_CACHE": str(base / "digests"), "NO_COLOR": "1",
        }  # fmt: skip
        home = base / "home"
        told = said([asked.hf, "download", NAME, "--cache-dir", str(home)], base, env)
        (snapshot,) = (home / "models--org--tiny" / "snapshots").iterdir()
        assert sorted(path.name for path in snapshot.iterdir()) == sorted(files), told
        tools = prepare(base, snapshot, asked.hf, asked.model_signing, env)
        rows = compared(tools, home, edits(sorted(files)), base)
        other = base / "other"
        repo.push({**files, "chat_template.jinja": File(b"{{ messages }}")})
        good([asked.hf, "download", NAME, "--cache-dir", str(other)], base, env)
        (snapshot,) = (other / "models--org--tiny" / "snapshots").iterdir()
        for name, run in tools.items():
            how = judged(run(other, snapshot), ("chat_template.jinja",))
            rows.setdefault("the branch moved, and was downloaded again", {}).setdefault(name, []).append(how)
        table(tools, rows)


def prepare(base: Path, snapshot: Path, hf: str, signing: str, env: Mapping[str, str]) -> dict[str, Run]:
    """The tools, each with what it expects taken from the untouched snapshot."""
    lockllm = str(Path(sys.executable).parent / "lockllm")
    (base / "llm.toml").write_text(SPEC.format(path=snapshot))
    good([lockllm, "lock", "--gpu", "none"], base, env)
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(snapshot.iterdir())
    )
    (base / "SUMS").write_text(sums)
    key, public, signature = (str(base / name) for name in ("key.pem", "public.pem", "model.sig"))
    good(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], base, env)
    good(["openssl", "ec", "-in", key, "-pubout", "-out", public], base, env)
    sign = ["--signature", signature, "--allow_symlinks"]
    good([signing, "sign", "key", "--private_key", key, *sign, str(snapshot)], base, env)
    verify = [lockllm, "verify", "llm.lock", "--stage", "preflight", "--gpu", "none", "--format", "json", *ONLY]
    strict = ["--fail-on-missing-files", "--fail-on-extra-files"]
    return {
        "`lockllm verify`": lambda _, at: said([*verify, "--checkpoint", str(at)], base, env),
        "`hf cache verify`": lambda home, _: said([hf, "cache", "verify", NAME, "--cache-dir", str(home)], base, env),
        "the same, both `--fail-on-…`": lambda home, _: said(
            [hf, "cache", "verify", NAME, "--cache-dir", str(home), *strict], base, env
        ),
        "`sha256sum -c`": lambda _, at: said(["sha256sum", "--quiet", "-c", str(base / "SUMS")], at, env),
        "`model_signing verify`": lambda _, at: said(
            [signing, "verify", "key", "--public_key", public, *sign, str(at)], base, env
        ),
    }


Rows = dict[str, dict[str, list[str]]]
"""Kind of edit -> tool -> what it did at each edit of that kind."""


def compared(tools: Mapping[str, Run], home: Path, asked: Sequence[Edit], base: Path) -> Rows:
    """What each tool says of each edit of a fresh copy."""
    for name, run in tools.items():
        code, text = run(home, next((home / "models--org--tiny" / "snapshots").iterdir()))
        assert code == 0, f"{name} is not content with the untouched checkpoint: {text}"
    rows: Rows = {}
    for edit in asked:
        for name, run in tools.items():
            copy = base / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(home, copy, symlinks=True)
            (snapshot,) = (copy / "models--org--tiny" / "snapshots").iterdir()
            edit.do(snapshot)
            how = judged(run(copy, snapshot), edit.files)
            rows.setdefault(edit.kind, {}).setdefault(name, []).append(how)
    return rows


def judged(said_: tuple[int, str], files: Sequence[str]) -> str:
    """Whether the files were named, only something was noticed, or all was well."""
    code, text = said_
    return "missed" if code == 0 else "named" if all(file in text for file in files) else "noticed"


def table(tools: Mapping[str, Run], rows: Rows) -> None:
    """One row a kind of edit, then how often each tool named, noticed or missed."""
    print(f"| edit | {' | '.join(tools)} |")
    print(f"|---|{'---|' * len(tools)}")
    for kind, found in rows.items():
        count = len(next(iter(found.values())))
        print(f"| {kind} ({count}) | {' | '.join(cell(found[name]) for name in tools)} |")
    total = []
    for name in tools:
        every = [how for found in rows.values() for how in found[name]]
        total.append(f"{every.count('named')} of {len(every)}")
    print(f"| **named** | {' | '.join(total)} |")


def cell(found: Sequence[str]) -> str:
    """`named`, or how many of each."""
    if len(set(found)) == 1:
        return f"**{found[0]}**" if found[0] == "missed" else found[0]
    return ", ".join(f"{how} {found.count(how)}" for how in ("named", "noticed", "missed") if how in found)


def good(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
    """Runs what must succeed."""
    code, text = said(argv, cwd, env)
    assert code == 0, f"{argv[0]}: {text}"


def said(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """The exit code of a command, and all that it prints."""
    done = subprocess.run(
        argv, check=False, cwd=cwd, env=dict(env), capture_output=True, text=True, errors="replace", timeout=120
    )
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    main()
