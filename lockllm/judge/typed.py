"""Given is compared with given: an option that came or went is a difference, a spelled-out default is none.

The rule: where the value in force could not be known when the lock was made, the lock still holds what was typed
(`[asked]`), and a host that is started with more, with less or with another word differs, unless the word is the value
that the setting has anyway: a constant default of the release, an empty JSON object, an `auto` that comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.documents.lock import Lock
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import ABSENT, NOT_GIVEN, TYPED_WHOLE, By, Observation, Raw, Reading

_NAME: Path = ("engine", "name")
_VERSION: Path = ("engine", "version")
SINCE = 2
"""The edition of locks that hold what was typed."""
_GROUPS = frozenset({"serve", "sampling", "tokenizer", "chat_template"})
_EMPTY: tuple[Any, ...] = ("", "{}", {}, [], ())
_HOLDS: Mapping[Path, tuple[Path, ...]] = {
    ("serve", "ctx_size"): (("serve", "max_model_len"),),
    ("serve", "cache_type_k"): (("serve", "kv_cache_dtype"),),
    ("serve", "cache_type_v"): (("serve", "kv_cache_dtype"),),
    ("serve", "predict"): (("sampling", "max_tokens"),),
    ("serve", "chat_template"): (("chat_template", "sha256"), ("chat_template", "source")),
}
"""Facts that hold an option as it was typed -> those that hold what it comes to: where one is pinned, it decides."""

_TOGETHER: Mapping[Path, Path] = {("serve", "seed"): ("sampling", "seed")}
"""Facts that one argument of llama.cpp gives beside another, which decides where it is pinned."""

_GENERATION: Path = ("serve", "generation_config")
_ITS_FILE: Path = ("checkpoint", "files", "generation_config.json")


class Typed:
    """What a lock and a host say of the settings that were typed."""

    def __init__(self, lock: Lock, observation: Observation, readings: Mapping[Path, tuple[Reading, ...]]) -> None:
        self._lock = lock
        self._readings = readings
        self._stated = {each.fact.path: each for each in observation.asked if each.by is By.DEFAULT}
        self.asked = {each.fact.path: each for each in observation.asked if each.by is not By.DEFAULT}
        self.whole = TYPED_WHOLE in observation.complete
        self._env_whole = ("env",) in observation.complete
        self._known: dict[bool, Mapping[Path, Any]] = {}

    @property
    def counts(self) -> bool:
        """Whether the lock holds what was typed when it was made."""
        return self._lock.edition >= SINCE

    def alike(self, fact: Fact[Any], expected: Any, found: Any) -> str:
        """Why a setting that only one side has is no difference; empty where it is one."""
        if fact.path == _GENERATION and self._same_file(expected, found):
            return "the model folder's own file"
        if (expected is ABSENT) is (found is ABSENT) or fact.path[0] not in _GROUPS:
            return ""
        value = found if expected is ABSENT else expected
        if fact.path[0] == "serve" and registry.dump(fact, value) in _EMPTY:
            return "empty, as if it were left out"
        of_lock = expected is ABSENT
        if any(registry.same(fact, value, registry.read(fact, each)) for each in self._omitted(fact.path, of_lock)):
            return f"what it is where it is left out: {self._release(of_lock)}"
        stated = self._stated.get(fact.path)
        if stated is not None and self._same_release() and registry.same(fact, value, stated.value):
            return f"what it is where it is left out: {stated.source}"
        return ""

    def cannot_tell(self, path: Path) -> bool:
        """Whether a setting that was typed when it was locked may be given by a variable that is hidden here."""
        return path in self._lock.asked and path not in self.asked and self._is_hidden(path)

    def differences(self, held: Mapping[Path, Any]) -> Iterator[tuple[Fact[Any], Any, Any, Reading | None]]:
        """The settings that were typed on one side only, or otherwise, and whose value the lock does not hold.

        Fact, word of the lock, word of the host, and where the host has it; ABSENT: not typed.
        """
        if not self.counts:
            return
        for path in registry.ordered({*self.asked, *(self._lock.asked if self.whole else ())}):
            fact = registry.find(path)
            if path in held or path[0] not in _GROUPS or not fact.lockable or self._decided(path):
                continue
            reading = self.asked.get(path)
            locked = registry.read(fact, self._lock.asked[path]) if path in self._lock.asked else ABSENT
            found = reading.value if reading is not None else ABSENT
            same = registry.same(fact, locked, found) or _text(locked) == _text(found)
            if not same and not self.alike(fact, locked, found):
                yield fact, locked, found, reading

    def left_out(self, path: Path) -> bool:
        """Whether the host's command was read and does not type a setting."""
        return self.whole and path not in self.asked and path[0] in _GROUPS and not self._is_hidden(path)

    def only_shown(self, fact: Fact[Any]) -> bool:
        """Whether a running server alone told the lock a value: it holds that nobody typed it."""
        return self._lock.asked.get(fact.path) == NOT_GIVEN

    def gone(self, path: Path) -> bool:
        """Whether an option whose value is pinned was typed when it was locked, and is not typed on this host."""
        return self._lock.asked.get(path, NOT_GIVEN) != NOT_GIVEN and self.left_out(path)

    def _is_hidden(self, path: Path) -> bool:
        """Whether a variable may give a setting on this host, whose process has overwritten its environment."""
        from lockllm import engines

        return not self._env_whole and path in engines.identity(self._lock.get("engine.name")).hidden_settings

    def _same_file(self, expected: Any, found: Any) -> bool:
        """Whether one side says `auto` and the other names the very file that `auto` reads in the model's folder."""
        words = {str(expected), str(found)}
        if "auto" not in words:
            return False
        readings = self._readings.get(_ITS_FILE)
        held = (readings[0].value if readings else ABSENT) if expected == "auto" else self._lock.values.get(_ITS_FILE)
        digest = held.get("sha256") if isinstance(held, dict) else None
        return digest is not None and digest in {each.removeprefix("sha256:") for each in words}

    def _decided(self, path: Path) -> bool:
        """Whether the lock holds what the setting comes to."""
        return any(map(self._holds, _HOLDS.get(path, ()))) or self._given_beside(path)

    def _given_beside(self, path: Path) -> bool:
        """Whether the same argument gives a fact that the lock holds."""
        beside, reading = _TOGETHER.get(path), self.asked.get(path)
        if beside is None or reading is None or not self._holds(beside):
            return False
        return any(each.source == reading.source for each in self._readings.get(beside, ()))

    def _holds(self, path: Path) -> bool:
        return path in self._lock.values or path in self._lock.absent

    def _omitted(self, path: Path, of_lock: bool) -> tuple[Any, ...]:
        from lockllm import engines

        known = self._facts(of_lock)
        name = self._lock.values.get(_NAME)
        if not engines.known(name) or known.get(_NAME) != name:
            return ()
        return engines.load(str(name)).omitted(path, known)

    def _facts(self, of_lock: bool) -> Mapping[Path, Any]:
        """What is known of the side that leaves the setting out; what the lock does not say, the host does."""
        if of_lock not in self._known:
            host = {path: readings[0].value for path, readings in self._readings.items()}
            held = dict(self._lock.values)
            facts = {**host, **held} if of_lock else {**held, **host}
            self._known[of_lock] = {
                path: value
                for path, value in facts.items()
                if value is not ABSENT and not isinstance(value, Raw) and path[0] in ("engine", "host", "checkpoint")
            }
        return self._known[of_lock]

    def _release(self, of_lock: bool) -> str:
        known = self._facts(of_lock)
        return " ".join(str(known[path]) for path in (_NAME, _VERSION) if path in known)

    def _same_release(self) -> bool:
        return self._facts(True).get(_VERSION) == self._facts(False).get(_VERSION)


def shown(fact: Fact[Any], value: Any, reading: Reading | None) -> Any:
    """How a report says what was typed: `--attention-backend TRITON_ATTN`, else the word alone."""
    if value is ABSENT:
        return NOT_GIVEN
    text = _text(registry.dump(fact, value))
    if reading is None:
        return text
    flag = reading.source.removeprefix("argument ")
    return f"{flag} {text}" if flag.startswith("--") and " " not in flag else text


def left_open(lock: Lock, observation: Observation) -> Iterator[Reading]:
    """What a witness shows of facts that the lock leaves open: values that `lock --observation` can pin."""
    open_ = frozenset(lock.unpinned)
    for path, readings in observation.by_path().items():
        first = readings[0]
        held = path in lock.values or path in lock.absent
        if held or first.value is ABSENT or first.by not in _WITNESSES or not first.fact.lockable:
            continue
        if path[0] in _SHOWN and any(path[:length] in open_ for length in range(1, len(path) + 1)):
            yield first


_WITNESSES = (By.LIBRARY, By.WORKER, By.ENDPOINT, By.LOG)
_SHOWN = frozenset({"serve", "sampling", "kernels", "tokenizer", "chat_template"})


def _text(value: Any) -> str:
    value = value.value if isinstance(value, Raw) else value
    return str(value).lower() if isinstance(value, bool) else str(value)
