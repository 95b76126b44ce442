"""The engines that have a data file: where each comes from, how it is read, and what a person says of its options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lockllm.engines.sglang import locked as sglang_locked
from lockllm.engines.sglang import options as sglang_options
from lockllm.engines.vllm import locked as vllm_locked
from lockllm.engines.vllm import options as vllm_options
from lockllm.facts import variables
from lockllm.facts.env import is_secret
from tools.refresh import sglang, vllm
from tools.refresh.decide import Engine
from tools.refresh.snapshot import Snapshot


def _unclassed(told: Snapshot, releases: Sequence[str]) -> Iterator[str]:
    """Variables of vLLM of which no table says what they move."""
    listed = {word.lstrip("@~") for row in variables.vllm_rows() for word in row[2].split()}
    yield from (f"{name}: nobody has classed it" for name in sorted(told.variables - listed) if not is_secret(name))


ENGINES = {
    "vllm": Engine(
        room="vllm", distribution="vllm", read=vllm.read, variables=_unclassed,
        classes={
            "operational": vllm_options.OPERATIONAL, "per node": vllm_options.PER_NODE, "secret": vllm_options.SECRET,
            "spread over several facts": vllm_options.SPREAD,
            "a fact": vllm_options.SAME_TAIL | frozenset(vllm_options.NEUTRAL), "locked as given": vllm_locked.LOCKED,
        },
    ),
    "sglang": Engine(
        room="sglang", distribution="sglang", read=sglang.read, variables=sglang.wrong_marks,
        classes={
            "operational": sglang_options.OPERATIONAL, "per node": sglang_options.PER_NODE,
            "secret": sglang_options.SECRETS, "a fact": frozenset(sglang_options.FACTS),
            "locked as given": sglang_locked.LOCKED,
        },
    ),
}  # fmt: skip
"""Those whose packages tell their options. Of SGLang's variables, which are hundreds, those count that have a class."""
