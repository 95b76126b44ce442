"""Whether input and output embeddings are one: as every level of config.json says, and as the tensors show. Pure.

Read: transformers 4.57 and 5.24 `modeling_utils.py` (`tie_weights` asks the text part, classes ask the whole), vLLM 0.33
`models/utils.py` (`skip_prefixes=["lm_head."]` where they are tied).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.checkpoint.config import CONFIG, text_part
from lockllm.checkpoint.findings import Findings

_KEY = "tie_word_embeddings"
_OWN_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output_layer)\.weight\Z")
_ANY_HEAD = re.compile(
    r"(^|\.)(lm_head|output_layer|embed_out|unembed\w*|head|output|logits|score|classifier|\w*_head)(\.|\Z)"
)
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|tok_embeddings|word_embeddings|embed_in)\.weight\Z")
_GENERATES = ("ForCausalLM", "ForConditionalGeneration")


def levels(config: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """What each level says, the whole first."""
    text, at = text_part(config)
    places = [(config, CONFIG)] + ([(text, at)] if text is not config else [])
    return [
        (part[_KEY], f"{where}.{_KEY}" if ": " in where else f"{where}: {_KEY}")
        for part, where in places
        if isinstance(part.get(_KEY), bool)
    ]


def agree(config: Mapping[str, Any], findings: Findings) -> None:
    """Whether the levels that say something say the same."""
    said = levels(config)
    if len({value for value, _ in said}) > 1:
        (one, first), (other, second) = said
        detail = f"{first} is {str(one).lower()}, {second} is {str(other).lower()}: engines read one or the other"
        findings.wrong("tied_embeddings_agree", detail, CONFIG, "make both say what the tensors show")
    elif said:
        findings.right("tied_embeddings_agree", f"embeddings are {'tied' if said[0][0] else 'not tied'}", said[0][1])


def held_against(config: Mapping[str, Any], tensors: Iterable[str], whole: bool, findings: Findings) -> None:
    """Whether an output head is stored where the model has one of its own. `whole`: all weight files were read."""
    said = levels(config)
    if not said or len({value for value, _ in said}) > 1:
        return
    tied, source = said[0]
    names = list(tensors)
    own = next((name for name in names if _OWN_HEAD.search(name)), None)
    if tied and own is not None:
        detail = f"{own} is stored, and {source} is true: engines load it or leave it out"
        findings.wrong(
            "tied_embeddings_agree", detail, source, "store the model without it, or say that it is not tied"
        )
    if tied or not whole or not _generates(config) or not any(_EMBEDDING.search(name) for name in names):
        return
    if any(_ANY_HEAD.search(name) for name in names):
        findings.right("output_head_there", "the output head is stored", source)
    else:
        detail = f"{source} is false, and no output head is stored: its weights are not initialized"
        findings.wrong("output_head_there", detail, source, "download the checkpoint again, or say that it is tied")


def _generates(config: Mapping[str, Any]) -> bool:
    named = config.get("architectures")
    return isinstance(named, list) and any(isinstance(each, str) and each.endswith(_GENERATES) for each in named)
