"""Programs that put load on servers: each checks that no row is lost, and no right gained."""
