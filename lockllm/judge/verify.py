"""The verdict on a host: a lock judged against an observation, by the one table of statuses, policies and exit codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.documents.terms import Waiver
from lockllm.facts import keys, registry
from lockllm.facts.check import since
from lockllm.facts.fact import Fact, Path, Policy, Stage
from lockllm.facts.observation import ABSENT, NOT_GIVEN, By, Check, CheckStatus, Observation, Raw
from lockllm.judge import causes, fingerprint, fixes, ready, same_content, typed
from lockllm.judge.policy import compile_globs, inside
from lockllm.judge.ready import Expected, Ready
from lockllm.judge.report import Fingerprints, Report, Result, Status
from lockllm.judge.witness import NOT_SEEN, NOT_THERE, Witnesses, Word

_EXTRA = "remove what was added, or run `lockllm lock` if it is meant"
_OPTION = re.compile(r"argument (--?[\w-]+)")
_DAY = r"\d{4}-\d{2}-\d{2}(T|\Z)"
_WORDS = tuple((status.value, status) for status in Status)
_UNSEEN = (Status.UNKNOWN, Status.NOT_DUE)
_ANSWERS: Path = ("check", "server_answers")
"""Unobserved where a server was asked and nothing came back: what its command line says is then not what it serves."""
_CHECKED = (Status.MATCH, Status.MISMATCH, Status.ALLOWED, Status.WAIVED)


def verify(
    lock: Lock,
    observation: Observation,
    *,
    name: str = "llm.lock",
    stage: Stage | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    allow_unknown: Sequence[str] = (),
    gate: str = "enforce",
    subject: str = "",
) -> Report:
    """Judge every locked fact once, in registry order. Pure: the report depends on its arguments alone.

    `only`, `skip` and `allow_unknown` are globs over keys. `gate` warn or off keeps the verdict and ends with exit code 0.
    """
    held = ready.of(lock)
    judge = _Judge(held, observation, stage or observation.stage, tuple(allow_unknown))
    chosen = _chooser(tuple(only), tuple(skip))
    judged = judge.results.items()
    results = (
        tuple(result for path, result in judged if chosen(path)) if only or skip else tuple(judge.results.values())
    )
    checks = tuple(_checks(observation, judge.witnesses, chosen))
    informational = frozenset(check.name for check in checks if not _check_blocks(held, check))
    failed = any(check.status is CheckStatus.FAIL and check.name not in informational for check in checks)
    code = _exit_code(results, failed, judge.unanswered() and chosen(_ANSWERS))
    statuses = [result.status for result in results]
    return Report(
        status={0: "match", 1: "mismatch", 3: "unknown"}[code],
        exit_code=code if gate == "enforce" else 0,
        stage=judge.stage,
        lock=name,
        host=observation.host,
        engine=held.engine,
        fingerprint=Fingerprints(held.fingerprint, fingerprint.of_results(lock, held.parts, judge.results)),
        counts={
            **{word: statuses.count(status) for word, status in _WORDS},
            "pinned": len(held.all),
            "unpinned": len(lock.unpinned),
        },
        results=results,
        checks=checks,
        informational=informational,
        unpinned=held.unpinned,
        left_open=tuple(each for each in typed.left_open(lock, observation) if chosen(each.fact.path)),
        warnings=(*lock.warnings, *observation.warnings, *held.idle, *_warnings(lock, judge, results)),
        gate=gate,
        subject=subject,
    )


def best(reports: Sequence[Report]) -> Report:
    """The first lock that passes completely, else the nearest one; the report names the others."""
    passing = [report for report in reports if report.status == "match"]
    nearest = (
        passing[0] if passing else min(reports, key=lambda each: (each.counts["mismatch"], each.counts["unknown"]))
    )
    others = tuple(
        f"{report.lock}: {report.counts['mismatch']} mismatches, {report.counts['unknown']} unknown"
        for report in reports
        if report is not nearest
    )
    return msgspec.structs.replace(nearest, others=others)


class _Judge:
    """One judgement in progress: results by path, filled in passes."""

    def __init__(self, held: Ready, observation: Observation, stage: Stage, allow_unknown: tuple[str, ...]) -> None:
        self.lock = held.lock
        self.stage = stage
        self._waivers = held.waivers
        self.day = _day(observation.observed_at)
        self.witnesses = Witnesses(observation)
        self._allowed = compile_globs(allow_unknown)
        self._silent = self.unanswered()
        self._typed = typed.Typed(lock=held.lock, observation=observation, readings=self.witnesses.readings)
        expected = self._with_extras(held)
        self.results = {path: self._first(each) for path, each in expected.items()}
        self._asked(held)
        self._follow()
        self.results = same_content.mark_same_content(causes.explain(self.results), self.witnesses.readings)

    def unanswered(self) -> bool:
        """Whether the server was asked and did not answer, and nobody allows that."""
        policy = self.lock.policy.get(".".join(_ANSWERS))
        allowed = policy in (Policy.REPORT, Policy.IGNORE) or any(glob.matches(_ANSWERS) for glob in self._allowed)
        return not allowed and self.witnesses.unobserved(_ANSWERS) is not None

    def _with_extras(self, held: Ready) -> Mapping[Path, Expected]:
        """What is expected, and what was seen though the lock denies it, in registry order."""
        extras = [
            readings[0].fact
            for path, readings in self.witnesses.readings.items()
            if path not in held.all and readings[0].value is not ABSENT and held.is_extra(path)
        ]
        # A member that is there and cannot be read is not absent either.
        if held.lock.edition > 1:
            hidden = (path for path in self.witnesses.hidden() if path not in held.all and registry.is_given(path))
            extras += [registry.find(path) for path in hidden if held.is_extra(path) and path not in held.lock.unpinned]
        if not extras:
            return held.expected
        every = {**held.expected, **{fact.path: held.expect(fact) for fact in extras if fact.verified}}
        return {path: every[path] for path in registry.ordered(every)}

    def _first(self, expected: Expected) -> Result:
        fact = expected.fact
        readings = self.witnesses.readings.get(fact.path, ())
        if expected.plain and len(readings) == 1:
            only = readings[0]
            if only.value.__class__ is expected.value.__class__ and only.value == expected.value:
                return Result(
                    fact=fact, status=Status.MATCH, policy=expected.policy, expected=expected.dumped,
                    found=expected.dumped, seen=True, readings=readings, source=only.source, fix=fact.fix,
                )  # fmt: skip
        word = self.witnesses.on(fact, expected.value)
        matches = word.seen and (registry.same(fact, expected.value, word.value) or self._by_name(expected.value, word))
        result = Result(
            fact=fact, status=Status.MATCH if matches else Status.UNKNOWN, policy=expected.policy,
            expected=expected.dumped, found=registry.dump(fact, word.value), seen=word.seen, readings=readings,
            source=word.source, reason=word.reason,
            fix=_fix(fact, expected, word, fixes.of(fact, self.lock, self.witnesses.readings)),
        )  # fmt: skip
        if matches:
            return result
        if word.seen and (same := self._typed.alike(fact, expected.value, word.value)):
            return msgspec.structs.replace(result, status=Status.MATCH, reason=same)
        if (
            self._silent and word.seen and readings and readings[0].by >= By.RULE
        ):  # no word of a server that says nothing
            return self._unseen(msgspec.structs.replace(result, seen=False, found=None, source=""), expected.value)
        return self._differs(result, expected.value, word.value) if word.seen else self._unseen(result, expected.value)

    def _by_name(self, expected: Any, word: Word) -> bool:
        """Whether a lock of edition 1 holds the path of what is its content today: the same path is all that it can tell."""
        named = isinstance(expected, str) and isinstance(word.value, str) and self.lock.edition < 2
        return named and word.value.startswith("sha256:") and word.source.endswith(f" {expected}")

    def _asked(self, held: Ready) -> None:
        """What was typed against what was typed, for facts whose value the lock does not hold."""
        more: dict[Path, Result] = {}
        for fact, locked, found, reading in self._typed.differences({**self.results, **held.all}):
            source = reading.source if reading is not None else NOT_THERE
            blank = Result(
                fact=fact, status=Status.UNKNOWN, policy=held.policies.of(fact), seen=True, source=source,
                expected=typed.shown(fact, locked, None), found=typed.shown(fact, found, reading),
                readings=(reading,) if reading is not None else (), fix=_EXTRA if locked is ABSENT else fact.fix,
            )  # fmt: skip
            if self._typed.cannot_tell(fact.path):
                more[fact.path] = self._unseen(msgspec.structs.replace(blank, seen=False, found=None), locked)
                continue
            more[fact.path] = self._differs(blank, locked, found)
        if more:
            every = {**self.results, **more}
            self.results = {path: every[path] for path in registry.ordered(every)}

    def _unseen(self, result: Result, value: Any) -> Result:
        fact = result.fact
        if self._typed.left_out(fact.path) and not self._silent:
            none = msgspec.structs.replace(result, seen=True, source=NOT_THERE)
            if same := self._typed.alike(fact, value, ABSENT):
                return msgspec.structs.replace(none, status=Status.MATCH, found=result.expected, source=same)
            if self._typed.gone(fact.path):
                return self._differs(msgspec.structs.replace(none, found=NOT_GIVEN), value, ABSENT)
            if self.stage is Stage.PREFLIGHT and self._typed.only_shown(fact):
                return msgspec.structs.replace(result, status=Status.NOT_DUE, reason="only a running server shows it")
        why = self.witnesses.unobserved(fact.path)
        reason, fix = (
            (why.reason, why.fix)
            if why
            else (NOT_SEEN, "give a source that shows it (a start log: --log FILE), or lock without it")
        )
        if not self.witnesses.due(fact, self.stage):
            status, blocking = Status.NOT_DUE, False
        else:
            status = Status.UNKNOWN
            blocking = result.policy in (Policy.EXACT, Policy.COMPATIBLE) and not any(
                glob.matches(fact.path) for glob in self._allowed
            )
        return msgspec.structs.replace(result, status=status, reason=reason, fix=fix, blocking=blocking)

    def _differs(self, result: Result, expected: Any, found: Any) -> Result:
        fact = result.fact
        waiver = next((each for each in self._waivers(fact) if self._waives(each, fact, found)), None)
        if waiver is not None:
            return msgspec.structs.replace(result, status=Status.WAIVED, reason=waiver.reason)
        if result.policy is Policy.IGNORE:
            return msgspec.structs.replace(result, status=Status.IGNORED)
        if result.policy is Policy.COMPATIBLE and self._compatible(fact, expected, found):
            return msgspec.structs.replace(result, status=Status.ALLOWED)
        return msgspec.structs.replace(result, status=Status.MISMATCH, blocking=result.policy is not Policy.REPORT)

    def _compatible(self, fact: Fact[Any], expected: Any, found: Any) -> bool:
        plain = not isinstance(expected, Raw) and not isinstance(found, Raw) and ABSENT not in (expected, found)
        if not plain or fact.type.compatible is None:
            return False
        required = self.lock.requires.get(fact.path)
        if required is not None and isinstance(found, str):
            return inside(required, found)
        if fact.firm and (firm := self.lock.values.get(keys.parse(fact.firm))) is not None:
            row = registry.row_of(fact.firm)
            word = self.witnesses.on(row, firm)
            if word.seen and registry.same(row, firm, word.value):
                return True
        return fact.type.compatible(expected, found)

    def _waives(self, waiver: Waiver, fact: Fact[Any], found: Any) -> bool:
        living = waiver.until is None or (self.day is not None and self.day <= waiver.until)
        return living and registry.same(fact, registry.read(fact, waiver.found), found)

    def _follow(self) -> None:
        """An unseen fact matches where all that it follows from are computed matches."""
        waiting = [
            (path, result)
            for path, result in self.results.items()
            if result.status in _UNSEEN and result.expected is not None and result.fact.follows_from
            if not result.fact.unless or keys.parse(result.fact.unless) not in self.results
        ]
        proven = {key: self._proven(key) for key in {key for _, result in waiting for key in result.fact.follows_from}}
        for path, result in waiting:
            if all(proven[key] for key in result.fact.follows_from):
                self.results[path] = msgspec.structs.replace(
                    result, status=Status.MATCH, found=result.expected, blocking=False, reason="",
                    fix=result.fact.fix, source=f"follows from {' and '.join(result.fact.follows_from)}",
                )  # fmt: skip

    def _proven(self, key: str) -> bool:
        """Whether there are facts at or below a key, and all of them are computed matches."""
        base = keys.parse(key)
        members = [result for path, result in self.results.items() if path[: len(base)] == base]
        return bool(members) and all(
            result.status is Status.MATCH and not any(each.evidence == "claimed" for each in result.readings[:1])
            for result in members
        )


def _fix(fact: Fact[Any], expected: Expected, word: Word, fix: str) -> str:
    """What puts a fact right: where an option names other files than the locked ones, the option goes."""
    option = _OPTION.match(word.source) if fact.unless or fact.denied else None
    if word.seen and option is not None and not registry.same(fact, expected.value, word.value):
        return f"drop {option[1]}, or give it the locked files"
    return _EXTRA if word.seen and expected.value is ABSENT else fix


def _day(observed_at: str) -> str | None:
    return observed_at[:10] if re.match(_DAY, observed_at) else None


def _chooser(only: tuple[str, ...], skip: tuple[str, ...]) -> Callable[[Path], bool]:
    wanted, unwanted = compile_globs(only), compile_globs(skip)
    return lambda path: (
        (not wanted or any(glob.matches(path) for glob in wanted)) and not any(glob.matches(path) for glob in unwanted)
    )


def _checks(observation: Observation, witnesses: Witnesses, chosen: Callable[[Path], bool]) -> list[Check]:
    checks = list(observation.checks)
    if (disagreement := witnesses.disagreements()) is not None:
        checks.append(disagreement)
    return [check for check in checks if chosen(tuple(check.name.split(".")))]


def _check_blocks(held: Ready, check: Check) -> bool:
    """A check that is newer than the lock is only reported: what matched then matches now."""
    row = registry.find(tuple(check.name.split(".")))
    if held.lock.edition < since(check.name):
        return False
    return held.policies.of(row) in (Policy.EXACT, Policy.COMPATIBLE)


def _exit_code(results: Sequence[Result], failed: bool, unanswered: bool) -> int:
    if failed or any(result.blocking and result.status is Status.MISMATCH for result in results):
        return 1
    if unanswered or any(result.blocking and result.status is Status.UNKNOWN for result in results):
        return 3
    return 0 if any(result.status in _CHECKED for result in results) else 3


def _warnings(lock: Lock, judge: _Judge, results: Sequence[Result]) -> list[str]:
    warnings = []
    for waiver in lock.waive:
        if waiver.until and judge.day is None:
            warnings.append(
                f"the waiver of {waiver.fact} ends on {waiver.until}, and the observation does not say when it was made"
            )
        elif waiver.until and judge.day is not None and judge.day > waiver.until:
            warnings.append(f"the waiver of {waiver.fact} ended on {waiver.until}")
    if not any(result.status in _CHECKED for result in results):
        warnings.append("nothing was checked: no locked fact was due and seen")
    return warnings
