"""Console scripts: the few lines by which an installer starts a package, and whether they are what it wrote."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lockllm.observe.python import distributions
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.safe import files

_MOST = 1 << 20
_PLAIN = (
    re.compile(r"#.*|'''exec' .*|' '''"),  # the first lines, also those for a long path
    re.compile(r"import (re|sys)"),
    re.compile(r"from (?P<module>[A-Za-z_][\w.]*) import (?P<name>[A-Za-z_]\w*)"),
    re.compile(r"if __name__ == ['\"]__main__['\"]:"),
    re.compile(
        r"sys\.argv\[0\] = re\.sub\(r?(['\"])\(-script\\?\.pyw\??\|\\?\.exe\)\?\$\1, (''|\"\"), sys\.argv\[0\]\)"
    ),
    re.compile(r"sys\.argv\[0\] = sys\.argv\[0\]\.removesuffix\(['\"]\.exe['\"]\)"),
    re.compile(r"(if|elif) sys\.argv\[0\]\.endswith\(['\"](-script\.pyw|\.exe)['\"]\):"),
    re.compile(r"sys\.argv\[0\] = sys\.argv\[0\]\[:-(11|4)\]"),
    re.compile(r"sys\.exit\((?P<called>[A-Za-z_]\w*)\(\)\)"),
)
"""Each line that a script may hold which an installer wrote for an entry point. Sources: distlib 0.3 `SCRIPT_TEMPLATE` and pip's
own form of it, installer 0.7, uv 0.4 to 0.9."""


def entry_point(raw: bytes) -> str | None:
    """The `module:function` that a plain script of an installer calls; None for any other script."""
    if len(raw) > 4096:
        return None
    given: list[dict[str, str]] = []
    for line in raw.decode("utf-8", "replace").splitlines():
        text = line.strip()
        plain = next((match for each in _PLAIN if (match := each.fullmatch(text))), None)
        if text and plain is None:
            return None
        groups = {key: value for key, value in plain.groupdict().items() if value} if plain is not None else {}
        given += [groups] if groups else []
    if [set(each) for each in given] != [{"module", "name"}, {"called"}] or given[0]["name"] != given[1]["called"]:
        return None
    return f"{given[0]['module']}:{given[0]['name']}"


def edited(distribution: Distribution) -> tuple[str, ...]:
    """The scripts of a distribution that differ from RECORD and call something else than its entry points say.

    An environment that was moved (conda-pack, venv-pack, a copied image) has other first lines than RECORD: a script that
    calls what `entry_points.txt` declares is no edit.
    """
    declared = {
        name: "".join(target.partition("[")[0].split())
        for group, name, target in distributions.entry_points(distribution)
        if group == "console_scripts"
    }
    differ = []
    for name, digest in distributions.recorded_scripts(distribution):
        path = Path(os.path.normpath(distribution.folder.parent / name))
        try:
            raw = files.start(path, _MOST)
        except OSError:
            continue  # a script that is not there starts nothing
        if not distributions.holds(path, digest) and entry_point(raw) != declared.get(path.name, ""):
            differ.append(name)
    return tuple(sorted(differ))
