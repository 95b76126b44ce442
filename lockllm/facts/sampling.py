"""Facts of the sampling defaults that the server applies to a chat completion which says nothing."""

from __future__ import annotations

from typing import Any

from lockllm.facts.fact import Fact, Family, Group, Kind, ValueType
from lockllm.facts.types import ANY, COUNT, COUNTS, INT, NUMBER, TEXTS

SAMPLING = Group(
    name="sampling", about="the defaults of the server for a chat completion that says nothing", waits=True
)
_CAUSES = (
    'checkpoint.files."generation_config.json"',
    'checkpoint.files."*.gguf"',
    "serve.generation_config",
    "serve.continuous_batching",
    "packages.transformers",
)


def _default(name: str, type_: ValueType[Any], about: str) -> Fact[Any]:
    return Fact(
        ("sampling", name), type_, Kind.STEP, "requests that leave it out are sampled otherwise",
        "restore generation_config.json or set the server's default as locked", about, causes=_CAUSES, part="sampling",
    )  # fmt: skip


TEMPERATURE = _default("temperature", NUMBER, "The temperature; 0 is greedy.")
TOP_P = _default("top_p", NUMBER, "The nucleus mass; 1 is off.")
TOP_K = _default("top_k", INT, "The number of candidates; 0 is off.")
MIN_P = _default("min_p", NUMBER, "The least share of the best token's probability; 0 is off.")
REPETITION_PENALTY = _default("repetition_penalty", NUMBER, "The factor on tokens that were seen; 1 is off.")
PRESENCE_PENALTY = _default("presence_penalty", NUMBER, "The penalty on tokens that occurred; 0 is off.")
FREQUENCY_PENALTY = _default("frequency_penalty", NUMBER, "The penalty by how often a token occurred; 0 is off.")
MAX_TOKENS = _default("max_tokens", INT, "The longest answer; absent: what fits.")
STOP = _default("stop", TEXTS, "Texts that end an answer.")
STOP_TOKEN_IDS = _default("stop_token_ids", COUNTS, "Token ids that end an answer besides the tokenizer's own.")
SEED = _default("seed", COUNT, "The seed of a request that gives none, where the engine keeps one.")
DEFAULT = Family(
    Fact(
        ("sampling",), ANY, Kind.STEP, "requests that leave it out are sampled otherwise", "set the server's default as locked",
        "Another sampling default of this engine.", causes=_CAUSES, part="sampling",
    )
)  # fmt: skip
ROUTE_DEFAULT = Family(
    Fact(
        ("sampling",), ANY, Kind.STEP, "requests on this route that leave it out are sampled otherwise",
        "set the server's default as locked", "A default of one route (`sampling.completions.max_tokens`) that differs from chat.",
        causes=_CAUSES, part="sampling",
    ),
    depth=2,
)  # fmt: skip
