"""A study's citation as BibTeX."""

from __future__ import annotations

from analysis.citation import Citation
from launch.render.latex import escape


def bibtex(entry: Citation) -> str:
    """`entry` as @misc. Authors are for people to fill in: records hold no names."""
    measured_with = f"Measured with cardscale {entry.version}".rstrip()
    fields = {"title": f"{{{escape(entry.title)}}}", "howpublished": escape(measured_with), "note": escape(entry.note)}
    if entry.year is not None:
        fields["year"] = str(entry.year)
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
    return f"% author = {{...}} is yours to add: the records name no people\n@misc{{{entry.key},\n{lines}}}\n"
