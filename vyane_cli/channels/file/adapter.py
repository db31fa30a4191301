"""The `file` channel: a folder of Markdown threads that a person reads, edits and appends to.

A thread is a file `NAME.KEY.md`. Its first line is the title, its second names the key. A post of
vyane is a quoted block (`> `) that begins with a mark, which holds the nonce and the number of
lines; every other line is the person's. A post is one append, so that it does not disturb a person
who writes at the same time. A change in place rewrites the file and keeps the text that was
appended in the meantime.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vyane_cli.channels.file.thread import ThreadFile, extend, parse_thread, render_block
from vyane_cli.channels.port import (
    Capabilities,
    ChannelOutcome,
    ChannelPage,
    ChannelVerdict,
    Conversation,
    File,
    Incoming,
    Opening,
    Part,
    Post,
    Sign,
    Surroundings,
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
"""Most characters of a post in the thread; a longer one is shown by its beginning, with the whole
text in a file beside the thread."""
HEAD = 4_000
AGAIN = "then `vyane mirror push --again`"
BUSY_MS, STORAGE_MS = 2_000, 60_000


def open_channel(
    settings: Mapping[str, Any], account: str, memory: dict[str, Any], around: Surroundings
) -> FileChannel:
    """Open the channel for the folder in the settings. Creates no folder or file yet.

    Raises InvalidInputError for an empty folder.
    """
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

    def check(self) -> ChannelOutcome:
        """Create the folder if it is missing. Return OFF, or LATER with a full disk, on failure."""
        try:
            step("mkdir", self.folder)
            os.makedirs(self.folder, 0o700, exist_ok=True)
        except OSError as error:
            return self._off(error)
        return ChannelOutcome(ChannelVerdict.DONE)

    def open(self, opening: Opening) -> ChannelOutcome:
        """Find the thread with this key, even if a person renamed its file, or create it."""
        ready = self.check()
        if ready.verdict is not ChannelVerdict.DONE:
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
                replace(path, text.encode("utf-8", "replace"))
            except OSError as error:
                return self._off(error)
        name = os.path.basename(path)[: -len(".md")]
        where = Conversation(NAME, self.account, name, os.path.basename(self.folder))
        return ChannelOutcome(
            ChannelVerdict.DONE, id=opening.nonce, conversation=where, found=found
        )

    def _find(self, key: str) -> str:
        """Return the path of the thread that names this key in its head; empty without one."""
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

    def probe(self, conversation: Conversation) -> ChannelOutcome:
        """Check a thread: LOCKED without permission to write it, GONE when its file is missing."""
        found = self._load_to_write(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        return ChannelOutcome(ChannelVerdict.DONE, archived=found[2].closed)

    # ------------------------------------------------------------------ out

    def plan(self, post: Post) -> Sequence[Part]:
        """Return one part; for a long text its beginning, with the whole text as a file."""
        text = post.text.strip("\n")
        if not text.strip():
            return ()
        if len(text) <= TEXT_MAX:
            return (Part(text, (), post.notify, post.mention),)
        note = f"… {len(text):,} characters; the whole text lies beside this thread."
        whole = (File("whole.txt", text),)
        return (Part(f"{text[:HEAD]}\n\n{note}", whole, post.notify, post.mention),)

    def post(self, conversation: Conversation, part: Part, nonce: str) -> ChannelOutcome:
        """Append a block to the thread. A block that a crash left unfinished is removed first."""
        found = self._load_to_write(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        path, data, thread = found
        if thread.holds(nonce):
            return ChannelOutcome(ChannelVerdict.DONE, id=nonce)
        text = part.text
        try:
            for file in part.files:
                name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name).strip(".-") or "text.txt"
                beside = os.path.join(f"{path[: -len('.md')]}.files", f"{nonce}-{name}")
                step("mkdir", os.path.dirname(beside))
                os.makedirs(os.path.dirname(beside), 0o700, exist_ok=True)
                replace(beside, file.text.encode("utf-8", "replace"))
                text += f"\n\n[{name}]({os.path.relpath(beside, self.folder)})"
            if thread.closed:
                thread.closed = False
                rewrite(path, data, thread.render())
                return self.post(conversation, part._replace(text=text, files=()), nonce)
            append(path, data, thread.unfinished, render_block(text, nonce))
        except OSError as error:
            return self._storage(path, error)
        return ChannelOutcome(ChannelVerdict.DONE, id=nonce)

    def find_post(
        self, conversation: Conversation, part: Part, nonce: str, after: str
    ) -> ChannelOutcome:
        """Look for the block whose mark holds this nonce."""
        found = self._load(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        return ChannelOutcome(ChannelVerdict.DONE, id=nonce if found[2].holds(nonce) else "")

    def edit(self, conversation: Conversation, message: str, part: Part) -> ChannelOutcome:
        """Rewrite the file with this block changed."""
        found = self._load_to_write(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        path, data, thread = found
        if not thread.change(message, part.text):
            return ChannelOutcome(
                ChannelVerdict.ABSENT, "unknown-message", f"the post {message} was removed"
            )
        try:
            rewrite(path, data, thread.render())
        except OSError as error:
            return self._storage(path, error)
        return ChannelOutcome(ChannelVerdict.DONE, id=message)

    def mark(
        self, conversation: Conversation, title: str | None = None, closed: bool | None = None
    ) -> ChannelOutcome:
        """Change the title (first line) and the closed state (second line) of a thread."""
        found = self._load_to_write(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        path, data, thread = found
        thread.title = thread.title if title is None else one_line(title)
        thread.closed = thread.closed if closed is None else closed
        try:
            rewrite(path, data, thread.render())
        except OSError as error:
            return self._storage(path, error)
        return ChannelOutcome(ChannelVerdict.DONE)

    # ------------------------------------------------------------------ in

    def read(self, conversation: Conversation, cursor: str) -> ChannelOutcome:
        """Read the person's new and changed lines. A line counts when its newline is written."""
        found = self._load(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        path, _, thread = found
        written, onward = extend(cursor, thread.lines)
        author, about = _owner(path), os.stat(path)
        name = self.around.environ.get("LOGNAME") if about.st_uid == os.getuid() else ""
        at_ms = about.st_mtime_ns // 1_000_000
        messages = tuple(
            Incoming(
                id=one.id,
                author=author,
                name=name or author,
                text=one.text,
                at_ms=at_ms,
                edited=one.edited,
            )
            for one in written
        )
        return ChannelOutcome(ChannelVerdict.DONE, page=ChannelPage(messages, onward))

    def seek_end(self, conversation: Conversation, at_ms: int = 0) -> ChannelOutcome:
        """Move the cursor after the last line of the thread."""
        found = self._load(conversation)
        if isinstance(found, ChannelOutcome):
            return found
        return ChannelOutcome(
            ChannelVerdict.DONE, page=ChannelPage((), extend("", found[2].lines)[1])
        )

    def acknowledge(
        self, conversation: Conversation, message: str, sign: Sign = Sign.SEEN
    ) -> ChannelOutcome:
        """Do nothing: a line of a file has no place for a sign, and the answer shows instead."""
        return ChannelOutcome(ChannelVerdict.DONE)

    # ------------------------------------------------------------------ the file

    def _load(self, conversation: Conversation) -> ChannelOutcome | tuple[str, bytes, ThreadFile]:
        name = conversation.id
        if not name or name.startswith(".") or os.path.basename(name) != name or "\0" in name:
            return ChannelOutcome(
                ChannelVerdict.GONE,
                "unknown-thread",
                f"{name!r} is no name of a thread in the folder",
            )
        name = name.removesuffix(".md")
        path = os.path.join(self.folder, name + ".md")
        if not os.path.exists(path):  # a person may have renamed it: find it by its key
            path = self._find(name.rpartition(".")[2]) or path
        try:
            with open(path, "rb") as file:
                data = file.read(FILE_MAX + 1)
        except FileNotFoundError as error:
            if not os.path.isdir(self.folder):
                return self._off(error)
            return ChannelOutcome(
                ChannelVerdict.GONE,
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
            return ChannelOutcome(
                ChannelVerdict.REFUSED,
                "too-long",
                detail,
                f"move old lines to another file, {AGAIN}",
            )
        return path, data, parse_thread(data.decode("utf-8", "surrogateescape"))

    def _load_to_write(
        self, conversation: Conversation
    ) -> ChannelOutcome | tuple[str, bytes, ThreadFile]:
        """Load the thread; return LOCKED when its file mode gives nobody write permission.

        The mode is checked because root could write in any case.
        """
        found = self._load(conversation)
        if not isinstance(found, ChannelOutcome) and not os.stat(found[0]).st_mode & 0o222:
            return self._locked(found[0])
        return found

    # ------------------------------------------------------------------ outcomes

    def _off(self, error: OSError) -> ChannelOutcome:
        detail = f"{self.folder}: {(error.strerror or 'unusable').lower()}"
        if error.errno in (28, 122):
            return self._storage(self.folder, error)
        back = "put it back, or " if error.errno == errno.ENOENT else ""
        fix = f"{back}set another folder: channels.file.folder"
        return ChannelOutcome(ChannelVerdict.OFF, "folder-unusable", detail, fix)

    def _locked(self, path: str, what: str = "written") -> ChannelOutcome:
        return ChannelOutcome(
            ChannelVerdict.LOCKED,
            "locked",
            f"{path} may not be {what}",
            f"chmod u+rw {path}, {AGAIN}",
        )

    def _storage(self, path: str, error: OSError) -> ChannelOutcome:
        wait = BUSY_MS if error.errno == 11 else STORAGE_MS
        detail = f"{path}: {(error.strerror or 'unusable').lower()}"
        return ChannelOutcome(
            ChannelVerdict.LATER, "storage", detail, retry_ms=self.around.now_ms() + wait
        )


def one_line(text: str) -> str:
    """Return the text as a title: one line, never empty, at most 200 characters."""
    return " ".join(text.split())[:200] or "thread"


def _owner(path: str) -> str:
    """Return the name of the account that owns the file: the author of the person's lines."""
    import pwd

    uid = os.stat(path).st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


FILE_MAX = 16 * 1024 * 1024


def _nothing(name: str, path: str) -> None:
    pass


step: Callable[[str, str], None] = _nothing
"""Hook that is called as `step(call, path)` before each call that changes a file, for tests."""


def append(path: str, data: bytes, unfinished: int, block: str) -> None:
    """Append a block at the present end of the file: a person may be appending too.

    `data` is the file as it was read; a crash left the `unfinished` bytes at its end. On disk when
    this returns. A crash leaves the whole block, none of it, or its beginning; the next append
    removes such a beginning. Raises OSError.
    """
    if unfinished:
        rewrite(path, data, data[:-unfinished].decode("utf-8", "surrogateescape"))
        data = data[:-unfinished]
    last = data[-2:]
    gap = "" if last in (b"", b"\n\n") else "\n" if last.endswith(b"\n") else "\n\n"
    text = (gap + block).encode("utf-8", "replace")
    step("open", path)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        step("write", path)
        if os.write(fd, text) < len(text):  # the rest could follow text that others append
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        step("fsync", path)
        os.fsync(fd)
    finally:
        os.close(fd)


def rewrite(path: str, data: bytes, text: str) -> None:
    """Replace the text of a file, and keep the text that a person appended since it was read.

    `data` is the file as it was read. Raises BlockingIOError when its text was changed since.
    """
    changed = text.encode("utf-8", "surrogateescape")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size < len(data) or os.pread(fd, len(data), 0) != data:
            raise BlockingIOError(11, "it was changed at this moment")
        changed += os.pread(fd, FILE_MAX, len(data))
        seen = os.fstat(fd).st_size
        replace(path, changed)
        late = os.pread(fd, FILE_MAX, seen)  # appended between the read and the rename
        if late:
            step("append", path)
            with open(path, "ab") as file:
                file.write(late)
    finally:
        os.close(fd)


def replace(path: str, data: bytes) -> None:
    """Replace a file. On disk when this returns; a crash leaves the old or the new file."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.tmp")
    try:
        mode = os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        mode = 0o600
    step("open", temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(fd, mode)
        while data:
            step("write", temporary)
            data = data[os.write(fd, data) :]
        step("fsync", temporary)
        os.fsync(fd)
    finally:
        os.close(fd)
    step("rename", path)
    os.replace(temporary, path)
    step("fsync", os.path.dirname(path))
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
