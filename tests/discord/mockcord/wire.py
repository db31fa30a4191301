"""Bytes on the socket: requests in, answers out, uploads taken apart."""

from __future__ import annotations

import email.parser
import email.policy
import json
import re
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .contract import Problem
from .records import ApiError, File, form_error

if TYPE_CHECKING:
    from .server import MockDiscord


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(
            sys.exc_info()[1], ConnectionError
        ):  # a client that hung up is no fault of ours
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mock: MockDiscord

    def log_message(self, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        path = urlsplit(self.path).path
        if path.startswith("/_mock/"):
            try:
                status, body = self.mock.control(self.command, path, raw)
            except (KeyError, TypeError, ValueError) as error:
                status, body = 400, {"message": f"{type(error).__name__}: {error}"}
            self._send(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())
            return
        if path.startswith("/_cdn/"):
            found = self.mock.file(path)
            if found is None:
                self._send(404, {}, b"")
            else:
                self._send(200, {"Content-Type": found.content_type}, found.data)
            return
        status, head, data, fault = self.mock.answer(self.command, self.path, self.headers, raw)
        if fault and fault.kind == "drop":
            self.close_connection = True
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            return
        try:
            self._send(status, head, data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client gave up waiting

    def _send(self, status: int, head: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        if data and "Content-Type" not in head:
            self.send_header("Content-Type", "application/json")
        for name, value in head.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if status != 204:
            self.wfile.write(data)

    do_GET = _serve  # noqa: N815  http.server finds them by these names
    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815


def parseparse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        raise ApiError(400, 50109, "the body is not JSON") from None


def parse_multipart(content_type: str, raw: bytes) -> tuple[dict[str, bytes], list[File]]:
    found = re.search(r'boundary="?([^";]+)"?', content_type)
    if not found:
        raise form_error(Problem((), "CONTENT_TYPE_INVALID", "multipart without a boundary"))
    fields: dict[str, bytes] = {}
    files: list[File] = []
    for piece in raw.split(b"--" + found.group(1).encode())[1:-1]:
        top, _, data = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        head = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(top + b"\r\n\r\n")
        name = head.get_param("name", header="content-disposition")
        data = data.removesuffix(b"\r\n")
        filename = head.get_filename()
        if filename is None:
            fields[str(name)] = data
            continue
        slot = re.fullmatch(r"files\[(\d+)\]", str(name))
        if not slot:
            raise form_error(
                Problem((str(name),), "FILE_FIELD", "file parts must be named files[n]")
            )
        if any(f.id == slot.group(1) for f in files):
            raise form_error(
                Problem((str(name),), "FILE_FIELD", "file parts must have unique names")
            )
        if len(files) == 10:
            raise ApiError(400, 30015, "more than 10 files")
        files.append(File(unquote(filename), data, head.get_content_type(), id=slot.group(1)))
    return fields, files


def parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        raise ApiError(400, 50109, "the body is not JSON") from None
