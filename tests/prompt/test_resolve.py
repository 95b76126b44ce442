"""Which template wins: small folders that transformers 4.44, 4.57 and 5.24 read, and rules of other engines on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockllm.prompt.resolve import Resolution, processor_choice, resolve
from lockllm.prompt.templates import Candidate, shelve
from lockllm.prompt.tokens import special_tokens

FOLDERS = sorted((Path(__file__).parent / "data" / "resolution").iterdir())


class Folder:
    def __init__(self, files: dict[str, bytes | str]) -> None:
        self.files = {name: raw.encode() if isinstance(raw, str) else raw for name, raw in files.items()}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def resolve(self, *args: str | None, **kwargs: object) -> Resolution:
        return resolve(self.read, sorted(self.files), *args, **kwargs)  # type: ignore[arg-type]


def on_disk(root: Path) -> Folder:
    files = [path for path in root.rglob("*") if path.is_file()]
    return Folder({str(path.relative_to(root)): path.read_bytes() for path in files})


def text(found: Candidate | None) -> str | None:
    return found.text if found else None


def want(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get("default")
    return None if value is None or str(value).startswith("ERR") else str(value)


@pytest.mark.parametrize("root", FOLDERS, ids=lambda root: root.name)
def test_each_folder_gives_what_each_reader_took(root: Path) -> None:
    folder = on_disk(root)
    for reader, expected in json.loads((root / "expected.json").read_text()).items():
        if reader.startswith("tgi"):
            assert text(folder.resolve("tgi").winner) == want(expected["template"])
            continue
        version = reader.split()[1]
        found = folder.resolve(None, version)
        assert text(found.winner) == want(expected["tokenizer_no_tools"]), reader
        assert text(found.with_tools) == want(expected["tokenizer_tools"]), reader
        if version != "4.44.2":
            choice = processor_choice(shelve(folder.read, sorted(folder.files)), version)
            assert text(choice.plain) == want(expected["processor"]), reader


RENDERED = [
    root
    for root in FOLDERS
    if json.loads((root / "expected.json").read_text())["transformers 5.24.0"].get("rendered") is not None
]
"""Folders that transformers renders; the others have no template that it takes."""


@pytest.mark.parametrize("root", RENDERED, ids=lambda root: root.name)
def test_special_tokens_of_each_folder_render_as_they_did(root: Path) -> None:
    from lockllm.prompt.render import Rendered, renderings
    from tests.prompt.test_render import GOLDEN, dt

    folder = on_disk(root)
    held = special_tokens(
        json.loads(folder.files.get("tokenizer_config.json", b"{}")),
        json.loads(folder.files.get("special_tokens_map.json", b"{}")),
    )
    expected = json.loads((root / "expected.json").read_text())["transformers 5.24.0"]["rendered"]
    winner = folder.resolve().winner
    assert winner is not None
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    (found,) = renderings(winner.text or "", [ask], held, dt.datetime.fromisoformat(GOLDEN["now"]))
    assert isinstance(found, Rendered)
    assert found.text == expected


VISION = {
    "chat_template.jinja": "JINJA", "chat_template.json": '{"chat_template": "PJSON"}',
    "preprocessor_config.json": '{"processor_class": "XProcessor"}', "tokenizer_config.json": '{"chat_template": "CFG"}',
}  # fmt: skip
PLAIN = {"chat_template.jinja": "JINJA", "tokenizer_config.json": '{"chat_template": "CFG"}'}
GGUF = {"tokenizer.chat_template": "G", "tokenizer.chat_template.tool_use": "G-TOOL"}
ENGINES = [
    ("vllm", "0.30.0", VISION, {}, "PJSON", "JINJA"),
    ("vllm", "0.30.0", PLAIN, {}, "JINJA", "JINJA"),
    ("transformers", "5.24.0", VISION, {}, "PJSON", "PJSON"),
    ("transformers", "4.46.0", PLAIN, {}, "CFG", "CFG"),
    ("sglang", "0.5.20", VISION, {}, "PJSON", "PJSON"),
    ("tgi", "3.3.5", VISION, {}, "PJSON", "PJSON"),
    ("tgi", "3.3.5", {"chat_template.jinja": "JINJA", "tokenizer_config.json": "{}"}, {}, None, None),
    ("tensorrt-llm", "1.2.0", VISION, {}, "PJSON", "PJSON"),
    ("lmdeploy", "0.17.0", VISION, {}, "JINJA", "JINJA"),
    ("llama.cpp", "b11434", {}, GGUF, "G", "G-TOOL"),
    ("llama-cpp-python", "0.3.36", {}, GGUF, "G", "G"),
]


@pytest.mark.parametrize("engine, version, files, gguf, plain, tools", ENGINES)
def test_each_engine_takes_its_own(
    engine: str, version: str, files: dict[str, bytes | str], gguf: dict[str, str], plain: str | None, tools: str | None
) -> None:
    found = Folder(files).resolve(engine, version, gguf=gguf)
    assert (text(found.winner), text(found.with_tools)) == (plain, tools)


def test_an_engine_falls_back_on_a_template_of_its_own() -> None:
    for engine, source in (("llama.cpp", "built-in: chatml"), ("llama-cpp-python", "built-in: llama-2")):
        found = Folder({}).resolve(engine, gguf={}).winner
        assert found == Candidate(None, source)
        assert found.sha256 is None


def test_a_flag_beats_every_file() -> None:
    flag = Candidate("FLAG", "--chat-template")
    for engine in (None, "vllm", "sglang", "llama.cpp", "tensorrt-llm"):
        assert Folder(VISION).resolve(engine, explicit=flag).winner is flag


def test_the_first_of_several_named_ones_wins_in_sglang() -> None:
    listed = [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]
    folder = Folder({"tokenizer_config.json": json.dumps({"chat_template": listed})})
    assert text(folder.resolve("sglang", "0.5.20").winner) == "R"
    assert text(folder.resolve("vllm", "0.30.0").winner) == "D"


@pytest.mark.parametrize(
    "model, guess",
    [
        ("OpenGVLab/InternVL3-8B", "internvl-2-5"),
        ("deepseek-ai/deepseek-vl2-tiny", "deepseek-vl2"),
        ("openbmb/MiniCPM-V-2_6", "minicpmv"),
        ("openbmb/MiniCPM-V-4_6", None),
        ("/models/endpoints-v2", None),
        ("Qwen/Qwen3-8B", None),
    ],
)
def test_sglang_guesses_by_the_words_of_the_path(model: str, guess: str | None) -> None:
    winner = Folder(PLAIN).resolve("sglang", "0.5.20", model=model).winner
    assert winner is not None
    assert (winner.source, winner.name) == (
        ("guessed-from-path", guess) if guess else ("chat_template.jinja", "default")
    )


def test_the_vendor_tokenizer_reads_no_template() -> None:
    found = Folder(PLAIN).resolve("vllm", "0.30.0", tokenizer_mode="mistral").winner
    assert found == Candidate(None, "built-in: mistral-common")


def test_vllm_takes_the_vendor_tokenizer_of_a_vendor_folder() -> None:
    vendor = {"tekken.json": "{}", "consolidated.safetensors": b"", **PLAIN}
    assert Folder(vendor).resolve("vllm", "0.33.0").winner == Candidate(None, "built-in: mistral-common")
    assert "was not read" in Folder(vendor).resolve("vllm", "0.11.0").unknown
    assert text(Folder(vendor).resolve("vllm", "0.33.0", tokenizer_mode="hf").winner) == "JINJA"
    assert text(Folder(vendor).resolve("transformers", "5.24.0").winner) == "JINJA"
    assert Folder({"tekken.json": "{}"}).resolve("vllm", "0.11.0").winner == Candidate(None, "built-in: mistral-common")


def test_a_version_that_was_not_read_is_not_guessed_where_it_matters() -> None:
    assert Folder(PLAIN).resolve("vllm", "0.99.0").winner is None
    assert "was not read" in Folder(PLAIN).resolve("vllm", "0.99.0").unknown
    alike = {"chat_template.jinja": "T", "tokenizer_config.json": '{"chat_template": "T"}'}
    assert text(Folder(alike).resolve("vllm", "0.99.0").winner) == "T"


def test_differing_candidates_are_named() -> None:
    found = Folder(VISION).resolve("vllm", "0.30.0")
    assert {each.source for each in found.differ} == {"chat_template.jinja", "tokenizer_config.json"}


@pytest.mark.parametrize(
    "raw, word",
    [
        (b'{"chat_template": 5}', "neither a text nor"),
        (b'{"chat_template": [{"name": "default"}]}', "neither a text nor"),
        (b'{"chat_template": [1]}', "neither a text nor"),
        (b"[]", "no JSON object"),
        (b"{", "no JSON object"),
        (b"\xff\xfe", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
    ],
)
def test_a_broken_config_is_told_and_holds_no_template(raw: bytes, word: str) -> None:
    found = Folder({"tokenizer_config.json": raw}).resolve()
    assert found.winner is None
    assert word in found.problems[0]


GOOD = {"chat_template.jinja": "JINJA", "tokenizer_config.json": '{"chat_template": "CFG"}'}
PROCESSED = {**GOOD, "processor_config.json": '{"chat_template": "PROC"}'}
LOST = [
    ("vllm", GOOD, "chat_template.json", "JINJA"),
    ("sglang", GOOD, "chat_template.json", "JINJA"),
    ("transformers", GOOD, "chat_template.json", "JINJA"),
    ("lmdeploy", GOOD, "chat_template.json", "JINJA"),
    ("tensorrt-llm", GOOD, "chat_template.json", "JINJA"),
    (None, GOOD, "chat_template.json", "JINJA"),
    ("tgi", GOOD, "chat_template.json", None),
    ("vllm", GOOD, "tokenizer_config.json", "JINJA"),
    ("tgi", GOOD, "chat_template.jinja", "CFG"),
    ("vllm", GOOD, "chat_template.jinja", None),
    ("vllm", GOOD, "additional_chat_templates/tool_use.jinja", None),
    ("vllm", GOOD, "additional_chat_templates/rag.jinja", "JINJA"),
    ("transformers", PROCESSED, "chat_template.json", "PROC"),
    ("transformers", PROCESSED, "chat_template.jinja", "PROC"),
    ("transformers", PROCESSED, "processor_config.json", None),
    ("lmdeploy", PROCESSED, "processor_config.json", "JINJA"),
    ("tgi", PROCESSED, "processor_config.json", "CFG"),
]


@pytest.mark.parametrize("engine, files, broken, winner", LOST)
def test_a_broken_file_hides_the_winner_only_where_the_engine_would_take_its_template(
    engine: str | None, files: dict[str, bytes | str], broken: str, winner: str | None
) -> None:
    found = Folder({**files, broken: b"[\xff]"}).resolve(engine)
    assert text(found.winner) == winner
    assert found.unknown.startswith(broken if winner is None else "")
    assert any(broken in each for each in found.problems)


def test_a_broken_legacy_file_hides_the_winner_where_there_is_a_processor() -> None:
    files = {**GOOD, "chat_template.json": "[]", "preprocessor_config.json": '{"processor_class": "P"}'}
    assert Folder(files).resolve("vllm").unknown == "chat_template.json is no JSON object"
    assert text(Folder(files).resolve("lmdeploy").winner) == "JINJA"


def test_a_broken_file_of_no_rank_is_not_read_beside_a_gguf() -> None:
    found = Folder({"tokenizer_config.json": "[]"})
    for engine in ("llama.cpp", "llama-cpp-python", None):
        assert text(found.resolve(engine, gguf=GGUF).winner) == "G"


def test_a_file_that_is_no_text_is_told() -> None:
    found = Folder({"chat_template.jinja": b"\xff\xfe"}).resolve()
    assert found.winner is None
    assert found.problems == ("chat_template.jinja is no UTF-8",)
