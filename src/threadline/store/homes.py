"""Operations on home channels that were named in a chat."""

from __future__ import annotations

from threadline.model.address import scoped_id
from threadline.model.context import HomeChannel
from threadline.model.homes import Home
from threadline.store.engine.database import Tx


def homes(tx: Tx) -> list[Home]:
    """All of them, one for each account at most."""
    return [
        Home(
            channel=HomeChannel(platform, chat_id, name, thread_id, account),
            chat_type=chat_type,
            person=person,
        )
        for platform, account, chat_id, chat_type, thread_id, name, person in tx.rows("list_homes")
    ]


def set_home(tx: Tx, home: Home) -> None:
    """The home channel of its account from now on, in place of the one that was named before."""
    channel = home.channel
    tx.run(
        "keep_home",
        platform=channel.platform,
        account=channel.account,
        chat_id=channel.chat_id,
        chat_type=home.chat_type,
        thread_id=channel.thread_id,
        name=channel.name,
        person=home.person,
    )


def drop_home(tx: Tx, platform: str, account: str) -> bool:
    """Takes back what was named for an account; False where nothing was."""
    return tx.run("drop_home", platform=platform, account=account) == 1


def names_of_person(tx: Tx, person: str) -> list[str]:
    """The home channels that are direct chats of a person, named like `telegram:7`, and the thread where there is one."""
    return [
        scoped_id(platform, account, chat_id) + (f":{thread_id}" if thread_id else "")
        for platform, account, chat_id, thread_id in tx.rows("homes_of_person", person=person)
    ]
