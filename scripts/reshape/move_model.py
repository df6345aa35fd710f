"""Rewrite every use of `threadline.model` and `threadline.ids` for their new modules and names; safe to run again.

    python scripts/reshape/move_model.py [--moves-only] [--fields] [PATH ...]

Without a path it reads src, tests, bench, scripts, docs and pyproject.toml. It does not merge the modules themselves.
`--fields` asks mypy for the uses of renamed fields, and renames them.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MODEL, TEXTS = "threadline.model", "threadline.texts"
DEFAULT_PATHS = ("src", "tests", "bench", "scripts", "docs", "pyproject.toml")

MODULES = {
    f"{MODEL}.{old}": new
    for old, new in {
        "admissible": f"{MODEL}.inbound",
        "editors": f"{MODEL}.client_sources",
        "handoff": f"{MODEL}.ownership",
        "homes": f"{MODEL}.context",
        "inert": f"{MODEL}.safe_text",
        "prompt": f"{MODEL}.context",
        "transcript": f"{MODEL}.message",
        "webchat": f"{MODEL}.client_sources",
        "words_access": f"{TEXTS}.gateway",
        "words_acp": f"{TEXTS}.editors",
        "words_acp_agent": f"{TEXTS}.acp_agents",
        "words_alarms": f"{TEXTS}.gateway",
        "words_commands": f"{TEXTS}.commands",
        "words_gateway": f"{TEXTS}.gateway",
        "words_platforms": f"{TEXTS}.platforms",
        "words_telegram": "threadline.platforms.telegram.texts",
        "words_web": f"{TEXTS}.web",
        "words_web_access": f"{TEXTS}.web",
        "zones": f"{MODEL}.policy",
    }.items()
}

# What does not go where the rest of its module goes, or gets a new name on the way because two names meet.
MOVED_NAMES: dict[tuple[str, str], tuple[str, str]] = {
    (f"{MODEL}.files", "stored_id"): (f"{MODEL}.inbound", "stored_id"),
    (f"{MODEL}.privacy", "INVISIBLE"): (f"{MODEL}.safe_text", "INVISIBLE"),
    (f"{MODEL}.privacy", "LINE_BREAKS"): (f"{MODEL}.safe_text", "LINE_BREAKS"),
    (f"{MODEL}.privacy", "LABEL_CHARS"): (f"{MODEL}.safe_text", "LABEL_CHARS"),
    (f"{MODEL}.privacy", "inert"): (f"{MODEL}.safe_text", "safe_label"),
    (f"{MODEL}.privacy", "quoted"): (f"{MODEL}.safe_text", "quoted_label"),
} | {
    (f"{MODEL}.words_alarms", name): (f"{TEXTS}.gateway", f"ALERT_{name}")
    for name in ("AGENT", "PLATFORM", "CONTESTED", "FOREIGN", "CHAT", "LAST_CHAT", "PARKED", "ONCE")
}

_RENAMES: dict[str, dict[str, str]] = {
    f"{MODEL}.access": {
        "ASKED_ONCE_IN": "PAIRING_INTERVAL",
        "CODE_LASTS": "CODE_LIFETIME",
        "Guard": "PairingGuard",
        "LOCKED_FOR": "PAIRING_LOCK_TIME",
        "PENDING_AT_MOST": "MAX_PENDING_PAIRINGS",
        "WRONG_AT_MOST": "MAX_WRONG_CODES",
        "after_wrong": "guard_after_wrong_code",
        "bare_command": "command_name",
        "expiry_of": "code_expiry",
        "highest": "highest_role",
        "lowest": "lowest_role",
        "name_of_person": "parse_person_name",
        "typed_code": "normalize_code",
        "why_no_code": "code_refusal",
    },
    f"{MODEL}.client_sources": {
        "AT_THE_MACHINE": "LOCAL_PLATFORMS",
        "chat_of": "web_chat_id",
        "is_at_machine": "is_local_person",
        "read_chat": "parse_web_chat_id",
        "runtime_at": "merge_runtime",
    },
    f"{MODEL}.context": {"Home": "NamedHomeChannel", "homes_in_force": "effective_home_channels"},
    f"{MODEL}.delivery": {"HELD_AT_MOST": "MAX_RETRY_TIME"},
    f"{MODEL}.files": {"messages_of": "file_messages"},
    f"{MODEL}.inbound": {
        "Moved": "IdChange",
        "excess_of": "size_error",
        "flaw_of": "validation_error",
        "is_plain": "needs_no_cleaning",
        "keepable": "storable_text",
        "mended": "sanitized",
        "parkable": "sanitized_unreadable",
    },
    f"{MODEL}.message": {"StoredMessages": "LazyMessages", "digest_of": "content_digest"},
    f"{MODEL}.ownership": {
        "Spot": "ChatPlace",
        "keeper_of": "file_owner_of",
        "may_take": "may_copy_between_owners",
        "read_target": "parse_handoff_target",
        "viewer_at": "viewer_of_source",
    },
    f"{MODEL}.policy": {
        "counts_persons_days": "uses_person_timezone",
        "near_zone": "suggest_zone",
        "time_in": "local_time",
    },
    f"{MODEL}.privacy": {"redaction": "make_redaction", "redacts": "is_redacted_platform"},
    f"{MODEL}.safe_text": {"inert": "safe_text", "inert_json": "safe_json", "inert_line": "safe_line"},
    f"{MODEL}.speaker": {"introduced": "with_new_speakers", "names_before": "earlier_names"},
    f"{MODEL}.turn": {
        "Fate": "MessageOutcome",
        "Lane": "QueueKind",
        "Outcome": "TurnOutcome",
        "Stop": "StopReason",
        "Waiting": "PendingMessage",
        "after_crash": "recovery_decision",
        "next_batch": "next_turn_messages",
    },
    f"{MODEL}.view": {
        "everything": "all_spans",
        "inherited": "forked_view",
        "joined": "merge_spans",
        "rewritten": "rewritten_view",
        "shows": "is_visible",
        "upto": "spans_up_to",
    },
    "threadline.platforms.text": {"inert": "safe_text"},
    "threadline.ids": {
        "_written": "_formatted",
        "new_ask_code": "new_approval_code",
        "new_owner": "new_lease_owner",
    },
}
RENAMES = {(module, old): new for module, names in _RENAMES.items() for old, new in names.items()}

# Keyword arguments of functions, by the function's new name.
KEYWORDS = {"make_redaction": {"known": "known_ids"}, "Redaction": {"known": "known_ids"}}
# Fields and properties, for `--fields`.
FIELDS = {("Target", "lane"): "ordering_key", ("Redaction", "known"): "known_ids"}


class Edit(NamedTuple):
    """Replace the bytes `start` to `end` of a file."""

    start: int
    end: int
    text: str


class Scope:
    """The names that one module, class, function or comprehension binds."""

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.parent = parent
        self.is_class = isinstance(node, ast.ClassDef)
        self.is_comprehension = isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        self.bound: set[str] = set()
        self.elsewhere: set[str] = set()

    def resolve(self, name: str) -> Scope | None:
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not scope.is_class
            if visible and name in scope.bound and name not in scope.elsewhere:
                return scope
            scope = scope.parent
        return None

    def chain_to(self, end: Scope) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None and scope is not end:
            yield scope
            scope = scope.parent


class Names(ast.NodeVisitor):
    """Find every name of a file with the scope it is used in, and every import with the scope it binds in."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = self.scope = Scope(tree, None)
        self.uses: list[tuple[Scope, ast.Name]] = []
        self.definitions: list[tuple[Scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]] = []
        self.imports: list[tuple[Scope, ast.ImportFrom]] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        for statement in tree.body:
            self.visit(statement)

    def _bind(self, name: str) -> None:
        self.scope.bound.add(name)

    def _inside(self, node: ast.AST, parts: list[ast.AST], arguments: ast.arguments | None = None) -> None:
        outer, self.scope = self.scope, Scope(node, self.scope)
        if arguments is not None:
            for argument in ast.walk(arguments):
                if isinstance(argument, ast.arg):
                    self._bind(argument.arg)
        for part in parts:
            self.visit(part)
        self.scope = outer

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)
        self.uses.append((self.scope, node))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.scope
        while scope.is_comprehension and scope.parent is not None:
            scope = scope.parent
        scope.bound.add(node.target.id)
        self.uses.append((scope, node.target))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name)
        self.definitions.append((self.scope, node))
        arguments = node.args
        outside = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults, node.returns]
        outside += [part.annotation for part in ast.walk(arguments) if isinstance(part, ast.arg)]
        for part in outside:
            if part is not None:
                self.visit(part)
        self._inside(node, list(node.body), arguments)

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in (*node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        self._inside(node, [node.body], node.args)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        self.definitions.append((self.scope, node))
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._inside(node, list(node.body))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self.visit(node.generators[0].iter)
        parts: list[ast.AST] = []
        for place, generator in enumerate(node.generators):
            parts += [generator.target, *generator.ifs] if place == 0 else [generator]
        parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._inside(node, parts)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension  # noqa: N815

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports.append((self.scope, node))
        for alias in node.names:
            self._bind(alias.asname or alias.name)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            self._bind(node.name)
        super().generic_visit(node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self._bind(node.rest)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.scope.elsewhere.update(node.names)

    visit_Nonlocal = visit_Global  # noqa: N815


def place_of(module: str, name: str, *, moves_only: bool) -> tuple[str, str]:
    """Return the module and the name that `name` of `module` has after the reshape."""
    if (module, name) in MOVED_NAMES:
        return MOVED_NAMES[module, name]
    module = MODULES.get(module, module)
    return module, name if moves_only else RENAMES.get((module, name), name)


class Rewriter:
    """Rewrite one Python file."""

    def __init__(self, path: Path, *, moves_only: bool) -> None:
        self.path, self.moves_only = path, moves_only
        self.source = path.read_bytes()
        self.tree = ast.parse(self.source)
        self.names = Names(self.tree)
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.edits: set[Edit] = set()
        self.complaints: list[str] = []

    def rewritten(self) -> bytes:
        for scope, node in self.names.imports:
            if node.level == 0 and node.module is not None:
                self._rewrite_import(scope, node)
        self._rename_definitions()
        self._rename_keywords()
        out = self.source
        for edit in sorted(self.edits, reverse=True):
            out = out[: edit.start] + edit.text.encode() + out[edit.end :]
        return out

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _end(self, node: ast.stmt | ast.expr) -> int:
        return self._at(node.end_lineno or 0, node.end_col_offset or 0)

    def _rewrite_import(self, scope: Scope, node: ast.ImportFrom) -> None:
        lines: dict[str, list[str]] = defaultdict(list)
        changed = False
        for alias in node.names:
            as_module = f"{node.module}.{alias.name}"
            local = alias.asname or alias.name
            if node.module == MODEL:
                home, name, new_local = self._moved_module(as_module, alias)
                self._rename_attributes(scope, local, as_module)
            else:
                home, name = place_of(node.module or "", alias.name, moves_only=self.moves_only)
                new_local = alias.asname or name
            if new_local != local and not self._rename_uses(scope, local, new_local):
                new_local = local
            changed |= (home, name, new_local) != (node.module, alias.name, local)
            text = name if new_local == name and alias.asname != name else f"{name} as {new_local}"
            if text not in lines[home]:
                lines[home].append(text)
        if changed:
            indent = "\n" + " " * node.col_offset
            text = indent.join(f"from {home} import {', '.join(names)}" for home, names in lines.items())
            self.edits.add(Edit(self._at(node.lineno, node.col_offset), self._end(node), text))

    def _moved_module(self, module: str, alias: ast.alias) -> tuple[str, str, str]:
        target = MODULES.get(module, module)
        home, _, name = target.rpartition(".")
        local = alias.asname or alias.name
        if target == module:
            return home, name, local
        if "texts" not in target:
            # A plain `context` is what many functions call their argument.
            return home, name, alias.asname or f"model_{name}"
        alone = f"{name}_texts" if name != "texts" else "telegram_texts"
        simple = alias.asname == "words" and all("texts" not in scope.bound for scope in self._scopes())
        return home, name, "texts" if simple else alone

    def _scopes(self) -> set[Scope]:
        return {scope for scope, _ in (*self.names.uses, *self.names.imports)} | {self.names.module}

    def _rename_uses(self, scope: Scope, old: str, new: str) -> bool:
        places = [(used, node) for used, node in self.names.uses if node.id == old and used.resolve(old) is scope]
        blocked = [s for used, _ in places for s in used.chain_to(scope) if new in s.bound]
        if blocked or new in scope.bound - {old}:
            others = {a.asname or a.name for s, n in self.names.imports if s is scope for a in n.names}
            if blocked or new not in others:
                self.complaints.append(f"{self.path}: {old} keeps its name, {new} means something else there")
                return False
        for _, node in places:
            start = self._at(node.lineno, node.col_offset)
            self.edits.add(Edit(start, start + len(old.encode()), new))
        for listed in self._listed(old) if scope is self.names.module else ():
            self.edits.add(Edit(self._at(listed.lineno, listed.col_offset), self._end(listed), f'"{new}"'))
        return True

    def _listed(self, name: str) -> Iterator[ast.expr]:
        """Yield the text `name` where `__all__` holds it."""
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign) and "__all__" in ast.unparse(statement.targets[0]):
                constants = (node for node in ast.walk(statement.value) if isinstance(node, ast.Constant))
                yield from (node for node in constants if node.value == name)

    def _rename_attributes(self, scope: Scope, local: str, module: str) -> None:
        for used, node in self.names.uses:
            parent = self.names.parents.get(node)
            if node.id != local or used.resolve(local) is not scope or not isinstance(parent, ast.Attribute):
                continue
            home, new = place_of(module, parent.attr, moves_only=self.moves_only)
            if home != MODULES.get(module, module):
                self.complaints.append(f"{self.path}:{node.lineno}: {local}.{parent.attr} is in {home} now")
            elif new != parent.attr:
                end = self._end(parent)
                self.edits.add(Edit(end - len(parent.attr.encode()), end, new))

    def _rename_definitions(self) -> None:
        """Rename what a module itself defines, and its uses there."""
        if self.moves_only or "src" not in self.path.parts:
            return
        parts = self.path.with_suffix("").parts
        module = ".".join(parts[parts.index("src") + 1 :])
        top = self.names.module
        for (home, old), new in RENAMES.items():
            if home != module or old not in top.bound:
                continue
            if not self._rename_uses(top, old, new):
                continue
            for scope, node in self.names.definitions:
                if scope is top and node.name == old:
                    line = self.source.splitlines()[node.lineno - 1]
                    match = re.search(rb"\b(?:def|class)\s+", line)
                    assert match is not None
                    start = self._at(node.lineno, match.end())
                    self.edits.add(Edit(start, start + len(old.encode()), new))

    def _rename_keywords(self) -> None:
        if self.moves_only:
            return
        renamed = {old: new for (_, old), new in RENAMES.items()}
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            for keyword in node.keywords:
                new = KEYWORDS.get(renamed.get(node.func.id, node.func.id), {}).get(keyword.arg or "")
                if new is not None and keyword.arg is not None:
                    start = self._at(keyword.lineno, keyword.col_offset)
                    self.edits.add(Edit(start, start + len(keyword.arg.encode()), new))


def rewrite_text(text: str) -> str:
    """Rename modules that stand in prose, in settings or in strings."""
    for old, new in MODULES.items():
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
        path = re.escape(old.removeprefix("threadline.").replace(".", "/"))
        text = re.sub(rf"\b{path}(?=\.py\b|`)", new.removeprefix("threadline.").replace(".", "/"), text)
    return text


def files_of(paths: list[str]) -> Iterator[Path]:
    """Yield the Python, Markdown and TOML files under `paths`, without this script."""
    for path in map(Path, paths):
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in found:
            ours = file.suffix in (".py", ".md", ".toml") and "node_modules" not in file.parts
            if ours and file.is_file() and file.resolve() != Path(__file__).resolve():
                yield file


def rename_fields() -> list[Path]:
    """Rename fields where mypy says that their class has no such attribute any more."""
    command = [sys.executable, "-m", "mypy", "--show-column-numbers", "--no-error-summary", "--no-pretty"]
    report = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    edits: dict[Path, set[tuple[int, int, str, str]]] = defaultdict(set)
    pattern = re.compile(r'^(.+?):(\d+):(\d+): error: (?:Item )?"(\w+)".*has no attribute "(\w+)"')
    for line in report.splitlines():
        match = pattern.match(line)
        if match and (new := FIELDS.get((match[4], match[5]))):
            edits[Path(match[1])].add((int(match[2]), int(match[3]), match[5], new))
    for path, places in edits.items():
        lines = path.read_text().splitlines(keepends=True)
        for number, column, old, new in sorted(places, reverse=True):
            head, tail = lines[number - 1][: column - 1], lines[number - 1][column - 1 :]
            lines[number - 1] = head + re.sub(rf"\.{old}\b", f".{new}", tail, count=1)
        path.write_text("".join(lines))
    return list(edits)


def main() -> int:
    """Rewrite the files; print what has to be done by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=[path for path in DEFAULT_PATHS if Path(path).exists()])
    parser.add_argument("--moves-only", action="store_true")
    parser.add_argument("--fields", action="store_true")
    given = parser.parse_args()
    changed: list[Path] = []
    # mypy tells of an error once a line.
    while given.fields and (more := rename_fields()):
        changed += more
    complaints: list[str] = []
    for path in files_of(given.paths) if not given.fields else ():
        before = path.read_bytes()
        after = before
        if path.suffix == ".py":
            rewriter = Rewriter(path, moves_only=given.moves_only)
            after = rewriter.rewritten()
            complaints += rewriter.complaints
        after = rewrite_text(after.decode()).encode()
        if after != before:
            path.write_bytes(after)
            changed.append(path)
    python = [str(path) for path in changed if path.suffix == ".py"]
    if python:
        ruff = [sys.executable, "-m", "ruff"]
        subprocess.run([*ruff, "check", "--quiet", "--select", "I", "--fix", *python], check=False)
        subprocess.run([*ruff, "format", "--quiet", *python], check=False)
    print(f"{len(changed)} files changed")
    print(*complaints, sep="\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
