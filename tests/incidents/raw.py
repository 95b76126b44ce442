"""Hosts of an incident as raw material: packages, files, a command line with its variables, GPUs, a log, answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.facts.fact import Stage
from lockllm.facts.observation import ABSENT, Observation, values
from lockllm.observe import Request, observe
from lockllm.observe.server.command_line import plan
from lockllm.resolve.fill import fill
from lockllm.resolve.sources import Options, Sources
from tests.conftest import TINY
from tests.observe import hosts, machines
from tests.observe.test_observe import serving

_NO_PROMPT = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
_TAKEN = ("kernels.*", "serve.*", "sampling.*", "engine.*", "cuda.*")
_PROGRAMS = ("vllm", "transformers", "lmdeploy", "trtllm-serve")
_SPEC = ("serve", "sampling", "tokenizer", "chat_template", "draft")


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `{model}` in the command is the checkpoint's folder, `{home}` the host's own."""

    argv: str = ""  # of the server that is planned, or runs where `lives`
    packages: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    config: Mapping[str, Any] = {}  # merged into config.json
    files: Mapping[str, str | None] = {}  # beside the tiny checkpoint's; None: not there
    links: Mapping[str, str] = {}  # symbolic links in the checkpoint's folder
    home: Mapping[str, str] = {}  # elsewhere on the host
    folder: str = "model"  # the name of the checkpoint's folder
    prompts: bool = False  # whether the checkpoint has its tokenizer and template
    gguf: str = ""  # where the tiny GGUF lies, in place of the folder
    edit: tuple[bytes, bytes] = (b"", b"")  # what is replaced in it
    gpu: Mapping[str, str] = {}  # what differs from one H100
    site: Mapping[str, str] = {}  # files in its site-packages
    libraries: Mapping[str, str] = {}  # shared objects elsewhere on the host, and the name that each is loaded by
    torch: bool = False  # whether its torch links NCCL, as the wheels of both do
    log: str = ""
    pin: tuple[str, ...] = ()  # what `lock` is told to take besides
    bodies: Mapping[str, Any] = {}  # what a server somewhere answers, by path

    def but(self, **changed: Any) -> Side:
        """This host after a change; mappings are overlaid."""
        laid = {
            name: {**getattr(self, name), **value} if isinstance(value, Mapping) and name != "bodies" else value
            for name, value in changed.items()
        }
        return msgspec.structs.replace(self, **laid)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An incident as raw material."""

    engine: str
    before: Side
    after: Side


class Place:
    """Where the hosts of one incident stand: the same paths before and after."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, self.venv = folder / "model", folder / "venv"

    def build(self, side: Side) -> None:
        """Make the host, over whatever was there."""
        self.model = self.folder / side.folder
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if side.gguf:
            (self.folder / side.gguf).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / side.gguf).write_bytes(gguf(side.edit))
        else:
            self._checkpoint(side)
        self._environment(side.packages)
        for name, text in side.site.items():
            path = hosts.site(self.venv) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._libraries(side)
        for name, text in side.home.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(self.filled(text))
        (self.folder / "machine").write_text(machines.text({**machines.ONE, **side.gpu}))

    def look(self, side: Side, engine: str, lock: Lock | None = None) -> Observation:
        """The host as `exec` or `verify` looks at it."""
        self.build(side)
        asked: dict[str, Any] = {"timeout": 2.0, "gpu": "nvidia", "cwd": str(self.folder), "cache": "off"}
        if not side.argv and not side.bodies:
            asked |= {"engine": engine, "stage": Stage.PREFLIGHT}
        if side.log:
            (self.folder / "server.log").write_text(side.log)
            asked["log"] = str(self.folder / "server.log")
        if side.argv:
            words = tuple(self.filled(side.argv).split())
            asked |= {"command": words, "environ": self.environ(side), "stage": Stage.PREFLIGHT}
        with _answers(side.bodies) as url:
            if url:
                asked |= {"server": url, "stage": Stage.ALL}
            request = Request(**asked)
            return observe(request.of_lock(lock) if lock is not None else request)

    def environ(self, side: Side) -> dict[str, str]:
        """The variables that the server gets."""
        own = {"PATH": f"{self.venv}/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        return {**own, **{name: self.filled(text) for name, text in side.env.items()}}

    def filled(self, text: str) -> str:
        """A text with this place's folders."""
        return text.replace("{model}", str(self.model)).replace("{home}", str(self.folder))

    def _checkpoint(self, side: Side) -> None:
        shutil.copytree(TINY / "model", self.model)
        for name in () if side.prompts else _NO_PROMPT:
            (self.model / name).unlink()
        if side.config:
            path = self.model / "config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), **side.config}))
        for name, text in side.files.items():
            path = self.model / name
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        for name, target in side.links.items():
            (self.model / name).unlink(missing_ok=True)
            (self.model / name).symlink_to(target)

    def _libraries(self, side: Side) -> None:
        """Real shared objects: copies of libraries, and a torch that finds its own beside it."""
        site = hosts.site(self.venv)
        if side.torch:
            nccl = _shared(site / "nvidia/nccl/lib/libnccl.so.2", "libnccl.so.2")
            runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../nvidia/nccl/lib"
            _shared(
                site / "torch/lib/libtorch_global_deps.so",
                "libtorch_global_deps.so",
                "-Wl,--no-as-needed",
                str(nccl),
                runpath,
            )
        for name, soname in side.libraries.items():
            path = _shared(self.folder / name, soname)
            (path.parent / soname).symlink_to(path.name)

    def _environment(self, packages: Mapping[str, str]) -> None:
        """A virtual environment as files: nothing of it is ever run."""
        site = hosts.site(self.venv)
        site.mkdir(parents=True)
        version = ".".join(map(str, sys.version_info[:3]))
        (self.venv / "pyvenv.cfg").write_text(f"home = {os.path.dirname(sys._base_executable)}\nversion = {version}\n")  # type: ignore[attr-defined]
        (self.venv / "bin").mkdir()
        (self.venv / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
        for name, text in packages.items():
            hosts.install(site, name, text)
        for name in _PROGRAMS if packages else ():
            (self.venv / "bin" / name).write_text(f"#!{self.venv}/bin/python\n")
            (self.venv / "bin" / name).chmod(0o755)


def _shared(path: Path, soname: str, *flags: str) -> Path:
    """A real shared object of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [
        "cc",
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{soname}",
        "-o",
        str(path),
        "-x",
        "c",
        os.devnull,
        "-x",
        "none",
        *flags,
    ]
    subprocess.run(words, check=True)
    return path


def locked(engine: str, seen: Observation, side: Side, place: Place) -> Lock:
    """The lock of a host that was looked at, for a spec of what its command line says."""
    version = values(seen.readings).get(("engine", "version"))
    text = version if isinstance(version, str) else ""
    words = tuple(place.filled(side.argv).split())
    typed = plan(words, place.environ(side), str(place.folder), text or None).given if words else None
    sources = Sources(
        version=text,
        files=tuple(each for each in seen.readings if each.fact.group not in ("packages", "engine", "host", "cuda")),
        observation=seen,
        unobserved=seen.unobserved,
    )
    spec = Spec(
        engine=engine,
        values={
            each.fact.path: each.value
            for each in (typed.readings if typed else ())
            if each.fact.group in _SPEC and each.value is not ABSENT
        },
        auto=typed.auto if typed else frozenset(),
    )
    lock = fill(spec, sources, None, Options(pin=(*_TAKEN, *side.pin))).lock
    if text and not side.bodies:
        return lock
    shown = {each.fact.path for each in seen.readings}  # rules know more than an answer or an unknown release shows
    return msgspec.structs.replace(
        lock, values={path: value for path, value in lock.values.items() if path in shown}, absent=lock.absent & shown
    )


@contextmanager
def _answers(bodies: Mapping[str, Any]) -> Iterator[str | None]:
    if not bodies:
        yield None
        return
    with serving(bodies, {}) as url:
        yield url


def gguf(edit: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """The tiny GGUF, with one text replaced by another of the same length."""
    old, new = edit
    raw = (TINY / "tiny.gguf").read_bytes()
    assert len(old) == len(new)
    assert old in raw
    return raw.replace(old, new, 1) if old else raw


def weights(dtype: str) -> str:
    """A safetensors file of one tensor of four bytes an element, as text."""
    header = json.dumps({"w": {"dtype": dtype, "shape": [4 if dtype == "F32" else 8], "data_offsets": [0, 16]}}).ljust(
        96
    )
    return "`" + "\0" * 7 + header + "\0" * 16
