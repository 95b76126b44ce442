"""Config files in YAML as the engines read them: PyYAML's safe loader itself, within bounds.

vLLM, SGLang, TensorRT-LLM and llama-cpp-python all call `yaml.safe_load`. What it gives is taken as it is, but for
dates, which become their text, as every option takes them.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any

import msgspec

_DEEPEST = 40
_LONGEST = 1 << 20
_MOST_ALIASES = 100
_MOST_VALUES = 100_000


class YamlError(ValueError):
    """A text that PyYAML refuses, or one beyond the bounds."""


class Yaml(msgspec.Struct, frozen=True):
    """The value of a text, and what it says twice."""

    value: Any
    notes: tuple[str, ...] = ()


def read(text: str) -> Yaml:
    """The value that a YAML text holds. YamlError where PyYAML gives none."""
    import yaml

    if len(text) > _LONGEST:
        raise YamlError("it is too long")
    loader: Any = None
    try:
        loader = _loader()(text)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        raise YamlError(_why(error)) from error
    except yaml.reader.ReaderError as error:
        raise YamlError(f"it holds U+{int(error.character):04X}, which is no character of YAML") from error
    except (yaml.YAMLError, RecursionError, OverflowError, TypeError, AttributeError) as error:
        raise YamlError("PyYAML cannot read it") from error
    except ValueError as error:
        raise YamlError(str(error) if isinstance(error, YamlError) else "it holds a value that cannot be") from error
    finally:
        if loader is not None:
            loader.dispose()
    notes = (f"line {line}: {key} stands there again, and the last one counts" for line, key in sorted(loader.twice))
    return Yaml(_plain(value, _Budget(), 0), tuple(notes))


class _Budget:
    """How many values are left: aliases make one text into as many as one likes."""

    def __init__(self) -> None:
        self.left = _MOST_VALUES

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise YamlError("its aliases make too many values")


def _plain(value: Any, budget: _Budget, depth: int) -> Any:
    """The value as JSON could hold it."""
    budget.spend(1)
    if depth > _DEEPEST:
        raise YamlError("it is nested too deeply")
    if isinstance(value, dict):
        return {_key(key): _plain(inner, budget, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, budget, depth + 1) for each in value]
    if isinstance(value, (dt.date, dt.datetime)):
        return str(value)
    if isinstance(value, (bytes, set)):
        raise YamlError(f"it holds a {'!!binary' if isinstance(value, bytes) else '!!set'}, which no option takes")
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def _why(error: Any) -> str:
    """A refusal of PyYAML in one line."""
    if error.context == "expected a single document in the stream":
        return "it holds several documents"
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}{error.problem or error.context or 'it is no YAML'}"


@lru_cache(maxsize=1)
def _loader() -> Any:
    """PyYAML's safe loader with bounds. It is made here: importing PyYAML costs what most runs need not pay."""
    import yaml

    class Bounded(yaml.SafeLoader):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.depth = 0
            self.aliases = 0
            self.twice: list[tuple[int, str]] = []

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                self.aliases += 1
                if self.aliases > _MOST_ALIASES:
                    raise YamlError(f"it holds more than {_MOST_ALIASES} aliases")
            self.depth += 1
            if self.depth > _DEEPEST:
                raise YamlError("it is nested too deeply")
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            held: set[tuple[str, str]] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                    continue
                if (key.tag, key.value) in held:
                    self.twice.append((key.start_mark.line + 1, key.value[:80]))
                held.add((key.tag, key.value))
            return node

        def flatten_mapping(self, node: Any) -> None:
            super().flatten_mapping(node)
            if len(node.value) > _MOST_VALUES:
                raise YamlError("its aliases make too many values")

    return Bounded
