"""What an engine's loader opens is locked: every file that a checkpoint may hold, changed, added and removed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from lockllm.checkpoint import look
from lockllm.checkpoint.selection import Loader, select
from lockllm.facts.observation import Reading

BASE = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"]
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = "model.safetensors.index.json"
CONSOLIDATED = ["consolidated.safetensors", "params.json", "tekken.json"]
LAYOUTS = {
    "one file": [*BASE, "model.safetensors"],
    "sharded": [*BASE, *SHARDS, INDEX],
    "bin": [*BASE, "pytorch_model.bin"],
    "pt": [*BASE, "model.pt"],
    "mistral": [*CONSOLIDATED, "consolidated.safetensors.index.json"],
    "one file and mistral": [*BASE, "model.safetensors", *CONSOLIDATED],
    "sharded and mistral": [*BASE, *SHARDS, INDEX, *CONSOLIDATED],
    "safetensors, bin and pt": [*BASE, "model.safetensors", "pytorch_model.bin", "model.pt"],
}
PLAIN_WORDS = (
    "readme",
    "license",
    "notice",
    "changelog",
    "citation",
    "use_policy",
    "optimizer",
    "scheduler",
    "rng_state",
)
FOLDERS = ("", "eval/", "logs/", "runs/", "original/", "onnx/", "checkpoint-5/", "metal/", "deep/er/")
EXTRA = [
    *(f"{word}{end}.py" for word in PLAIN_WORDS for end in ("", "_model", "-x")),
    *(f"{folder}modeling_x.py" for folder in FOLDERS),
    *(f"{folder}kernel{end}" for folder in FOLDERS for end in (".so", ".cu", ".cpp")),
    *(f"{word}{end}.safetensors" for word in PLAIN_WORDS for end in ("", "-x")),
    *(f"{word}-x{end}" for word in PLAIN_WORDS for end in (".bin", ".pt")),
    "x.safetensors", "adapter_x.safetensors", "consolidated-2.safetensors", "license.model", "readme.jinja", "notice.json",
    "tiktoken.model", "vocab.tiktoken", "additional_chat_templates/tool_use.jinja", "preprocessor_config.json",
]  # fmt: skip
ENGINES = [
    (engine, version, load_format)
    for engine, versions in (("vllm", ("0.6.6", "0.11.2", "0.12.0", "0.33.0")), ("sglang", ("0.5.23",)))
    for version in versions
    for load_format in (None, "auto", "safetensors", "mistral", "pt", "npcache")
]


def opened(names: list[str], engine: str, version: str, load_format: str | None, indexed: list[str]) -> set[str]:
    """The weights that vLLM's and SGLang's `_prepare_weights` opens, and all code and small files."""
    top = [name for name in names if "/" not in name]
    found = {
        name for name in names if name.endswith((".py", ".so", ".cu", ".cpp", ".json", ".jinja", ".model", ".tiktoken"))
    }
    found -= {name for name in found if name.endswith(".index.json")}
    form = load_format or "auto"
    newer = engine == "vllm" and tuple(map(int, version.split(".")[:2])) >= (0, 12)
    if form == "auto" and newer and any(fnmatchcase(name, "consolidated*.safetensors") for name in top):
        form = "mistral"
    patterns = {
        "auto": ("*.safetensors", "*.bin", "*.pt"), "safetensors": ("*.safetensors",), "pt": ("*.pt",),
        "mistral": ("consolidated*.safetensors",), "npcache": ("*.bin",),
    }[form]  # fmt: skip
    for pattern in patterns:
        files = {name for name in top if fnmatchcase(name, pattern)}
        if pattern.endswith(".safetensors") and form != "mistral" and INDEX in names:
            files &= set(indexed)
            found.add(INDEX)
        unread = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
        if files:
            return found | {name for name in files if pattern.endswith(".safetensors") or not name.endswith(unread)}
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("engine", "version", "load_format"), ENGINES)
def test_what_a_loader_opens_is_kept_whatever_its_name(
    layout: str, engine: str, version: str, load_format: str | None
) -> None:
    base = LAYOUTS[layout]
    loader = Loader(engine=engine, version=version, load_format=load_format)
    lost = set()
    for more in [[], EXTRA, *([name] for name in EXTRA)]:
        names = sorted({*base, *more})
        lost |= opened(names, engine, version, load_format, SHARDS) - set(select(names, loader=loader).kept)
    assert lost == set()


@pytest.mark.parametrize(
    ("engine", "version", "load_format", "kept"),
    [
        ("vllm", "0.33.0", None, ["consolidated.safetensors"]),
        ("vllm", "0.12.0", "auto", ["consolidated.safetensors"]),
        ("vllm", "0.33.0", "hf", [*SHARDS]),
        ("vllm", "0.11.2", None, [*SHARDS]),
        ("vllm", "0.11.2", "mistral", ["consolidated.safetensors"]),
        ("vllm", "0.33.0", "safetensors", [*SHARDS]),
        ("sglang", "0.5.23", "mistral", ["consolidated.safetensors"]),
        ("transformers", "5.24.0", None, [*SHARDS]),
    ],
)
def test_of_two_sets_the_loader_s_own_is_locked(
    engine: str, version: str, load_format: str | None, kept: list[str]
) -> None:
    names = LAYOUTS["sharded and mistral"]
    found = select(names, loader=Loader(engine=engine, version=version, load_format=load_format)).role("weights")
    assert sorted(found) == sorted(kept)


def test_what_no_engine_loads_stays_out() -> None:
    inert = [
        "README.md", "LICENSE", "LICENSE-MODEL", "NOTICE.txt", "training_args.bin", "optimizer.pt", "scheduler.pt", "cat.png",
        "rng_state_0.json.md", "eval/x.safetensors", ".x.safetensors", "x.lock", "runs/events", "__pycache__/m.pyc", "model.onnx",
    ]  # fmt: skip
    for engine, version, load_format in ENGINES:
        loader = Loader(engine=engine, version=version, load_format=load_format)
        assert not set(select([*LAYOUTS["one file"], *inert], loader=loader).kept) & set(inert)


def test_a_lock_of_an_older_rule_is_held_against_the_files_of_that_rule(tiny: Path) -> None:
    for name in ("optimizer_model.py", "readme-x.safetensors", "eval/modeling.py"):
        (tiny / name).parent.mkdir(exist_ok=True)
        (tiny / name).write_bytes((tiny / "model.safetensors").read_bytes())
    older = look(str(tiny), engine="vllm", engine_version="0.32.0", edition=1)
    newer = look(str(tiny), engine="vllm", engine_version="0.32.0")
    extra = {file.path for file in newer.files} - {file.path for file in older.files}
    assert extra == {"optimizer_model.py", "readme-x.safetensors", "eval/modeling.py"}
    told = {check.name: check for check in older.checks}["check.files_locked"]
    assert told.detail == (
        "an older lockllm left out eval/modeling.py, optimizer_model.py, readme-x.safetensors, which the engine may load"
    )
    assert "check.files_locked" not in {check.name for check in newer.checks}


def _files(folder: Path, loader: tuple[str, str, str | None]) -> dict[str, object]:
    engine, version, load_format = loader
    found = look(str(folder), engine=engine, engine_version=version, load_format=load_format)
    return {each.fact.key: each.value for each in found.readings if _is_file(each)}


def _is_file(reading: Reading) -> bool:
    return reading.fact.path[:2] == ("checkpoint", "files")


def _changes(names: list[str]) -> Iterator[tuple[str, str]]:
    yield from itertools.product(("change", "remove"), names)
    yield from (("add", name) for name in EXTRA)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_is_opened_and_changed_added_or_removed_moves_the_files(layout: str, tmp_path: Path) -> None:
    weights = (Path(__file__).parents[2] / "examples" / "tiny" / "model" / "model.safetensors").read_bytes()
    folder = tmp_path / "model"
    (folder / "additional_chat_templates").mkdir(parents=True)
    for each in FOLDERS:
        (folder / each).mkdir(parents=True, exist_ok=True)

    def write(name: str, more: bytes = b"") -> None:
        text = json.dumps({"weight_map": {"x": SHARDS[0], "y": SHARDS[1]}}) if name == INDEX else "{}"
        (folder / name).write_bytes((weights if name.endswith(".safetensors") else text.encode()) + more)

    loaders = [
        ("vllm", "0.33.0", None),
        ("vllm", "0.11.2", None),
        ("vllm", "0.33.0", "mistral"),
        ("sglang", "0.5.23", "auto"),
    ]
    names = LAYOUTS[layout]
    for name in names:
        write(name)
    before = {loader: _files(folder, loader) for loader in loaders}
    unmoved = set()
    for what, name in _changes(names):
        (folder / name).unlink() if what == "remove" else write(name, b" ")
        held = sorted({*names, name} - ({name} if what == "remove" else set()))
        for loader in loaders:
            read = opened(held, *loader, SHARDS) | (opened(names, *loader, SHARDS) if what != "add" else set())
            if name in read and _files(folder, loader) == before[loader]:
                unmoved.add((what, name, loader))
        (folder / name).unlink() if what == "add" else write(name)
    assert unmoved == set()
