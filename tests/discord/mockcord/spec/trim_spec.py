"""Cut Discord's published OpenAPI document down to the operations that the mock serves.

    python trim_spec.py path/to/openapi.json openapi-subset.json COMMIT

Every kept operation and schema is copied unchanged; only whole paths, methods,
security schemes and schemas that nothing kept refers to are left out. `x-subset` records where
it came from.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

KEEP: dict[str, tuple[str, ...]] = {
    "/users/@me": ("get",),
    "/channels/{channel_id}": ("get", "patch"),
    "/channels/{channel_id}/threads": ("post",),
    "/channels/{channel_id}/threads/archived/public": ("get",),
    "/channels/{channel_id}/messages": ("get", "post"),
    "/channels/{channel_id}/messages/{message_id}": ("get", "patch"),
    "/channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/@me": ("put",),
    "/guilds/{guild_id}/threads/active": ("get",),
}
METHODS = {"get", "put", "post", "delete", "patch", "head", "options", "trace"}


def refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


def _kept(operation: Any) -> Any:
    if isinstance(operation, dict):
        return {k: v for k, v in operation.items() if k != "security"}
    return operation


def lines(doc: dict[str, Any]) -> str:
    """JSON with each path and each schema on a line of its own: a diff still says what changed."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    def block(value: dict[str, Any], depth: int) -> str:
        rows = [
            f"{json.dumps(k)}:{block(v, depth - 1) if depth else compact(v)}"
            for k, v in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n}"

    depth = {"paths": 0, "components": 1}
    top = [
        f"{json.dumps(k)}:{block(v, depth[k]) if k in depth else compact(v)}"
        for k, v in doc.items()
    ]
    return "{\n" + ",\n".join(top) + "\n}\n"


def trim(doc: dict[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for path, methods in KEEP.items():
        item = doc["paths"][path]
        paths[path] = {k: _kept(v) for k, v in item.items() if k not in METHODS or k in methods}
    parts: dict[str, dict[str, Any]] = {}
    todo = list(refs(paths))
    while todo:
        ref = todo.pop()
        _, _, section, name = ref.split("/", 3)
        if name in parts.setdefault(section, {}):
            continue
        parts[section][name] = doc["components"][section][name]
        todo.extend(refs(parts[section][name]))
    return {
        "openapi": doc["openapi"],
        "info": doc["info"],
        "servers": doc["servers"],
        "paths": paths,
        "components": {k: dict(sorted(v.items())) for k, v in sorted(parts.items())},
    }


def main(source: str, target: str, commit: str = "unknown") -> None:
    raw = pathlib.Path(source).read_bytes()
    doc = json.loads(raw)
    out = trim(doc)
    out["x-subset"] = {
        "source": "https://github.com/discord/discord-api-spec (specs/openapi.json)",
        "commit": commit,
        "sha256-of-source": hashlib.sha256(raw).hexdigest(),
        "licence": "MIT, Copyright 2023 Discord; see LICENSE beside this file",
    }
    pathlib.Path(target).write_text(lines(out))
    print(f"{len(out['paths'])} paths, {len(out['components']['schemas'])} schemas")


if __name__ == "__main__":
    main(*sys.argv[1:])
