"""The package index: the newest release of an engine inside a range, and what its wheel requires exactly.

Speaks the simple repository API as JSON (PEP 691), with the wheel's metadata beside it (PEP 658). The index is the one that pip
and uv are told to use.
"""

from __future__ import annotations

import configparser
import html
import os
import re
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from lockllm.checkpoint import bounded
from lockllm.errors import ResolveError
from lockllm.resolve.remote.web import shown

if TYPE_CHECKING:
    from lockllm.resolve.remote.index_http import Page

_DEFAULT = "https://pypi.org/simple"
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_LONGEST = 16 * 2**20
_METADATA = 2 * 2**20
_FILES = 20_000
_REQUIREMENTS = 2_000
_MARKS = 1_000_000  # tags, attributes and comments of a page
_NAME, _LINE, _WORD = 300, 1_000, 100  # characters
_LINK = 4_000  # characters of an address
_OPENED = re.compile(r"(?is)<!--(?:-?>|.*?(?:--!?>|\Z))|<([a-z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^\s>]*)))?""")
_TOLD = frozenset({"href", "data-core-metadata", "data-dist-info-metadata", "data-yanked"})
_CONFIGS = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One release of a distribution: its version, and where its metadata can be read (None: nowhere)."""

    distribution: str
    version: str
    metadata_url: str | None = None


def index_url(environ: Mapping[str, str] = os.environ) -> str:
    """The index that pip and uv use here."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if address := environ.get(name):
            if name == "UV_DEFAULT_INDEX":  # uv takes `NAME=ADDRESS` too
                address = re.sub(r"\A[\w.-]+=", "", address)
            return address.rstrip("/")
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
    from packaging.version import Version

    versions: dict[Version, str | None] = {}
    refused: set[str] = set()
    for name, metadata_url, yanked in _files(f"{base}/{distribution}/", distribution, base):
        text = _version_of(name, distribution)
        if text is None or yanked or text in refused:
            continue
        try:
            version = Version(text)
        except ValueError:  # no version, or a number longer than Python reads
            continue
        if version not in versions and not inside(text):
            refused.add(text)
        else:
            versions[version] = versions.get(version) or (metadata_url if name.endswith(".whl") else None)
    final = [version for version in versions if not version.is_prerelease] or list(versions)
    if not final:
        return None
    chosen = max(final)
    return Release(distribution=distribution, version=str(chosen), metadata_url=versions[chosen])


def exact_requirements(release: Release, index: str | None = None) -> dict[str, str]:
    """Distribution -> version of the `==` requirements of a release's wheel; empty where its metadata cannot be read.

    `index`: the one that names the release, as in `newest`.
    """
    if release.metadata_url is None:
        return {}
    from lockllm.resolve.remote import index_http

    try:
        page = index_http.get(release.metadata_url, "text/plain, */*", _METADATA, index or index_url())
    except ResolveError:
        return {}
    from packaging.requirements import Requirement

    found: dict[str, str] = {}
    head = page.body.decode("utf-8", "replace").partition("\n\n")[0]
    lines = [line for line in head.split("\n") if line.startswith("Requires-Dist:") and len(line) < _LINE]
    for line in lines[:_REQUIREMENTS]:
        try:
            requirement = Requirement(line.partition(":")[2].strip())
            applies = requirement.marker is None or requirement.marker.evaluate(
                {"extra": "", "platform_system": "Linux", "sys_platform": "linux"}
            )
        except (ValueError, RecursionError):  # no requirement, or a condition that compares what cannot be compared
            continue
        exact = [part.version for part in requirement.specifier if part.operator == "==" and "*" not in part.version]
        if len(exact) == 1 and applies and max(len(exact[0]), len(requirement.name)) < _WORD:
            found[re.sub(r"[-_.]+", "-", requirement.name).lower()] = exact[0]
    return found


def _files(url: str, distribution: str, index: str) -> Iterator[tuple[str, str | None, bool]]:
    from lockllm.resolve.remote import index_http

    page = index_http.get(url, _ACCEPT, _LONGEST, index)
    for number, (name, link, has, yanked) in enumerate(_listed(page) if "json" in page.kind else _linked(page)):
        if number == _FILES:
            what = f"the package index lists more than {_FILES:,} files of {distribution}"
            raise ResolveError(what, where=shown(url), fix="give an exact version in llm.toml")
        try:
            whole = urllib.parse.urljoin(page.url, link.partition("#")[0])
        except ValueError:
            continue
        yield name or urllib.parse.unquote(whole.rsplit("/", 1)[-1]), f"{whole}.metadata" if has else None, yanked


def _listed(page: Page) -> Iterator[tuple[str, str, bool, bool]]:
    """Name, address, whether metadata lies beside it, whether it is yanked, of each file of a JSON page (PEP 691)."""
    try:
        data, twice = bounded.parse_object(page.body)
    except bounded.Malformed as error:
        raise _no_list(str(error), page.url) from error
    listed = data.get("files")
    if twice or not isinstance(listed, list):
        raise _no_list(f"key {twice[0][:80]!r} appears twice" if twice else "it holds no files", page.url)
    for each in listed:
        if isinstance(each, dict) and isinstance(each.get("filename"), str) and isinstance(each.get("url"), str):
            has = each.get("core-metadata") or each.get("dist-info-metadata")
            yield each["filename"], each["url"], bool(has), bool(each.get("yanked"))


def _linked(page: Page) -> Iterator[tuple[str, str, bool, bool]]:
    """The same of an HTML page (PEP 503), as a browser reads its tags and comments, and never a letter twice."""
    text, at, left = page.body.decode("utf-8", "replace"), 0, _MARKS
    while opened := _OPENED.search(text, at):
        at, named = opened.end(), dict[str, str]()
        while opened[1] and left and (each := _ATTRIBUTE.match(text, at)):
            at, left = each.end(), left - 1
            if (name := each[1].lower()) in _TOLD:
                named.setdefault(name, each[2] or each[3] or each[4] or "")
        if not left:
            raise _no_list(f"it holds more than {_MARKS:,} tags", page.url)
        left -= 1
        href = named.get("href", "") if (opened[1] or "").lower() == "a" else ""
        if href and len(href) < _LINK:
            href = html.unescape(href)
            has = "data-core-metadata" in named or "data-dist-info-metadata" in named
            yield "", href, has, "data-yanked" in named


def _no_list(why: str, url: str) -> ResolveError:
    what = f"the package index answers no list of files: {why}"
    return ResolveError(what, where=shown(url), fix="try again, or give an exact version")


def _version_of(name: str, distribution: str) -> str | None:
    plain = re.escape(distribution).replace(r"\-", "[-_.]+").replace("_", "[-_.]+")
    if len(name) > _NAME:
        return None
    found = re.match(
        rf"{plain}-(?P<v>[^-]+?)(?:-[^-]+)*?(?:\.tar\.gz|\.zip|-[^-]+-[^-]+-[^-]+\.whl)\Z", name, re.IGNORECASE
    )
    return found.group("v") if found and len(found.group("v")) < _WORD else None


def _xdg(environ: Mapping[str, str]) -> list[str]:
    folders = environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
    return [os.path.join(folder, "pip", "pip.conf") for folder in folders if folder]
