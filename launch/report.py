"""The `report` command: a study, or a measurement CSV, as tables on standard output and as files beside the study."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.citation import citation, methods_paragraph
from analysis.report import Report, make_report
from analysis.scaling.series import texts as texts_of
from analysis.tables import plain
from analysis.text import sayer
from configs.errors import ConfigError, choose
from configs.schema import Config
from launch.decide import terms_of
from launch.render import figures
from launch.render.bibtex import bibtex
from launch.render.csv import json_rows, write_csv
from launch.render.latex import latex_document, latex_table
from launch.render.markdown import escape, markdown
from launch.render.page import page
from launch.render.text import print_hanging, print_table
from launch.study.load import Study, load_study
from launch.study.sheets import load_sheets
from results.store import write_json_atomically, write_parquet

FORMATS = ("text", "json")
WRITTEN = ".written"  # in a report's folder: the files that the last report put there


def report_command(configs: list[Config], console: Console) -> int:
    """Report on each study or CSV that `configs` name; returns 0. Raises ConfigError where one cannot be read.

    Tables go to standard output (format=json: one object of tables alone), what is said about files to `console`.
    Files go to report_dir; without one to <study>/report, and for a measurement CSV nowhere.
    """
    choose("format", configs[0].format, FORMATS)
    reported: dict[tuple[str, str | None], Config] = {}
    for config in configs:
        reported.setdefault((config.study_name, config.source), config)
    for config in reported.values():
        study = load_study(config)
        report = report_on(study, config)
        folder = report_folder(study, config)
        written = (
            write_report(report, folder) if folder is not None else []
        )  # before a reader can leave, as `head` does
        if config.format == "json":
            print(json.dumps(report_json(report), ensure_ascii=False, allow_nan=False, indent=1))
        else:
            print_report(report, Console(file=sys.stdout, highlight=False), config.lang)
        if folder is not None:
            names = sorted({path.relative_to(folder).parts[0] for path in written})
            console.print(Text(f"written into {folder}: {', '.join(names)}"), soft_wrap=True)
        else:
            console.print(Text("nothing written: report_dir=FOLDER writes CSV and Markdown there"))
    return 0


def report_on(study: Study, config: Config) -> Report:
    """The report of `study` under the prices, workload and language of `config`."""
    terms, quotes = terms_of(config), load_sheets(config.price_sheets)
    return make_report(
        study.name, study.cells, study.collectives, quotes, terms, study.left_out, config.lang, study.matmul
    )


def report_folder(study: Study, config: Config) -> Path | None:
    """Where the files go, or None where nothing is to be written."""
    if config.report_dir is not None:
        return Path(config.report_dir).expanduser()
    return None if study.folder is None else study.folder / "report"


def print_report(report: Report, out: Console, lang: str) -> None:
    """The report for a person at a terminal."""
    out.print(Text(plain(report.title), style="bold"))
    out.print(Text(report.summary))
    for notice in report.notices:
        print_hanging(out, "! ", plain(notice), "yellow")
    out.print()
    for table in report.tables:
        print_table(out, table, sayer(lang))


def report_json(report: Report) -> dict[str, object]:
    """The report for a script: an object of tables, each a list of rows; `notices` is a table of sentences."""
    decisions = [{key: part for key, part in made.to_json().items() if key != "cells"} for made in report.decisions]
    tables = {name: json_rows(frame) for name, frame in report.frames.items()}
    return {"decision": decisions, **tables, "notices": [{"text": text} for text in report.notices]}


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write every format into `folder`; returns the files. Raises ConfigError where that cannot be.

    A file of the report before that this one has no content for is removed: it would contradict the rest.
    """
    say = sayer(report.lang)
    tables = [*report.tables, *report.details]
    document = latex_document(report.title, [report.summary, *report.notices], tables, say("latex.table"))
    texts = {"report.md": report_markdown(report), "report.tex": document, "report.html": page(report)}
    texts |= cited(report)
    texts |= {f"latex/{table.name}.tex": latex_table(table) for table in tables}
    frames = {name: frame for name, frame in report.frames.items() if len(frame)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        for name, frame in frames.items():
            write_csv(frame, folder / f"{name}.csv")
            write_parquet(frame, folder / f"{name}.parquet")
        write_json_atomically(folder / "report.json", report_json(report))
        written = [*texts, *(f"{name}.{kind}" for name in frames for kind in ("csv", "parquet")), "report.json"]
        written += [str(path.relative_to(folder)) for path in drawn(report, folder / "figures")]
        _remove_stale(folder, written)
    except OSError as error:
        raise ConfigError("report_dir", f"{folder} cannot be written: {error.strerror}", "a writable folder") from None
    return [folder / name for name in written]


def cited(report: Report) -> dict[str, str]:
    """What a paper takes over: the methods paragraph and the BibTeX entry; none where no training was measured."""
    say = sayer(report.lang)
    training = report.cells[texts_of(report.cells, "benchmark").isin(["", "finetune"])]
    paragraph = methods_paragraph(training, say)
    if not paragraph:
        return {}
    methods = f"# {escape(plain(say('methods.title', study=report.study)))}\n\n{escape(paragraph)}\n"
    return {"methods.md": methods, "citation.bib": bibtex(citation(report.study, training, say))}


def drawn(report: Report, folder: Path) -> list[Path]:
    """The figures as files, where matplotlib is there to draw them."""
    if not (report.figures and figures.is_available()):
        return []
    return figures.draw_all(report.figures, folder, sayer(report.lang)("figure.predicted", name="{name}"))


def _remove_stale(folder: Path, written: list[str]) -> None:
    """Remove what the report before wrote and this one did not; nobody else's files, whatever the folder is."""
    listing = folder / WRITTEN
    before = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    for name in set(before) - set(written):
        path = (folder / name).resolve()
        if path.is_relative_to(folder.resolve()):  # the listing may have come with somebody else's study
            path.unlink(missing_ok=True)
    listing.write_text("\n".join(written) + "\n", encoding="utf-8")


def report_markdown(report: Report) -> str:
    """The whole report as one Markdown document."""
    head = [f"# {escape(plain(report.title))}", escape(report.summary)]
    head += [f"> **{escape(plain(notice))}**" for notice in report.notices]
    return "\n\n".join([*head, *map(markdown, (*report.tables, *report.details))])
