"""How a lock is filled, group by group, from the first source that has a fact. Pure: every source is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm import engines
from lockllm.documents import toml
from lockllm.documents.lock import EDITION, Lock
from lockllm.documents.spec import Spec
from lockllm.engines import Context, Engine, Given
from lockllm.engines.kernel import typed as asked
from lockllm.facts import keys, registry
from lockllm.facts.check import CHECKS
from lockllm.facts.fact import Fact, Path, Policy
from lockllm.facts.keys import Glob
from lockllm.facts.observation import ABSENT, NOT_GIVEN, By, Raw, Reading, Unobserved
from lockllm.judge.policy import inside
from lockllm.resolve.disagreements import disagreements
from lockllm.resolve.kept_defaults import with_kept_defaults
from lockllm.resolve.paired_options import paired_options
from lockllm.resolve.plan import planned
from lockllm.resolve.sources import Filled, Options, Sources, best_readings, via_of

_FILES = ("checkpoint", "tokenizer", "quantization", "chat_template", "adapters", "draft", "prompt_probes")
_PLUGINS = ("serve", "plugins")
_STACK = ("packages", "startup", "libraries", "cuda", "rocm")
_TAKEN = ("serve", "sampling", "chat_template", "tokenizer", "quantization", "draft", "adapters", "prompt_probes")
"""Groups that the spec resolves anew every time: what was accepted of them is remembered."""
_ASKED = ("serve", "sampling")
_ASKED_OF_THE_HUB = (("checkpoint", "repo"), ("checkpoint", "revision"), ("checkpoint", "commit"))
_NO_ENVIRONMENT = "the engine is not installed here; run `lockllm observe` on the host and lock with --observation"
_NO_HOST = "no host was looked at; run `lockllm observe` there and lock with --observation"


def fill(spec: Spec, sources: Sources, old: Lock | None, options: Options) -> Filled:
    """The lock of one spec. Never guesses: what no source has is unpinned with the reason."""
    kept = dict(_still_accepted(spec, old, options))
    filled = _Filler(spec, sources, old, options, kept, frozenset(kept)).filled()
    causes = {each.fact.path: each.because for each in filled.disagreements}
    taken = {**kept, **_accepted(filled, sources, options)}
    if taken.keys() != kept.keys():
        filled = _Filler(spec, sources, old, options, taken, frozenset(kept)).filled()
    accepted = {keys.dotted(path) for path in taken}
    roots = {path: value for path, value in filled.to_write.items() if causes.get(path) not in accepted}
    return msgspec.structs.replace(filled, to_write=roots, sources=sources)


def _still_accepted(spec: Spec, old: Lock | None, options: Options) -> Iterator[tuple[Path, Reading]]:
    """What an earlier lock took from a host against the spec: it stays until the spec names it, or an upgrade asks again."""
    for path in old.accepted if old is not None else ():
        held = old is not None and (path in old.values or path in old.absent)
        if held and old is not None and path not in spec.values and path not in spec.auto and not options.renews(path):
            yield path, Reading(registry.find(path), old.values.get(path, ABSENT), "the older lock", By.PROCESS)


def _accepted(filled: Filled, sources: Sources, options: Options) -> dict[Path, Reading]:
    """What `--accept-observed` takes of that on which host and spec disagree, and all that follows from it."""
    globs = tuple(map(Glob, options.accept_observed))
    seen = best_readings(sources.observation.readings if sources.observation else ())
    chosen = [
        each
        for each in filled.disagreements
        if any(
            glob.matches(path) for glob in globs for path in (each.fact.path, keys.parse(each.because or each.fact.key))
        )
    ]
    return {
        each.fact.path: seen.get(each.fact.path, Reading(each.fact, ABSENT, each.source, By.PROCESS))
        for each in chosen
        if each.fact.path in seen or each.observed is None
    }


class _Filler:
    def __init__(
        self, spec: Spec, sources: Sources, old: Lock | None, options: Options, taken: Mapping[Path, Reading] = {},
        told: frozenset[Path] = frozenset(),
    ) -> None:  # fmt: skip
        self.spec, self.sources, self.taken, self.told = spec, sources, taken, told
        self.old = old
        self.values: dict[Path, Any] = {}
        self.via: dict[Path, str] = {}
        self.absent: set[Path] = set()
        self.unpinned: dict[Path, str] = {}
        self.warnings: list[str] = []
        self.to_write: dict[Path, Any] = {}
        self._upgrade = options.upgrade
        self._fresh = tuple(map(Glob, options.upgrade_facts))
        self._pin, self._named = tuple(map(Glob, options.pin)), options.pin
        self._seen = best_readings(sources.observation.readings if sources.observation else ())
        gaps = (*sources.unobserved, *(sources.observation.unobserved if sources.observation else ()))
        self._why = {each.path: each.reason for each in gaps}
        self.only_shown: set[Path] = set()  # settings whose value only a running server told
        self.ruled: frozenset[Path] = (
            frozenset()
        )  # settings whose value the engine's rules tell where they are left out

    def filled(self) -> Filled:
        """Every group, each from the first source that has it."""
        self.files()
        self.engine()
        self.host()
        self.stack()
        self.in_force()
        self.shown()
        self.probes()
        self.requested()
        self.kept_unknown()
        self.accepted()
        lock = self.lock()
        found = disagreements(self.spec, lock, self.sources.observation)
        return Filled(lock, found, tuple(self.warnings), self.to_write)

    def put(self, fact: Fact[Any], value: Any, via: str) -> None:
        if not fact.lockable:
            return
        self.unpinned.pop(fact.path, None)
        if value is ABSENT:
            if not fact.follows_from:
                self.absent.add(fact.path)
            return
        self.absent.discard(fact.path)
        self.values[fact.path] = value
        if via:
            self.via[fact.path] = via

    def take(self, readings: Iterable[Reading], groups: tuple[str, ...]) -> None:
        for path, reading in best_readings(readings).items():
            if path[0] in groups and not reading.fact.on_request and path not in self.values:
                self.put(reading.fact, reading.value, via_of(reading))

    def keep(self, groups: tuple[str, ...]) -> None:
        """Keep pins of the old lock, unless an upgrade or a moved fact says otherwise."""
        if self.old is None or self._upgrade:
            return
        for path in [*self.old.values, *self.old.absent]:
            fact = registry.find(path)
            if path[0] not in groups or path in self.values or path in self.absent or self._moved(fact):
                continue
            elsewhere = path in _ASKED_OF_THE_HUB and self.spec.repo is None
            gone = self._same_engine_seen() and self._seen_absent(path)
            if elsewhere or gone or not self._in_range(path, self.old.values.get(path)):
                continue
            self.put(fact, self.old.values.get(path, ABSENT), self.old.via.get(path, ""))
            if path in self.old.absent:
                self.absent.add(path)

    def files(self) -> None:
        spec = self.spec
        if self.sources.files is not None:
            self.take(self.sources.files, _FILES)
            self._keep_unseen()
            self._take_template()
        else:
            self.keep(_FILES)
            held = self.old.unpinned if self.old is not None else {}
            self.unpinned |= {path: why for path, why in held.items() if path[0] in _FILES and not self._holds(path)}
        if engines.identity(spec.engine).own_registry:
            self.take(self._seen.values(), _FILES if spec.path is None else ("checkpoint",))
        if spec.repo:
            self.put(registry.fact("checkpoint.repo"), spec.repo, self._spec_name)
        if spec.revision:
            self.put(registry.fact("checkpoint.revision"), spec.revision, self._spec_name)
        if self.sources.commit:
            self.put(registry.fact("checkpoint.commit"), self.sources.commit, self.sources.commit_via)
        self._spec_facts(("tokenizer", "chat_template", "adapters", "draft"))
        self._say_unobserved(_FILES)

    def _take_template(self) -> None:
        """The prompt of a template whose text only the host has: the spec gives its digest, and the host shows the same."""
        path = ("serve", "chat_template")
        told, shown = self.spec.values.get(path), self._seen.get(path)
        elsewhere = bool(self.spec.template_flag) and self.spec.template is None and shown is not None
        if elsewhere and shown is not None and registry.same(shown.fact, told, shown.value):
            self.take(self._seen.values(), ("chat_template",))

    def engine(self) -> None:
        self.put(registry.fact("engine.name"), self.spec.engine, self._spec_name)
        self.put(registry.fact("engine.version"), self.sources.version, self.sources.version_via)
        self._spec_facts(("engine",))
        if self._same_engine_seen():
            self.take(self._seen.values(), ("engine",))
        if self.sources.environment is not None:
            self.take(self.sources.environment, ("engine",))
        self.keep(("engine",))

    def host(self) -> None:
        self._spec_facts(("host",))
        self.take(self._seen.values(), ("host",))
        self.keep(("host",))
        if self.sources.host is not None:
            self.take(self.sources.host, ("host",))
        for path, text in self.spec.requires.items():
            if path[0] == "host" and path not in self.absent:
                self.put(registry.find(path), self.values.get(path, text), self.via.get(path) or self._spec_name)
        held = {path for path in (*self.values, *self.absent) if path[0] == "host"}
        if not held - {*self.spec.values, *self.spec.requires}:
            self.unpinned[("host",)] = self._why.get(("host",), _NO_HOST)
        elif self.sources.observation is not None or self.sources.host is not None:
            self._say_unobserved(("host",))

    def stack(self) -> None:
        self._spec_facts(_STACK)
        if self._same_engine_seen():
            self.take(self._seen.values(), _STACK)
        if self.sources.environment is not None:
            seen = {path[0] for path in (*self.values, *self.absent)} if self._same_engine_seen() else set()
            self.take(self.sources.environment, tuple(group for group in _STACK if group not in seen))
        self.keep(_STACK)
        looked = {path[0] for path in (*self.values, *self.absent)}
        self.take(self.sources.required, _STACK)
        for group in ("packages", "cuda"):
            if group not in looked and not any(path[0] == group for path in self.values):
                self.unpinned[(group,)] = self._why.get((group,), _NO_ENVIRONMENT)
            elif group not in looked:
                self.unpinned[(group,)] = "only those that the engine's own wheel requires exactly; " + _NO_ENVIRONMENT

    def in_force(self) -> None:
        self._spec_facts(_ASKED)
        engine = engines.load(self.spec.engine or "")
        borne = self._of_model(engine)
        for reading in borne:
            if reading.fact.path not in self.values:
                self.put(reading.fact, reading.value, via_of(reading))
        given = planned(self.spec, [*borne, *self.taken.values()])
        known = {path: value for path, value in self.values.items() if not isinstance(value, Raw)}
        context = Context(
            version=self.sources.version,
            checkpoint={path: value for path, value in known.items() if path[0] in _FILES},
            host={path: value for path, value in known.items() if path[0] == "host"},
            packages={path[1]: str(value) for path, value in known.items() if path[0] == "packages" and len(path) == 2},
            env={path[1]: str(value) for path, value in self.spec.values.items() if path[0] == "env"},
            installed=self.sources.installed,
        )
        told = [
            *engine.effective(given, context),
            *(each for each in paired_options(engine, given, context) if not self._untyped(each.fact.path)),
        ]
        told = with_kept_defaults(engine, context, None if self._upgrade else self.old, told, self._moved)
        bare = engine.effective(Given(engine=given.engine), context)
        self.ruled = frozenset(each.fact.path for each in bare if isinstance(each, Reading))
        self.take((each for each in told if isinstance(each, Reading)), (*_ASKED, "chat_template", "tokenizer"))
        for each in told:
            if isinstance(each, Unobserved) and not self._holds(each.path):
                self.unpinned[each.path] = each.reason

    def _of_model(self, engine: Engine) -> list[Reading]:
        """What the model itself sets, where its engine knows such models: as the observation shows it, else as locked."""
        of_model: Any = getattr(engine, "of_model", None)
        if of_model is None or self.sources.observation is None:
            return []
        paths = {each.fact.path for each in of_model(self.sources.observation.readings)} - set(self.spec.values)
        return [reading for path, reading in self._seen.items() if path in paths]

    def shown(self) -> None:
        """What a running server shows of settings that no rule resolves and nobody types; an earlier look's is kept."""
        for path, reading in self._seen.items() if self._same_engine_seen() else ():
            if reading.by <= By.ENDPOINT and self._is_open(path) and not reading.fact.on_request:
                self.put(reading.fact, reading.value, via_of(reading))
                self.only_shown.add(path)
        if self.sources.observation is not None or self.old is None or self._upgrade or self.old.edition < EDITION:
            return
        for path, value in self.old.values.items():
            fact = registry.find(path)
            if self.old.asked.get(path) == NOT_GIVEN and self._is_open(path) and not self._moved(fact):
                self.put(fact, value, self.old.via.get(path, ""))
                self.only_shown.add(path)

    def _is_open(self, path: Path) -> bool:
        typed = path in self.spec.values or path in self.spec.auto
        return asked.counts(path) and path in self.unpinned and not typed and not self._holds(path)

    def _untyped(self, path: Path) -> bool:
        """Whether a value is in force on the host although nobody typed the option: then the spec pins the value alone."""
        if self._seen_absent(path):
            return True
        old = self.old.values if self.old is not None and not self._upgrade else {}
        named = {each: value for each, value in self.spec.values.items() if each[0] == "serve"}
        stands = bool(old) and all(each in old and old[each] == value for each, value in named.items())
        return stands and path not in old

    def probes(self) -> None:
        """What could not be rendered here: from the observation, else as it was, where all that it hangs on still is."""
        version = ("prompt_probes", "version")
        mine, theirs = self.values.get(version), self._seen.get(version)
        if theirs is not None and mine in (None, theirs.value):
            self.take(self._seen.values(), ("prompt_probes",))
        self.keep(("prompt_probes",))
        if version in self.values:
            self.unpinned.pop(("prompt_probes",), None)

    def requested(self) -> None:
        """Facts that are locked only where the spec names them, or `--pin` takes them from the observation."""
        self._spec_facts(("kernels", "env", "engine", "libraries", "cuda", "host"))
        if self._shows_variables():
            self.take(self._seen.values(), ("env",))
            self._say_unobserved(("env",))
        else:
            self.keep(("env",))
        self._plugins()
        for path, reading in self._seen.items():
            if path[0] == "kernels" and reading.by is By.ENDPOINT and self._same_engine_seen():
                self.put(reading.fact, reading.value, via_of(reading))
            if any(glob.matches(path) for glob in self._pin) and path not in self.spec.values:
                self.put(reading.fact, reading.value, via_of(reading))
                self._to_keep(reading, told=False)
        for path in (keys.parse(text) for text in self._named if "*" not in text):
            if path not in self.values and self._seen_absent(path):
                self.absent.add(path)
        if self.old is not None and not self._upgrade:
            for path, value in self.old.values.items():
                fact = registry.find(path)
                pinned = fact.known and fact.on_request and fact.group not in _ASKED
                if pinned and path not in self.values and not self._moved(fact):
                    self.put(fact, value, self.old.via.get(path, ""))
        if not any(path[0] == "kernels" for path in self.values):
            self.unpinned[("kernels",)] = "only the start log shows them: lock with --observation and --pin kernels.*"
        if ("engine", "image_digest") not in self.values:
            self.unpinned[("engine", "image_digest")] = "only the outside of the container shows it"

    def _plugins(self) -> None:
        """Plugins that load because they are installed: as the serving environment shows them, else as they were."""
        shown = [*(self._seen.values() if self._same_engine_seen() else ()), *(self.sources.environment or ())]
        if any(each.fact.group == "startup" for each in shown):
            for each in shown:
                if each.fact.path[:2] == _PLUGINS and each.fact.path not in self.values:
                    self.put(each.fact, each.value, via_of(each))
        elif self.old is not None and not self._upgrade:
            for path, value in self.old.values.items():
                if path[:2] == _PLUGINS:
                    self.put(registry.find(path), value, self.old.via.get(path, ""))

    def _shows_variables(self) -> bool:
        """Whether the observation saw the whole environment of a server of this engine. Its release may not show."""
        seen = self.sources.observation
        silent = ("engine", "version") not in self._seen
        return seen is not None and ("env",) in seen.complete and (silent or self._same_engine_seen())

    def kept_unknown(self) -> None:
        """What a newer release locked stays, as it stands."""
        for path, value in (self.old.values if self.old else {}).items():
            if not registry.find(path).known and path not in self.values:
                self.values[path] = value

    def accepted(self) -> None:
        """What the host shows instead of what the spec resolves to."""
        for path, reading in self.taken.items():
            self.values.pop(path, None)
            self.put(reading.fact, reading.value, "observation")
            self._to_keep(reading, told=path in self.told)

    def _to_keep(self, reading: Reading, *, told: bool) -> None:
        """Note what the spec has to say to keep a fact that was taken from the host."""
        path = reading.fact.path
        if path[0] not in _ASKED or not reading.fact.settable:
            return
        if reading.value is ABSENT:
            if path in self.spec.values or path in self.spec.auto:
                self.to_write[path] = None
            return
        value = registry.dump(reading.fact, reading.value)
        if not str(value).startswith("sha256:"):  # the content of a file: a spec names the file
            self.to_write[path] = value
        if not told:
            line = f"{keys.dotted(path[1:])} = {toml.value(value)}"
            where = f"write {line} under [{path[0]}] of {self._spec_name}"
            self.warnings.append(
                f"{reading.fact.key} is as the host shows it; to keep it, lock with --write, or {where}"
            )

    def lock(self) -> Lock:
        """What was gathered, as one lock."""
        spec = self.spec
        return Lock(
            values=self.values,
            absent=frozenset(path for path in self.absent if path not in self.values),
            unpinned={path: reason for path, reason in self.unpinned.items() if path not in self.values},
            requires=spec.requires,
            policy={**self._default_policies(), **spec.policy},
            waive=spec.waive,
            include=spec.include,
            exclude=spec.exclude,
            env_open=spec.env_open,
            via=self.via,
            spec=self._spec_name,
            accepted=tuple(path for path in self.taken if path[0] in _TAKEN),
            edition=EDITION,
            asked=self._asked(),
        )

    def _asked(self) -> dict[Path, Any]:
        """What is typed, for settings whose value only the typing tells: the spec's own, and those of the host looked at.

        Without an observation what an earlier one showed is kept.
        """
        values, seen = self.spec.values, self.sources.observation
        typed = {path: value for path, value in values.items() if asked.counts(path) and path not in self.ruled}
        typed = {path: value for path, value in typed.items() if registry.family(path) is None}  # those are closed
        typed |= {path: "auto" for path in self.spec.auto if path not in self.values}
        typed |= dict.fromkeys(self.only_shown, NOT_GIVEN)
        if seen is not None:
            shown = {each.fact.path: each.value for each in seen.asked if each.by is not By.DEFAULT}
        else:
            shown = {
                path: value
                for path, value in (self.old.asked if self.old else {}).items()
                if path not in self.old_values
            }
        typed |= {path: each for path, each in shown.items() if path not in typed and not self._holds(path)}
        return {
            path: value if isinstance(value, str) else registry.dump(registry.find(path), value)
            for path, value in typed.items()
            if value is not ABSENT
        }

    @property
    def old_values(self) -> Mapping[Path, Any]:
        """The values of the old lock, if there is one."""
        return self.old.values if self.old is not None else {}

    def _default_policies(self) -> dict[str, Policy]:
        """Every policy that is not exact, but where the spec says otherwise, by key or glob."""
        ranged = {path for path in self.spec.requires if path[0] == "host" and registry.find(path).type.compatible}
        rows = {registry.find(path).key: registry.find(path).policy for path in self.values}
        rows |= {row.name: row.policy for row in CHECKS}
        if any(path[0] == "packages" and "edited" in str(value) for path, value in self.values.items()):
            rows["check.packages_unedited"] = Policy.REPORT  # the edits are locked themselves
        rows |= {keys.dotted(path): Policy.COMPATIBLE for path in ranged}
        named = tuple(map(Glob, self.spec.policy))
        return {
            key: policy
            for key, policy in rows.items()
            if policy is not Policy.EXACT and not any(glob.matches(keys.parse(key)) for glob in named)
        }

    @property
    def _spec_name(self) -> str:
        return self.spec.name.replace("\\", "/").rsplit("/", 1)[-1]

    def _spec_facts(self, groups: tuple[str, ...]) -> None:
        for path, value in self.spec.values.items():
            if path[0] in groups:
                self.put(registry.find(path), value, self._spec_name)

    def _moved(self, fact: Fact[Any]) -> bool:
        if any(glob.matches(fact.path) for glob in self._fresh):
            return True
        return any(map(self._has_moved, fact.stale_with))

    def _has_moved(self, key: str) -> bool:
        path, held = keys.parse(key), self.old.values if self.old is not None else {}
        return (
            path in held
            and path in self.values
            and not registry.same(registry.find(path), held[path], self.values[path])
        )

    def _keep_unseen(self) -> None:
        """Of the same commit, what an earlier look showed and this one could not."""
        if not self.sources.kept_commit or self.old is None or self._upgrade:
            return
        for path, fact in ((path, registry.find(path)) for path in [*self.old.values, *self.old.absent]):
            unseen = path[0] in _FILES and any(path[: len(gap)] == gap for gap in self._why)
            if unseen and path not in self.values and path not in self.absent and not self._moved(fact):
                self.put(fact, self.old.values.get(path, ABSENT), self.old.via.get(path, ""))

    def _same_engine_seen(self) -> bool:
        reading = self._seen.get(("engine", "version"))
        return reading is not None and registry.same(reading.fact, self.sources.version, reading.value)

    def _seen_absent(self, path: Path) -> bool:
        """Whether the observation saw a whole family without this member."""
        seen = self.sources.observation
        whole = seen.complete if seen is not None and path not in self._seen else ()
        return any(path[:length] in whole for length in range(1, len(path)))

    def _holds(self, path: Path) -> bool:
        return any(held[: len(path)] == path for held in (*self.values, *self.absent))

    def _in_range(self, path: Path, value: Any) -> bool:
        required = self.spec.requires.get(path)
        return required is None or not isinstance(value, str) or inside(required, value)

    def _say_unobserved(self, groups: tuple[str, ...]) -> None:
        unseen = [path for path in self._why if path[0] in groups and (path == ("host",) or not self._holds(path))]
        self.unpinned.update({path: self._why[path] for path in unseen})
