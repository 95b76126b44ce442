"""Weight files with headers that are spoiled, and chat templates of any kind: read or refused, in bounded time."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.checkpoint import gguf, look, safetensors
from lockllm.checkpoint.bounded import Malformed
from lockllm.prompt import probes
from lockllm.prompt.render import Analysis, Refused, Rendered, study_as
from lockllm.prompt.sandbox import Limits
from tests.abuse.material import ODD, bounded, seeds, spoiled, texts, told, values
from tests.conftest import TINY
from tests.fuzz import grammar

TESTS = Path(__file__).parent.parent

HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]},
}
"""What a small safetensors file says."""
GGUF = (TINY / "tiny.gguf").read_bytes()
SHARD = (TINY / "model" / "model.safetensors").read_bytes()
ODD_NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 65, 9, 8)


def overwritten(raw: bytes, random: Random) -> bytes:
    """Bytes with numbers, runs and ends of the first 4,000 spoiled."""
    made = bytearray(raw)
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(min(len(made), 4000))
        how = random.randrange(4)
        if how == 0:
            made[at] = random.randrange(256)
        elif how == 1:
            made[at : at + 8] = struct.pack("<Q", random.choice(ODD_NUMBERS))
        elif how == 2:
            made[at : at + 4] = struct.pack("<I", random.choice(ODD_NUMBERS) % 2**32)
        else:
            del made[at : at + random.randrange(1, 40)]
    return bytes(made) if random.random() < 0.8 else bytes(made[: random.randrange(4000)])


@bounded(150)
@given(seed=seeds)
def test_any_gguf_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.gguf"
    path.write_bytes(overwritten(GGUF, Random(seed)))
    with contextlib.suppress(Malformed):
        gguf.read(str(path))
    if seed % 10 == 0:
        look(str(path), engine="llama.cpp", cache="off")


@bounded(150)
@given(seed=seeds, odd=values)
def test_any_safetensors_header_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, seed: int, odd: Any
) -> None:
    random = Random(seed)
    path = tmp_path_factory.getbasetemp() / "fuzzed.safetensors"
    raw = json.dumps(spoiled(HEADER, random, odd)).encode()
    whole = struct.pack("<Q", len(raw)) + raw + bytes(10)
    path.write_bytes(overwritten(SHARD, random) if random.random() < 0.3 else whole)
    with contextlib.suppress(Malformed):
        found = safetensors.read(str(path))
        safetensors.dtypes([found])


CONFIGS = sorted(
    folder for folder in (TESTS / "checkpoint" / "data" / "configs").iterdir() if (folder / "config.json").exists()
)
SERVERS = (None, "vllm", "sglang", "tgi", "lmdeploy", "tensorrt-llm")


@bounded(100)
@given(seed=seeds, odd=values, engine=st.sampled_from(SERVERS))
def test_any_configuration_gives_facts_findings_or_gaps(
    tmp_path_factory: pytest.TempPathFactory, seed: int, odd: Any, engine: str | None
) -> None:
    random = Random(seed)
    folder = tmp_path_factory.getbasetemp() / "configured"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(random.choice(CONFIGS), folder)
    documents = sorted(path for path in folder.glob("*.json") if path.name != "expected.json")
    for path in random.sample(documents, random.randrange(1, len(documents) + 1)):
        try:
            held = json.loads(path.read_text())
        except ValueError:
            continue
        for _ in range(random.randrange(1, 4)):
            held = spoiled(held, random, odd if random.random() < 0.7 else random.choice(ODD))
        path.write_text(json.dumps(held))
    found = look(str(folder), engine=engine, cache="off")
    assert all(check.detail for check in found.checks)
    told(found)


PIECES = (
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "for m in messages",
    "endfor",
    "if ",
    "endif",
    "m['role']",
    "m.content",
    "messages[0]",
    "tools",
    "tojson",
    "|",
    "(",
    ")",
    "loop.index0",
    "namespace()",
    "set x = ",
    "raise_exception('x')",
    "strftime_now('%Y')",
    "macro a(b)",
    "endmacro",
    "generation",
    "endgeneration",
    "'",
    '"',
    "bos_token",
    "~",
    "%",
    "+",
    "x.__class__",
    "range(9)",
    "[::-1]",
    "is defined",
    "include 'x'",
    "{#",
    "#}",
    "-",
    "\n",
    "self",
    "super()",
    "caller()",
    "filter upper",
    "endfilter",
    "autoescape true",
    "break",
    "call a()",
    "endcall",
    "block b",
    "endblock",
)
BUILT = st.randoms(use_true_random=False).map(grammar.template)


@bounded(12)
@given(BUILT | st.lists(st.sampled_from(PIECES) | texts, max_size=14).map(" ".join))
def test_any_template_is_rendered_or_refused(template: str) -> None:
    asked = [each.request for each in probes.PROBES.values()]
    forms = {form: [probes.as_served(each, "vllm", form) for each in asked] for form in ("string", "openai")}
    analysis, found = study_as("vllm", template, forms, {"bos_token": "<s>"}, probes.NOW, limits=Limits(seconds=0.5))
    assert isinstance(analysis, (Analysis, Refused))
    assert len(found) == len(probes.PROBES)
    assert all(isinstance(each, (Rendered, Refused)) for each in found)
    assert not any(isinstance(each, Refused) and each.world for each in found)
