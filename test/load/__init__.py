"""Programs that put load on servers: each checks that no row is lost, or that no role gains a privilege."""
