"""Quantizations that vary by module: the rules of every dialect, in one form.

Read: GPTQModel 5 `QuantizeConfig.dynamic`, auto-round 0.16 `extra_config`, quark 0.13 `layer_quant_config`, mlx-lm 0.28
`utils.py` (`quantization`), modelopt 0.47 `quantized_layers`, torchao 0.18 `FqnToConfig`, vptq `config_for_layers`,
compressed-tensors 0.20 `config_groups`, DeepSeek V4 `expert_dtype`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from lockllm.checkpoint.scheme import Config, Quantization, number, table, text

EXACT, REGEX, GLOB, PART = "exact", "regex", "glob", "part"
_NAMED = 8  # modules of one group that are listed; of more a digest stands for the list
_LONGEST = 1_000  # characters of a pattern
_REPEATS = 5  # open repetitions in it: each multiplies the ways by the length of a name
_PER_MODULE = ("dynamic", "extra_config", "layer_quant_config", "layer_type_quant_config", "quantized_layers")
PLAIN = "none"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the modules that a pattern names. `held` is None where they are left as they are."""

    pattern: str
    kind: str = EXACT  # exact, regex (from the beginning of the name), glob, part (any segment of it)
    held: Quantization | None = None
    shown: str = ""  # the pattern as it stands in the file

    def matches(self, module: str) -> bool:
        """Whether a module is meant."""
        if self.kind == REGEX:
            return _regex(self.pattern, module)
        if self.kind == GLOB:
            return fnmatchcase(module, self.pattern)
        return f".{self.pattern}." in f".{module}." if self.kind == PART else module == self.pattern


def rules(config: Config, canonical: Callable[[Config], Quantization]) -> tuple[Rule, ...]:
    """The rules of a config, in the order in which they are tried. `canonical` reads a config that has none."""
    plain = {key: value for key, value in config.items() if key not in _PER_MODULE and not _is_of_module(config, key)}

    def merged(override: Any) -> Quantization | None:
        if not isinstance(override, dict):
            return None if override is False else canonical(plain)
        bits = number(override.get("bits"))
        return None if bits is not None and bits >= 16 else canonical({**plain, **override})

    made = [*_gptq(config, merged), *_auto_round(config, merged), *_quark(config, canonical), *_mlx(config, canonical)]
    made += [*_modelopt(config, canonical), *_torchao(config, canonical), *_groups(config, canonical)]
    experts = text(config.get("expert_dtype"))
    if experts is not None and "4" in experts:
        held = canonical({"quant_method": "mxfp4"})
        made.append(Rule(pattern="experts", kind=PART, held=_with_method(held, config), shown="experts"))
    return tuple(made)


def varied(base: Quantization, found: tuple[Rule, ...], *, is_default: bool = True) -> Quantization:
    """The quantization of a checkpoint with rules: `mixed` where one of them gives other numbers."""
    if not found:
        return base
    bare = msgspec.structs.replace(base, ignored=(), kv_cache=None)
    mixed = any(rule.held is not None and word(rule.held) != word(bare) for rule in found)
    groups = _grouped(found, bare if is_default else None)
    scheme = "mixed" if mixed else base.scheme
    return msgspec.structs.replace(base, scheme=scheme, groups=groups, rules=found)


def word(held: Quantization | None) -> str:
    """A group's quantization in a few words: `w4a16 group 128 symmetric`."""
    if held is None:
        return PLAIN
    size = held.group_size if held.weight_granularity in ("group", "block", "tensor_group") else None
    parts = [held.scheme or (f"{held.bits:g} bits" if held.bits else held.method)]
    parts += [f"group {'x'.join(map(str, size)) if isinstance(size, list) else size}"] if size else []
    parts += {True: ["symmetric"], False: ["asymmetric"], None: []}[held.symmetric]
    parts += ["act-order"] if held.desc_act else []
    return " ".join(parts)


def _grouped(found: Iterable[Rule], base: Quantization | None) -> tuple[str, ...]:
    by_word: dict[str, list[str]] = {}
    for rule in found:
        by_word.setdefault(word(rule.held), []).append(rule.shown or rule.pattern)
    lines = [f"{name}: {_listed(patterns)}" for name, patterns in by_word.items()]
    return tuple(sorted([*lines, *([f"{word(base)}: all others"] if base is not None else [])]))


def _listed(patterns: list[str]) -> str:
    if len(patterns) <= _NAMED and all(len(each) <= 80 for each in patterns):
        return ", ".join(patterns)
    digest = hashlib.sha256("\n".join(sorted(patterns)).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{len(patterns)} patterns, sha256 {digest[:16]}"


def _gptq(config: Config, merged: Callable[[Any], Quantization | None]) -> Iterator[Rule]:
    for key, override in table(config.get("dynamic")).items():
        skipped = key.startswith("-:")
        pattern = key[2:] if key[:2] in ("-:", "+:") else key
        yield Rule(pattern=pattern, kind=REGEX, held=None if skipped else merged(override), shown=key)


def _auto_round(config: Config, merged: Callable[[Any], Quantization | None]) -> Iterator[Rule]:
    for key, override in table(config.get("extra_config")).items():
        kind = REGEX if re.search(r"[*+?\\^$|(\[]", key) else EXACT
        yield Rule(pattern=key, kind=kind, held=merged(override), shown=key)


def _quark(config: Config, canonical: Callable[[Config], Quantization]) -> Iterator[Rule]:
    for name in ("layer_quant_config", "layer_type_quant_config"):
        for key, override in table(config.get(name)).items():
            inner = {"quant_method": config.get("quant_method"), "global_quant_config": override}
            held = canonical(inner) if table(override).get("weight") else None
            yield Rule(pattern=key, kind=GLOB, held=held, shown=key)


def _is_of_module(config: Config, key: str) -> bool:
    value = config[key]
    if config.get("quant_method") != "mlx" or key in ("quant_method", "bits", "group_size", "mode"):
        return False
    return isinstance(value, (dict, bool))


def _mlx(config: Config, canonical: Callable[[Config], Quantization]) -> Iterator[Rule]:
    """A module's own table is all that it gets: where it names no mode, it is affine."""
    for key in config:
        if _is_of_module(config, key) and config[key] is not True:
            held = canonical({"quant_method": "mlx", "mode": "affine", **config[key]}) if config[key] else None
            yield Rule(pattern=key, held=held, shown=key)


def _modelopt(config: Config, canonical: Callable[[Config], Quantization]) -> Iterator[Rule]:
    inner = {**config, **table(config.get("quantization"))}
    for key, override in table(inner.get("quantized_layers")).items():
        algorithm = text(table(override).get("quant_algo"))
        held = canonical({"quant_method": config.get("quant_method"), **table(override)}) if algorithm else None
        yield Rule(pattern=key, kind=GLOB if "*" in key else EXACT, held=held, shown=key)


def _torchao(config: Config, canonical: Callable[[Config], Quantization]) -> Iterator[Rule]:
    kinds = config.get("quant_type")
    if config.get("quant_method") != "torchao" or not isinstance(kinds, dict):
        return
    inner = table(table(kinds.get("default")).get("_data"))
    by_name = next((inner[key] for key in ("fqn_to_config", "module_fqn_to_config") if key in inner), None)
    each = table(table(by_name).get("_data")) or table(by_name) or {k: v for k, v in kinds.items() if k != "default"}
    for key, value in each.items():
        if key in ("_type", "_data", "_version", "_default"):
            continue
        held = canonical({"quant_method": "torchao", "quant_type": {"default": value}}) if value is not None else None
        kind = REGEX if key.startswith("re:") else EXACT
        yield Rule(pattern=key.removeprefix("re:"), kind=kind, held=held, shown=key)


def _groups(config: Config, canonical: Callable[[Config], Quantization]) -> Iterator[Rule]:
    """Groups of compressed-tensors that are not alike, each with its targets."""
    groups = table(config.get("config_groups"))
    method = config.get("quant_method")
    if method != "compressed-tensors" or len(groups) < 2:
        return
    read = {name: canonical({"quant_method": method, "format": config.get("format"), "config_groups": {name: group}})
            for name, group in groups.items()}  # fmt: skip
    if len({word(held) for held in read.values()}) < 2:
        return
    for name, group in groups.items():
        targets = group if isinstance(group, list) else table(group).get("targets")
        for target in targets if isinstance(targets, list) else []:
            if isinstance(target, str):
                kind = REGEX if target.startswith("re:") else EXACT
                yield Rule(pattern=target.removeprefix("re:"), kind=kind, held=read[name], shown=target)


def _with_method(held: Quantization, config: Config) -> Quantization:
    return msgspec.structs.replace(held, method=str(config.get("quant_method")))


def _regex(pattern: str, module: str) -> bool:
    found = compiled(pattern)
    return found is not None and found.match(module) is not None


_COMPILED: dict[str, re.Pattern[str] | None] = {}


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The expression of a foreign pattern; None where it is none, is long, or could take for ever."""
    if pattern not in _COMPILED:
        if len(_COMPILED) > 10_000:
            _COMPILED.clear()
        _COMPILED[pattern] = _compile(pattern)
    return _COMPILED[pattern]


def _compile(pattern: str) -> re.Pattern[str] | None:
    import warnings

    if len(pattern) > _LONGEST or re.search(r"[+*}][+*{]|\)[+*{]", pattern):
        return None  # a repeated group may try every way to split a name
    if len(re.findall(r"[+*]|\{\d*,", pattern)) > _REPEATS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
