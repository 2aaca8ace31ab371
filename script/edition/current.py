"""Check whether the generated files are up to date, without loading the modules that generate them."""

from pathlib import Path

NAMES = "names.json"  # written last


def is_current(sources: Path, folder: Path) -> bool:
    """Return True if the folder has all files, and each is newer than all sources."""
    if not (folder / NAMES).exists():
        return False
    used_files = [*(sources / "sql").rglob("*.sql"), *(sources / "script" / "edition").glob("*.py")]
    used_files += [sources / "Makefile", sources / "inorder.control"]
    return max(path.stat().st_mtime_ns for path in used_files) < min(
        path.stat().st_mtime_ns for path in folder.iterdir()
    )
