"""The `file` channel: a folder of Markdown threads that a person reads, edits and appends to.

A thread is `NAME.KEY.md`. Its first line is the title, its second names the key. What vyane says is
quoted (`> `) and begins with a mark that holds its nonce and its number of lines; every other line
is the person's. A post is one append, so that it stands in nobody's way; a change in place writes
the file anew, and what was appended in the meantime is carried over.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vyane_cli.channels.file import file_disk
from vyane_cli.channels.file.file_disk import FILE_MAX
from vyane_cli.channels.file.thread import Thread, extend, parse_thread, render_block
from vyane_cli.channels.port import (
    Capabilities,
    Conversation,
    File,
    Incoming,
    Opening,
    Outcome,
    Page,
    Part,
    Post,
    Sign,
    Surroundings,
    Verdict,
)
from vyane_cli.errors import InvalidInputError
from vyane_cli.kernel.config import Key
from vyane_cli.kernel.text import slug

NAME = "file"
SETTINGS: Mapping[str, Key] = {
    "folder": Key(
        "threads", "Where the threads lie: a path; a relative one is below the state root."
    ),
}

TEXT_MAX = 20_000
"""Characters; of a longer post the beginning is shown, and the whole lies beside the thread."""
HEAD = 4_000
AGAIN = "then `vyane mirror push --again`"
BUSY_MS, STORAGE_MS = 2_000, 60_000


def open_channel(
    settings: Mapping[str, Any], account: str, memory: dict[str, Any], around: Surroundings
) -> FileChannel:
    """The folder of these settings; nothing is made before the first thread."""
    folder = str(settings["folder"])
    if not folder.strip():
        raise InvalidInputError("channels.file.folder", folder, "the path of a folder")
    path = os.path.join(around.home, os.path.expanduser(folder))
    return FileChannel(os.path.abspath(path), account, memory, around)


class FileChannel:
    """The threads of one folder."""

    capabilities = Capabilities()

    def __init__(
        self, folder: str, account: str, memory: dict[str, Any], around: Surroundings
    ) -> None:
        self.folder, self.account, self.memory, self.around = folder, account, memory, around
        self.fingerprint = folder

    # ------------------------------------------------------------------ conversations

    def check(self) -> Outcome:
        """Whether the folder is there, or can be made."""
        try:
            file_disk.step("mkdir", self.folder)
            os.makedirs(self.folder, 0o700, exist_ok=True)
        except OSError as error:
            return self._off(error)
        return Outcome(Verdict.DONE)

    def open(self, opening: Opening) -> Outcome:
        """The thread with this key, wherever in the folder it was renamed to, or a new one."""
        ready = self.check()
        if ready.verdict is not Verdict.DONE:
            return ready
        path = self._find(opening.key)
        found = bool(path)
        if not found:
            name = f"{slug(opening.title) or 'thread'}.{opening.key}.md"
            path = os.path.join(self.folder, name)
            thread = parse_thread("")
            thread.title, thread.key, thread.body = one_line(opening.title), opening.key, ["", ""]
            text = thread.render() + render_block(opening.first.text, opening.nonce)
            try:
                file_disk.replace(path, text.encode("utf-8", "replace"))
            except OSError as error:
                return self._off(error)
        name = os.path.basename(path)[: -len(".md")]
        where = Conversation(NAME, self.account, name, os.path.basename(self.folder))
        return Outcome(Verdict.DONE, id=opening.nonce, conversation=where, found=found)

    def _find(self, key: str) -> str:
        """The thread that names this key in its head; empty when there is none."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return ""
        for name in names:
            if not name.endswith(".md") or name.startswith("."):
                continue
            path = os.path.join(self.folder, name)
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    head = parse_thread(file.read(HEAD))
            except OSError:
                continue
            if head.key == key:
                return path
        return ""

    def probe(self, conversation: Conversation) -> Outcome:
        """A file that nobody may write is locked; one that is not there is gone."""
        found = self._load_to_write(conversation)
        if isinstance(found, Outcome):
            return found
        return Outcome(Verdict.DONE, archived=found[2].closed)

    # ------------------------------------------------------------------ out

    def plan(self, post: Post) -> Sequence[Part]:
        """One part; a long text as its beginning, with the whole beside it."""
        text = post.text.strip("\n")
        if not text.strip():
            return ()
        if len(text) <= TEXT_MAX:
            return (Part(text, (), post.notify, post.mention),)
        note = f"… {len(text):,} characters; the whole text lies beside this thread."
        whole = (File("whole.txt", text),)
        return (Part(f"{text[:HEAD]}\n\n{note}", whole, post.notify, post.mention),)

    def post(self, conversation: Conversation, part: Part, nonce: str) -> Outcome:
        """Append a block. A block that a crash left unfinished at the end is taken away first."""
        found = self._load_to_write(conversation)
        if isinstance(found, Outcome):
            return found
        path, data, thread = found
        if thread.holds(nonce):
            return Outcome(Verdict.DONE, id=nonce)
        text = part.text
        try:
            for file in part.files:
                name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name).strip(".-") or "text.txt"
                beside = os.path.join(f"{path[: -len('.md')]}.files", f"{nonce}-{name}")
                file_disk.step("mkdir", os.path.dirname(beside))
                os.makedirs(os.path.dirname(beside), 0o700, exist_ok=True)
                file_disk.replace(beside, file.text.encode("utf-8", "replace"))
                text += f"\n\n[{name}]({os.path.relpath(beside, self.folder)})"
            if thread.closed:
                thread.closed = False
                file_disk.rewrite(path, data, thread.render())
                return self.post(conversation, part._replace(text=text, files=()), nonce)
            file_disk.append(path, data, thread.unfinished, render_block(text, nonce))
        except OSError as error:
            return self._storage(path, error)
        return Outcome(Verdict.DONE, id=nonce)

    def find_post(self, conversation: Conversation, part: Part, nonce: str, after: str) -> Outcome:
        """The mark of a block holds its nonce."""
        found = self._load(conversation)
        if isinstance(found, Outcome):
            return found
        return Outcome(Verdict.DONE, id=nonce if found[2].holds(nonce) else "")

    def edit(self, conversation: Conversation, message: str, part: Part) -> Outcome:
        """Write the file anew with this block changed."""
        found = self._load_to_write(conversation)
        if isinstance(found, Outcome):
            return found
        path, data, thread = found
        if not thread.change(message, part.text):
            return Outcome(Verdict.ABSENT, "unknown-message", f"the post {message} was removed")
        try:
            file_disk.rewrite(path, data, thread.render())
        except OSError as error:
            return self._storage(path, error)
        return Outcome(Verdict.DONE, id=message)

    def mark(
        self, conversation: Conversation, title: str | None = None, closed: bool | None = None
    ) -> Outcome:
        """The first line is the title; the second says whether it is closed."""
        found = self._load_to_write(conversation)
        if isinstance(found, Outcome):
            return found
        path, data, thread = found
        thread.title = thread.title if title is None else one_line(title)
        thread.closed = thread.closed if closed is None else closed
        try:
            file_disk.rewrite(path, data, thread.render())
        except OSError as error:
            return self._storage(path, error)
        return Outcome(Verdict.DONE)

    # ------------------------------------------------------------------ in

    def read(self, conversation: Conversation, cursor: str) -> Outcome:
        """The person's lines that are new or changed. A line counts once its end is written."""
        found = self._load(conversation)
        if isinstance(found, Outcome):
            return found
        path, _, thread = found
        written, onward = extend(cursor, thread.lines)
        author, about = _owner(path), os.stat(path)
        name = self.around.environ.get("LOGNAME") if about.st_uid == os.getuid() else ""
        at_ms = about.st_mtime_ns // 1_000_000
        messages = tuple(
            Incoming(one.id, author, name or author, one.text, at_ms, one.edited) for one in written
        )
        return Outcome(Verdict.DONE, page=Page(messages, onward))

    def seek_end(self, conversation: Conversation, at_ms: int = 0) -> Outcome:
        """After the last line that is there."""
        found = self._load(conversation)
        if isinstance(found, Outcome):
            return found
        return Outcome(Verdict.DONE, page=Page((), extend("", found[2].lines)[1]))

    def acknowledge(
        self, conversation: Conversation, message: str, sign: Sign = Sign.SEEN
    ) -> Outcome:
        """There is no sign to put at a line: the answer is what shows."""
        return Outcome(Verdict.DONE)

    # ------------------------------------------------------------------ the file

    def _load(self, conversation: Conversation) -> Outcome | tuple[str, bytes, Thread]:
        name = conversation.id
        if not name or name.startswith(".") or os.path.basename(name) != name or "\0" in name:
            return Outcome(
                Verdict.GONE, "unknown-thread", f"{name!r} is no name of a thread in the folder"
            )
        name = name.removesuffix(".md")
        path = os.path.join(self.folder, name + ".md")
        if not os.path.exists(path):  # one of ours goes on under the name that a person gave it
            path = self._find(name.rpartition(".")[2]) or path
        try:
            with open(path, "rb") as file:
                data = file.read(FILE_MAX + 1)
        except FileNotFoundError as error:
            if not os.path.isdir(self.folder):
                return self._off(error)
            return Outcome(
                Verdict.GONE,
                "unknown-thread",
                f"{path} is gone",
                f"put it back, {AGAIN}; or `vyane bind SESSION --channel file` makes another",
            )
        except PermissionError as error:
            if not os.access(self.folder, os.X_OK):
                return self._off(error)
            return self._locked(path, "read")
        except OSError as error:
            return self._storage(path, error)
        if len(data) > FILE_MAX:
            detail = f"{path} is over {FILE_MAX // 1024 // 1024} MiB"
            return Outcome(
                Verdict.REFUSED, "too-long", detail, f"move old lines to another file, {AGAIN}"
            )
        return path, data, parse_thread(data.decode("utf-8", "surrogateescape"))

    def _load_to_write(self, conversation: Conversation) -> Outcome | tuple[str, bytes, Thread]:
        """The same, unless nobody may write it: root could."""
        found = self._load(conversation)
        if not isinstance(found, Outcome) and not os.stat(found[0]).st_mode & 0o222:
            return self._locked(found[0])
        return found

    # ------------------------------------------------------------------ outcomes

    def _off(self, error: OSError) -> Outcome:
        detail = f"{self.folder}: {(error.strerror or 'unusable').lower()}"
        if error.errno in (28, 122):
            return self._storage(self.folder, error)
        back = "put it back, or " if error.errno == errno.ENOENT else ""
        fix = f"{back}set another folder: channels.file.folder"
        return Outcome(Verdict.OFF, "folder-unusable", detail, fix)

    def _locked(self, path: str, what: str = "written") -> Outcome:
        return Outcome(
            Verdict.LOCKED,
            "locked",
            f"{path} may not be {what}",
            f"chmod u+rw {path}, {AGAIN}",
        )

    def _storage(self, path: str, error: OSError) -> Outcome:
        wait = BUSY_MS if error.errno == 11 else STORAGE_MS
        detail = f"{path}: {(error.strerror or 'unusable').lower()}"
        return Outcome(Verdict.LATER, "storage", detail, retry_ms=self.around.now_ms() + wait)


def one_line(text: str) -> str:
    """A title: one line with something in it."""
    return " ".join(text.split())[:200] or "thread"


def _owner(path: str) -> str:
    """Who writes here: the account that the file belongs to."""
    import pwd

    uid = os.stat(path).st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"
