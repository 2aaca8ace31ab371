"""Charts as SVG by Vega-Lite, drawn when they are shown: text stays text, colours come from the page's style sheet.

Each chart is drawn twice, for a screen and for a phone; the style sheet shows one of them. Nothing is fetched and no
script is left in what is drawn: vl-convert runs Vega-Lite while the page is made.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree as ET

from markupsafe import Markup, escape

from inorder.errors import InorderError

SCREEN = 760  # pixels of the whole drawing, for one that is shown in full size
PHONE = 330
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
# A screen reader reads the title; the font is the page's.
UNWANTED = {"aria-label", "aria-roledescription", "aria-hidden", "role", "font-family", "pointer-events"}
CHARACTER, CAPITAL, ELLIPSIS = 8.0, 11.0, 14.0  # width of characters of 14 pixels, rather too wide than too narrow

# A part of Vega-Lite's JSON; its own Python types are those of a library thirty times as long.
Spec = dict[str, Any]

AXIS = {
    "labelColor": "var(--soft)", "titleColor": "var(--soft)", "gridColor": "var(--line)", "domainColor": "var(--line)",
    "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "aria": False,
}  # fmt: skip
CONFIG: Spec = {
    "background": None,
    "view": {"stroke": None},
    "axis": AXIS,
    "legend": {"labelColor": "var(--text)", "labelFontSize": 13, "labelLimit": 0, "title": None, "aria": False},
    "text": {"fill": "var(--text)", "fontSize": 14, "aria": False},
    "rule": {"aria": False},
}


def breadth(text: str) -> float:
    """Room for a text in the page's font, rather too much than too little.

    >>> breadth("bigint"), breadth("VACUUM…")
    (48.0, 80.0)
    """
    return sum(CAPITAL if one.isupper() else ELLIPSIS if one == "…" else CHARACTER for one in text)


def narrow(width: int) -> bool:
    return width < SCREEN


def colour(css: str) -> str:
    """The colour that the style sheet gives a name; marks of an unknown name are drawn, too.

    >>> colour("kind-v7 dashed")
    'var(--kind-v7, var(--series-1))'
    """
    return f"var(--{css.split(maxsplit=1)[0]}, var(--series-1))"


@dataclass(frozen=True)
class Drawing:
    """A chart that is drawn for a width when it is shown, or a picture of any width (its box and what is in it).

    Words stand below. Without a spec and a picture there is nothing to show.
    """

    title: str
    spec: Callable[[int], Spec] | None = None
    words: str = ""
    picture: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(self.spec or self.picture)

    def svg(self, width: int = SCREEN) -> Markup:
        if self.picture:
            box, body = self.picture
            title = escape(self.title)
            return Markup(f'<svg viewBox="{box}" role="img" aria-label="{title}"><title>{title}</title>{body}</svg>')
        return Markup(svg_of(json.dumps({"config": CONFIG} | self.spec(width)), self.title) if self.spec else "")

    def __html__(self) -> str:
        words = f'<p class="soft">{escape(self.words)}</p>' if self.words else ""
        if self.picture:
            return f"{self.svg()}{words}"
        screen, phone = self.svg(SCREEN), self.svg(PHONE)
        return f'<div class="screen">{screen}</div><div class="phone">{phone}</div>{words}' if self.spec else ""


NOTHING = Drawing("")


@lru_cache(maxsize=512)
def svg_of(spec: str, title: str) -> str:
    """Vega-Lite's drawing with a title, and the description of each mark as what is shown on hover."""
    try:
        import vl_convert  # noqa: PLC0415  # 84 MB that nothing but a page needs
    except ModuleNotFoundError as error:
        raise InorderError(
            f"a page needs {error.name}, which is not installed; HINT: pip install 'inorder[lab]'"
        ) from None

    drawn = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    root = ET.fromstring(drawn.replace(NAMESPACE, "", 1))
    for parent in root.iter():
        for child in list(parent):
            if child.get("class") in ("background", "foreground"):
                parent.remove(child)
    for one in root.iter():
        if one.get("role") == "graphics-symbol" and (words := one.get("aria-label")):
            ET.SubElement(one, "title").text = words
        for name in UNWANTED & one.attrib.keys():
            del one.attrib[name]
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": title}
    heading = ET.Element("title")
    heading.text = title
    root.insert(0, heading)
    return ET.tostring(root, encoding="unicode")
