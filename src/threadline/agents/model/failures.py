"""Turn errors of model providers into one sentence that says what to do. No other module reads these errors."""

from __future__ import annotations

import math

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from threadline.ports.agent import AgentError

# The errors that a request to a provider may raise; any other exception is our bug.
FAILURES = (AgentRunError, UserError)

# Where the provider names no waiting time.
_A_WHILE = "in a minute"


def agent_error_of(
    error: Exception, provider: str, name: str, *, has_begun: bool, is_chosen: bool = False
) -> AgentError:
    """Return an `AgentError` with a sentence for `error`. `has_begun`: part of the answer has arrived already.

    `is_chosen`: the model was chosen in the chat, so another can be chosen. The sentence has nothing of the error's own text,
    which may repeat the conversation or parts of the key.
    """
    match error:
        case ModelRateLimitError() | ModelUnavailableError():
            return _busy(error, provider)
        case ModelRequestRejectedError() | ModelQuotaExceededError():
            return _refusal(error, provider, name, is_chosen=is_chosen)
        case ContentFilterError():
            return refused_by_provider()
        case _ if has_begun:
            return stream_broken(provider)
        case ModelTimeoutError() | ModelRequestTimeout():
            return AgentError(f"{provider} did not answer in time. Try again {_A_WHILE}.")
        case ModelConnectionError():
            return AgentError(f"{provider} can't be reached. Check the network and try again.", is_owners=True)
        case ModelServerError():
            return AgentError(f"{provider} has a fault just now. Try again {_A_WHILE}.", is_owners=True)
        case ModelAPIError():
            return AgentError(f"{provider} could not answer. Try again; its owner finds the reason in the log.")
        case _:
            return AgentError(f"{provider} gave an answer that can't be read. Try again, or use another model.")


def stream_broken(provider: str) -> AgentError:
    """Return the error for a stream that ended in the middle."""
    return AgentError(f"The answer broke off: the connection to {provider} was lost. /retry asks again.")


def refused_by_provider() -> AgentError:
    """Return the error for a refusal by the provider's filter or by the model."""
    return AgentError("The model declined to answer this. Put it in other words.")


def token_limit_reached() -> AgentError:
    """Return the error for an answer that reached its token limit before any text."""
    return AgentError(
        "The model thought for so long that no room was left for its answer. Ask for less, or have `max_tokens` raised."
    )


def _refusal(error: ModelAPIError, provider: str, name: str, *, is_chosen: bool) -> AgentError:
    match error:
        case ModelAuthenticationError():
            sentence = f"{provider} does not accept the key for {name}. Its owner has to set another one."
        case ModelQuotaExceededError():
            sentence = f"The account at {provider} has no credit left. Its owner has to add some."
        case ModelNotFoundError() if is_chosen:
            return AgentError(
                f"{provider} has no model {name}. /model NAME chooses another one, /model default the agent's own."
            )
        case ModelNotFoundError():
            sentence = f"{provider} has no model {name}. Its owner has to name another one."
        case ModelContextWindowExceededError():
            return AgentError(
                "This conversation is too long for the model. /new starts another one; /resume brings this one back."
            )
        case _:
            return AgentError(
                f"{provider} refused the request. Put it in other words; its owner finds more in the log."
            )
    return AgentError(sentence, is_owners=True)


def _busy(error: ModelRateLimitError | ModelUnavailableError, provider: str) -> AgentError:
    """Return the error for a provider that accepts no request now. Only an outage alerts the owner."""
    wait = _A_WHILE if error.retry_after is None else f"in {_seconds(error.retry_after)}"
    match error:
        case ModelRateLimitError():
            return AgentError(f"{provider} gets more requests than it allows. Try again {wait}.")
        case ModelOverloadedError():
            return AgentError(f"{provider} is overloaded. Try again {wait}.")
        case _:
            return AgentError(f"{provider} is not available just now. Try again {wait}.", is_owners=True)


def _seconds(wait: float) -> str:
    seconds = max(1, math.ceil(wait))
    if seconds < 120:
        return f"{seconds} s"
    return f"{math.ceil(seconds / 60)} min"
