"""What the channel is told: the settings, the token, the address. Nothing is asked before."""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.discord.bot import Bot, said
from tests.discord.mockcord import MockDiscord
from vyane_cli.channels.discord.settings import API, read_address, read_token
from vyane_cli.channels.port import ChannelVerdict, Part
from vyane_cli.errors import InvalidInputError, VyaneError


@pytest.mark.parametrize(
    "setting, value, words",
    [
        ("forum", "", "channels.discord.forum is not set"),
        ("forum", "agents", "an id of Discord's"),
        ("forum", "12", "an id of Discord's"),
        ("guild", "my server", "channels.discord.guild"),
        ("tags", ["a", "b", "c", "d", "e", "f"], "at most 5 tags"),
    ],
)
def test_a_setting_that_cannot_be_right_is_named_before_any_request(
    discord: MockDiscord, setting: str, value: Any, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as error:
        Bot(discord, **{setting: value}).run()

    assert error.value.exit_code == 2
    assert (error.value.slug == "forum_unset") is (value == "")
    assert f"vyane config set channels.discord.{setting}" in error.value.hint or setting == "tags"
    assert discord.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "https://discord.com/api/v10",
        "https://discord.com:443/api/v10/",
        "http://127.0.0.1:8080/api/v10",
        "http://127.9.9.9/api/v10",
        "http://[::1]:99/api/v10",
        "http://localhost:8080/api/v10",
    ],
)
def test_the_token_may_go_to_discord_and_to_this_machine(address: str) -> None:
    assert read_address({"DISCORD_API": address}) == address.rstrip("/")


@pytest.mark.parametrize(
    "address",
    [
        "http://discord.com/api/v10",
        "https://discord.com:8443/api/v10",
        "https://discord.com.evil.example/api/v10",
        "https://evil.example/discord.com",
        "https://discord.com@evil.example/api/v10",
        "https://me:secret@discord.com/api/v10",
        "https://127.0.0.1.evil.example/",
        "http://169.254.169.254/latest",
        "http://0.0.0.0:80/",
        "ftp://127.0.0.1/",
        "http://localhost.evil.example/",
        "https://discord.com/api?x=@127.0.0.1",
        "https://[::1",
        "http://127.0.0.1:99999/",
        "discord.com",
    ],
)
def test_the_token_goes_nowhere_else(address: str) -> None:
    with pytest.raises(InvalidInputError, match="DISCORD_API") as error:
        read_address({"DISCORD_API": address})

    assert "secret" not in error.value.message


def test_without_an_address_it_is_discord_s() -> None:
    assert read_address({}) == read_address({"DISCORD_API": " "}) == API


def test_the_token_comes_from_the_environment_a_file_or_a_command(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-the-file\n")
    command = f"{sys.executable} -c 'print(\"of-the-command\")'"
    sources = {"DISCORD_TOKEN_FILE": str(file), "DISCORD_TOKEN_COMMAND": command}

    assert read_token({"DISCORD_TOKEN": " Bot of-the-variable ", **sources}) == "of-the-variable"
    assert read_token(sources) == "of-the-file"
    assert read_token({"DISCORD_TOKEN_COMMAND": command}) == "of-the-command"


@pytest.mark.parametrize(
    "environ, words",
    [
        ({}, "DISCORD_TOKEN is not set"),
        ({"DISCORD_TOKEN": "two words"}, "one word"),
        ({"DISCORD_TOKEN": "line\r\nX-Evil: 1"}, "one word"),
        ({"DISCORD_TOKEN": "émoji"}, "one word"),
        ({"DISCORD_TOKEN_FILE": "/does/not/exist"}, "no such file"),
        ({"DISCORD_TOKEN_FILE": os.devnull}, "it is empty"),
        ({"DISCORD_TOKEN_COMMAND": "false s3cret"}, "it ended with 1"),
        ({"DISCORD_TOKEN_COMMAND": "/does/not/exist"}, "(?i)no such file"),
        ({"DISCORD_TOKEN_COMMAND": "'unclosed"}, "quotation"),
    ],
)
def test_a_token_that_is_none_is_told_without_showing_it(
    environ: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as error:
        read_token(environ)

    for secret in ("two words", "X-Evil", "émoji", "s3cret"):
        assert secret not in f"{error.value} {error.value.value} {error.value.hint}"


def test_a_missing_package_is_told_with_the_way_to_get_it(
    bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "urllib3", None)

    with pytest.raises(VyaneError, match="urllib3") as error:
        bot.run()

    assert "vyane[discord]" in error.value.hint


def test_a_wrong_token_is_tried_once_and_holds_until_it_is_another(bot: Bot) -> None:
    bot.environ["DISCORD_TOKEN"] = "bad"
    channel = bot.run()
    outcome = channel.check()

    assert said(outcome) == "off/unauthorized"
    assert "DISCORD_TOKEN" in outcome.fix
    assert len(bot.server.requests) == 1
    bot.environ["DISCORD_TOKEN"] = bot.server.world.token
    assert bot.run().fingerprint != channel.fingerprint
    assert bot.run().check().verdict is ChannelVerdict.DONE


def test_the_token_is_in_no_memory_and_no_outcome(bot: Bot) -> None:
    token = bot.environ["DISCORD_TOKEN"]
    where = bot.thread()
    channel = bot.run()
    outcomes = [channel.check(), channel.post(where, Part("hello"), "n1"), channel.read(where, "")]
    bot.environ["DISCORD_TOKEN"] = "another-token"
    outcomes.append(bot.run().check())

    everything = json.dumps(bot.memory) + repr(outcomes) + channel.fingerprint
    assert token not in everything
    assert "another-token" not in everything


def test_a_forum_that_is_a_text_channel_or_elsewhere_is_found_before_the_first_post(
    discord: MockDiscord,
) -> None:
    text = Bot(discord, forum=discord.text.id)
    missing = Bot(discord, forum="123456789012345678")
    elsewhere = Bot(discord, guild="123456789012345678")

    assert said(text.run().check()) == "off/not-a-forum"
    assert said(missing.run().check()) == "off/forum-gone"
    assert said(elsewhere.run().check()) == "off/wrong-guild"
    assert discord.threads() == []
    assert Bot(discord, guild="").run().check().verdict is ChannelVerdict.DONE


def test_an_unknown_tag_and_a_missing_one_are_told_before_the_first_post(serve: Any) -> None:
    discord = serve(require_tag=True)

    strange = Bot(discord, tags=["urgent"]).run().check()
    none = Bot(discord).run().check()

    assert said(strange) == "off/unknown-tag"
    assert "'urgent'" in strange.detail
    assert "codex" in strange.detail
    assert said(none) == "off/tag-required"
    assert "channels.discord.tags" in none.fix
    Bot(discord, tags=["codex"]).thread()
    assert [thread["tags"] for thread in discord.threads()] == [["codex"]]


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends every request on to another address of its own, and notes what reached that one."""

    reached: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        if self.path.startswith("/elsewhere"):
            self.reached.append(self.headers.get("Authorization"))
        self.send_response(307)
        self.send_header("Location", f"http://{self.headers['Host']}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


def test_a_redirection_is_not_followed(discord: MockDiscord) -> None:
    bot = Bot(discord)
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bot.environ["DISCORD_API"] = f"http://127.0.0.1:{server.server_address[1]}/api/v10"
        outcome = bot.run().check()
        server.shutdown()

    assert outcome.verdict is not ChannelVerdict.DONE
    assert _Elsewhere.reached == []


def test_every_request_says_who_asks(bot: Bot) -> None:
    where = bot.thread()
    bot.run().post(where, Part("hello"), "n1")

    assert bot.server.check_user_agent  # the mock turns away what has no proper User-Agent
    assert {one["status"] for one in bot.server.requests} <= {200, 201}
