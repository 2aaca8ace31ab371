"""docs/llms.txt and the skill match the pages from which they are generated, and none of their links is broken."""

import re

import agents


def test_llms_txt_and_the_skill_agree_with_the_pages() -> None:
    assert agents.LIST.read_text() == agents.llms()
    assert agents.SKILL.read_text() == agents.skill()


def test_each_link_leads_to_a_file() -> None:
    for page in (agents.LIST, agents.SKILL):
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        assert [link for link in links if not link.startswith("http") and not (page.parent / link).exists()] == []
