"""Weight files and configurations that lie, end early or never end: a clear word, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockllm.checkpoint import gguf, look, safetensors
from lockllm.checkpoint.bounded import Malformed, parse_object
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.weights import of_safetensors
from tests.abuse.material import told

CONFIGS = Path(__file__).parent / "data" / "configs"
GGUF = CONFIGS / "gguf-q4-k-m" / "tiny-Q4_K_M.gguf"
SHARD = CONFIGS / "dtype-declared-fp32-tensors-mixed" / "model-00001-of-00002.safetensors"
LONG = 2**63


def header(tensors: object, data: bytes = b"", length: int | None = None) -> bytes:
    raw = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def tensor(dtype: str = "F32", shape: tuple[int, ...] = (1,), begin: int = 0, end: int = 4) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


SAFETENSORS = {
    "nothing": (b"", "is cut: 0 bytes hold no header"),
    "length": (struct.pack("<Q", LONG), "says that its header has 9,223,372,036,854,775,808 bytes; the format allows 100,000,000"),
    "short": (header({}, length=500), "is cut: its header alone has 500 bytes, the file 10"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is a Git LFS pointer, not the weights"),
    "list": (header(b"[]"), "has a header that is no JSON object"),
    "words": (header(b"{no json"), "has a header that is none"),
    "bytes": (header(b'{"\xff\xfe": 1}'), "has a header that is none"),
    "deep": (header(b'{"a":' + b"[" * 100_000), "has a header that is none"),
    "dtype": (header({"a": tensor("F99")}, bytes(4)), "holds 'a' of dtype 'F99', which the format does not know"),
    "shape": (header({"a": tensor(shape=(2,))}, bytes(4)), "gives 'a' 4 bytes, its shape and dtype need another number"),
    "huge": (header({"a": tensor(shape=(2**62, 2**62))}, bytes(4)), "gives 'a' 4 bytes, its shape and dtype need another number"),
    "negative": (header({"a": tensor(shape=(-1,))}, bytes(4)), "holds 'a' of an impossible shape"),
    "hole": (header({"a": tensor(begin=4, end=8)}, bytes(8)), "has a hole or an overlap before 'a'"),
    "overlap": (header({"a": tensor(), "b": tensor()}, bytes(8)), "has a hole or an overlap before 'b'"),
    "cut": (header({"a": tensor()}, bytes(3)), "is cut: its tensors need 4 bytes, it holds 3"),
    "more": (header({"a": tensor()}, bytes(5)), "is too long: its tensors need 4 bytes, it holds 5"),
    "numbers": (header(b'{"a":{"dtype":"F32","shape":[' + b"9" * 100 + b'],"data_offsets":[0,4]}}'), "holds 'a' of an impossible shape"),
    "values": (header(b'{"a":{"shape":[' + b"0," * 4_000_000 + b"0]}}"), "has a header of too many values"),
    "dimensions": (header({"a": tensor(shape=(1,) * 70)}, bytes(4)), "holds 'a' of an impossible shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFETENSORS)
def test_a_lying_safetensors_file_is_told_apart(tmp_path: Path, name: str) -> None:
    raw, want = SAFETENSORS[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    with pytest.raises(Malformed) as caught:
        safetensors.read(str(path))
    assert str(caught.value).startswith(want)


def test_what_the_format_allows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {
        "__metadata__": {"format": "pt", "shape": "x"}, "scalar": tensor(shape=()), "none": tensor(shape=(0, 5), begin=4, end=4),
        "small": tensor("F4", (4,), 4, 6),
    }  # fmt: skip
    path.write_bytes(header(json.dumps(tensors).encode() + b"   ", bytes(6)))
    assert safetensors.dtypes([safetensors.read(str(path))]) == {"F32": 1, "F4": 4}


def test_a_name_that_stands_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    one = json.dumps(tensor())
    path.write_bytes(header(f'{{"a":{one},"a":{one}}}'.encode(), bytes(4)))
    assert safetensors.read(str(path)).twice == ("a",)


def front(tensors: int = 0, keys: int = 0, body: bytes = b"", magic: bytes = b"GGUF", version: int = 3) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, keys) + body


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def array(items: int, count: int, body: bytes = b"") -> bytes:
    return text("a") + struct.pack("<IIQ", 9, items, count) + body


GGUFS = {
    "nothing": (b"", "is cut: 0 bytes hold no GGUF"),
    "magic": (front(magic=b"GGML", body=bytes(9)), "is no GGUF: its first bytes are others"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is a Git LFS pointer, not the weights"),
    "version": (front(version=1), "is GGUF version 1; 2 and 3 are read"),
    "counts": (front(LONG, LONG), "says that it holds 9,223,372,036,854,775,808 keys and 9,223,372,036,854,775,808 tensors"),
    "keys": (front(0, 60_000, bytes(100)), "is cut inside its metadata"),
    "key": (front(0, 1, struct.pack("<Q", LONG)), "says that a text has 9,223,372,036,854,775,808 bytes"),
    "string": (front(0, 1, text("a") + struct.pack("<IQ", 8, 10**6) + b"x"), "is cut inside its metadata"),
    "kind": (front(0, 1, text("a") + struct.pack("<I", 99)), "holds a value of an unknown type (99)"),
    "strings": (front(0, 1, array(8, LONG)), "says that 9,223,372,036,854,775,808 texts follow"),
    "floats": (front(0, 1, array(6, LONG)), "says that 36,893,488,147,419,103,232 bytes follow, 0 do"),
    "lists": (front(0, 1, array(9, LONG)), "says that 9,223,372,036,854,775,808 lists follow"),
    "nested": (front(0, 1, array(9, 1, struct.pack("<IQ", 9, 1) * 60)), "nests lists too deep"),
    "items": (front(0, 1, array(77, 1)), "holds a list of an unknown type (77)"),
    "dimensions": (front(1, 0, text("t") + struct.pack("<I", 2**31)), "gives 't' 2147483648 dimensions"),
    "shape": (front(1, 0, text("t") + struct.pack("<IQQIQ", 2, LONG, LONG, 0, 0)), "gives 't' an impossible shape"),
    "block": (front(1, 0, text("t") + struct.pack("<IQIQ", 1, 33, 2, 0)), "gives 't' an impossible shape"),
    "data": (front(1, 0, text("t") + struct.pack("<IQIQ", 1, 32, 0, 0)), "is cut: its tensors need 192 bytes, it has 57"),
    "alignment": (front(0, 1, text("general.alignment") + struct.pack("<II", 4, 0)), "has an impossible alignment: 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", GGUFS)
def test_a_lying_gguf_file_is_told_apart(tmp_path: Path, name: str) -> None:
    raw, want = GGUFS[name]
    path = tmp_path / "a.gguf"
    path.write_bytes(raw)
    with pytest.raises(Malformed) as caught:
        gguf.read(str(path))
    assert str(caught.value) == want


@pytest.mark.parametrize("source", [GGUF, SHARD], ids=["gguf", "safetensors"])
def test_a_file_that_is_cut_or_damaged_anywhere_is_read_or_told(tmp_path: Path, source: Path) -> None:
    whole = source.read_bytes()
    random_ = random.Random(7)
    path = tmp_path / source.name
    read = gguf.read if source.suffix == ".gguf" else safetensors.read
    damaged = [whole[:end] for end in range(0, min(len(whole), 1500), 7)]
    for _ in range(300):
        raw = bytearray(whole)
        for _ in range(random_.randrange(1, 4)):
            raw[random_.randrange(min(len(raw), 1800))] = random_.randrange(256)
        damaged.append(bytes(raw))
    for raw in damaged:
        path.write_bytes(raw)
        with contextlib.suppress(Malformed):
            read(str(path))


def test_big_endian_gguf_is_read(tmp_path: Path) -> None:
    name = b"general.file_type"
    body = struct.pack(">IQQ", 3, 0, 1) + struct.pack(">Q", len(name)) + name + struct.pack(">II", 4, 7)
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + body)
    assert gguf.read(str(tmp_path / "a.gguf")).metadata == {"general.file_type": 7}


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (b"", "is no JSON (line 1 column 1: Expecting value)"),
        (b"[1]", "is a list, not a JSON object"),
        (b"\xff\xfe{\x00}\x00", "is no UTF-8 text (byte 0)"),
        (b"\xef\xbb\xbf{}", "is no JSON (line 1 column 1: Unexpected UTF-8 BOM (decode using utf-8-sig))"),
        (b'{"a": ' * 100_000, "is nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is no JSON (a number: a whole number of 5000 digits)"),
        (b"[" + b"1," * 1_100_000 + b"1]", "holds more than 1,000,000 values"),
        (b"<html>", "is no JSON (line 1 column 1: Expecting value)"),
    ],
)
def test_a_configuration_that_is_none_is_told_apart(raw: bytes, want: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse_object(raw)
    assert str(caught.value) == want


def test_a_broken_configuration_leaves_its_facts_unknown_and_is_a_finding(tiny: Path) -> None:
    (tiny / "config.json").write_text('{"dtype": "bfloat16", "dtype": "float16"')
    found = look(str(tiny))
    assert ("checkpoint", "dtype") in {gap.path for gap in found.unobserved}
    assert ("quantization",) in {gap.path for gap in found.unobserved}
    detail = next(check.detail for check in found.checks if check.name == "check.config_readable")
    assert detail == "config.json is no JSON (line 1 column 41: Expecting ',' delimiter)"


def test_a_key_that_stands_twice_is_a_finding(tiny: Path) -> None:
    raw = (tiny / "generation_config.json").read_text().replace("{", '{"top_k": 1,', 1)
    (tiny / "generation_config.json").write_text(raw)
    found = look(str(tiny))
    detail = next(check.detail for check in found.checks if check.name == "check.config_readable")
    assert detail == "generation_config.json holds key 'top_k' twice: readers keep the last one"


HOSTILE = {
    "values.safetensors": header(b'{"a":{"shape":[' + b"0," * 2_900_000 + b"0]}}"),
    "numbers.safetensors": header(b'{"a":{"shape":[' + b"9999," * 2_900_000 + b"0]}}"),
    "names.safetensors": header(b"{" + b",".join(b'"%07d":{}' % at for at in range(900_000)) + b"}"),
    "tensors.safetensors": header(
        b"{"
        + b",".join(b'"%07d":{"dtype":"F32","shape":[9],"data_offsets":[900,999]}' % at for at in range(190_000))
        + b"}"
    ),
    "lists.safetensors": header(b'{"a":' + b"[" * 2_900_000),
    "digits.safetensors": header(b'{"a":{"shape":[' + b"9" * 20_000_000 + b"]}}"),
    "texts.gguf": front(0, 1, array(8, 1_500_000, bytes(12_000_000))),
    "keys.gguf": front(0, 65_000, b"".join(text(f"k{at}") + struct.pack("<II", 4, 1) for at in range(65_000))),
    "tensors.gguf": front(
        100_000, 0, b"".join(text(f"t{at}") + struct.pack("<IQIQ", 1, 32, 0, 0) for at in range(100_000))
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_ends_within_two_seconds_and_200_mb(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    code = (
        "import sys\n"
        "from lockllm.checkpoint import gguf, safetensors\n"
        "from lockllm.checkpoint.bounded import Malformed\n"
        "try:\n"
        "    (gguf if sys.argv[1].endswith('gguf') else safetensors).read(sys.argv[1])\n"
        "except Malformed as error:\n"
        "    print(error)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))

    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, preexec_fn=limit, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 200_000, f"{time.monotonic() - begun:.1f} s"


def test_after_400000_tensors_of_all_files_no_more_are_read(tmp_path: Path) -> None:
    path = tmp_path / "many.safetensors"
    rows = (b'"%07d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % at for at in range(134_000))
    path.write_bytes(header(b"{" + b",".join(rows) + b"}"))
    names = tuple(f"{at}.safetensors" for at in range(4))
    findings = Findings()
    files = {name: Entry(path=name, real=str(path)) for name in names}
    assert of_safetensors(files, names, None, "", findings).read == 3
    (check,) = [each for each in findings.checks() if each.name == "check.weights_readable"]
    assert "3.safetensors comes after 400,000 tensors of other files" in check.detail


def test_a_pipe_in_place_of_a_file_does_not_stop_anything(tiny: Path) -> None:
    (tiny / "config.json").unlink()
    os.mkfifo(tiny / "config.json")
    found = look(str(tiny))
    failed = {check.name: check.detail for check in found.checks if check.status.value == "fail"}
    assert failed["check.regular_files"] == "'config.json' is a pipe"
    assert ("checkpoint", "files", "config.json") in {gap.path for gap in found.unobserved}


DEEP = "[" * 900 + "1" + "]" * 900
ODD_CONFIGS = {
    "a list for RoPE's type": {"config.json": '{"rope_scaling": {"rope_type": [1]}}'},
    "a table for RoPE's type": {"config.json": '{"rope_scaling": {"type": {"a": 1}}}'},
    "a list for a shard": {"model.safetensors.index.json": '{"weight_map": {"a": ["model.safetensors"]}}'},
    "no number": {"config.json": '{"max_position_embeddings": NaN, "rope_theta": Infinity}'},
    "no number inside": {"generation_config.json": '{"temperature": -Infinity, "x": [NaN, {"a": Infinity}]}'},
    "deep values": {"generation_config.json": f'{{"temperature": {DEEP}, "x": {DEEP}}}'},
    "a list for rows": {
        "config.json": '{"quantization_config": {"quant_method": "torchao", "quant_type": {"default": {"_type": '
        '"Int8WeightOnlyConfig", "_data": {"granularity": {"_type": [1]}}}}}}'
    },
}


@pytest.mark.parametrize("name", ODD_CONFIGS)
def test_an_odd_value_is_a_fact_that_every_document_can_hold(tiny: Path, name: str) -> None:
    for file, raw in ODD_CONFIGS[name].items():
        (tiny / file).write_text(raw)
    told(look(str(tiny), engine="vllm"))


def test_a_gguf_number_that_json_lacks_is_told_as_a_text(tmp_path: Path) -> None:
    body = text("tokenizer.ggml.eos_token_id") + struct.pack("<If", 6, float("inf"))
    (tmp_path / "a.gguf").write_bytes(front(0, 1, body + bytes(32)))
    told(look(str(tmp_path / "a.gguf"), engine="llama.cpp"))


@pytest.mark.parametrize("mapped", ["true", "7", "[1]", '"text"', "null"])
def test_an_index_without_a_map_is_a_finding(tiny: Path, mapped: str) -> None:
    (tiny / "model.safetensors.index.json").write_text(f'{{"weight_map": {mapped}}}')
    failed = {check.name: check.detail for check in look(str(tiny)).checks if check.status.value == "fail"}
    assert failed == {"check.config_readable": "model.safetensors.index.json holds no weight_map"}
