"""Source that is read and never run: what its names and expressions are, and how far its functions are followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lockllm.engines.kernel.argparse import Take
from lockllm.engines.kernel.values import Kind
from lockllm.engines.source.constants import literals
from lockllm.engines.source.evaluate import Scope, TooMuch
from lockllm.engines.source.modules import UNKNOWN, Call, Class, Foreign, Function
from lockllm.engines.source.parsers import Follower, Parser, arity

KINDS = {"loads": Kind.JSON}


def package(files: Mapping[str, str] | str) -> Follower:
    texts = {"p/m.py": files} if isinstance(files, str) else files
    return Follower("p", {"p/__init__.py": "", **texts})


def value(files: Mapping[str, str] | str, name: str = "X", module: str = "p.m") -> Any:
    follower = package(files)
    found = follower.module(module)
    assert found is not None
    return follower.top(found, name)


EXPRESSIONS: list[tuple[str, Any]] = [
    ("1024 * 1024", 1048576),
    ("2 ** 10 - 1", 1023),
    ("-4", -4),
    ("not 0", True),
    ("['a', *('b', 'c')] + ['d']", ["a", "b", "c", "d"]),
    ("{**{'a': 1}, 'b': 2}", {"a": 1, "b": 2}),
    ("{'a': {'b': 3}}['a']['b']", 3),
    ("'--' + 'a_b'.replace('_', '-')", "--a-b"),
    ("f'--{1}-x'", "--1-x"),
    ("1 if 'a' in ['a'] else 2", 1),
    ("1 if f() else 1", 1),
    ("'' or 'b'", "b"),
    ("list({'a': 1}.keys())", ["a"]),
    ("sorted({'b', 'a'})", ["a", "b"]),
    ("int", Foreign("int")),
    ("1 if f() else 2", UNKNOWN),
    ("f'{1:03d}'", UNKNOWN),
    ("f'{1!r}'", UNKNOWN),
    ("f().list(['a'])", Call(Foreign("?.list"), (["a"],))),
    ("f'{f()}'", UNKNOWN),
    ("[1][7]", UNKNOWN),
    ("1 / 0", UNKNOWN),
    ("nobody", UNKNOWN),
    ("'a' * 10 ** 9", UNKNOWN),
    ("9 ** 9 ** 9", UNKNOWN),
    ("'%0999999999d' % 1", UNKNOWN),
    ("[x for x in y]", UNKNOWN),
    ("(" * 40 + "1" + ")" * 40, 1),
    ("-" * 300 + "1", UNKNOWN),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS, ids=[text[:30] for text, _ in EXPRESSIONS])
def test_an_expression_is_worked_out_as_far_as_it_is_constant(text: str, expected: Any) -> None:
    found = value(f"X = {text}\n")
    assert (found, type(found)) == (expected, type(expected))


NAMES: list[tuple[str, dict[str, str], Any]] = [
    ("the last binding holds", {"p/m.py": "X = 1\nX = 2\n"}, 2),
    ("one that depends on a run is not known", {"p/m.py": "X = 1\nif f():\n    X = 2\n"}, UNKNOWN),
    ("one that any run gives is", {"p/m.py": "if f():\n    X = 2\nelse:\n    X = 2\n"}, 2),
    ("what grows is not known", {"p/m.py": "X = [1]\nX += [2]\n"}, UNKNOWN),
    ("what is added to is not known", {"p/m.py": "X = ['a']\nX.append('b')\n"}, UNKNOWN),
    ("a checker's import is no run's", {"p/m.py": "if TYPE_CHECKING:\n    from q import X\nelse:\n    X = 3\n"}, 3),
    ("a checker's name is a type", {"p/m.py": "if TYPE_CHECKING:\n    from q import X\n"}, Foreign("X")),
    ("another library's", {"p/m.py": "import json as j\nX = j.loads\n"}, Foreign("json.loads")),
    ("an import that an except stands in for", {"p/m.py": "try:\n    from q import X\nexcept Exception:\n    X = 1\n"}, Foreign("q.X")),
    ("from a module beside", {"p/m.py": "from .n import X\n", "p/n.py": "X = 4\n"}, 4),
    ("from above", {"p/a/m.py": "from ..n import X\n", "p/a/__init__.py": "", "p/n.py": "X = 5\n"}, 5),
    ("by a star", {"p/m.py": "from p.n import *\n", "p/n.py": "X = 6\n"}, 6),
    ("by an attribute of a module", {"p/m.py": "import p.n\nX = p.n.Y\n", "p/n.py": "Y = 7\n"}, 7),
    ("what a loop binds is not known", {"p/m.py": "X = 1\nfor X in f():\n    pass\n"}, UNKNOWN),
    ("nor what is unpacked", {"p/m.py": "X = 1\nX, Y = f()\n"}, UNKNOWN),
    ("nor what a part is put into", {"p/m.py": "X = {}\nX['a'] = 1\n"}, UNKNOWN),
    ("nor what an except may bind", {"p/m.py": "X = 1\ntry:\n    f()\nexcept E:\n    X = 2\n"}, UNKNOWN),
    ("a folder goes before a file", {"p/m.py": "from p.n import X\n", "p/n.py": "X = 1\n", "p/n/__init__.py": "X = 2\n"}, 2),
    ("the last of a class's body holds", {"p/m.py": "class A:\n    y = 1\n    y = 2\nX = A.y\n"}, 2),
    ("by an attribute of a class", {"p/m.py": "class A:\n    y: int = 8\nclass B(A):\n    pass\nX = B.y\n"}, 8),
    ("by a name of the class's own body", {"p/m.py": "class A:\n    z = 9\n    y: int = z\nX = A.y\n"}, 9),
    ("a loop of imports", {"p/m.py": "from p.n import X\n", "p/n.py": "from p.m import X\n"}, UNKNOWN),
    ("a star that loops", {"p/m.py": "from p.n import *\n", "p/n.py": "from p.m import *\n"}, UNKNOWN),
    ("a class that is its own base", {"p/m.py": "class A(A):\n    y = 1\nX = A.y\n"}, 1),
    ("no such module", {"p/m.py": "from p.gone import X\n"}, UNKNOWN),
    ("a module that does not parse", {"p/m.py": "from p.n import X\n", "p/n.py": "X = (\n"}, UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_a_name_is_what_a_run_would_bind(files: dict[str, str], expected: Any) -> None:
    found = value(files, module="p.a.m" if "p/a/m.py" in files else "p.m")
    assert (found, type(found)) == (expected, type(expected))


def test_literals_inside_literals_are_values_too() -> None:
    text = "from typing import Literal\nA = Literal['a', 'b']\nX = Literal[A, 'c', 1]\n"
    assert literals(value(text)) == ("a", "b", "c", 1)
    assert literals(value("from q import Literal, A\nX = Literal[A]\n")) is None


def filled(body: str, more: str = "") -> Parser:
    follower = package(f"{more}\ndef make(parser):\n" + "".join(f"    {line}\n" for line in body.split("\n")))
    module = follower.module("p.m")
    assert module is not None
    made = follower.top(module, "make")
    assert isinstance(made, Function)
    parser = Parser()
    follower.follow(made, (parser,))
    return parser


BODIES: list[tuple[str, list[str]]] = [
    ("parser.add_argument('--a', '-x')", ["--a", "-x"]),
    ("g = parser.add_argument_group('t')\ng.add_argument('--a')", ["--a"]),
    ("for n in ['a', 'b']:\n    parser.add_argument('--' + n)", ["--a", "--b"]),
    ("for n, k in {'a': 1}.items():\n    parser.add_argument(f'--{n}')", ["--a"]),
    ("if 1 in [2]:\n    parser.add_argument('--a')\nelse:\n    parser.add_argument('--b')", ["--b"]),
    ("if f():\n    parser.add_argument('--a')\nelse:\n    parser.add_argument('--b')", ["--a", "--b"]),
    ("if f():\n    return parser\nparser.add_argument('--a')", ["--a"]),
    ("try:\n    parser.add_argument('--a')\nexcept E:\n    pass", ["--a"]),
    ("with x():\n    parser.add_argument('--a')", ["--a"]),
    ("parser.add_argument('model')", []),
    ("for n in ['a', 'b']:\n    if n == 'a':\n        continue\n    parser.add_argument('--' + n)", ["--b"]),
    ("for n in ['a', 'b']:\n    break\nelse:\n    parser.add_argument('--a')\nparser.add_argument('--c')", ["--c"]),
    ("for n in []:\n    pass\nelse:\n    parser.add_argument('--a')", ["--a"]),
    ("raise E\nparser.add_argument('--a')", []),
    ("with parser.add_argument_group() as g:\n    g.add_argument('--a')", ["--a"]),
    ("parser.add_subparsers().add_parser('other').add_argument('--a')", []),
]


@pytest.mark.parametrize(("body", "flags"), BODIES, ids=[body[:40] for body, _ in BODIES])
def test_statements_are_followed(body: str, flags: list[str]) -> None:
    parser = filled(body)
    assert [flag for added in parser.added for flag in added.flags] == flags
    assert parser.open == []


@pytest.mark.parametrize(
    "body",
    [
        "for n in names():\n    parser.add_argument(n)", "while True:\n    parser.add_argument(f())", "fill(parser)",
        "parser.add_argument(*flags())", "parser.add_argument(PREFIX + 'x')", "[parser.add_argument(n) for n in f()]",
        "register(lambda: parser.add_argument('--x'))", "self.parts = [p.add(parser) for p in f()]",
        "def inner():\n    parser.add_argument('--x')\ninner()", "{}[[]] = parser.add_argument('--x')",
        "match parser:\n    case _:\n        parser.add_argument('--x')", "add = parser.add_argument\nadd('--x')",
        "fill([parser])", "fill(all={'p': parser})", "self.parser = parser\nself.fill()", "parser.set_defaults(x=1)",
        "parser.add_argument('--a\\n::error::b')", "parser.add_argument('--' + 'a' * 1)",
    ],
)  # fmt: skip
def test_what_cannot_be_followed_leaves_the_parser_open(body: str) -> None:
    assert filled(body).open != []


def test_a_class_hands_its_options_on_to_its_base() -> None:
    text = (
        "class A:\n    @classmethod\n    def more(cls, known):\n        known['x']['nargs'] = '+'\n        return known\n"
        "class B(A):\n    @classmethod\n    def more(cls, known):\n        known = super().more(known)\n"
        "        del known['y']['type']\n        return known\n"
    )
    body = "for n, k in B.more({'x': {}, 'y': {'type': int}}).items():\n    parser.add_argument('--' + n, **k)"
    assert [(added.flags, added.named) for added in filled(body, text).added] == [
        (("--x",), {"nargs": "+"}), (("--y",), {}),
    ]  # fmt: skip


ARITIES: list[tuple[dict[str, Any], tuple[Take, Kind, Any]]] = [
    ({"action": "store_true"}, (Take.SWITCH, Kind.TEXT, True)),
    ({"action": "store_false"}, (Take.SWITCH, Kind.TEXT, False)),
    ({"action": "store_const", "const": 3}, (Take.SWITCH, Kind.TEXT, 3)),
    ({"action": "append", "type": Foreign("int")}, (Take.APPEND, Kind.INT, True)),
    ({"action": Foreign("argparse.BooleanOptionalAction")}, (Take.BOTH, Kind.TEXT, True)),
    ({"nargs": "?", "const": "x"}, (Take.MAYBE, Kind.TEXT, "x")),
    ({"nargs": "*", "type": Foreign("float")}, (Take.ANY, Kind.NUMBER, ())),
    ({"nargs": 2}, (Take.MANY, Kind.TEXT, True)),
    ({"type": Call(Foreign("optional"), (Foreign("json.loads"),))}, (Take.ONE, Kind.JSON, True)),
]


@pytest.mark.parametrize(("named", "expected"), ARITIES)
def test_how_many_arguments_an_option_takes(named: dict[str, Any], expected: tuple[Take, Kind, Any]) -> None:
    told = arity(package(""), named, KINDS)
    assert (told.take, told.kind, told.bare, told.sure) == (*expected, True)


@pytest.mark.parametrize("named", [{"nargs": UNKNOWN}, {"action": UNKNOWN}, {"type": UNKNOWN}, {"**": UNKNOWN}])
def test_what_is_not_known_of_an_option_is_said(named: dict[str, Any]) -> None:
    assert not arity(package(""), named, KINDS).sure


def test_an_action_of_its_own_says_how_many_it_takes() -> None:
    follower = package("class A(Action):\n    def __init__(self, flags, dest, nargs=0, **more):\n        pass\n")
    module = follower.module("p.m")
    assert module is not None
    action = follower.top(module, "A")
    assert isinstance(action, Class)
    assert arity(follower, {"action": action}, KINDS).take is Take.SWITCH
    assert arity(follower, {"action": action, "nargs": None}, KINDS).take is Take.ONE


def test_a_decorator_may_add_options_of_its_own() -> None:
    assert filled("more(parser)", "@cache\ndef more(p):\n    p.add_argument('--x')\n").open == []
    assert filled("more(parser)", "@lib.wrap(1)\ndef more(p):\n    p.add_argument('--x')\n").open != []


ENDLESS = {
    "what is compared": "x = y = (1,)\nfor a in R:\n    x, y = (x, x), (y, y)\nz = x == y",
    "what is looked for": "x = [1]\nfor a in R:\n    x = [x, x]\nz = x in [x[0]]",
    "what is hashed": "x = (1,)\nfor a in R:\n    x = (x, x)\nd = {x: {x}}\nd[x] = 1",
    "what is hashed in its depth": "x = ()\nfor a in R:\n  for b in R:\n    for c in R:\n      x = (x,)\n    d = {x: 1}",
    "what holds itself": "x, y = [1], [1]\nx.append(x)\ny.append(y)\nz = x == y or sorted(x)",
    "a type": "x = Literal['a']\nfor a in R:\n    x = Literal[x, x]\nz = get_args(x)",
    "bytes": "x = b'aa'\nfor a in R:\n    x = x + x",
    "text that is replaced": "x = 'aa'\nfor a in R[:9]:\n    x = x + x\nfor a in R:\n    x = x.replace('a', 'a' + x)",
    "text that is formatted": "x = 'aa'\nfor a in R:\n    x = f'{x}{x}{x}'",
    "a name": "import q\nx = q\nfor a in R:\n  for b in R:\n    x = x." + "a" * 5000,
    "loops that do nothing": "for a in R:\n  for b in R:\n    for c in R:\n      for d in R:\n        pass",
    "code that is not followed": "for a in R:\n  for b in R:\n    f = lambda: [" + "parser, " * 1000 + "]",
    "options": "for a in R:\n  for b in R:\n    for c in R:\n      parser.add_argument('--x')",
    "calls": "make(parser)\nmake(parser)\nmake(parser)",
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=list(ENDLESS))
def test_what_doubles_ends(body: str) -> None:
    try:
        assert len(filled(body, f"from typing import Literal, get_args\nR = [{'1, ' * 90}]\n").added) <= 5000
    except TooMuch:
        return


@pytest.mark.parametrize("files", [
    {f"p/s{at}.py": f"from p.s{at + 1} import *\n" * 2 for at in range(60)},
    {f"p/s{at}.py": "".join(f"from p.s{other} import *\n" for other in range(30)) for at in range(30)},
])  # fmt: skip
def test_stars_that_meet_again_end(files: dict[str, str]) -> None:
    with pytest.raises(TooMuch):
        value({**files, "p/m.py": "from p.s0 import *\nX = gone\n"})


SLOW = {
    "statements": "a\n" * 200_000, "a list": "X = [" + "\n1," * 200_000 + "]", "a long name": "import p" + ".b" * 90_000,
    "a name on many lines": "import p" + "\\\n.b" * 6_000, "a formatted text": 'X = f"""' + "\n{a}" * 30_000 + '"""',
    "a text without end": 'X = "' + '\\"' * 4_000, "NUL": "X = 1\0", "a power": "X = 1" + "**1" * 3_000,
}  # fmt: skip


@pytest.mark.parametrize("text", SLOW.values(), ids=list(SLOW))
def test_a_text_that_python_parses_slowly_or_not_is_no_module(text: str) -> None:
    assert package(text).module("p.m") is None


def test_the_modules_of_a_package_have_a_bound_together() -> None:
    follower = package({f"p/s{at}.py": "a\n" * 30_000 for at in range(5)})
    assert [follower.module(f"p.s{at}") is None for at in range(5)] == [False, False, False, True, True]


def test_endless_work_ends() -> None:
    lines = "".join(f"{'    ' * at}for x{at} in [{'1, ' * 90}]:\n" for at in range(1, 6))
    follower = package(f"def make(parser):\n{lines}{'    ' * 6}y = 1\n")
    module = follower.module("p.m")
    assert module is not None
    made = follower.top(module, "make")
    with pytest.raises(TooMuch):
        follower.follow(made, (Parser(),))
    assert Scope(module=module).local == {}
