"""How a server was made smaller than its tables, and the certainty that the number of rounds allows, in words."""

from collections import Counter

from inorder.lab.analysis.stats import LEAST_ROUNDS
from inorder.lab.results import CGROUP, DIRECT_IO, LOAD, OWN_SERVER, Result
from inorder.units import MB


def how_sure(result: Result) -> str:
    if "rounds" not in result.plan or not result.runs:
        return ""
    counts = Counter((run.step, run.kind, run.rows) for run in result.runs)
    done = min((count for count in counts.values() if count > 1), default=1)  # sizes, for one, are taken once
    if done == 1:
        return "One round: counts are exact, but no difference in time is claimed from one sample."
    if done < LEAST_ROUNDS:
        return f"{done} rounds: brackets hold their range; no difference in time is claimed below {LEAST_ROUNDS}."
    return f"{done} rounds: brackets hold an interval of 95 % or more for the median."


def load_range(result: Result) -> str:
    """The load average of this machine during the measurements, these included; "" where it was not kept.

    >>> from inorder.lab.results import Run
    >>> result = Result("insert", "now", "0", 1, {}, {}, {}, "")
    >>> result.runs = [Run("insert", "v7", 1, n, {"load": load}) for n, load in enumerate((2.04, 17.0, 3.0))]
    >>> load_range(result)
    '2.0 to 17.0'
    """
    found = result.metric(LOAD, result.runs)
    return f"{min(found):.1f} to {max(found):.1f}" if found else ""


def memory_note(result: Result) -> str:
    memory = f"{result.plan['memory_bytes'] / MB:.0f} MB of shared buffers"
    if result.method == DIRECT_IO:
        iops = result.plan.get("iops")
        limit = f", which does no more than {iops:,} reads and as many writes a second for the server" if iops else ""
        return f"{memory} without a page cache behind them: a block that is not there is read from the device{limit}."
    if page_cache := result.plan.get("page_cache"):
        return f"{memory} and {page_cache / MB:.0f} MB of page cache behind them, by a memory control group."
    if result.method == CGROUP:
        return (
            f"{result.plan['memory_bytes'] / MB:.0f} MB in all, page cache included, by a memory control group; "
            f"{result.plan['memory_bytes'] / MB / 4:.0f} MB of it are shared buffers."
        )
    if result.method == OWN_SERVER:
        pages, _, unit = str(result.server.get("settings", {}).get("shared_buffers", "")).partition(" ")
        known = pages.isdigit() and unit == "8kB"
        buffers = f"{int(pages) * 8192 / MB:.0f} MB of shared buffers" if known else "Its memory"
        return f"{buffers} and whatever cache its machine has: speeds are those of your server as it is."
    return (
        f"{memory}, and the kernel's page cache behind them: direct I/O needs PostgreSQL 16 and a file system on a "
        "device, a memory control group the right to make one and 64 MB. So speeds hide what a table larger than all "
        "memory would cost; WAL, full-page images and block counts are exact."
    )
