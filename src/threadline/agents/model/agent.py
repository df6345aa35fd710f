"""A language model as an agent, at any provider that pydantic-ai knows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING

from threadline.agents.cancellation import until_cancelled
from threadline.agents.model.models import ModelPool, OpenModel
from threadline.agents.registry import AgentSetup
from threadline.model.safe_text import quoted_label
from threadline.model.turn import Replay
from threadline.model.usage import micros_of
from threadline.ports.agent import AgentError, Event, Text, Thought, Turn, UsageOf

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.settings import ModelSettings

_RETRIES = 2
# So much of what somebody answers is told.
_QUOTED_CHARS = 1_000


class ModelAgent:
    """Answers with what a model says: its text, its thoughts, and what they cost.

    `AgentSettings.model` is "provider:name". With a `base_url`, "openai:name" is any server that speaks chat-completions,
    and a key from the environment stays at home: only a key that is set is sent there. The model is told the agent's system
    prompt, the chat's, and the context block, in this order; then the history, at most `history_limit` messages of it.

    Requests that fail at the start are repeated `retries` times. What still fails is an `AgentError` of one sentence; the
    usage known by then is told before it. A cancelled turn drops its request at once.

    A session may have chosen another model, "provider:name" or a name at the agent's own provider. The agent's key and address
    are never used for another provider: that one needs a key of its own in the environment.
    """

    def __init__(self, settings: AgentSetup, *, retries: int = _RETRIES) -> None:
        """`AgentError` where the extra or a key is missing, `InvalidRequest` where the settings can't be used."""
        self._settings = settings
        self._request_settings = _request_settings(settings, retries)
        self._models = ModelPool(settings)

    @property
    def replay(self) -> Replay:
        return "safe"

    @property
    def history_limit(self) -> int | None:
        """One more than the model is shown, which tells that there was more: then its history begins with a user's words."""
        limit = self._settings.history_limit
        return None if limit is None else limit + 1

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """The model's words and thoughts as they come; at the end, or where it broke off, one `UsageOf`."""
        state = _RequestState()
        failure: AgentError | None = None
        try:
            async with aclosing(until_cancelled(self._answer(turn, state), turn.cancelled)) as events:
                async for event in events:
                    yield event
        except AgentError as error:
            failure = error
        if (usage := state.usage()) is not None:
            yield usage
        if failure is not None:
            raise failure

    async def check_model(self, name: str) -> str:
        """The full name of a model that a session can choose; `InvalidRequest` where it can't be asked. Nothing is sent."""
        return await self._models.check(name)

    async def close(self) -> None:
        """Closes the connections that are kept for the next turn. The agent can be used again."""
        await self._models.aclose()

    async def _answer(self, turn: Turn, state: _RequestState) -> AsyncGenerator[Event, None]:
        from pydantic_ai.direct import model_request_stream

        messages = await self._messages(turn)
        async with (
            self._models.lease_model(turn.session.chosen_model) as model,
            _provider_errors(model, state),
            model_request_stream(await model.connected(), messages, model_settings=self._request_settings) as stream,
        ):
            state.stream = stream
            async for event in stream:
                if (output := _event_of(event)) is not None:
                    state.has_text |= isinstance(output, Text)
                    yield output
            state.require_end(model.provider_text)

    async def _messages(self, turn: Turn) -> list[ModelMessage]:
        from threadline.agents.model.messages import clean, file_parts, last_messages, to_model_messages

        files = await file_parts(turn)
        messages = to_model_messages(
            last_messages(turn.history, self._settings.history_limit), _prompt_text(turn), files
        )
        prompts = (self._settings.system_prompt, turn.system_prompt, turn.context_prompt)
        instructions = "\n\n".join(clean(text.strip()) for text in prompts if text and text.strip())
        if instructions and messages[-1].kind == "request":
            messages[-1].instructions = instructions
        return messages


class _RequestState:
    """What is known of one request."""

    def __init__(self) -> None:
        self.stream: StreamedResponse | None = None
        self.has_text = False

    def usage(self) -> UsageOf | None:
        """What it cost so far; none where nothing was told of it."""
        if self.stream is None:
            return None
        response = self.stream.get()
        return usage_of(response) if response.usage.has_values() else None

    def require_end(self, provider: str) -> None:
        """Raises an `AgentError` where the stream is over and the answer is not."""
        from threadline.agents.model.failures import refused_by_provider, stream_broken, token_limit_reached

        if self.stream is None:
            return
        response = self.stream.get()
        if response.finish_reason == "content_filter":
            raise refused_by_provider()
        if response.state == "incomplete" or response.finish_reason == "error":
            raise stream_broken(provider)
        if response.finish_reason == "length" and not self.has_text:
            raise token_limit_reached()


def _prompt_text(turn: Turn) -> str:
    """What a turn says, each message behind the words that it answers. They may be a stranger's: quoted, and on one line."""
    if not any(spoken.quoted for spoken in turn.messages):
        return turn.text
    return "\n\n".join(
        f"[in answer to: {quoted_label(spoken.quoted, _QUOTED_CHARS)}]\n{spoken.text}" if spoken.quoted else spoken.text
        for spoken in turn.messages
    )


@asynccontextmanager
async def _provider_errors(model: OpenModel, state: _RequestState) -> AsyncIterator[None]:
    from threadline.agents.model.failures import FAILURES, agent_error_of

    try:
        yield
    except FAILURES as cause:
        has_begun = state.stream is not None
        raise agent_error_of(
            cause, model.provider_text, model.name, has_begun=has_begun, is_chosen=model.is_chosen
        ) from cause


def usage_of(response: ModelResponse) -> UsageOf:
    """What a request used, with the price that is listed for the model; without one the cost is unknown."""
    used = response.usage
    dollars = _price(response)
    return UsageOf(
        input_tokens=max(0, used.input_tokens - used.cache_read_tokens - used.cache_write_tokens),
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        reasoning_tokens=used.output_reasoning_tokens or used.details.get("reasoning_tokens", 0),
        prompt_tokens=used.input_tokens,
        cost_micros=micros_of(dollars),
        cost_status="unknown" if dollars is None else "estimated",
        model=response.model_name,
    )


def _price(response: ModelResponse) -> Decimal | None:
    try:
        return response.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None


def _event_of(event: object) -> Event | None:
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return Text(text) if text else None
        case (
            PartStartEvent(part=ThinkingPart(content=thought))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
        ):
            return Thought(thought) if thought else None
        case _:
            return None


def _request_settings(settings: AgentSetup, retries: int) -> ModelSettings:
    # Prompts are the same bytes from turn to turn; a provider that keeps them charges a tenth for them.
    chosen: ModelSettings = {"max_retries": retries, "cache": True}
    if settings.temperature is not None:
        chosen["temperature"] = settings.temperature
    if settings.max_tokens is not None:
        chosen["max_tokens"] = settings.max_tokens
    return chosen
