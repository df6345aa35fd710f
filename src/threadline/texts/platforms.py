"""The sentences of setting up platforms, and of the terminal that waits for another one."""

from __future__ import annotations

from typing import Final

NONE: Final = "No chat platform is configured: the page and `threadline chat` talk to the agent."
TO_ADD: Final = "`threadline platforms add KIND` adds one of these kinds: {kinds}."
NOTHING_TO_ADD: Final = "No kind of platform is installed that could be added."

ASK: Final = "The token of {name} (what you type is not shown): "
SEEN_BY_ALL: Final = (
    "a token on the command line is seen by everybody on this machine; leave --token out to be asked for it, "
    "or use --token -, --token-file or --token-env"
)
ONE_IS_ENOUGH: Final = "one token is enough: use one of --token, --token-file and --token-env"
NONE_GIVEN: Final = "no token was given; nothing was changed"
BAD_NAME: Final = "{name!r} can't be the name of a platform; use lower-case letters, digits, - and _"
BAD_OPTION: Final = "{given!r} is no option; write it as NAME=VALUE, such as base_url=http://127.0.0.1:8081"
NOBODY_THERE: Final = "nobody is there to ask; give the token with --token -, --token-file or --token-env"

ADDED: Final = "Added {name} to {file}."
WE_ARE: Final = "{name}: we are {who}."
KEPT: Final = "The token is in {file}, which only you can read."
UNTRIED: Final = "{name} was not tried out."
CANT_TELL: Final = "{name} can be made from its settings; its kind can't say more without connecting."
START: Final = (
    "Start the gateway with `threadline serve`; one that runs takes it in after SIGHUP (`systemctl reload threadline`)."
)
PAIR: Final = (
    "Then write to it: whoever it does not know is given a code. "
    "`threadline pair approve --owner CODE` makes you its owner."
)
NO_SUCH: Final = "no platform {name!r} is configured; {known}"
SLOW: Final = "it did not answer within {seconds:g} s; check the network, and try again"
TAKEN: Final = (
    "the platform {name!r} is in {file} already; change it there, or give the new one another name with --name"
)
KEPT_ALREADY: Final = "{file} is there already; remove it, or refer to it with --token-file {file}: nothing was changed"

# The settings of a Telegram bot.
TELEGRAM_PRIVATE: Final = (
    "In groups Telegram gives it commands and answers to its messages, but not always what mentions it. If that is too "
    "little: /setprivacy at @BotFather, then take it out of the group and add it again; or make it an admin there."
)
TELEGRAM_HEARS_ALL: Final = "In groups it hears everything that is said."
TELEGRAM_NO_GROUPS: Final = "It can't be added to groups; /setjoingroups at @BotFather changes that."
TELEGRAM_HOOKED: Final = (
    "Its messages go to a webhook of another program. The gateway takes the webhook away when it starts."
)
TELEGRAM_WAITING: Final = "Updates that wait for it: {count}."

# Only one terminal per database can have the conversation.
SEAT_AWAITED: Final = "Another `threadline chat` is at work through a pipe (process {process}): waiting for its end."
SEAT_LOOKED_AT: Final = (
    "Another terminal had this conversation open (process {process}): looking whether it is still there."
)
SEAT_TAKEN: Final = (
    "another terminal has this conversation open (process {process}), and answers would be shown there; "
    "end that one with Ctrl-D, or talk to another database with --db"
)
SEAT_LOST: Final = (
    "this terminal was away for too long and another one has the conversation now; start again once that has ended"
)
