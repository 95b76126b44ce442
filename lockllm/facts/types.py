"""The kinds of value that facts have: how each is read, written and compared. Aliases live here, once."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any

from lockllm.facts.fact import ValueType
from lockllm.facts.gpu_names import canonical as canonical_gpu

_HEX64 = re.compile(r"[0-9a-f]{64}\Z")
_HEX40 = re.compile(r"[0-9a-f]{40}\Z")
_MEMORY = r"(\d{1,15}(?:\.\d{1,15})?)\s*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)\Z"  # compiled where it is needed
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
_UNITS = {
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_DTYPES = {
    "bf16": "bfloat16", "half": "float16", "fp16": "float16", "f16": "float16", "float": "float32", "fp32": "float32",
    "f32": "float32", "double": "float64", "fp64": "float64", "f64": "float64",
    "fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
}  # fmt: skip
_KV_DTYPES = {**_DTYPES, "fp8": "fp8", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "f16": "float16"}
_LONGEST = 1_000_000
_DEEP = 32
"""How deep a value of a fact may nest: deeper than any option's JSON, shallower than any writer's recursion."""
_LONGEST_VERSION = 200
_BITS = 4096  # Python writes no whole number of more than 4,300 digits


def _text(raw: object) -> str:
    if isinstance(raw, str) and len(raw) <= _LONGEST:
        return raw
    raise ValueError("a text")


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    raise ValueError("true or false")


def _integer(raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) < 2**63:
        return raw
    if isinstance(raw, float) and raw.is_integer() and abs(raw) < 2**53:
        return int(raw)
    raise ValueError("a whole number")


def _count(raw: object) -> int:
    number = _integer(raw)
    if number < 0:
        raise ValueError("a whole number of 0 or more")
    return number


def _number(raw: object) -> float | int:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not -(2**63) < raw < 2**63:
        raise ValueError("a number")
    return int(raw) if isinstance(raw, float) and raw.is_integer() and abs(raw) < 2**53 else raw


def whole(text: str) -> int | None:
    """The whole number that a foreign text spells in at most 18 ASCII digits, else None: `int` takes no 5,000 of them, and no `²`."""
    return int(text) if _WHOLE.match(text) else None


def single(value: float) -> float:
    """The nearest float32: servers that hold their values in single precision echo 0.2 as 0.20000000298023224."""
    import struct

    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except (OverflowError, struct.error):  # a whole number too large for any float
        return math.inf if value > 0 else -math.inf


def _same_number(one: float, other: float) -> bool:
    if one == other:
        return True
    echoed = other == single(other) or one == single(one)  # one side is a float32 written out
    return echoed and single(one) == single(other)


def _sha256(raw: object) -> str:
    text = _text(raw).removeprefix("sha256:").lower()
    if not _HEX64.match(text):
        raise ValueError("a sha256 of 64 hexadecimal digits")
    return text


def _commit(raw: object) -> str:
    text = _text(raw).lower()
    if not _HEX40.match(text):
        raise ValueError("a commit of 40 hexadecimal digits")
    return text


def dtype_name(raw: object) -> str:
    """`torch.bfloat16`, `bf16` and `BFloat16` are all `bfloat16`."""
    name = _text(raw).removeprefix("torch.").strip().lower()
    return _DTYPES.get(name, name)


def _kv_dtype(raw: object) -> str:
    name = _text(raw).removeprefix("torch.").strip().lower()
    return _KV_DTYPES.get(name, name)


def _same_kv_dtype(one: str, other: str) -> bool:
    """`fp8_e4m3`, `fp8_e4m3fn`, `Fp8e4m3fn` and `float8_e4m3fn` are one: engines and torch name it by turns."""

    def plain(name: str) -> str:
        short = name.lower().replace("_", "").replace("float8", "fp8")
        return short.removesuffix("fn") if short.startswith("fp8") else short

    return plain(one) == plain(other)


def _list_of(item: Callable[[object], Any], what: str) -> Callable[[object], tuple[Any, ...]]:
    def parse(raw: object) -> tuple[Any, ...]:
        if not isinstance(raw, (list, tuple)) or len(raw) > 100_000:
            raise ValueError(what)
        try:
            return tuple(item(each) for each in raw)
        except ValueError as error:
            raise ValueError(what) from error

    return parse


def memory_bytes(text: str) -> int:
    """`80 GiB` -> bytes. Raises ValueError for text that is no size."""
    found = re.match(_MEMORY, text.strip())
    if not found:
        raise ValueError('a size such as "80 GiB"')
    return int(float(found.group(1)) * _UNITS[found.group(2)])


def _memory(raw: object) -> str:
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 < raw < 2**63:
        gib = raw / 2**30
        return f"{round(gib) if gib >= 10 else round(gib, 1):g} GiB"
    text = _text(raw).strip()
    memory_bytes(text)
    return text


def _near_memory(locked: str, found: str) -> bool:
    one, other = memory_bytes(locked), memory_bytes(found)
    return abs(one - other) <= 0.03 * max(one, other)


def normal_version(text: str) -> str:
    """A PEP 440 version in its normal form (`0.10` = `0.10.0`), any other text as it stands without a leading `v`.

    The release is compared by its numbers, so the many values that differ only in trailing zeros are one.
    """
    plain = text.strip().removeprefix("v")
    if len(plain) > _LONGEST_VERSION:
        return plain
    if re.fullmatch(r"\d+(\.\d+)*", plain):
        numbers = plain.split(".")
        while len(numbers) > 1 and int(numbers[-1]) == 0:
            numbers.pop()
        return ".".join(str(int(number)) for number in numbers)
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(plain)
    except InvalidVersion:
        return plain
    release = list(version.release)
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    parts = [".".join(map(str, release))]
    if version.epoch:
        parts.insert(0, f"{version.epoch}!")
    if version.pre:
        parts.append("".join(map(str, version.pre)))
    if version.post is not None:
        parts.append(f".post{version.post}")
    if version.dev is not None:
        parts.append(f".dev{version.dev}")
    if version.local:
        parts.append(f"+{version.local}")
    return "".join(parts)


def _same_version(one: str, other: str) -> bool:
    return one == other or normal_version(one) == normal_version(other)


def _same_release(one: str, other: str) -> bool:
    """A witness may tell fewer parts: torch says CUDA 12.8, the library 12.8.90. Two parts at least must agree."""
    short, long = sorted((one.strip().split("."), other.strip().split(".")), key=len)
    told = len(short) >= 2 and all(part.isdigit() for part in (*short, *long)) and long[: len(short)] == short
    return told or _same_version(one, other)


def _same_public(locked: str, found: str) -> bool:
    return _same_version(locked.partition("+")[0], found.partition("+")[0])


def _gpu(raw: object) -> Any:
    if isinstance(raw, (list, tuple)) and raw and len(raw) <= 1024:
        names = tuple(_text(each) for each in raw)
        return names[0] if len(set(names)) == 1 else names
    return _text(raw)


def _same_gpu(one: Any, other: Any) -> bool:
    def canonical(value: Any) -> Any:
        return canonical_gpu(value) if isinstance(value, str) else tuple(map(canonical_gpu, value))

    return bool(canonical(one) == canonical(other))


def _file(raw: object) -> dict[str, Any]:
    if not isinstance(raw, dict) or not raw or set(raw) - {"size", "sha256"}:
        raise ValueError('{ size = BYTES, sha256 = "…" }')
    size = {"size": _count(raw["size"])} if "size" in raw else {}
    if "sha256" not in raw:  # a quick look may know no more; a lock holds the digest
        return size
    sha256 = raw["sha256"]
    if not isinstance(sha256, str) or not sha256:
        raise ValueError('{ size = BYTES, sha256 = "…" }')
    plain = sha256 if _HEX64.match(sha256) else sha256.removeprefix("sha256:").lower()
    return {**size, "sha256": plain}


def _same_file(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one.keys() == other.keys():
        return one == other
    held = one.keys() & other.keys()
    return bool(held) and all(one[name] == other[name] for name in held)


def _any(raw: object, depth: int = 0) -> Any:
    if isinstance(raw, (str, bool)) or (isinstance(raw, int) and raw.bit_length() <= _BITS):
        return raw
    if isinstance(raw, float) and math.isfinite(raw):
        return raw
    if isinstance(raw, (list, tuple)) and depth < _DEEP:
        return tuple(_any(each, depth + 1) for each in raw)
    if isinstance(raw, dict) and depth < _DEEP:
        return {str(key): _any(value, depth + 1) for key, value in raw.items()}
    raise ValueError("a text, number, list or table")


def holdable(raw: object, depth: int = 0) -> Any:
    """What no type could parse, as every document can hold it: no number that JSON lacks, no nesting without end, no Python set."""
    # TOML has dates, and a lock writes them as they stand.
    if raw is None or isinstance(raw, (str, bool, dt.date, dt.time)):
        return raw
    if isinstance(raw, int):
        return raw if raw.bit_length() <= _BITS else f"a whole number of {raw.bit_length()} bits"
    if isinstance(raw, float):
        return raw if math.isfinite(raw) else f"{raw}"
    if not isinstance(raw, (list, tuple, dict)):
        return repr(raw)[:_LONGEST]
    if depth >= _DEEP:
        return "nested too deep"
    if isinstance(raw, dict):
        return {str(key): holdable(value, depth + 1) for key, value in raw.items()}
    return [holdable(each, depth + 1) for each in raw]


def same_any(one: Any, other: Any) -> bool:
    """Plain equality; numbers as numbers, lists and tuples alike, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return _same_number(one, other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_any, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_any(value, other[key]) for key, value in one.items())
    return bool(one == other)


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


_ON = frozenset({"on", "true", "1", "enabled", "yes"})
_OFF = frozenset({"off", "false", "0", "disabled", "no"})


def _switch(raw: object) -> Any:
    if isinstance(raw, (bool, str, int)) and str(raw).lower() in _ON | _OFF:
        return raw
    raise ValueError("on or off")


def _same_switch(one: Any, other: Any) -> bool:
    return (str(one).lower() in _ON) is (str(other).lower() in _ON)


def _plain_switch(value: Any) -> Any:
    return value


def _same_set(one: Any, other: Any) -> bool:
    return sorted(map(str, one)) == sorted(map(str, other))


TEXT = ValueType(name="text", parse=_text, dump=str, same=_equal, schema={"type": "string"})
BOOL = ValueType(name="true or false", parse=_boolean, dump=bool, same=_equal, schema={"type": "boolean"})
SWITCH = ValueType(
    name="on or off", parse=_switch, dump=_plain_switch, same=_same_switch,
    schema={"type": ["string", "boolean", "integer"]},
)  # fmt: skip
INT = ValueType(name="whole number", parse=_integer, dump=int, same=_equal, schema={"type": "integer"})
COUNT = ValueType(name="whole number", parse=_count, dump=int, same=_equal, schema={"type": "integer", "minimum": 0})
NUMBER = ValueType(name="number", parse=_number, dump=_plain, same=_same_number, schema={"type": "number"})
SHA256 = ValueType(
    name="sha256", parse=_sha256, dump=str, same=_equal, schema={"type": "string", "pattern": "^[0-9a-f]{64}$"}
)
COMMIT = ValueType(
    name="commit", parse=_commit, dump=str, same=_equal, schema={"type": "string", "pattern": "^[0-9a-f]{40}$"}
)
DTYPE = ValueType(name="dtype", parse=dtype_name, dump=str, same=_equal, schema={"type": "string"})
KV_DTYPE = ValueType(name="dtype", parse=_kv_dtype, dump=str, same=_same_kv_dtype, schema={"type": "string"})
VERSION = ValueType(
    name="version", parse=_text, dump=str, same=_same_version, schema={"type": "string"},
    compatible=_same_public, why_compatible="another version inside the range of [requires], without one the same public version",
)  # fmt: skip
RELEASE = ValueType(
    name="version", parse=_text, dump=str, same=_same_release, schema={"type": "string"},
    compatible=_same_release, why_compatible="another version inside the range of [requires]",
)  # fmt: skip
"""A version of which some witnesses tell the first parts alone."""
PACKAGE = ValueType(
    name="package version", parse=_text, dump=str, same=_same_version, schema={"type": "string"},
    compatible=_same_public, why_compatible="another local label (+cu128) of the same public version",
)  # fmt: skip
MEMORY = ValueType(
    name="size", parse=_memory, dump=str, same=lambda one, other: memory_bytes(one) == memory_bytes(other),
    schema={"type": "string"}, compatible=_near_memory, why_compatible="3 % more or less",
)  # fmt: skip
GPU = ValueType(
    name="GPU name", parse=_gpu, dump=_plain, same=_same_gpu,
    schema={"type": ["string", "array"], "items": {"type": "string"}},
    compatible=_same_gpu, why_compatible="another product string of the same canonical GPU",
)  # fmt: skip
TEXTS = ValueType(
    name="list of texts", parse=_list_of(_text, "a list of texts"), dump=_plain, same=_equal,
    schema={"type": "array", "items": {"type": "string"}},
)  # fmt: skip
TEXT_SET = ValueType(
    name="list of texts, in any order", parse=_list_of(_text, "a list of texts"), dump=_plain, same=_same_set,
    schema={"type": "array", "items": {"type": "string"}},
)  # fmt: skip
COUNTS = ValueType(
    name="list of whole numbers", parse=_list_of(_integer, "a list of whole numbers"), dump=_plain, same=_same_set,
    schema={"type": "array", "items": {"type": "integer"}},
)  # fmt: skip
FILE = ValueType(
    name="file", parse=_file, dump=dict, same=_same_file,
    schema={
        "type": "object", "minProperties": 1, "additionalProperties": False,
        "properties": {"size": {"type": "integer", "minimum": 0}, "sha256": {"type": "string"}},
    },
)  # fmt: skip
ANY = ValueType(name="any value", parse=_any, dump=_plain, same=same_any, schema={})
