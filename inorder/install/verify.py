"""Whether the objects of an edition are those that this version installs.

These are installed beside it, in schemas of their own, by a transaction that is rolled back: then the server itself
says how it shows each of them.
"""

from inorder.errors import InputError
from inorder.install import edition
from inorder.install.offer import C, Installed, Offer
from inorder.install.target import Target

Object = dict[str, object]
SCRATCH = "inorder_verify"
INTERNAL = "inorder_internal"
# The schemas beside the public one, by the names that they have in the comparison.
BESIDE = {f"{SCRATCH}_internal": INTERNAL, f"{SCRATCH}_text": "inorder_text"}
# What of an object is compared, and how a difference of it is called.
PARTS = {"definition": "definition", "privileges": "privileges", "is_owned": "owner", "comment": "comment"}


def differences(target: Target, offer: Offer, installed: Installed) -> tuple[list[str], int]:
    """A line for each object that differs, and how many were compared; the transaction is to be rolled back."""
    if installed.edition == C and not offer.is_superuser:
        raise InputError(f"{installed} can be compared by a superuser only; no other role can have changed its objects")
    beside = [*BESIDE.items()][: 2 if installed.edition == C else 1]
    here = inventory(target, [installed.schema, *(name for _, name in beside)], installed.owner)
    target.run(reference(target, installed))
    target.run("SET LOCAL search_path = pg_catalog, pg_temp")
    names = [SCRATCH, *(name for name, _ in beside)]
    there = {
        renamed(name, installed): {key: renamed(one, installed) if isinstance(one, str) else one
                                   for key, one in found.items()}
        for name, found in inventory(target, names, installed.owner).items()
    }  # fmt: skip
    lines = [f"missing: {name}" for name in there.keys() - here.keys()]
    # The schema of an extension may have other things, too.
    ours = [name for name in here.keys() - there.keys() if INTERNAL in name or installed.schema == "inorder"]
    lines += [f"not of this version: {name}" for name in ours]
    for name in here.keys() & there.keys():
        changed = [text for part, text in PARTS.items() if here[name][part] != there[name][part]]
        if changed:
            lines.append(f"changed: {name}: {', '.join(changed)}")
    return sorted(lines), len(there)


def renamed(text: str, installed: Installed) -> str:
    for scratch, name in BESIDE.items():
        text = text.replace(scratch, name)
    return text.replace(SCRATCH, installed.quoted)


def inventory(target: Target, schemas: list[str], installer: str) -> dict[str, Object]:
    rows = target.rows("install_inventory", schemas=schemas, installer=installer)
    return {f"{row['kind']} {row['named']}": row for row in rows}


def reference(target: Target, installed: Installed) -> str:
    text = (edition.c_script if installed.edition == C else edition.script)(target.sources, SCRATCH)
    for scratch, name in BESIDE.items():
        text = text.replace(name, scratch)
    return text
