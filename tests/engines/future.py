"""Packages of engines whose releases no table has: small, in the shape of the real ones, and only ever read."""

from __future__ import annotations

VERSION = "0.99.0"
SGLANG_VERSION = "0.9.9"

_ARGUMENTS = """
import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vllm.config import BraidConfig, CacheConfig, LoadConfig, ModelConfig, ParallelConfig, SchedulerConfig, get_field
from vllm.platforms import current_platform
from vllm.utils.argparse_utils import FlexibleArgumentParser

raise SystemExit("an engine is read, never run")


def optional_type(inner):
    return lambda text: None if text == "None" else inner(text)


def get_kwargs(cls):
    found = {}
    for name, kind in shapes(cls):
        if name == "max_model_len":
            found[name]["type"] = human_readable_int_or_auto
        elif name in {"max_num_batched_tokens"}:
            found[name]["type"] = human_readable_int
    return found


def literal_to_kwargs(hints):
    return {"metavar": hints}


@dataclass
class EngineArgs:
    model: str = ModelConfig.model
    seed: int = ModelConfig.seed

    @staticmethod
    def add_cli_args(parser: FlexibleArgumentParser) -> FlexibleArgumentParser:
        model = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="Model")
        group.add_argument("--model", **model["model"])
        group.add_argument("--dtype", **model["dtype"])
        group.add_argument("--seed", **model["seed"])
        group.add_argument("--max-model-len", **model["max_model_len"])
        group.add_argument("--trust-remote-code", **model["trust_remote_code"])
        group.add_argument("--enforce-eager", **model["enforce_eager"])
        group.add_argument("--generation-config", **model["generation_config"])
        group.add_argument("--hf-overrides", **model["hf_overrides"])
        load = get_kwargs(LoadConfig)
        parser.add_argument("--load-format", **load["load_format"])
        parallel = get_kwargs(ParallelConfig)
        parser.add_argument("--tensor-parallel-size", "-tp", **parallel["tensor_parallel_size"])
        parser.add_argument("--pipeline-parallel-size", "-pp", **parallel["pipeline_parallel_size"])
        parser.add_argument("--weave-order", "-wo", **parallel["weave_order"])
        parser.add_argument("--weave-ranks", **parallel["weave_ranks"])
        cache = get_kwargs(CacheConfig)
        parser.add_argument("--gpu-memory-utilization", **cache["gpu_memory_utilization"])
        parser.add_argument("--kv-cache-dtype", **cache["cache_dtype"])
        parser.add_argument("--enable-prefix-caching", **{**cache["enable_prefix_caching"], "default": None})
        scheduler = get_kwargs(SchedulerConfig)
        scheduler["tail_words"]["type"] = json.loads
        del scheduler["tail_words"]["nargs"]
        parser.add_argument("--max-num-batched-tokens", **scheduler["max_num_batched_tokens"])
        parser.add_argument("--max-num-seqs", **scheduler["max_num_seqs"])
        parser.add_argument("--tail-words", **scheduler["tail_words"])
        parser.add_argument("--braid-config", **get_kwargs(BraidConfig)["outer"])
        parser.add_argument("--plain-note", type=str, default="calm", help="A word.")
        current_platform.pre_register_and_update(parser)
        return parser
"""
_CONFIG = """
from vllm.config.cache import CacheConfig
from vllm.config.model import *
from vllm.config.parallel import BraidConfig, ParallelConfig


def get_field(cls, name):
    ...


@config
class SchedulerConfig:
    max_num_batched_tokens: int | None = None
    max_num_seqs: int = 512
    tail_words: list[str] = field(default_factory=list)
"""
_MODEL = """
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

if TYPE_CHECKING:
    from vllm.layers import Formats
else:
    Formats = str

DType = Literal["auto", "bfloat16", "float16", "float4"]


@config
class ModelConfig:
    model: str = "org/tiny"
    dtype: DType | Any = "auto"
    seed: int = 0
    max_model_len: int = Field(default=None, ge=-1)
    trust_remote_code: bool = False
    enforce_eager: bool = False
    generation_config: str = "auto"
    hf_overrides: dict[str, Any] = Field(default_factory=dict)


@config
class LoadConfig:
    load_format: str | Formats = "auto"
"""
_CACHE = """
from dataclasses import dataclass
from typing import Literal, Optional

Inner = Literal["fp8", "fp4"]


@config
@dataclass
class CacheConfig:
    gpu_memory_utilization: float = Field(default=0.87, gt=0, le=1)
    cache_dtype: Literal["auto", Inner] = "auto"
    enable_prefix_caching: Optional[bool] = True
"""
_PARALLEL = """
from __future__ import annotations

from typing import ClassVar, Literal

_MOST = 2 * 4


@config
class Strand:
    width: int = 1


@config
class ParallelConfig:
    kinds: ClassVar[int] = 3
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    weave_order: Literal["under", "over"] = "under"
    weave_ranks: list[int] | None = None


@config
class BraidConfig:
    outer: Strand | None = None
"""
_UTILITIES = """
from argparse import ArgumentParser, BooleanOptionalAction


class Paired(BooleanOptionalAction):
    _pairs = {"--enable-": "--disable-", "--disable-": "--enable-"}


class FlexibleArgumentParser(ArgumentParser):
    ...
"""
_CLI = """
import argparse
from dataclasses import field

from vllm.engine.arg_utils import EngineArgs, optional_type


@config
class BaseFrontend:
    chat_template: str | None = None
    middleware: list[str] = field(default_factory=lambda: [])
    api_key: list[str] | None = None

    @classmethod
    def shape(cls, known):
        known["middleware"]["action"] = "append"
        if "nargs" in known["middleware"]:
            del known["middleware"]["nargs"]
        return known

    @classmethod
    def add_cli_args(cls, parser):
        from vllm.engine.arg_utils import get_kwargs

        for key, value in cls.shape(get_kwargs(cls)).items():
            extra = value.pop("flags", [])
            parser.add_argument(*extra, f"--{key.replace('_', '-')}", **value)
        return parser


@config
class Frontend(BaseFrontend):
    host: str | None = None
    port: int = 8000

    @classmethod
    def shape(cls, known):
        known = super().shape(known)
        known["host"]["type"] = optional_type(str)
        return known


def make_arg_parser(parser):
    parser.add_argument("model_tag", type=str, nargs="?")
    parser.add_argument("--headless", action="store_true", default=False)
    parser.add_argument("--config", help="A file of options.")
    parser = Frontend.add_cli_args(parser)
    parser = EngineArgs.add_cli_args(parser)
    return parser
"""
_SERVE = """
from vllm.entrypoints.common.cli_args import make_arg_parser


class Serve:
    name = "serve"

    def subparser_init(self, subparsers):
        parser = subparsers.add_parser(self.name, description="Serves a model.")
        parser = make_arg_parser(parser)
        parser.epilog = "more"
        return parser
"""
_SERVER_ARGS = """
import argparse

from sglang.srt.arg_groups.arg_utils import add_cli_args_from_dataclass
from sglang.srt.arg_groups.fields.all import Memory, Model, Serving

raise SystemExit("an engine is read, never run")


class OldSwitch(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)


class DeprecatedAction(argparse.Action):
    def __init__(self, option_strings, dest, error_message=None, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        if self.error_message is not None:
            parser.error(self.error_message)


class ServerArgs:
    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        choices = list(_names())
        parser.add_argument("--tool-call-parser", type=str, choices=["auto"] + choices, default=_declared_default("x"))
        parser.add_argument("--config", type=str)
        parser.add_argument("--old-loom", action=OldSwitch)
        parser.add_argument("--torn-loom", action=DeprecatedAction, error_message="use --loom-order")
        parser.add_argument("--idle-loom", action=DeprecatedAction)


def _names():
    from sglang.srt.names import NAMES

    return list(NAMES)


_annotations = collect_input_fields([Model, Memory, Serving])
ServerArgs = defstruct("ServerArgs", _annotations)
"""
_FIELDS = """
from __future__ import annotations

import json
from typing import List, Literal, Optional

from sglang.srt.arg_groups.arg_utils import A, Arg
from sglang.srt.common import human_readable_int

ORDERS = ["over"] + ["under"]


class Model(Struct):
    _NS_PATH = "model"
    model_path: A[str, Arg(help="Where the weights are.", aliases=["--model"])]
    dtype: A[str, Arg(help="Of weights.", choices=["auto", "bfloat16"])] = "auto"
    trust_remote_code: A[bool, "Take code."] = False
    context_length: A[Optional[int], Arg(help="Longest.", type_parser=human_readable_int)] = None


class Memory(Struct):
    tp_size: A[int, Arg(help="Ranks.", cli_name="--tensor-parallel-size", aliases=["--tp-size"])] = 1
    pp_size: A[int, Arg(help="Stages.", aliases=["--pipeline-parallel-size"])] = 1
    dp_size: A[int, Arg(help="Replicas.", aliases=["--data-parallel-size"])] = 2
    loom_order: A[Literal["under", "over"], "Order."] = "under"
    loom_parts: A[Optional[List[int]], Arg(help="Parts.", nargs="*")] = None
    hidden: A[int, Arg(no_cli=True)] = 3
    bare: int = 1


class Serving(Struct):
    port: A[int, "Port."] = 30000
    sampling_defaults: A[str, Arg(help="Where from.", choices=["openai", "model"])] = "openai"
    preferred_sampling_params: A[Optional[str], Arg(help="JSON.", type_parser=json.loads)] = None
"""

VLLM = {
    "vllm/__init__.py": "raise SystemExit('an engine is read, never run')\n",
    "vllm/engine/arg_utils.py": _ARGUMENTS,
    "vllm/config/__init__.py": _CONFIG,
    "vllm/config/model.py": _MODEL,
    "vllm/config/cache.py": _CACHE,
    "vllm/config/parallel.py": _PARALLEL,
    "vllm/utils/argparse_utils.py": _UTILITIES,
    "vllm/entrypoints/common/cli_args.py": _CLI,
    "vllm/entrypoints/cli/serve.py": _SERVE,
}
"""vLLM: a new option of each kind, a default that moved, options that are gone."""
SGLANG = {
    "sglang/__init__.py": "raise SystemExit('an engine is read, never run')\n",
    "sglang/srt/server_args.py": _SERVER_ARGS,
    "sglang/srt/names.py": 'NAMES = ("loomlike", "plain")\n',
    "sglang/srt/common.py": "def human_readable_int(text):\n    return int(text)\n",
    "sglang/srt/arg_groups/arg_utils.py": "from typing import Annotated\n\nA = Annotated\n\n\nclass Arg(Struct):\n    help: str = ''\n",
    "sglang/srt/arg_groups/fields/all.py": _FIELDS,
}
"""SGLang: options from annotated namespaces, by hand, and on their way out."""
