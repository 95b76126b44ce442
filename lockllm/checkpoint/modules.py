"""Holds the tensors against the declared quantization, module by module.

Read: vLLM 0.33 `quantization/utils/quant_utils.py`, `compressed_tensors/utils.py`, `modelopt.py`, `gptq.py`, `awq.py`,
transformers 5.24 `quantizers/`, mlx-lm 0.28 `utils.py`, bitsandbytes 0.48 `nn/modules.py`, GPTQModel 5.

Only what an engine would refuse or serve wrongly is told: a layer that nobody can name for sure (an embedding, a router,
a head, a vision tower) is passed over.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.safetensors import Tensor
from lockllm.checkpoint.scheme import Config, Quantization, table
from lockllm.checkpoint.scheme_rules import EXACT, REGEX, Rule, compiled

_CHECK = "quantization_agrees"
_RESTORE = "restore the quantization config that belongs to these weights"
_FLOAT = frozenset({"F64", "F32", "F16", "BF16"})
_PACKED = frozenset({"qweight", "weight_packed", "W_q", "q_weight", "trellis", "codes", "B"})
_SCALES = re.compile(r"scale|absmax|quant_state|SCB|\As\Z")
_KV_SCALES = re.compile(
    r"(^|\.)(k_scale|v_scale|kv_scale|k_proj\.output_scale|v_proj\.output_scale|kv_cache_scaling_factor)\Z"
)
_STORED = frozenset({
    "gptq", "awq", "compressed-tensors", "fp8", "fbgemm_fp8", "bitsandbytes", "mxfp4", "mxfp8", "modelopt", "modelopt_fp4",
    "modelopt_fp8", "modelopt_mxfp8", "modelopt_mixed", "quark", "auto-round", "auto_round", "autoround", "exl2", "exl3",
    "aqlm", "hqq", "mlx", "vptq", "eetq", "quanto", "higgs", "nvfp4", "gptq_marlin", "awq_marlin", "inc", "intel/auto-round",
})  # fmt: skip
"""Methods whose weights are stored quantized. Others (torchao, bitnet, fp_quant) may quantize while they load."""
_UNQUANTIZED = re.compile(
    r"(^|\.)(gate|router|wg|[a-z_]*expert_gate|[a-z0-9_]*norm[a-z0-9_]*|embed[a-z_]*|wte|wpe|lm_head|head|output|score|classifier|"
    r"weights_proj|eh_proj|fc|dt_proj|x_proj|conv[a-z0-9_]*|A_log|rotary_emb|in_proj_a|in_proj_b)\Z|"
    r"visual|vision|audio|image|projector|merger|mtp|nextn|eagle|medusa|adapter|lora_|indexer|resampler|vae|speech|aligner"
)
"""Modules that engines leave unquantized whether or not a list names them, or that another part of the model reads."""
_BLOCK = re.compile(r"(^|\.)(layers|blocks|h|block|layer)\.\d+\.")
_FUSED = {
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj",
    "w1": "w13", "w3": "w13",
}  # fmt: skip
_ANYWHERE = frozenset({"awq", "awq_marlin", "bitsandbytes", "mxfp4", "hqq", "quanto", "eetq", "aqlm", "higgs"})
"""Methods whose lists name a part of the path."""
_LINEAR = frozenset({
    "gptq", "awq", "compressed_tensors", "fp8", "mxfp8", "nvfp4", "modelopt", "modelopt_fp4", "modelopt_fp8", "modelopt_mxfp8",
    "modelopt_mixed", "quark", "auto_round", "bitsandbytes",
})  # fmt: skip
"""Methods that quantize every linear layer but those that are listed, and under which an engine finds no place for others."""
_PLAIN_NAME = re.compile(r"[\w.\-]+")
_TRIES = 4_000_000
_SECONDS = 10.0  # of the processor, for all patterns of one checkpoint: usual ones take a thousandth of it
_DENSE = ("dense", "frozen", "initialized", "calibration")


class Module(msgspec.Struct):
    """The tensors of one module, by what stands behind its name."""

    name: str
    tensors: dict[str, Tensor]

    @property
    def packed(self) -> str:
        """The tensor that holds quantized weights; empty where there is none."""
        for name, tensor in self.tensors.items():
            if name in _PACKED and (name != "B" or "s" in self.tensors):
                return name
            if name.endswith("_blocks") and name[: -len("_blocks")] + "_scales" in self.tensors:
                return name
            if name == "weight" and _is_narrow(tensor, self.tensors):
                return name
            if tensor.dtype.startswith("F8") and len(tensor.shape) >= 2 and "scale" not in name:
                return name
        return ""

    @property
    def is_float(self) -> bool:
        """Whether every matrix in it holds floating-point numbers."""
        return all(tensor.dtype in _FLOAT or len(tensor.shape) != 2 for tensor in self.tensors.values())

    @property
    def is_plain(self) -> bool:
        """Whether it holds a matrix in 16 or 32 bits, and nothing quantized."""
        weight = self.tensors.get("weight")
        return weight is not None and weight.dtype in _FLOAT and len(weight.shape) == 2 and not self.packed


def grouped(tensors: Mapping[str, Tensor]) -> dict[str, Module]:
    """The tensors by module. bitsandbytes hangs its own below the weight's name."""
    found: dict[str, Module] = {}
    for name, tensor in tensors.items():
        at = name.find(".weight.")
        module, _, last = (name[:at], "", name[at + 1 :]) if at >= 0 else name.rpartition(".")
        held = found.get(module)
        if held is None:
            held = found[module] = Module(name=module, tensors={})
        held.tensors[last] = tensor
    return found


def undeclared(modules: Iterable[Module]) -> str:
    """A tensor that is quantized by its name, dtype and companions; empty where there is none."""
    for module in modules:
        if packed := module.packed:
            return f"{module.name}.{packed}" if module.name else packed
    return ""


def judge(held: Quantization, source: str, modules: Mapping[str, Module], whole: bool, findings: Findings) -> None:
    """Whether every module is stored as the declaration says. `whole`: all weight files were read."""
    method, config = held.method, held.raw
    if method not in _STORED or _is_dense(config):
        return
    packed = {name: module for name, module in modules.items() if module.packed}
    if not packed:
        odd = any(not module.is_float for module in modules.values())  # packed by names that are not known here
        if whole and (held.bits or held.scheme) and not odd and any(module.is_plain for module in modules.values()):
            fix = "restore the weights that belong to this configuration"
            detail = f"{source} declares {method}, and no tensor is quantized"
            findings.wrong(_CHECK, detail, source, fix, since=2)
        return
    rules = _Rules(held, config)
    if rules.tries * len(modules) > _TRIES or rules.is_unreadable:
        findings.unknown(_CHECK, f"{source} holds patterns that cannot be tried on {len(modules):,} modules", source)
        return
    told = _told(rules, modules, packed, method)
    if told is None:
        findings.unknown(_CHECK, f"the patterns of {source} take too long to try", source)
        return
    for what, names in told.items():
        words = {
            "ignored": f"quantized, though {source} leaves it out",
            "plain": f"not quantized, and {source} does not leave it out",
        }.get(what, what)
        findings.wrong(_CHECK, f"{_few(names)}: {words}", source, _RESTORE, since=2)


def _told(
    rules: _Rules, modules: Mapping[str, Module], packed: Mapping[str, Module], method: str
) -> dict[str, list[str]] | None:
    """What is wrong, with the modules that it holds for; None where foreign patterns take too long."""
    blocks = frozenset(name[: found.end()] for name in packed if (found := _BLOCK.search(name)))
    told: dict[str, list[str]] = {}
    began = time.process_time()
    for name, module in modules.items():
        if time.process_time() - began > _SECONDS:
            return None
        if name in packed:
            if rules.leaves_out(name):
                told.setdefault("ignored", []).append(name)
            elif problem := _stored_wrong(module, rules.of(name), method):
                told.setdefault(problem, []).append(name)
        elif module.is_plain and rules.wants(name, blocks):
            told.setdefault("plain", []).append(name)
    return told


def kv_scales(held: Quantization, source: str, tensors: Iterable[str], findings: Findings) -> None:
    """Whether the scales of a static KV cache are there: engines take 1.0 for those that are not."""
    if held.kv_cache is None or held.kv_cache_dynamic is not False:
        return
    if any(_KV_SCALES.search(name) for name in tensors):
        findings.right("kv_scales_there", "scales of the KV cache are stored", source)
    else:
        detail = (
            f"{source} declares a static {held.kv_cache} KV cache, and no k_scale or v_scale is stored: 1.0 is used"
        )
        findings.wrong(
            "kv_scales_there", detail, source, "calibrate the scales, or compute them: --calculate-kv-scales"
        )


class _Rules:
    """Which modules a declaration means. Plain names are looked up, whatever their number; patterns are tried in turn."""

    def __init__(self, held: Quantization, config: Config) -> None:
        self.held = held
        self.block = _block(config)
        self.patterns = tuple(each for each in held.ignored if not _PLAIN_NAME.fullmatch(each))
        self._anywhere = held.method in _ANYWHERE
        self._exact = {rule.pattern: rule for rule in reversed(held.rules) if rule.kind == EXACT}
        self._others = tuple(rule for rule in held.rules if rule.kind != EXACT)
        left = {rule.pattern for rule in held.rules if rule.held is None and rule.kind == EXACT}
        self._ignored = frozenset(held.ignored)
        self._near = frozenset(_bare(each) for each in {*held.ignored, *left} if _PLAIN_NAME.fullmatch(each))
        self._near_patterns = (*self.patterns, *(rule.pattern for rule in self._others if rule.held is None))
        self._targets = _targets(config) and held.method.replace("-", "_") in _LINEAR

    @property
    def tries(self) -> int:
        """Patterns that are tried for every module."""
        return len(self._near_patterns) + len(self._others)

    @property
    def is_unreadable(self) -> bool:
        """Whether a rule's pattern is no expression, or one that could take for ever."""
        return any(rule.kind == REGEX and compiled(rule.pattern) is None for rule in self._others)

    def of(self, module: str) -> Quantization | None:
        """What is declared for a quantized module; None where it is not known."""
        named = self._named(module)
        if named is not None:
            return named.held
        return self.held if self.held.scheme != "mixed" or self.held.bits is not None else None

    def leaves_out(self, module: str) -> bool:
        """Whether the declaration surely leaves it as it is: by the strict reading of every entry."""
        if module in self._ignored or any(_is_named(each, module) for each in self.patterns):
            return True
        if self._anywhere and not self._ignored.isdisjoint(_parts(module.split("."))):
            return True
        named = self._named(module)
        if named is not None:
            return named.held is None
        return bool(self.block and _BLOCK.search(module) and not any(_ends(module, each) for each in self.block))

    def wants(self, module: str, blocks: frozenset[str]) -> bool:
        """Whether the declaration surely means a module that is stored plain: by the widest reading of every entry.

        `blocks`: those that hold a quantized module. One that is plain as a whole is left alone.
        """
        found = _BLOCK.search(module)
        if not self._targets or found is None or _UNQUANTIZED.search(module) or module[: found.end()] not in blocks:
            return False
        parts = module.split(".")
        for each in (parts, [*parts[:-1], _FUSED.get(parts[-1], parts[-1])]):
            if not self._near.isdisjoint(_parts(each)) or any(_is_near(one, each) for one in self._near_patterns):
                return False
        named = self._named(module)
        if named is None and self.held.bits is None:
            return False
        return not self.block or any(_ends(module, each) for each in self.block)

    def _named(self, module: str) -> Rule | None:
        exact = self._exact.get(module)
        return exact or next((rule for rule in self._others if rule.matches(module)), None)


def _stored_wrong(module: Module, held: Quantization | None, method: str) -> str:
    """What is wrong with a quantized module; empty where nothing is."""
    packed = module.packed
    if not _has_scale(module, packed):
        return "quantized, and its scales are missing"
    if held is None or held.bits is None:
        return ""
    bits = _bits(module, packed, held, method)
    if bits and not 0.67 < bits / held.bits < 1.5:
        return f"declared with {held.bits:g} bits, and stored with {bits:g} or with groups of another size"
    return ""


def _has_scale(module: Module, packed: str) -> bool:
    names = module.tensors
    if packed in ("trellis", "q_weight", "codes", "W_q"):
        return True  # each has companions of its own
    if packed.endswith("_blocks"):
        return packed[: -len("_blocks")] + "_scales" in names
    return any(_SCALES.search(name) for name in names)


def _bits(module: Module, packed: str, held: Quantization, method: str) -> float:
    """The bits of a stored weight, from the shapes of weights and scales; 0 where they do not tell."""
    names = module.tensors
    weight = names[packed]
    group = held.group_size if isinstance(held.group_size, int) else 0
    if method == "bitsandbytes":
        return 8.0 if "SCB" in names else 4.0 if any("absmax" in name for name in names) else 0.0
    width = {"I32": 32, "U32": 32, "I64": 64, "U8": 8, "I8": 8}.get(weight.dtype, 0)
    if weight.dtype.startswith("F8") and packed == "weight":
        return 8.0
    if not width or len(weight.shape) != 2 or not all(weight.shape):
        return 0.0
    scales = names.get("scales") or names.get("weight_scale")
    if packed == "qweight":
        return _gptq_bits(names, weight.shape, scales, group, method, held)
    if scales is None or len(scales.shape) != 2 or group <= 0 or scales.shape[0] != weight.shape[0]:
        return 0.0
    return float(weight.shape[1] * width / (scales.shape[1] * group)) if scales.shape[1] else 0.0


def _gptq_bits(
    names: Mapping[str, Any], shape: list[int], scales: Any, group: int, method: str, held: Quantization
) -> float:
    if scales is None or len(scales.shape) != 2 or not all(scales.shape):
        return 0.0
    if shape[1] == scales.shape[1]:  # GPTQ: packed along the inputs
        order = names.get("g_idx")
        rows: int = order.shape[0] if order is not None and len(order.shape) == 1 else scales.shape[0] * group
        return shape[0] * 32 / rows if rows > 0 else 0.0
    if method.startswith("awq") and held.checkpoint_format == "gemm" and shape[0] >= scales.shape[0]:
        return float(shape[1] * 32 / scales.shape[1])
    return 0.0


def _is_narrow(weight: Any, names: Mapping[str, Any]) -> bool:
    """A matrix of bytes or words is quantized where scales stand beside it; of eight-bit floats always."""
    if weight.dtype.startswith(("F8", "F6", "F4")):
        return True
    return weight.dtype in ("U8", "I8", "U32", "I32") and any(_SCALES.search(name) for name in names)


def _is_named(entry: str, module: str) -> bool:
    if entry.startswith("re:"):
        found = compiled(entry[3:])
        return found is not None and found.match(module) is not None
    return "*" in entry and fnmatchcase(module, entry)


def _is_near(entry: str, parts: list[str]) -> bool:
    """Whether a pattern may mean a module under any prefix. One that cannot be read may mean every module."""
    tails = [".".join(parts[at:]) for at in range(len(parts))]
    found = compiled(entry.removeprefix("re:"))
    if "*" in entry and not entry.startswith("re:"):
        if any(fnmatchcase(tail, entry) or fnmatchcase(tail, entry + "*") for tail in tails):
            return True
        return found is not None and any(found.match(tail) for tail in tails)
    return found is None or any(found.match(tail) for tail in tails)


def _parts(parts: list[str]) -> Iterator[str]:
    """Every run of segments of a module's name."""
    return (".".join(parts[at:end]) for at in range(len(parts)) for end in range(at + 1, len(parts) + 1))


def _bare(entry: str) -> str:
    return entry.removeprefix("model.").removeprefix("language_model.").removeprefix("model.")


def _targets(config: Config) -> bool:
    """Whether every linear layer is meant."""
    groups = table(config.get("config_groups"))
    lists = [group if isinstance(group, list) else table(group).get("targets") for group in groups.values()]
    return not groups or any("Linear" in each for each in lists if isinstance(each, list))


def _block(config: Config) -> tuple[str, ...]:
    """The modules of a block that GPTQ quantizes, where the file lists them."""
    listed = config.get("modules_in_block_to_quantize") or config.get("inside_layer_modules")
    flat = (
        [each for group in listed for each in (group if isinstance(group, list) else [group])]
        if isinstance(listed, list)
        else []
    )
    return tuple(each for each in flat if isinstance(each, str))


def _ends(module: str, tail: str) -> bool:
    return module == tail or module.endswith(f".{tail}")


def _is_dense(config: Config) -> bool:
    return str(config.get("format")) in _DENSE or str(config.get("quantization_status")) in _DENSE


def _few(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
