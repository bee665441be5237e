"""JSON and YAML with the line of every value, so that evidence in an object can be pointed at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from wheeltapper.inputs.model import Document, Line

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: ten times faster."""


@dataclass(frozen=True, slots=True)
class Item:
    """A value of an object."""

    node: Any
    document: Document

    def get(self, *path: str) -> Item | None:
        """Return the value under the keys *path*, or None when there is none."""
        node = self.node
        for key in path:
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            node = next((value for name, value in pairs if name.value == key), None)
        return Item(node, self.document) if node is not None else None

    def text(self, *path: str) -> str:
        """Return the scalar under *path*, empty when there is none."""
        item = self.get(*path)
        return (
            str(item.node.value)
            if item and isinstance(item.node, yaml.ScalarNode) and item.node.value != "null"
            else ""
        )

    def each(self, *path: str) -> Iterator[Item]:
        """Yield the elements of the list under *path*."""
        item = self.get(*path)
        if item and isinstance(item.node, yaml.SequenceNode):
            yield from (Item(node, self.document) for node in item.node.value)

    @property
    def line(self) -> Line:
        """The line on which the value begins."""
        number: int = self.node.start_mark.line
        return self.document.lines[min(number, len(self.document.lines) - 1)]


def items(document: Document) -> list[Item]:
    """Return the documents in a JSON or YAML text, those of lists one by one; none when it is neither."""
    # JSON may be indented with tabs, which YAML does not allow; inside its strings a tab is always escaped.
    text = document.data.decode("utf-8", "replace").replace("\t", " ")
    found = []
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            root = Item(node, document)
            members = list(root.each("items"))
            found += members or [root]
    except (yaml.YAMLError, RecursionError):
        return []
    return found
