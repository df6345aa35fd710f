from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.model.address import SessionScope, address_of
from threadline.model.ownership import Ownership, Viewer, may_resume, ownership_of, person_of, viewer_of_source
from threadline.model.source import SessionSource

ADA, BOB = "telegram:ada", "telegram:bob"
HERE, ELSEWHERE = "telegram:here", "telegram:elsewhere"


@pytest.mark.parametrize(
    ("owner", "chat", "ada_anywhere", "ada_here", "nobody_anywhere", "nobody_here"),
    [
        (ADA, HERE, True, True, False, False),
        (ADA, ELSEWHERE, True, False, False, False),
        (ADA, None, True, False, False, False),
        (BOB, HERE, False, False, False, False),
        (BOB, ELSEWHERE, False, False, False, False),
        (None, HERE, False, True, False, True),
        (None, ELSEWHERE, False, False, False, False),
        (None, None, False, False, False, False),
    ],
)
def test_a_viewer_sees_what_is_theirs_and_in_a_chat_what_is_theirs_or_shared_there(
    owner: str | None,
    chat: str | None,
    ada_anywhere: bool,
    ada_here: bool,
    nobody_anywhere: bool,
    nobody_here: bool,
) -> None:
    session = Ownership(owner, chat)

    assert Viewer(ADA).sees(session) is ada_anywhere
    assert Viewer(ADA, HERE).sees(session) is ada_here
    assert Viewer(None).sees(session) is nobody_anywhere
    assert Viewer(None, HERE).sees(session) is nobody_here


@pytest.mark.parametrize(
    ("wanted", "from_adas_dm", "from_adas_own_in_the_group", "from_the_shared_group"),
    [
        (Ownership(ADA, HERE), True, True, False),
        (Ownership(ADA, ELSEWHERE), True, False, False),
        (Ownership(ADA, None), True, False, False),
        (Ownership(BOB, HERE), False, False, False),
        (Ownership(None, HERE), False, False, True),
        (Ownership(None, ELSEWHERE), False, False, False),
        (Ownership(None, None), False, False, False),
    ],
)
def test_a_dm_resumes_all_of_its_person_and_a_group_only_its_own_kind(
    wanted: Ownership, from_adas_dm: bool, from_adas_own_in_the_group: bool, from_the_shared_group: bool
) -> None:
    assert may_resume(Ownership(ADA, "telegram:dm"), is_dm=True, wanted=wanted) is from_adas_dm
    assert may_resume(Ownership(ADA, HERE), is_dm=False, wanted=wanted) is from_adas_own_in_the_group
    assert may_resume(Ownership(None, HERE), is_dm=False, wanted=wanted) is from_the_shared_group


def test_where_nobody_is_known_nothing_can_be_resumed() -> None:
    nothing = Ownership(None, None)

    assert not may_resume(nothing, is_dm=True, wanted=nothing)
    assert not may_resume(nothing, is_dm=False, wanted=nothing)


def source(**fields: Any) -> SessionSource:
    return SessionSource(**({"platform": "telegram"} | fields))


@pytest.mark.parametrize(
    ("fields", "person"),
    [
        ({"user_id": "7"}, "telegram:7"),
        ({"user_id": "7", "account": "work"}, "telegram@work:7"),
        ({"user_id": "7", "user_id_alt": "acc"}, "telegram:acc"),
        ({"user_id": "7", "chat_type": "group", "chat_id": "42"}, "telegram:7"),
        ({"user_id": "a:b"}, "telegram:a%3Ab"),
        ({"chat_type": "group", "chat_id": "42"}, None),
        ({"chat_type": "channel"}, None),
        ({"chat_id": "42"}, "telegram:%dm:42"),
        ({}, "telegram:%dm:"),
    ],
)
def test_a_person_is_named_by_the_account_they_write_from(fields: dict[str, Any], person: str | None) -> None:
    assert person_of(source(**fields)) == person


colliding = st.text(alphabet="a:%@dm", max_size=4)


@settings(max_examples=200)
@given(chat=colliding, sender=colliding.filter(bool), account=colliding.filter(bool))
def test_nobody_can_pick_an_id_that_makes_them_the_person_of_a_dm_without_a_sender(
    chat: str, sender: str, account: str
) -> None:
    unknown = source(chat_id=chat, account=account)
    known = source(user_id=sender, account=account)

    assert person_of(unknown) != person_of(known)


def test_a_private_session_belongs_to_its_person_and_a_shared_one_to_its_chat() -> None:
    in_group = source(chat_type="group", chat_id="42", user_id="7")
    in_dm = source(chat_id="7", user_id="7")
    shared = SessionScope(group_sessions_per_user=False)

    assert ownership_of(in_dm, address_of(in_dm)) == Ownership("telegram:7", None)
    assert ownership_of(in_group, address_of(in_group)) == Ownership("telegram:7", "telegram:42")
    assert ownership_of(in_group, address_of(in_group, shared)) == Ownership(None, "telegram:42")


ids = st.none() | st.sampled_from(["", "a", "b"])
places = st.builds(
    SessionSource,
    platform=st.sampled_from(["telegram", "signal"]),
    chat_type=st.sampled_from(["dm", "group", "channel", "thread"]),
    chat_id=ids,
    thread_id=ids,
    user_id=ids,
)
scopes = st.builds(SessionScope, st.booleans(), st.booleans())


@settings(max_examples=300)
@given(here=places, there=places, scope=scopes)
def test_nobody_sees_or_resumes_what_another_person_owns(
    here: SessionSource, there: SessionSource, scope: SessionScope
) -> None:
    mine = ownership_of(here, address_of(here, scope))
    theirs = ownership_of(there, address_of(there, scope))

    if theirs.owner is not None and theirs.owner != person_of(here):
        assert not viewer_of_source(here).sees(theirs)
        assert not may_resume(mine, is_dm=here.chat_type == "dm", wanted=theirs)


@settings(max_examples=300)
@given(here=places, scope=scopes)
def test_whoever_speaks_in_a_known_place_sees_the_session_they_speak_in(
    here: SessionSource, scope: SessionScope
) -> None:
    if here.chat_type == "dm" or here.chat_id:
        assert viewer_of_source(here).sees(ownership_of(here, address_of(here, scope)))


def test_from_a_group_nothing_of_other_chats_is_seen_and_from_a_dm_all_that_is_ones_own() -> None:
    in_group = source(chat_type="group", chat_id="42", user_id="7")
    in_dm = source(chat_id="7", user_id="7")
    of_group = ownership_of(in_group, address_of(in_group))
    of_dm = ownership_of(in_dm, address_of(in_dm))

    assert viewer_of_source(in_dm).sees(of_dm)
    assert viewer_of_source(in_dm).sees(of_group)
    assert viewer_of_source(in_group).sees(of_group)
    assert not viewer_of_source(in_group).sees(of_dm)
