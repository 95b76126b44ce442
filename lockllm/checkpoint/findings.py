"""Findings gathered while a checkpoint is looked at: one check a name, whatever the number of files it fails for."""

from __future__ import annotations

from lockllm.facts.observation import Check, CheckStatus

_SHOWN = 4


class Findings:
    """What was found wrong, and what was looked at and found right."""

    def __init__(self, edition: int = 2) -> None:
        self.edition = edition  # of the lock: what a newer rule finds is told apart, and does not fail an older check
        self._wrong: dict[str, list[tuple[str, str, str]]] = {}
        self._right: dict[str, tuple[str, str]] = {}
        self._unknown: dict[str, tuple[str, str, str]] = {}

    def wrong(self, name: str, detail: str, source: str = "", fix: str = "", *, since: int = 1) -> None:
        """One more thing that is wrong; `name` without its `check.`. `since`: the edition that brought the rule."""
        if since > self.edition:
            name, detail = "newer_rules", f"check.{name}: {detail}"
        self._wrong.setdefault(name, []).append((detail, source, fix))

    def right(self, name: str, detail: str, source: str = "") -> None:
        """It was looked at; this stands where nothing is found wrong."""
        self._right.setdefault(name, (detail, source))

    def unknown(self, name: str, detail: str, source: str = "", fix: str = "") -> None:
        """It could not be told; this stands where nothing is found wrong."""
        self._unknown.setdefault(name, (detail, source, fix))

    def add(self, check: Check | None, *, since: int = 1) -> None:
        """A check that is made already."""
        if check is None:
            return
        name = check.name.removeprefix("check.")
        if check.status is CheckStatus.FAIL:
            self.wrong(name, check.detail, check.source, check.fix, since=since)
        elif check.status is CheckStatus.PASS:
            self.right(name, check.detail, check.source)
        else:
            self.unknown(name, check.detail, check.source, check.fix)

    @property
    def all_right(self) -> bool:
        """Whether nothing is wrong or unknown."""
        return not self._wrong and not self._unknown

    def take(self, other: Findings) -> None:
        """Everything that another has found."""
        for name, found in other._wrong.items():
            self._wrong.setdefault(name, []).extend(found)
        for name, right in other._right.items():
            self._right.setdefault(name, right)
        for name, unknown in other._unknown.items():
            self._unknown.setdefault(name, unknown)

    def checks(self) -> tuple[Check, ...]:
        """One check for each name, by name."""
        made = {}
        for name, (detail, source) in self._right.items():
            made[name] = Check(f"check.{name}", CheckStatus.PASS, detail, source)
        for name, (detail, source, fix) in self._unknown.items():
            made[name] = Check(f"check.{name}", CheckStatus.UNKNOWN, detail, source, fix)
        for name, found in self._wrong.items():
            details = list(dict.fromkeys(detail for detail, _, _ in found))
            sources = list(dict.fromkeys(source for _, source, _ in found if source))
            more = f"; and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
            fix = next((fix for _, _, fix in found if fix), "")
            text = "; ".join(details[:_SHOWN]) + more
            made[name] = Check(f"check.{name}", CheckStatus.FAIL, text, ", ".join(sources[:_SHOWN]), fix)
        return tuple(made[name] for name in sorted(made))
