"""The probes: fixed texts that every baseline and every check of one probe version asks.

A change of a text or of its limits is a new `VERSION`: a baseline is compared only with answers to the same probes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

VERSION = 1

GROUPS = ("count", "raw", "chat", "long", "sampled")
"""What a probe belongs to, in the order of cost."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `messages` for a chat, `prompt` for a plain completion; `seed` where the server samples."""

    name: str
    group: str
    messages: tuple[tuple[str, str], ...] = ()  # role and content
    prompt: str = ""
    max_tokens: int = 1
    seed: int | None = None

    @property
    def chat(self) -> bool:
        """Whether the chat template renders it."""
        return bool(self.messages)


_COUNTED: tuple[tuple[tuple[str, str], ...], ...] = (
    (("system", "Answer in one word."), ("user", "Which color has a ripe banana?")),
    (("user", "Hello."), ("assistant", "Hello! How can I help?"), ("user", "Name one river.")),
    (("user", "0 00 000 1234567890 3.14159 1e-9 0xFF 12:30 2024-02-29"),),
    (("user", "  two  blanks\n\n\n   lines \t and a tab  "),),
    (("user", "Übergrößen, naïve café, Ελλάδα, Москва, 東京タワー, عربي, हिन्दी, 🙂👍🏽"),),
    (("user", "def f(x):\n\treturn {'a': [x ** 2, None]}  # <|end|> [INST] </s>"),),
)
"""Templates differ in system texts, turns, and blanks; tokenizers in digits, scripts, and special tokens written as text."""

_RAW = (
    "The capital of France is",
    "def add(a, b):\n    return",
    "Once upon a time there was a",
    "2, 4, 8, 16, 32,",
    "Die Hauptstadt von Italien ist",
    "SELECT name FROM users WHERE",
    "Water boils at a temperature of",
    '{"name": "Ada", "born":',
)

_CHATS = (
    "Hello!",
    "What is the derivative of x squared?",
    "Name three colors.",
    "Translate 'good morning' into French.",
    "Is water wet? Answer yes or no.",
    "Write a Python function that adds two numbers.",
    "What is 17 times 23?",
    "Was ist ein großer Fluss in Deutschland?",
    "Give me a synonym for 'quick'.",
    "Who wrote Hamlet?",
    "Explain gravity in one sentence.",
    "List two prime numbers above 10.",
    "What day follows Monday?",
    "Write one line of SQL that counts rows in a table.",
    "Say something about the moon.",
    "How do I boil an egg?",
)

_SAMPLED = (
    "Tell me a very short story.",
    "Invent a name for a cat and say why.",
    "Describe the sea in a few words.",
    "Give me a piece of advice.",
    "What could I cook tonight?",
    "Name a place to visit and one reason.",
)
_SEEDS = (11, 23, 47)

_SENTENCE = "The old clock in the hall struck {} while rain fell on the roof of the house by the river. "
_LONG_ROOM = 64  # tokens left for special tokens and the answer


def probes(sentences: int = 0) -> tuple[Probe, ...]:
    """Every probe. `sentences` is the length of the long prompt; 0 leaves it out."""
    made: list[Probe] = [Probe(name=f"count.{at}", group="count", messages=text) for at, text in enumerate(_COUNTED)]
    made += [Probe(name=f"raw.{at}", group="raw", prompt=text) for at, text in enumerate(_RAW)]
    made += [Probe(name=f"chat.{at}", group="chat", messages=(("user", text),)) for at, text in enumerate(_CHATS)]
    if sentences:
        made.append(Probe(name="long.0", group="long", prompt=long_prompt(sentences)))
    made += [
        Probe(name=f"sampled.{at}.{seed}", group="sampled", messages=(("user", text),), max_tokens=8, seed=seed)
        for at, text in enumerate(_SAMPLED)
        for seed in _SEEDS
    ]
    return tuple(made)


def long_prompt(sentences: int) -> str:
    """A text of so many sentences, no two of which in a row are the same."""
    return "".join(_SENTENCE.format(at % 12 + 1) for at in range(sentences))


def fitting_sentences(context: int, tokens_of_eight: int) -> int:
    """How many sentences nearly fill a context of so many tokens, where eight of them have this many."""
    return max(0, (context - _LONG_ROOM) * 8 // max(1, tokens_of_eight))


def of_groups(every: Iterable[Probe], groups: Iterable[str]) -> tuple[Probe, ...]:
    """The probes that belong to these groups."""
    wanted = set(groups)
    return tuple(probe for probe in every if probe.group in wanted)
