"""What an agent wants back with a session's next turn: on both engines."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.gateways import OpenGateway, Run
from tests.contract.watching import accepted

from threadline.clock import to_instant
from threadline.errors import InvalidRequest, LeaseLost
from threadline.model.source import SessionSource
from threadline.store.conversations.records import MAX_STATE_CHARS
from threadline.store.facade import GatewayStore
from threadline.store.work.turn_end import ClaimedTurn, ClaimRequest
from threadline.testing import dm, thread, user

LEASE = 60_000_000


async def turn(store: GatewayStore, name: str = "t1", source: SessionSource | None = None) -> ClaimedTurn:
    """A turn that runs."""
    await accepted(store, source or dm(), "hello", name)
    at = to_instant(store.clock.now())
    wanted = ClaimRequest(owner="here", turn_ids=(name,), at=at, duration=LEASE, per_person=9, platforms=("telegram",))
    (claimed,) = await store.turns.claim(wanted)
    return claimed


async def in_turn(store: GatewayStore, text: str = "kept", source: SessionSource | None = None) -> ClaimedTurn:
    """A turn whose agent has remembered something."""
    claimed = await turn(store, source=source)
    await store.agent_state.save(claimed.lease, claimed.session_pk, "main", text)
    return claimed


def test_what_an_agent_remembers_is_there_after_a_restart(open_gateway: OpenGateway, run: Run) -> None:
    claimed = run(in_turn(open_gateway()))
    assert run(open_gateway().agent_state.load(claimed.session_pk, "main")) == "kept"


def test_the_last_word_counts_and_each_agent_has_its_own(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway))
    run(gateway.agent_state.save(claimed.lease, claimed.session_pk, "other", "mine"))
    run(gateway.agent_state.save(claimed.lease, claimed.session_pk, "main", "newer"))
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) == "newer"
    assert run(gateway.agent_state.load(claimed.session_pk, "other")) == "mine"
    assert run(gateway.agent_state.load(claimed.session_pk, "nobody")) is None
    assert run(gateway.agent_state.load(claimed.session_pk + 1, "main")) is None


def test_a_turn_that_is_anothers_now_keeps_nothing(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway))
    run(gateway.leases.expire_owned_by("here"))
    assert len(run(gateway.turns.take_over("there", ["telegram"], LEASE))) == 1
    with pytest.raises(LeaseLost):
        run(gateway.agent_state.save(claimed.lease, claimed.session_pk, "main", "too late"))
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) == "kept"


def test_there_is_a_most_that_is_kept(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway, "x" * MAX_STATE_CHARS))
    for wrong in ("y" * (MAX_STATE_CHARS + 1), "nul \x00", "half \ud800"):
        with pytest.raises(InvalidRequest):
            run(gateway.agent_state.save(claimed.lease, claimed.session_pk, "main", wrong))
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) == "x" * MAX_STATE_CHARS


def test_a_fork_does_not_remember(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway))
    copy = run(gateway.resume.continue_in_fork(claimed.session.session_id))
    following = run(turn(gateway, "t2"))
    assert following.session.session_id == copy.session_id
    assert run(gateway.agent_state.load(following.session_pk, "main")) is None


def test_it_goes_with_the_session(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway, "walrus"))
    run(gateway.delete_session(claimed.session.session_id))
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) is None
    run(gateway.agent_state.save(claimed.lease, claimed.session_pk, "main", "walrus again"))
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) is None


def test_it_goes_with_a_pruned_session(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway))
    assert run(gateway.prune(timedelta(seconds=-1))) == 1
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) is None


def test_what_is_redacted_is_not_remembered_where_it_was_shown(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway))
    said = run(gateway.append_to_transcript(claimed.session.session_id, user("unsay this")))
    run(gateway.resume.continue_in_fork(claimed.session.session_id))
    copy = run(turn(gateway, "t2"))
    run(gateway.agent_state.save(copy.lease, copy.session_pk, "main", "of the copy"))
    beside = run(turn(gateway, "t3", dm("8")))
    run(gateway.agent_state.save(beside.lease, beside.session_pk, "main", "of another"))
    run(gateway.redact(said.refs[0]))
    kept = [run(gateway.agent_state.load(one.session_pk, "main")) for one in (claimed, copy, beside)]
    assert kept == [None, None, "of another"]


def test_what_a_shared_session_remembers_goes_with_whoever_spoke_there(gateway: GatewayStore, run: Run) -> None:
    claimed = run(in_turn(gateway, source=thread()))
    run(gateway.append_to_transcript(claimed.session.session_id, user("my words"), author="telegram:7"))
    run(gateway.erase_person("telegram:7"))
    assert run(gateway.get_session(claimed.session.session_id)).message_count == 1
    assert run(gateway.agent_state.load(claimed.session_pk, "main")) is None


def test_it_is_part_of_what_is_told_of_a_person(gateway: GatewayStore, run: Run) -> None:
    run(in_turn(gateway))
    page = run(gateway.export("telegram:7"))
    (session,) = [record.to_dict() for record in page if record.kind == "session"]
    assert session["remembered"] == {"main": "kept"}
