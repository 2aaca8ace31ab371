"""Load tests. Each one checks that no row is lost, or that no role gains a privilege."""
