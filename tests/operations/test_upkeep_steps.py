"""The steps that `gc` and rounds keep in order: one list, and each step is run by what it says."""

from vyane_cli.cli.doctor import WORDS
from vyane_cli.errors import ConflictError
from vyane_cli.upkeep import rounds
from vyane_cli.upkeep.gc import GRACE_S, STEPS, collect
from vyane_cli.upkeep.rounds import keep_house, steps_of
from vyane_cli.upkeep.sweep import Sweep, UpkeepStep, run_steps

IN_ROUND = set(
    "lost stale orphans expired lapsed claims damaged_claims unbound taken_in archived notified"
    " skipped".split()
)


def recording(steps: tuple[UpkeepStep, ...], ran: list[str]) -> tuple[UpkeepStep, ...]:
    """The steps, each of which only says that it ran."""

    def say(name: str) -> UpkeepStep:
        (step,) = [one for one in steps if one.name == name]
        return step._replace(action=lambda sweep: ran.append(name) or 1)  # type: ignore[func-returns-value]

    return tuple(say(step.name) for step in steps)


def test_each_step_is_run_by_what_it_says(stage, monkeypatch):
    ran: list[str] = []
    own = steps_of(stage.project)
    monkeypatch.setattr(rounds, "STEPS", recording(STEPS, ran))
    monkeypatch.setattr(rounds, "steps_of", lambda project: recording(own, ran))
    collect(stage.world, steps=recording(STEPS, ran))
    in_gc, ran[:] = list(ran), []
    keep_house(stage.world, stage.project)

    assert in_gc == [step.name for step in STEPS if step.in_gc]
    assert ran == [step.name for step in (*STEPS, *own) if step.in_round]


def test_each_step_is_run_by_something_and_counted_under_one_name(stage):
    for steps in (STEPS, steps_of(stage.project)):
        assert all(step.in_round or step.in_gc for step in steps)
    for names in (
        [step.name for step in STEPS if step.in_gc],
        [step.name for step in (*STEPS, *steps_of(stage.project)) if step.in_round],
    ):
        assert len(names) == len(set(names))


def test_what_a_run_counts_has_the_keys_that_it_had(stage):
    counts, _ = collect(stage.world)

    assert set(counts) == {"dry_run", *WORDS, "skipped"}
    assert list(WORDS) == [name for name in counts if name in WORDS], "told in their order"
    assert set(keep_house(stage.world, stage.project)) == IN_ROUND


def test_a_step_that_fails_is_named_and_holds_up_no_other(stage):
    def fail(sweep: Sweep) -> int:
        raise ConflictError("no", slug="no")

    sweep = Sweep(stage.world, grace_s=GRACE_S, dry_run=False)
    steps = [
        UpkeepStep(name="one", in_round=True, in_gc=True, action=fail, guards="registry"),
        UpkeepStep("two", True, True, lambda sweep: 2),
        UpkeepStep("three", True, True, lambda sweep: 3, counted=False),
    ]

    assert run_steps(steps, sweep) == {"one": 0, "two": 2}
    assert [one["what"] for one in sweep.skipped] == ["registry"]
