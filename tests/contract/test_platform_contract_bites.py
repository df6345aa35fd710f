"""The platform contract finds what it is there to find: adapters with one mistake each fail it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
from tests.contract import broken_platforms as broken
from tests.contract.platform_worlds import ScriptedService, scripted_service

from threadline.ports.platform import Platform, PlatformError
from threadline.testing.contracts.platforms import PlatformContract, PlatformWorld
from threadline.testing.scripted import ScriptedPlatform

Mistake: TypeAlias = type[ScriptedPlatform]

spoils = broken.spoils
# What is promised, and a mistake that breaks it.
MISTAKES: list[tuple[str, Mistake]] = [
    ("it_says_who_it_is_and_what_it_can", broken.AccountOfAnother),
    ("what_is_said_comes_in_once_and_in_order", broken.AcknowledgesEarly),
    ("what_is_said_comes_in_once_and_in_order", spoils(dedupe_key=lambda _: uuid.uuid4().hex[:1])),
    ("every_field_of_a_source_is_filled", broken.Nameless),
    ("a_text_comes_in_as_it_was_written", spoils(text=lambda event: event.text.replace("<", "&lt;"))),
    (
        "a_message_another_chat_s_an_edit_and_a_deletion_are_four_events",
        spoils(dedupe_key=lambda event: event.message_id),
    ),
    (
        "a_message_another_chat_s_an_edit_and_a_deletion_are_four_events",
        spoils(dedupe_key=lambda event: f"{event.source.chat_id}/{event.message_id}"),
    ),
    ("two_messages_alike_are_two", spoils(dedupe_key=lambda event: event.text)),
    ("in_a_group_it_is_told_what_is_meant_for_us", spoils(mentions_us=lambda _: True)),
    ("in_a_group_it_is_told_what_is_meant_for_us", spoils(mentions_us=lambda _: False)),
    ("an_answer_tells_what_it_answers", spoils(reply_to=lambda _: None)),
    ("a_file_comes_in_as_it_was_sent", broken.FetchesOther),
    ("a_file_comes_in_as_it_was_sent", broken.FetchesAll),
    ("a_file_comes_in_as_it_was_sent", spoils(attachments=lambda _: ())),
    ("a_chat_that_has_another_id_is_told_before_its_next_message", broken.MovesLate),
    ("what_cannot_be_read_is_handed_on_and_passed_over", broken.DropsUnreadable),
    ("nothing_is_acknowledged_before_it_is_stored", broken.AcknowledgesEarly),
    ("what_could_not_be_stored_comes_again", broken.AcknowledgesFaults),
    ("nothing_overtakes_what_could_not_be_stored", broken.TriesLater),
    ("it_comes_again_under_the_same_key", spoils(dedupe_key=lambda _: uuid.uuid4().hex)),
    ("what_nobody_stored_comes_to_the_next_gateway", broken.AcknowledgesEarly),
    ("what_was_stored_comes_to_no_other_gateway", broken.AcknowledgesNothing),
    ("what_was_said_before_it_ran_comes_in", broken.DropsTheFirst),
    ("it_comes_back_when_the_line_breaks", broken.StaysAway),
    ("a_break_leaves_no_gap", broken.LeavesAGap),
    ("what_is_sent_meanwhile_arrives_or_fails_as_a_platform_fails", broken.RaisesItsOwn),
    ("a_lost_answer_is_neither_taken_for_certain_nor_sent_again", broken.SendsAgain),
    ("a_lost_answer_is_neither_taken_for_certain_nor_sent_again", broken.SaysTransient),
    ("a_lost_answer_is_neither_taken_for_certain_nor_sent_again", broken.BelievesInLuck),
    ("a_message_is_shown_and_has_an_id_of_its_own", broken.OneId),
    ("many_may_send_at_once", broken.OneAtATime),
    ("a_message_of_the_greatest_length_is_shown_whole", broken.Cuts),
    ("a_message_of_the_greatest_length_is_shown_whole", broken.CutsByUnits),
    ("a_plain_text_is_shown_as_it_is", broken.EscapesPlain),
    ("an_answer_can_be_sent_while_an_event_is_being_accepted", broken.SendsNothingMeanwhile),
    ("a_message_goes_to_its_chat_and_thread_alone", broken.LosesThread),
    ("an_answer_stands_under_what_it_answers", broken.LosesReply),
    ("typing_is_shown_where_it_is_declared", broken.NeverTypes),
    ("the_same_key_shows_one_message_where_that_is_declared", broken.OneId),
    ("an_edited_message_says_the_new_text_in_its_old_place", broken.EditsNothing),
    ("an_edit_that_changes_nothing_harms_nothing", broken.EditsAreTransient),
    ("an_edit_of_what_is_not_there_says_so_or_shows_it", broken.EditsAreTransient),
    ("a_press_on_a_button_comes_back_with_its_value", spoils(button=lambda event: event.button and "yes")),
    ("an_edit_takes_buttons_away", broken.KeepsButtons),
    ("a_file_goes_out_as_it_is", broken.TurnsFiles),
    ("an_album_goes_with_one_message_and_more_than_that_is_refused", broken.OneFileOnly),
    ("too_much_at_once_says_how_long_to_wait", broken.ForgetsTheWait),
    ("broken_markup_is_told_apart", broken.HidesMarkup),
    ("a_chat_that_is_gone_is_said_to_be_gone", broken.HidesGone),
    ("a_key_that_is_not_known_ends_it", broken.KeepsKnocking),
    ("run_ends_when_it_is_cancelled", broken.Deaf),
    ("it_can_be_closed_at_any_time", broken.ClosesOnce),
    ("what_is_asked_of_it_too_late_fails_as_a_platform_fails", broken.FailsWhenClosed),
    ("what_is_being_sent_is_finished_before_the_end", broken.HangsUp),
    ("a_send_that_never_ends_holds_the_end_up_for_five_seconds_at_most", broken.NeverCloses),
    ("a_send_that_never_ends_holds_the_end_up_for_five_seconds_at_most", broken.ClosesLate),
    ("commands_that_are_offered_are_shown", broken.OffersNothing),
    ("it_sends_while_another_listens", broken.OpensNothing),
    ("it_can_stop_listening_and_begin_again", broken.ListensOnce),
    ("what_is_said_is_answered", broken.DropsTheFirst),
    ("an_answer_goes_to_where_it_was_asked_for", broken.LosesThread),
    ("a_long_answer_arrives_whole_in_parts_that_fit", broken.Cuts),
    ("a_long_answer_arrives_whole_in_parts_that_fit", broken.CutsByUnits),
    ("a_long_answer_arrives_whole_in_parts_that_fit", broken.LosesFences),
    ("a_stream_ends_in_the_exact_text", broken.EditsTwiceOnly),
    ("what_cannot_be_shown_with_its_markup_is_shown_without", broken.HidesMarkup),
    ("a_lost_answer_is_followed_by_one_that_says_so", broken.BelievesInLuck),
]
# What is not declared, and an adapter that does it by halves instead of refusing it.
HALVES: list[tuple[str, Mistake, dict[str, object]]] = [
    ("typing_is_shown_where_it_is_declared", broken.NeverTypes, {"typing": False}),
    ("an_edited_message_says_the_new_text_in_its_old_place", broken.EditsNothing, {"edit": False}),
    ("an_edit_takes_buttons_away", broken.EditsNothing, {"edit": False}),
    ("a_press_on_a_button_comes_back_with_its_value", broken.LosesButtons, {"buttons": False}),
    ("a_file_goes_out_as_it_is", broken.LosesFiles, {"files": False, "album": 1}),
    ("an_album_goes_with_one_message_and_more_than_that_is_refused", broken.OneFileOnly, {"album": 1}),
    ("the_same_key_shows_one_message_where_that_is_declared", broken.OtherKeys, {"idempotent_send": True}),
]

# What takes its time also where nothing is wrong: the gateway pauses before it sends again, and an end may take five seconds.
SLOW = {
    "a_lost_answer_is_followed_by_one_that_says_so": 5.0,
    "a_send_that_never_ends_holds_the_end_up_for_five_seconds_at_most": 9.0,
}


class Spoilt(ScriptedService):
    """A world whose adapter has a mistake, and whose people wait no longer than they must for what will never come."""

    def __init__(self, world: ScriptedService, mistake: Mistake, patience: float) -> None:
        super().__init__(world.chat)
        self._mistake = mistake
        self.patience = patience

    def connect(self) -> Platform:
        return self._mistake(self.chat.address, capabilities=self.chat.capabilities)


def holds(promise: str, mistake: Mistake, **declared: object) -> None:
    """Runs one test of the contract; it fails as tests fail."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[PlatformWorld]:
        async with scripted_service(**declared) as world:
            yield Spoilt(world, mistake, SLOW.get(promise, 1.5))

    getattr(PlatformContract(), f"test_{promise}")(opened)


@pytest.mark.parametrize(("promise", "mistake"), MISTAKES)
def test_a_mistake_is_found(promise: str, mistake: Mistake) -> None:
    with pytest.raises((AssertionError, TimeoutError, PlatformError, RuntimeError)):
        holds(promise, mistake)


@pytest.mark.parametrize(("promise", "mistake", "declared"), HALVES)
def test_what_is_done_by_halves_is_found(promise: str, mistake: Mistake, declared: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        holds(promise, mistake, **declared)


@pytest.mark.parametrize("unit", ["utf16", "bytes"])
@pytest.mark.parametrize(
    "promise", ["a_message_of_the_greatest_length_is_shown_whole", "a_long_answer_arrives_whole_in_parts_that_fit"]
)
def test_a_unit_that_is_not_the_service_s_is_found(promise: str, unit: str) -> None:
    with pytest.raises((AssertionError, TimeoutError, PlatformError)):
        holds(promise, broken.CountsSigns, length_unit=unit)


def test_every_promise_is_broken_by_somebody() -> None:
    promises = {name.removeprefix("test_") for name in dir(PlatformContract) if name.startswith("test_")}
    assert {promise for promise, _ in MISTAKES} == promises
