"""The package index: the newest release of an engine inside a range, and what its wheel requires exactly.

Speaks the simple repository API as JSON (PEP 691), with the wheel's metadata beside it (PEP 658). The index is the one that pip
and uv are told to use.
"""

from __future__ import annotations

import configparser
import html.parser
import json
import os
import re
import sys
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lockllm.errors import ResolveError

_DEFAULT = "https://pypi.org/simple"
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_LONGEST = 64 * 2**20
_TIMEOUT = 20.0
_CONFIGS = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One release of a distribution: its version, and where its metadata can be read (None: nowhere)."""

    distribution: str
    version: str
    metadata_url: str | None = None


def index_url(environ: Mapping[str, str] = os.environ) -> str:
    """The index that pip and uv use here."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if environ.get(name):
            return (
                environ[name].rsplit("=", 1)[-1].rstrip("/")
                if name == "UV_DEFAULT_INDEX"
                else environ[name].rstrip("/")
            )
    named = (environ.get("PIP_CONFIG_FILE"), os.path.join(sys.prefix, "pip.conf"), *_CONFIGS, *_xdg(environ))
    found = _DEFAULT
    for path in named:
        if not path:
            continue
        parser = configparser.RawConfigParser()
        try:
            parser.read(os.path.expanduser(path), encoding="utf-8")
            found = parser.get("global", "index-url", fallback=found)
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
    return found.rstrip("/")


def newest(distribution: str, inside: Any, index: str | None = None) -> Release | None:
    """The newest release that `inside(version)` accepts, no pre-release unless nothing else is there; None: there is none.

    Raises ResolveError where the index does not answer.
    """
    base = index or index_url()
    url = f"{base}/{distribution}/"
    files = list(_files(url, distribution))
    from packaging.version import InvalidVersion, Version

    versions: dict[Version, str | None] = {}
    for name, metadata_url, yanked in files:
        text = _version_of(name, distribution)
        if text is None or yanked:
            continue
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if inside(text):
            versions[version] = versions.get(version) or (metadata_url if name.endswith(".whl") else None)
    final = [version for version in versions if not version.is_prerelease] or list(versions)
    if not final:
        return None
    chosen = max(final)
    return Release(distribution=distribution, version=str(chosen), metadata_url=versions[chosen])


def exact_requirements(release: Release) -> dict[str, str]:
    """Distribution -> version of the `==` requirements of a release's wheel; empty where its metadata cannot be read."""
    if release.metadata_url is None:
        return {}
    try:
        text = _get(release.metadata_url, "text/plain, */*")[1].decode("utf-8", "replace")
    except ResolveError:
        return {}
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, str] = {}
    for line in text.split("\n\n", 1)[0].splitlines():
        if not line.startswith("Requires-Dist:"):
            continue
        try:
            requirement = Requirement(line.partition(":")[2].strip())
        except InvalidRequirement:
            continue
        exact = [part.version for part in requirement.specifier if part.operator == "==" and "*" not in part.version]
        applies = requirement.marker is None or requirement.marker.evaluate(
            {"extra": "", "platform_system": "Linux", "sys_platform": "linux"}
        )
        if len(exact) == 1 and applies:
            found[re.sub(r"[-_.]+", "-", requirement.name).lower()] = exact[0]
    return found


def _files(url: str, distribution: str) -> Iterable[tuple[str, str | None, bool]]:
    kind, body = _get(url, _ACCEPT)
    if "json" in kind:
        try:
            data = json.loads(body)
            listed = data["files"]
        except (ValueError, KeyError, TypeError, RecursionError) as cause:
            raise ResolveError(
                "the package index answers no list of files",
                where=_shown(url),
                mend="try again, or give an exact version",
            ) from cause
        for each in listed:
            if isinstance(each, dict) and isinstance(each.get("filename"), str) and isinstance(each.get("url"), str):
                has = each.get("core-metadata") or each.get("dist-info-metadata")
                link = urllib.parse.urljoin(url, each["url"].partition("#")[0])
                yield each["filename"], f"{link}.metadata" if has else None, bool(each.get("yanked"))
        return
    links = _Links()
    links.feed(body.decode("utf-8", "replace"))
    for href, attributes in links.found:
        link = urllib.parse.urljoin(url, href.partition("#")[0])
        name = urllib.parse.unquote(link.rsplit("/", 1)[-1])
        has = "data-core-metadata" in attributes or "data-dist-info-metadata" in attributes
        yield name, f"{link}.metadata" if has else None, "data-yanked" in attributes


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a link says."""
        named = dict(attrs)
        if tag == "a" and named.get("href"):
            self.found.append((str(named["href"]), named))


def _get(url: str, accept: str) -> tuple[str, bytes]:
    if not url.startswith(("https://", "http://", "file://")):
        raise ResolveError(
            "the package index has no address that can be asked", where=_shown(url), mend="set PIP_INDEX_URL"
        )
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "lockllm"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            body = answer.read(_LONGEST + 1)
            kind = answer.headers.get("Content-Type", "")
    except urllib.error.HTTPError as cause:
        if cause.code == 404:
            raise ResolveError(
                "the package index does not hold it", where=_shown(url), mend="give an exact version in llm.toml"
            ) from cause
        raise ResolveError(
            f"the package index answers {cause.code}", where=_shown(url), mend="try again, or give an exact version"
        ) from cause
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "reason", cause)
        raise ResolveError(
            f"the package index does not answer: {reason}", where=_shown(url),
            mend="connect, or give an exact version, or lock with --observation from the host",
        ) from cause  # fmt: skip
    if len(body) > _LONGEST:
        raise ResolveError(
            "the package index answers without end", where=_shown(url), mend="give an exact version in llm.toml"
        )
    return kind, body


def _version_of(name: str, distribution: str) -> str | None:
    plain = re.escape(distribution).replace(r"\-", "[-_.]+").replace("_", "[-_.]+")
    found = re.match(
        rf"{plain}-(?P<v>[^-]+?)(?:-[^-]+)*?(?:\.tar\.gz|\.zip|-[^-]+-[^-]+-[^-]+\.whl)\Z", name, re.IGNORECASE
    )
    return found.group("v") if found else None


def _xdg(environ: Mapping[str, str]) -> list[str]:
    folders = environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
    return [os.path.join(folder, "pip", "pip.conf") for folder in folders if folder]


def _shown(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
