"""Figures of many writers at once, through the library: messages stored, and their order."""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.report import Goal, Row
from benchmarks.together import contend
from vyane_cli.mail import inbox

WRITERS = 16
LIMIT_S = 45
"""Seconds after which no writer starts another send, so that a run that misses its goal ends."""


def writers(bench: Bench) -> Iterator[Row]:
    """Measure 16 writers, first with one inbox for all, then with an inbox each."""
    count, each = bench.size(WRITERS, WRITERS), bench.size(1000, 20)
    for what, inboxes in (("into one inbox", 1), ("into an inbox each", count)):
        yield from _write(bench, what, inboxes, count, each, judged=inboxes == 1)


def _write(
    bench: Bench, what: str, inboxes: int, count: int, each: int, *, judged: bool
) -> Iterator[Row]:
    with bench.home(10) as home:
        targets = [home.session().worker for _ in range(inboxes)]
        commands = [
            ["send", str(home.root), targets[n % inboxes], str(n), str(each), str(LIMIT_S)]
            for n in range(count)
        ]
        results, seconds = contend(commands)
        boxes = [inbox.read(home.home.layout.inbox(t), whole=True).mailbox for t in targets]
    order: dict[int, list[tuple[int, str]]] = {n: [] for n in range(count)}
    for box in boxes:
        for entry in box.entries:
            number, _, index = str(entry.message.payload.get("text", "")).partition(":")
            order[int(number)].append((int(index), entry.message.id))
    acknowledged = {(n, i, m) for n, r in enumerate(results) for i, m in r["acknowledged"]}
    stored = {(n, i, m) for n, found in order.items() for i, m in found}
    ordered = sum(found == sorted(found) for found in order.values())
    total = count * each
    name = f"{count} writers × {each:,} sends {what}"
    yield Row(
        f"{name}: stored",
        len(acknowledged & stored),
        "messages",
        goal=Goal(total, "messages", least=True),
    )
    yield Row(f"{name}: time", seconds, "s", goal=Goal(30, "s") if judged else None)
    yield Row(f"{name}: order kept", ordered, "writers", goal=Goal(count, "writers", least=True))
    lost = len(acknowledged - stored)
    errors = sum(result["errors"] for result in results)
    slowest = max(result["slowest_s"] for result in results)
    bench.note(
        f"writers {what}: {len(acknowledged):,} acknowledged, {lost} of them lost, {errors} "
        f"refused; the slowest send took {slowest:.2f} s"
    )
