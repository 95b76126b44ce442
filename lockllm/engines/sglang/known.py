"""What SGLang's rules look at: facts that were given, facts of checkpoint and host, installed packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockllm.engines import Context, Given
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import ABSENT, By, Raw, Reading
from lockllm.facts.registry import seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey


class Known:
    """What the rules look at: facts given, facts of checkpoint and host."""

    def __init__(self, given: Given | None, context: Context) -> None:
        self.version = context.version or ""
        self.context = context
        self.auto = given.auto if given else frozenset()
        self.given: dict[Path, Any] = {
            reading.fact.path: reading.value for reading in (given.readings if given else ())
        }
        self.paths = frozenset(each.fact.path for each in given.paths) if given else frozenset()

    def get(self, key: str) -> Any:
        """The value of a fact: as given, else of the checkpoint, else of the host; None where it is not known."""
        path = parse(key)
        for held in (self.given, self.context.checkpoint, self.context.host):
            value = held.get(path)
            if value is not None and value is not ABSENT and not isinstance(value, Raw):
                return value
        return None

    def has(self, key: str) -> bool:
        """Whether the command says something on a fact."""
        path = parse(key)
        return path in self.given or path in self.paths

    def rule(self, key: FactKey | Path, value: Any, why: str = "") -> Reading:
        """What a rule of the release makes of a fact."""
        return seen(key, value, f"sglang {self.version}: {why}" if why else f"sglang {self.version}", By.RULE)

    def default(self, key: FactKey | Path, value: Any) -> Reading:
        """A plain default of the release."""
        return seen(key, value, f"default of sglang {self.version}", By.DEFAULT)
