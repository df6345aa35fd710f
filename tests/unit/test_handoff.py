"""What the target of a handoff names, and which conversation may go on where."""

from __future__ import annotations

import pytest

from threadline.model.context import HomeChannel, NamedHomeChannel, effective_home_channels
from threadline.model.ownership import ChatPlace, HandoffTarget, Ownership, may_hand_over, parse_handoff_target

ADA, BOB = Ownership("signal:ada", None), Ownership("signal:bob", None)
GROUP, OTHERS = Ownership(None, "signal:den"), Ownership(None, "signal:shed")
ADA_IN_GROUP = Ownership("signal:ada", "signal:den")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("signal", HandoffTarget(platform="signal", account=None)),
        ("signal@work", HandoffTarget(platform="signal", account="work")),
        ("signal:7", HandoffTarget(platform="signal", account=None, spots=(ChatPlace("7"),))),
        ("signal@work:7", HandoffTarget(platform="signal", account="work", spots=(ChatPlace("7"),))),
        ("signal:7:t", HandoffTarget(platform="signal", account=None, spots=(ChatPlace("7:t"), ChatPlace("7", "t")))),
        (
            "matrix:!r:example.org:$t",
            HandoffTarget(
                platform="matrix",
                account=None,
                spots=(
                    ChatPlace("!r:example.org:$t"),
                    ChatPlace("!r:example.org", "$t"),
                    ChatPlace("!r", "example.org:$t"),
                ),
            ),
        ),
    ],
)
def test_a_target_is_read_in_each_way_that_it_can_be_meant(text: str, target: HandoffTarget) -> None:
    assert parse_handoff_target(text) == target


@pytest.mark.parametrize("text", ["", "Signal", "signal:", "signal@", "signal@:7", ":7", "7", "a b"])
def test_what_names_no_platform_is_no_target(text: str) -> None:
    assert parse_handoff_target(text) is None


def test_a_target_of_many_colons_is_not_read_in_every_way() -> None:
    target = parse_handoff_target("matrix:" + "a:" * 5_000 + "b")
    assert target is not None
    assert len(target.spots) < 10


@pytest.mark.parametrize("is_owners", [False, True])
@pytest.mark.parametrize(
    ("conversation", "to", "is_dm", "anyone", "owner"),
    [
        (ADA, ADA, True, True, True),
        (ADA_IN_GROUP, ADA, True, True, True),
        (ADA, BOB, True, False, True),
        (ADA_IN_GROUP, BOB, True, False, True),
        (ADA, ADA_IN_GROUP, False, False, False),
        (ADA, GROUP, False, False, False),
        (ADA_IN_GROUP, GROUP, False, False, False),
        (GROUP, ADA, True, False, False),
        (GROUP, GROUP, False, True, True),
        (GROUP, OTHERS, False, False, False),
        (ADA, Ownership(None, None), True, False, True),
        (Ownership(None, None), Ownership(None, None), True, False, False),
    ],
)
def test_a_private_conversation_stays_private_and_a_shared_one_in_its_chat(
    conversation: Ownership, to: Ownership, is_dm: bool, anyone: bool, owner: bool, is_owners: bool
) -> None:
    allowed = may_hand_over(conversation, to, is_dm=is_dm, is_owners=is_owners)
    assert allowed is (owner if is_owners else anyone)


def test_what_was_said_in_the_chat_goes_before_the_configuration() -> None:
    configured = [HomeChannel("signal", "1", "a"), HomeChannel("signal", "2", "b", None, "work")]
    said = HomeChannel("signal", "3", "c")
    named = [NamedHomeChannel(channel=said, chat_type="dm", person="signal:ada")]
    assert effective_home_channels(configured, named) == (configured[1], said)
    assert effective_home_channels(configured, []) == tuple(configured)
    assert effective_home_channels([], named) == (said,)
