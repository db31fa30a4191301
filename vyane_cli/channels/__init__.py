"""Channel adapters: each translates between conversations and vyane's messages and events.

The module `adapter` of a channel's folder is the adapter itself.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import cast

from vyane_cli.channels.port import Adapter

NAMES = ("file", "discord")


class _Adapters(Mapping[str, Adapter]):
    """The adapters by channel name; each module is imported when it is looked up."""

    def __getitem__(self, name: str) -> Adapter:
        if name not in NAMES:
            raise KeyError(name)
        return cast("Adapter", importlib.import_module(f"vyane_cli.channels.{name}.adapter"))

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __contains__(self, name: object) -> bool:
        return name in NAMES


ADAPTERS: Mapping[str, Adapter] = _Adapters()
