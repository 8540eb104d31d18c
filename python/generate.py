#!/usr/bin/env python3
"""Writes weftline/documents.py, dataclasses of the JSON documents of `weft`, from their schemas in docs/schemas.

With --check it writes nothing, and fails if the file is not what it would write. With --to FILE it writes there.
"""

from __future__ import annotations

import argparse
import json
import keyword
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE.parent / "docs" / "schemas"
TARGET = HERE / "weftline" / "documents.py"

HEAD = '''"""The JSON documents of `weft` as dataclasses. Written from docs/schemas by generate.py; not to be changed by hand.

`read` takes any of them; `build` makes one of a class. What a later version of weft adds to a document is left out.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def read(source: str | PathLike[str] | Mapping[str, Any]) -> Any:
    """Return a document: a file, its text, or what `json` has made of it. Its `schema` says which class it is of."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        source = json.loads(source)
    elif not isinstance(source, Mapping):
        source = json.loads(Path(source).read_text(encoding="utf-8"))
    if not isinstance(source, Mapping) or source.get("schema") not in DOCUMENTS:
        named = source.get("schema") if isinstance(source, Mapping) else None
        raise ValueError(f"{named!r} is no schema of a document that this version knows")
    return build(DOCUMENTS[source["schema"]], source)


def build(kind: type[T], value: Mapping[str, Any]) -> T:
    """Return an object of a class of this module, made of what `json` has read."""
    made: T = _build(kind, value, kind.__name__)
    return made


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, vars(sys.modules[__name__]))


def _build(kind: Any, value: Any, place: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, value, place)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        _expect(isinstance(value, list), place, "a list", value)
        return [_build(inner[0], item, f"{place}[{at}]") for at, item in enumerate(value)]
    if origin is dict:
        _expect(isinstance(value, Mapping), place, "an object", value)
        return {name: _build(inner[1], item, f"{place}.{name}") for name, item in value.items()}
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in inner:
            return None
        return _build(next(one for one in inner if one is not type(None)), value, place)
    if kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), place, "a number", value)
        return float(value)
    if kind in (int, str, bool):
        _expect(type(value) is kind, place, f"of type {kind.__name__}", value)
    return value


def _object(kind: Any, value: Any, place: str) -> Any:
    _expect(isinstance(value, Mapping), place, "an object", value)
    made, known = {}, _types(kind)
    for one in fields(kind):
        key = one.metadata.get("key", one.name)
        if key in value:
            made[one.name] = _build(known[one.name], value[key], f"{place}.{key}")
        else:
            _expect(not one.metadata.get("required", True), f"{place}.{key}", "there", None)
    return kind(**made)


def _expect(holds: bool, place: str, what: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{place} is not {what}: {value!r}")
'''


def camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in text.replace("-", "_").split("_"))


def singular(name: str) -> str:
    """The name of a class for what a list or a map has many of."""
    if name.endswith("ies"):
        return name[:-3] + "y"
    if name.endswith("sses"):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name + "Item"


class Writer:
    """Collects the classes of all schemas; equal definitions of one name are one class."""

    def __init__(self, schemas: dict[str, dict[str, Any]]) -> None:
        self.schemas = schemas
        self.shapes: dict[str, set[str]] = {}
        for schema in schemas.values():
            for name, definition in schema.get("$defs", {}).items():
                shape = json.dumps(self.expanded(definition, schema), sort_keys=True)
                self.shapes.setdefault(name, set()).add(shape)
        self.roots = {self.root(schema) for schema in schemas.values()}
        self.classes: dict[str, str] = {}
        self.known: dict[str, str] = {}

    def expanded(self, node: Any, schema: dict[str, Any], within: tuple[str, ...] = ()) -> Any:
        """The definition with what it refers to in place and without descriptions, so that two of them can be compared."""
        if isinstance(node, dict):
            if "$ref" in node:
                reference = node["$ref"]
                if reference in within:
                    return reference
                return self.expanded(self.target(reference, schema), schema, (*within, reference))
            named = isinstance(node.get("description"), dict)
            kept = {key: value for key, value in node.items() if named or key != "description"}
            return {key: self.expanded(value, schema, within) for key, value in kept.items()}
        return [self.expanded(item, schema, within) for item in node] if isinstance(node, list) else node

    @staticmethod
    def target(reference: str, schema: dict[str, Any]) -> dict[str, Any]:
        node = schema
        for key in reference.removeprefix("#/").split("/"):
            node = node[key]
        return node

    @staticmethod
    def root(schema: dict[str, Any]) -> str:
        return camel(schema["title"].removeprefix("weft-").split("/")[0])

    def defined(self, name: str, schema: dict[str, Any]) -> str:
        """The class of a definition, named for its document too where others mean something else by the name."""
        alone = camel(name)
        if len(self.shapes[name]) == 1 and alone not in self.roots:
            return alone
        return self.root(schema) + alone

    def kind(self, node: dict[str, Any] | bool, name: str, schema: dict[str, Any]) -> str:
        """The type of a value; `name` is that of a class without a definition."""
        if isinstance(node, bool):
            return "Any"
        if "$ref" in node:
            where, last = node["$ref"].rsplit("/", 1)
            named = self.defined(last, schema) if where == "#/$defs" else self.root(schema) + camel(last)
            return self.kind(self.target(node["$ref"], schema), named, schema)
        if "anyOf" in node:
            known = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
            none = " | None" if len(known) < len(node["anyOf"]) else ""
            return self.kind(known[0], name, schema) + none if len(known) == 1 else "Any"
        if "const" in node:
            return f"Literal[{node['const']!r}]"
        if "enum" in node:
            known = [value for value in node["enum"] if value is not None]
            none = " | None" if None in node["enum"] else ""
            return f"Literal[{', '.join(map(repr, known))}]{none}"
        kinds = node.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        plain = [kind for kind in kinds if kind != "null"]
        if len(plain) != 1:
            return "Any"
        none = " | None" if "null" in kinds else ""
        simple = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}
        if plain[0] in simple:
            return simple[plain[0]] + none
        if plain[0] == "array":
            item = singular(name)
            return f"list[{self.kind(node.get('items', {}), item, schema)}]{none}"
        if "properties" in node:
            return self.add(name, node, schema) + none
        values = node.get("additionalProperties")
        item = singular(name)
        inner = self.kind(values, item, schema) if isinstance(values, dict) else "Any"
        return f"dict[str, {inner}]{none}"

    def add(self, name: str, node: dict[str, Any], schema: dict[str, Any]) -> str:
        """Adds a class and returns its name, which is another one if there is another class of this name."""
        shape = json.dumps(self.expanded(node, schema), sort_keys=True)
        if self.known.setdefault(name, shape) != shape:
            return self.add(self.root(schema) + name, node, schema)
        if name in self.classes:
            return name
        self.classes[name] = ""
        lines = ["@dataclass(frozen=True, kw_only=True)", f"class {name}:"]
        lines.append(f'    """{text(node.get("description", schema["title"]))}"""')
        for key, value in node["properties"].items():
            attribute = key.replace("-", "_")
            attribute += "_" if keyword.iskeyword(attribute) else ""
            kind = self.kind(value, name + camel(key), schema)
            metadata = {"key": key} if attribute != key else {}
            options = []
            if key not in node.get("required", []):
                kind = kind if kind == "Any" or kind.endswith("| None") else f"{kind} | None"
                options.append("default=None")
                metadata["required"] = False
            if metadata:
                options.append(f"metadata={metadata!r}")
            lines.append(f"    {attribute}: {kind}" + (f" = field({', '.join(options)})" if options else ""))
            described = value.get("description")
            if described:
                lines.append(f'    """{text(described)}"""')
        self.classes[name] = "\n".join(lines)
        return name

    def write(self) -> str:
        for schema in self.schemas.values():
            self.add(self.root(schema), schema, schema)
        names = [f"    {schema['title']!r}: {self.root(schema)}," for schema in self.schemas.values()]
        known = "DOCUMENTS: dict[str, type[Any]] = {\n" + "\n".join(names) + "\n}\n"
        known += '"""The class of each document, by its `schema`."""\n'
        return "\n\n\n".join([HEAD.rstrip(), *self.classes.values(), known])


def text(description: str) -> str:
    return description.replace("\\", "\\\\").replace('"""', "'''").rstrip('"')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--to", type=Path, default=TARGET, help="the file")
    options = parser.parse_args()
    schemas = {path.name: json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.schema.json"))}
    written = Writer(schemas).write()
    if options.check:
        if options.to.read_text() == written:
            return 0
        print(f"{options.to} is not what docs/schemas say: run python/generate.py", file=sys.stderr)
        return 1
    options.to.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
