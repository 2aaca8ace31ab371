"""Does a reader lose rows? Schedules of sessions that force the overlap, run one after the other, and judged."""
