"""`python -m tools.refresh vllm 0.34.0`: read a release, merge it into the data file, print what a person must decide."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lockllm.engines.kernel.release_data import ReleaseData
from tools.refresh import compare, packages, rules, snapshot, spans
from tools.refresh.decide import Engine, decisions, news
from tools.refresh.engines import ENGINES
from tools.refresh.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
"""This checkout."""


def main(words: Sequence[str] | None = None) -> int:
    """Exit 0: nothing to decide; 1: something is; with `--check` also where a file would be written."""
    asked = _parser().parse_intermixed_args(words)
    if asked.engine not in ENGINES:
        return compare.run(asked.engine, asked.release)
    engine = ENGINES[asked.engine]
    releases = [*asked.release, *(packages.newest_releases(engine.distribution, asked.newest) if asked.newest else ())]
    if not releases:
        raise SystemExit("name a release, a wheel or a folder of installed packages, or --newest N")
    return max([_refresh(engine, each, asked) for each in releases])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.refresh", description=__doc__)
    parser.add_argument("engine", choices=[*ENGINES, *compare.ENGINES])
    parser.add_argument(
        "release", nargs="*", help="a release on the package index, a wheel, a folder, a file of --help"
    )
    parser.add_argument("--newest", type=int, metavar="N", help="the N newest releases on the package index")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something would be written")
    parser.add_argument("--rules-read", action="store_true", help="every changed rule was read against this release")
    parser.add_argument("--into", type=Path, default=ROOT, metavar="FOLDER", help="the checkout that is written")
    parser.add_argument("--record", metavar="FILE", help="write what was read as JSON")
    return parser


def _refresh(engine: Engine, asked: str, options: argparse.Namespace) -> int:
    release, texts = packages.open_release(engine.distribution, asked)
    told = engine.read(release, texts)
    if options.record:
        with open(options.record, "w") as file:
            file.write(record(told))
    place = snapshot.place(options.into, engine.room)
    before = msgspec.json.decode(place.read_bytes(), type=ReleaseData)
    after = snapshot.merge(before, told)
    files = {place: snapshot.text(after)}
    if engine.room == "vllm":
        variables = spans.place(options.into)
        files[variables] = spans.text(spans.merge(spans.load(variables), after.releases, told))
    table = rules.place(options.into, engine.room)
    held = rules.load(table)
    changed = [] if options.rules_read else list(rules.changed_sources(held.sources, release, texts))
    if not changed:
        now = rules.accept(held, release, texts) if options.rules_read else rules.extend(held, release)
        files[table] = rules.text(now)
    moved = [path for path, text in files.items() if path.read_text() != text]
    for path in moved if not options.check else ():
        path.write_text(files[path])
    print(f"{engine.distribution} {release}")
    for line in news(before, after, told):
        print(f"  {line}")
    for path in moved:
        print(f"  {'would write' if options.check else 'wrote'} {path.relative_to(options.into)}")
    waiting = list(decisions(engine, before, after, told))
    waiting += [f"rule       {rule}: {name} {what}" for rule, name, what in changed]
    print("to decide:" if waiting else "nothing to decide")
    for line in waiting:
        print(f"  {line}")
    return int(bool(waiting) or (options.check and bool(moved)))


def record(told: Snapshot) -> str:
    """A release as JSON, for a test that has no wheel."""
    plain: Mapping[str, object] = msgspec.to_builtins(told, enc_hook=sorted)
    ordered = {name: sorted(held) if isinstance(held, set) else held for name, held in plain.items()}
    return json.dumps(ordered, indent=0, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
