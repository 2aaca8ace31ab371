# Builds the extension like any PGXS module: `make`, `make install`, `make installcheck`.
# To build it out of tree: mkdir build && make -C build -f ../Makefile

# If the server was built in tree, its PGXS does not set VPATH. VPATH is therefore set here, before the include. VERSION
# in PGXS is the version of the server: the version of the extension is in EXTVERSION.
HERE       := $(dir $(firstword $(MAKEFILE_LIST)))
ifneq ($(HERE),./)
VPATH      := $(HERE)
endif
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(HERE)inorder.control)

EXTENSION   = inorder
MODULE_big  = inorder
OBJS        = $(patsubst $(HERE)%.c,%.o,$(sort $(wildcard $(HERE)src/*.c $(HERE)src/*/*.c)))
PG_CPPFLAGS = -I$(HERE)src -DINORDER_VERSION='"$(EXTVERSION)"'

# These variables are emptied: PGXS would otherwise use the values of environment variables of these names.
DOCS        =
MODULES     =
PROGRAM     =
SCRIPTS     =

# The install script is the concatenation of these files.
SQL_SOURCES = \
    header.sql \
    keys/keys.sql \
    keys/after_random.sql \
    keys/mask.sql \
    types/uuid_v1.sql \
    types/time_bounds.sql \
    types/uuid_extras.sql \
    ports/snapshot.sql \
    ports/position.sql \
    ports/jsonb.sql \
    ports/table_ref.sql \
    ports/state.sql \
    ports/dump.sql \
    ports/restoring.sql \
    ports/guard.sql \
    ports/table.sql \
    ports/proof.sql \
    ports/columns.sql \
    ports/ports.sql \
    feed/query.sql \
    feed/order.sql \
    feed/batch.sql \
    feed/faults.sql \
    feed/column.sql \
    feed/piece.sql \
    feed/next.sql \
    feed/kept.sql \
    feed/batches.sql \
    feed/take.sql \
    feed/shares.sql \
    feed/workers.sql \
    feed/feed.sql \
    feed/reader.sql \
    feed/split.sql \
    feed/readable.sql \
    feed/writers.sql \
    feed/enable.sql \
    feed/restore.sql \
    feed/prepare.sql \
    feed/counting.sql \
    feed/groups.sql \
    feed/count.sql \
    feed/retention.sql \
    feed/backlog.sql \
    feed/feeds.sql \
    changes/trigger.sql \
    changes/log.sql \
    changes/logging.sql \
    changes/changes.sql \
    revoke.sql \
    rights.sql
DATA_built  = inorder--$(EXTVERSION).sql

# Scripts that update earlier versions. Like the install script, the scripts that update to this version end with
# the files that set privileges.
UPDATES     = $(patsubst $(HERE)sql/update/%,%,$(wildcard $(HERE)sql/update/inorder--*.sql))
NEW_UPDATES = $(filter inorder--%--$(EXTVERSION).sql,$(UPDATES))
DATA        = $(addprefix sql/update/,$(filter-out $(NEW_UPDATES),$(UPDATES)))
DATA_built += $(NEW_UPDATES)

# The order matters: some tests use objects that earlier tests create.
REGRESS = \
    install \
    sequence_keys \
    time_keys \
    v7 \
    xact \
    after_random \
    mask \
    uuid_v1 \
    time_bounds \
    snapshot \
    feed \
    guard \
    feed_partitions \
    feed_parts \
    feed_prepare \
    feed_changes \
    exact_count \
    feed_rights \
    feed_owner \
    feed_path \
    feed_hidden \
    feed_state \
    feed_limit \
    feed_order \
    feed_whole \
    reader_batch_query \
    feed_large \
    feed_gaps \
    feed_wait \
    feed_retention \
    feed_batches \
    feed_shares \
    reader_split \
    feed_lag \
    feeds \
    changes \
    uuid_extras
# pg_regress searches its output directory for tests first. The default is the current directory, in which ./sql has
# sources of the extension.
REGRESS_OPTS   = --inputdir=$(HERE)test --outputdir=output_regress
ISOLATION = \
    xact_order \
    shared_sequence \
    feed_own_rows \
    feed_gap_uuid \
    feed_gap_default \
    feed_gap_generated \
    feed_isolation \
    feed_two_readers \
    feed_workers \
    feed_worker_levels \
    feed_worker_order \
    feed_roles \
    feed_table_changes \
    feed_failing_consumer \
    feed_nobody_waits \
    feed_detach \
    feed_order_of_cause \
    exact_count_fold
ISOLATION_OPTS = --inputdir=$(HERE)test

# An out-of-tree build needs directories for the objects. If they were targets, make would find the directories of the
# sources through VPATH, and would not create them here.
$(shell mkdir -p $(sort $(dir $(OBJS))))
EXTRA_CLEAN = $(OBJS:.o=.bc) output_regress inorder-sql--*$(EXTVERSION).sql

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Search the source tree only for sources. VPATH would also find files that were built there for another server.
ifneq ($(HERE),./)
srcdir := $(HERE)
VPATH  :=
vpath %.c $(HERE)
vpath %.control $(HERE)
endif

# Link the library of AES (src/keys/mask.c) if the server was built with OpenSSL, and the headers are installed.
ifeq (yes,$(shell echo '\#include <openssl/evp.h>' | $(CC) $(CPPFLAGS) -xc -E - >/dev/null 2>&1 && echo yes))
SHLIB_LINK += $(filter -lcrypto,$(LIBS))
endif

# Before PostgreSQL 16, the functions of a library are visible to other libraries, which may have functions of the same
# names. With this option, the library calls its own functions.
OWN_SYMBOLS = -Wl,-Bsymbolic
SHLIB_LINK += $(if $(filter linux,$(PORTNAME)),$(OWN_SYMBOLS))

# A server that was built with gcc 14 or later has this option in its CFLAGS. An older compiler does not know the
# option, and would fail.
override CFLAGS := $(filter-out -Wmissing-variable-declarations,$(CFLAGS))

# PGXS removes the bitcode, but not its directory, which `make install` may have created.
uninstall: uninstall-bitcode
.PHONY: uninstall-bitcode
uninstall-bitcode:
	rm -rf '$(DESTDIR)$(bitcodedir)/$(MODULE_big)' '$(DESTDIR)$(bitcodedir)/$(MODULE_big).index.bc'
	rmdir '$(DESTDIR)$(bitcodedir)' 2>/dev/null || true

$(OBJS): $(wildcard $(HERE)src/*.h $(HERE)src/*/*.h)
src/inorder.o src/ports/version.o: $(HERE)inorder.control

inorder--$(EXTVERSION).sql: $(addprefix $(HERE)sql/,$(SQL_SOURCES)) $(HERE)inorder.control $(HERE)Makefile
	cat $(addprefix $(HERE)sql/,$(SQL_SOURCES)) > $@

# Without this rule, make would search for a pattern rule that builds these sources.
$(addprefix $(HERE)sql/update/,$(UPDATES)): ;

$(NEW_UPDATES): %: $(HERE)sql/update/% $(addprefix $(HERE)sql/,revoke.sql rights.sql)
	cat $^ > $@

# The SQL edition, for servers on which no C library can be installed: see docs/hosted.md. Building it needs Python 3.
SQL_UPDATES = $(patsubst $(HERE)sql/released/inorder-sql--%.sql,inorder-sql--%--$(EXTVERSION).sql,$(filter-out %--$(EXTVERSION).sql,$(wildcard $(HERE)sql/released/inorder-sql--*.sql)))
SQL_EDITION = $(wildcard $(HERE)sql/*.sql $(HERE)sql/*/*.sql) $(HERE)script/sql-edition $(wildcard $(HERE)script/edition/*.py) $(HERE)Makefile $(HERE)inorder.control
.PHONY: sql-edition
sql-edition: inorder-sql--$(EXTVERSION).sql $(SQL_UPDATES)
inorder-sql--$(EXTVERSION).sql: $(SQL_EDITION)
	python3 $(HERE)script/sql-edition > $@.new && mv $@.new $@
$(SQL_UPDATES): inorder-sql--%--$(EXTVERSION).sql: $(SQL_EDITION)
	python3 $(HERE)script/sql-edition --update $* > $@.new && mv $@.new $@
