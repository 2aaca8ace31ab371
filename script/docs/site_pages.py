"""Build the docs as a site, as configured in docs/conf.py. ``script/site`` builds it in build/site."""

import shutil
import subprocess
import sys
from pathlib import Path

import command_pages

ROOT = Path(__file__).resolve().parents[2]
FIRST = "README.html"


def build(site: Path, source: Path = ROOT) -> str:
    """Write all pages. Return the error messages, or an empty string."""
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-c", str(source / "docs")]
    if source == ROOT:
        command_pages.PAGE.write_text(command_pages.page(), encoding="utf-8")
    try:
        process = subprocess.run(
            [*command, "-d", f"{site}.cache", str(source), str(site)], check=False, text=True, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    finally:
        if source == ROOT:
            command_pages.PAGE.unlink()
    shutil.rmtree(f"{site}.cache", ignore_errors=True)
    if process.returncode == 0:
        images = source / "docs" / "images"
        if images.exists():
            shutil.copytree(images, site / "docs" / "images")
        shutil.copy(site / FIRST, site / "index.html")
    return process.stdout if process.returncode else ""


def main() -> None:
    site = Path(sys.argv[1]).absolute()
    if messages := build(site):
        sys.exit(messages)
    print(site / "index.html")


if __name__ == "__main__":
    main()
