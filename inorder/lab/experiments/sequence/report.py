"""The sequence experiment as sections and verdicts, with study P2 beside."""

from inorder.lab.analysis.figures import Row, median, median_of, per, ratios_of, to
from inorder.lab.experiments.sequence import plan as steps
from inorder.lab.experiments.sequence.plan import SequencePlan
from inorder.lab.report.published import published_sections
from inorder.lab.report.section import Figure, Section, number, ratio, table
from inorder.lab.report.verdict import PLAIN, Compared, Verdict, bars_of, capital, costs
from inorder.lab.report.wording import how_sure
from inorder.lab.results import Result
from inorder.text import plural


def sections(result: Result, plan: SequencePlan) -> list[Section]:
    return [load_section(result, plan), bulk_section(result, plan), *published_sections(result, words)]


def words(step: str, kind: str) -> str:
    statement, _, many = step.partition("_")
    return f"{statement} {steps.label(kind)}, {plural(int(many), 'client')}" if many else steps.label(kind)


def verdicts(result: Result, plan: SequencePlan, question: str) -> list[Verdict]:
    kind = steps.kind_of(min(plan.caches))
    by_step = {steps.step_of(steps.INSERT, many): many for many in sorted(plan.clients)}
    compared = [
        Compared(
            "TPS",
            f"a constant with {plural(many, 'client')}",
            ratios_of(result, step, kind, steps.CONSTANT, "tps"),
            True,
        )
        for step, many in by_step.items()
    ]
    bulk = Compared("CPU time", "a constant", ratios_of(result, steps.BULK, kind, steps.CONSTANT, "cpu_seconds"))
    more = f"{plan.rows:,} rows by one INSERT … SELECT: {bulk.words}." if bulk.found else ""
    shown = ((name, median_of(result, steps.step_of(steps.INSERT, max(plan.clients)), one, "tps"), PLAIN)
             for name, one in (("a constant", steps.CONSTANT), (steps.label(kind), kind)))  # fmt: skip
    holds = f"{steps.label(kind)}; a row a transaction, no index, {commits(plan)}. P2: nextval is not the bottleneck."
    return [
        *costs(question, compared, holds, bars_of(shown, number(0, "TPS")), more),
        *(one for cache in sorted(plan.caches)[1:] for one in cache_verdict(result, plan, cache)),
    ]


def cache_verdict(result: Result, plan: SequencePlan, cache: int) -> list[Verdict]:
    least, kind = steps.kind_of(min(plan.caches)), steps.kind_of(cache)
    by_step = {steps.step_of(steps.INSERT, many): many for many in sorted(plan.clients)}
    compared = [
        Compared(
            "TPS", f"CACHE {cache} with {plural(many, 'client')}", ratios_of(result, step, least, kind, "tps"), True
        )
        for step, many in by_step.items()
    ]
    gaps = [gap.median for step in by_step if (gap := median_of(result, step, kind, "gaps"))]
    left = f"It left gaps of up to {max(gaps):,.0f} numbers in a measurement. " if gaps else ""
    holds = f"{left}P2 asks whether CACHE is needed at all, and advises against it unless it is: {steps.label(least)}."
    return costs(f"Is CACHE {cache} needed for inserts?", compared, holds)


def commits(plan: SequencePlan) -> str:
    return f"commits {'wait' if plan.synchronous_commit == 'on' else 'do not wait'} for the disk"


def kinds_shown(plan: SequencePlan) -> list[str]:
    return [steps.CONSTANT, *map(steps.kind_of, sorted(plan.caches))]


LOAD = (
    Figure("statement", "what each transaction does; insert: into a table of one bigint without an index",
           value=lambda row: f"{row.step.partition('_')[0]} {steps.label(row.kind)}"),
    Figure("clients", "sessions of pgbench", number(), value=lambda row: int(row.step.partition("_")[2])),
    Figure("TPS", "median of the rounds; pgbench, without connection time", number(), bar=True, value=median("tps"),
           better="more"),
    Figure("ratio", "of TPS to that with a constant in the same round and with as many clients", ratio,
           value=to(steps.CONSTANT, "tps")),
    Figure("CPU ratio", "of the CPU time of the server's sessions a transaction, their start included", ratio,
           value=to(steps.CONSTANT, "cpu_us"), better="less"),
    Figure("WAL B", "bytes of write-ahead log a transaction; pg_stat_wal", number(1), bar=True,
           value=median(per("wal_bytes", "transactions")), better="less"),
    Figure("gaps", "numbers of a measurement that sessions reserved by CACHE and did not use", number(),
           value=median("gaps")),
)  # fmt: skip


def load_section(result: Result, plan: SequencePlan) -> Section:
    rows = [
        Row(result, steps.step_of(statement, clients), kind) for statement in steps.STATEMENTS
        for clients in sorted(plan.clients) for kind in kinds_shown(plan)
    ]  # fmt: skip
    caption = (
        f"ratio: to the same statement with 1 instead of nextval. Empty: not measured. {capital(commits(plan))}. "
        f"P2 mentions Oracle, where CACHE 50 brought a hundredfold; that is not measured here. {how_sure(result)}"
    )
    title = f"nextval or a constant: pgbench, simple protocol, {plan.seconds} s each"
    return table("sequence-tps", title, LOAD, rows, caption)


BULK = (
    Figure("value", "what is inserted", value=lambda row: steps.label(row.kind)),
    Figure("ms", "median of the rounds, by the wall clock", number(1), bar=True,
           value=median("seconds", scale=1000.0), better="less"),
    Figure("ratio", "of that time to that with a constant in the same round", ratio,
           value=to(steps.CONSTANT, "seconds")),
    Figure("CPU ratio", "the same of the server process's CPU time", ratio, value=to(steps.CONSTANT, "cpu_seconds"),
           better="less"),
)  # fmt: skip
FIGURES = (*LOAD, *BULK)


def bulk_section(result: Result, plan: SequencePlan) -> Section:
    title = f"{plan.rows:,} rows by one INSERT … SELECT, without an index"
    return table("sequence-bulk", title, BULK, [Row(result, steps.BULK, kind) for kind in kinds_shown(plan)])
