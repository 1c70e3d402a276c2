"""Updates from every release: nothing of the user's is lost, and what is new arrives."""

from __future__ import annotations

from .changelog import entries_after, names_path
from .projects import Update, described, recorded_answers
from .questions import Questions
from .rendered import is_template
from .repository import Repository
from .seeds import kept_from_updates, matches


def check_update(update: Update, new: Questions, repository: Repository, version: str) -> list[str]:
    """What is wrong with the update of a project that nobody has edited."""
    entries = entries_after(repository, update.tag, version)
    where = f"an update from {update.tag}"
    problems = [f"{where} ends in a conflict in {path}" for path in update.conflicts]
    problems += _deleted(update, entries)
    before = recorded_answers(update.before)
    after = recorded_answers(update.after)
    problems += [
        f"{where} changes the answer {name} from {value!r} to {after.get(name)!r}"
        for name, value in before.items()
        if after.get(name) != value and name in new.asked and not new.refusal(name, value)
    ]
    kept = kept_from_updates(new)
    late = [
        path
        for path, content in update.fresh.items()
        if update.after.get(path) != content and not matches(kept, path)
    ]
    if late and not update.conflicts:
        problems.append(
            f"{where} (answers: {described(update.answers)}) does not bring {late[0]}\n"
            f"  as a new project has it ({len(late)} such files)"
        )
    return problems


def _deleted(update: Update, entries: str) -> list[str]:
    """Files that the update deletes; the template's own may go when the changelog names them."""
    problems = []
    for path, content in update.before.items():
        if path in update.after or (is_template(content) and names_path(entries, path)):
            continue
        advice = "Add it to the tombstones in copier.yml"
        if is_template(content):
            advice += ",\n  or name it in the changelog entry, since it is the template's own"
        problems.append(f"an update from {update.tag} deletes {path} in projects. {advice}")
    return problems
