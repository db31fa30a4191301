"""Checks requests and responses against Discord's own OpenAPI document.

The document is OpenAPI 3.1, so its schemas are plain JSON Schema 2020-12 and the
`jsonschema` package can use them as they are.  Two things the document cannot say are
settled by the caller: which branch of a union a channel's type selects (the publisher
states that every union means exactly one branch), and limits that only the written
documentation gives.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from referencing import Registry
from referencing.jsonschema import DRAFT202012

SPEC = pathlib.Path(__file__).resolve().parent / "spec" / "openapi-subset.json"
_URI = "urn:discord-openapi"
_TRUE, _FALSE = {"true", "True", "1"}, {"false", "False", "0"}


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a body or a query: where, Discord's short code, and why."""

    where: tuple[str, ...]
    code: str
    message: str


@dataclass
class Match:
    """A request path that the document knows, for one method."""

    template: str
    method: str
    operation: str
    params: dict[str, str]
    spec: dict[str, Any] = field(repr=False)
    path_spec: list[dict[str, Any]] = field(repr=False)


class Contract:
    def __init__(self, path: pathlib.Path | str = SPEC) -> None:
        self.doc: dict[str, Any] = json.loads(pathlib.Path(path).read_text())
        self._validators: dict[str, Draft202012Validator] = {}
        self._registry: Registry[Any] = Registry().with_resource(
            _URI, DRAFT202012.create_resource(self.doc)
        )
        routes = []
        for template, item in self.doc["paths"].items():
            names = re.findall(r"{(\w+)}", template)
            pattern = re.compile("^" + re.sub(r"{\w+}", "([^/]+)", template) + "$")
            routes.append((len(names), template, pattern, names, item))
        # fewest placeholders first, so that '/@me' wins over '/{user_id}'
        self._routes = sorted(routes, key=lambda r: (r[0], r[1]))

    # -- finding the operation ------------------------------------------------
    def match(self, method: str, path: str) -> Match | set[str] | None:
        """The operation, or the methods allowed on that path, or None for an unknown path."""
        allowed: set[str] = set()
        for _, template, pattern, names, item in self._routes:
            hit = pattern.match(path)
            if not hit:
                continue
            spec = item.get(method.lower())
            if spec is None:
                allowed |= {
                    m.upper() for m in item if m in ("get", "put", "post", "patch", "delete")
                }
                continue
            params = {n: unquote(v) for n, v in zip(names, hit.groups(), strict=False)}
            return Match(
                template,
                method.lower(),
                spec["operationId"],
                params,
                spec,
                item.get("parameters", []),
            )
        return allowed or None

    # -- schemas --------------------------------------------------------------
    def _validator(self, pointer: str) -> Draft202012Validator:
        if pointer not in self._validators:
            self._validators[pointer] = Draft202012Validator(
                {"$ref": f"{_URI}#{pointer}"}, registry=self._registry
            )
        return self._validators[pointer]

    def check(self, schema: str, value: Any) -> list[Problem]:
        """Check a value against a named schema of the document."""
        return self._problems(f"/components/schemas/{schema}", value)

    def _problems(self, pointer: str, value: Any) -> list[Problem]:
        errors: Iterable[ValidationError] = self._validator(pointer).iter_errors(value)
        found = []
        for error in errors:
            leaf = best_match([error]) or error
            found.append(_translate(leaf))
        return sorted(set(found), key=lambda p: (p.where, p.code))

    def unknown_fields(self, schema: str, value: Any, prefix: str = "") -> list[str]:
        """Keys that the schema does not name.  Discord ignores these without a word."""
        props = self._properties({"$ref": f"#/components/schemas/{schema}"})
        if not props or not isinstance(value, dict):
            return []
        out = []
        for key, sub in value.items():
            if key not in props:
                out.append(prefix + key)
            elif isinstance(sub, dict):
                name = _named(props[key])
                if name:
                    out += self.unknown_fields(name, sub, f"{prefix}{key}.")
        return out

    def _properties(self, node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            node = self.doc["components"]["schemas"][node["$ref"].rsplit("/", 1)[1]]
        props = dict(node.get("properties", {}))
        for part in node.get("allOf", []):
            props |= self._properties(part)
        return props

    # -- whole requests and responses -----------------------------------------
    def check_params(
        self, match: Match, query: dict[str, list[str]]
    ) -> tuple[dict[str, Any], list[Problem], list[str]]:
        """Path and query parameters: converted values, problems, and unknown query names."""
        problems: list[Problem] = []
        values: dict[str, Any] = {}
        specs = {
            (p["in"], p["name"]): p for p in [*match.path_spec, *match.spec.get("parameters", [])]
        }
        for (place, name), spec in specs.items():
            if place == "path":
                raw: str | None = match.params.get(name)
            elif place == "query":
                raw = query.get(name, [None])[-1]
            else:
                continue
            if raw is None:
                if spec.get("required"):
                    problems.append(Problem((name,), "BASE_TYPE_REQUIRED", "missing"))
                continue
            value, ok = self._convert(raw, spec["schema"])
            pointer = self._param_pointer(match, place, name)
            found = (
                self._problems(pointer, value)
                if ok
                else [Problem((), "BASE_TYPE_BAD_TYPE", f"{raw!r} is not valid")]
            )
            problems += [Problem((name, *p.where), p.code, p.message) for p in found]
            values[name] = value
        unknown = [n for n in query if ("query", n) not in specs]
        return values, problems, unknown

    def _convert(self, raw: str, schema: dict[str, Any]) -> tuple[Any, bool]:
        kind = schema.get("type")
        if kind == "integer":
            return (int(raw), True) if re.fullmatch(r"-?\d+", raw) else (raw, False)
        if kind == "boolean":
            if raw in _TRUE or raw in _FALSE:
                return raw in _TRUE, True
            return raw, False
        if "$ref" in schema:
            target = self.doc["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            return self._convert(raw, target)
        return raw, True

    def _param_pointer(self, match: Match, place: str, name: str) -> str:
        base = f"/paths/{_escape(match.template)}"
        if place == "path":
            index = [p["name"] for p in match.path_spec].index(name)
            return f"{base}/parameters/{index}/schema"
        index = [p["name"] for p in match.spec["parameters"]].index(name)
        return f"{base}/{match.method}/parameters/{index}/schema"

    def check_response(self, match: Match, status: int, body: Any) -> list[Problem]:
        """Check the mock's own answer, so that the bench cannot drift from the document."""
        responses = match.spec["responses"]
        if status == 429:
            return []  # the written documentation makes `code` optional here, the document does not
        if 400 <= status < 500:
            return self._problems("/components/schemas/ErrorResponse", body)
        spec = responses.get(str(status))
        if spec is None:
            return [Problem((), "STATUS", f"{match.operation} has no {status} in the document")]
        if "content" not in spec:
            return (
                [] if body is None else [Problem((), "BODY", "a body where the document has none")]
            )
        pointer = f"/paths/{_escape(match.template)}/{match.method}/responses/{status}"
        pointer += "/content/application~1json/schema"
        return self._problems(pointer, body)


def _escape(template: str) -> str:
    return quote(template.replace("~", "~0").replace("/", "~1"), safe="~@")


def _named(node: dict[str, Any]) -> str | None:
    if "$ref" in node:
        return str(node["$ref"]).rsplit("/", 1)[1]
    for part in node.get("oneOf", []):
        if "$ref" in part:
            return str(part["$ref"]).rsplit("/", 1)[1]
    return None


def _translate(error: ValidationError) -> Problem:
    where = tuple(str(p) for p in error.absolute_path)
    rule, limit = error.validator, error.validator_value
    if rule == "required":
        missing = re.match(r"'(.+?)' is a required property", error.message)
        name = missing.group(1) if missing else "?"
        return Problem((*where, name), "BASE_TYPE_REQUIRED", "missing")
    if rule in ("maxLength", "maxItems"):
        return Problem(where, "BASE_TYPE_MAX_LENGTH", f"longer than {limit}")
    if rule in ("minLength", "minItems"):
        return Problem(where, "BASE_TYPE_MIN_LENGTH", f"shorter than {limit}")
    if rule in ("const", "enum"):
        return Problem(where, "BASE_TYPE_CHOICES", f"not one of {limit!r}")
    if rule == "pattern":
        return Problem(where, "NUMBER_TYPE_COERCE", f"{error.instance!r} is no id")
    if rule == "maximum":
        return Problem(where, "NUMBER_TYPE_MAX", f"more than {limit}")
    if rule == "minimum":
        return Problem(where, "NUMBER_TYPE_MIN", f"less than {limit}")
    return Problem(where, "BASE_TYPE_BAD_TYPE", str(error.message)[:200])


def as_errors(problems: Iterable[Problem]) -> dict[str, Any]:
    """Discord's nested `errors` object."""
    root: dict[str, Any] = {}
    for problem in problems:
        node = root
        for key in problem.where:
            node = node.setdefault(key, {})
        node.setdefault("_errors", []).append({"code": problem.code, "message": problem.message})
    return root
