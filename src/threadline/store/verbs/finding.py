"""Verbs on search."""

from __future__ import annotations

from datetime import datetime

from threadline.errors import InvalidRequest
from threadline.store import rows
from threadline.store.conversations import indexes, search
from threadline.store.engine.database import Plan, read_along, write
from threadline.store.text import parse_query
from threadline.store.verbs.arguments import (
    Who,
    instant_of,
    person_named,
    viewer_of,
)
from threadline.store.verbs.base import VerbsBase

# A search indexes at most so many steps before it answers; what is left over is told, not hidden.
_INLINE_STEPS = 16


class SearchVerbs(VerbsBase):
    """Finding messages, and keeping the index level with them."""

    def search(
        self,
        query: str,
        *,
        viewer: Who = None,
        platform: str | None = None,
        person: Who = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        order: search.Order = "rank",
        limit: int = 20,
        cursor: str | None = None,
    ) -> Plan[search.SearchPage]:
        """Ranked hits with snippets and neighbours, in any language; words, `"phrases"`, `-not`, `pre*`.

        With `viewer` (a person, or a source: that sender, from there) only what that person may see; without, the operator's
        view of everything. `session` asks for what that one shows; `NotYours` where it is not the viewer's to see.
        `order="newest"` asks for the latest instead of the best.
        """
        if order not in ("rank", "newest"):
            raise InvalidRequest(f"hits are ordered by 'rank' or 'newest', not by {order!r}")
        wanted = search.Search(
            query=parse_query(query),
            viewer=viewer_of(viewer),
            platform=platform,
            person=person_named(person),
            role=role,
            since=instant_of(since, -rows.END),
            until=instant_of(until, rows.END),
            session_id=session,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        page = yield from read_along(search.search, wanted)
        if page.behind:
            for _ in range(_INLINE_STEPS):
                if not (yield from write(indexes.index_some)):
                    break
            page = yield from read_along(search.search, wanted)
        return page

    def index_pending(self, limit: int = 1 << 40) -> Plan[int]:
        """Brings the search index level with the messages, or nearer by at least `limit` of them; how many it took in.

        What listings go by is brought level too. Both happens by itself behind the writes: this is for who can't wait.
        """
        while (yield from write(indexes.relist_some)) == indexes.RELIST_STEP:
            pass
        done = 0
        while done < limit:
            step = yield from write(indexes.index_some)
            done += step
            if step == 0:
                break
        return done
