# The extension: `make`, `make install`, `make installcheck`, as any PGXS module.
# Out of tree, too: mkdir build && make -C build -f ../Makefile

# A server that was itself built in tree leaves VPATH out of its PGXS, and its
# VERSION is the server's: so both are our own, set before the include.
HERE       := $(dir $(firstword $(MAKEFILE_LIST)))
ifneq ($(HERE),./)
VPATH      := $(HERE)
endif
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(HERE)inorder.control)

EXTENSION   = inorder
MODULE_big  = inorder
OBJS        = $(patsubst $(HERE)%.c,%.o,$(sort $(wildcard $(HERE)src/*.c $(HERE)src/*/*.c)))
PG_CPPFLAGS = -I$(HERE)src -DINORDER_VERSION='"$(EXTVERSION)"'

# Variables of PGXS that the environment may have for something else.
DOCS        =
MODULES     =
PROGRAM     =
SCRIPTS     =

# The install script is the sources joined, in this order.
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

# Updates from earlier versions. Those to this version end like the install script: with who may do what.
UPDATES     = $(patsubst $(HERE)sql/update/%,%,$(wildcard $(HERE)sql/update/inorder--*.sql))
NEW_UPDATES = $(filter inorder--%--$(EXTVERSION).sql,$(UPDATES))
DATA        = $(addprefix sql/update/,$(filter-out $(NEW_UPDATES),$(UPDATES)))
DATA_built += $(NEW_UPDATES)

# In this order: some tests use what earlier ones have made.
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
# pg_regress looks for a test in its output folder first: in tree ./sql/feed.sql, a source, would be taken for one.
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

# Out of tree the folders of the objects do not exist yet; as targets they would
# be taken for those of the sources.
$(shell mkdir -p $(sort $(dir $(OBJS))))
EXTRA_CLEAN = $(OBJS:.o=.bc) output_regress inorder-sql--*$(EXTVERSION).sql

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Only sources are looked for elsewhere: VPATH would find what was built there, perhaps for another server.
ifneq ($(HERE),./)
srcdir := $(HERE)
VPATH  :=
vpath %.c $(HERE)
vpath %.control $(HERE)
endif

# AES for masks (src/keys/mask.c): if the server has OpenSSL, and its headers are there.
ifeq (yes,$(shell echo '\#include <openssl/evp.h>' | $(CC) $(CPPFLAGS) -xc -E - >/dev/null 2>&1 && echo yes))
SHLIB_LINK += $(filter -lcrypto,$(LIBS))
endif

# The server before 16 shows the functions of a library to those that are loaded later, which may have one of a name.
OWN_SYMBOLS = -Wl,-Bsymbolic
SHLIB_LINK += $(if $(filter linux,$(PORTNAME)),$(OWN_SYMBOLS))

# Servers built with gcc 14 or later record this warning among their own flags;
# an older compiler stops at an option it does not know.
override CFLAGS := $(filter-out -Wmissing-variable-declarations,$(CFLAGS))

# PGXS removes the bitcode, and leaves the folder, which it made where the server's package brought none.
uninstall: uninstall-bitcode
.PHONY: uninstall-bitcode
uninstall-bitcode:
	rm -rf '$(DESTDIR)$(bitcodedir)/$(MODULE_big)' '$(DESTDIR)$(bitcodedir)/$(MODULE_big).index.bc'
	rmdir '$(DESTDIR)$(bitcodedir)' 2>/dev/null || true

$(OBJS): $(wildcard $(HERE)src/*.h $(HERE)src/*/*.h)
src/inorder.o src/ports/version.o: $(HERE)inorder.control

inorder--$(EXTVERSION).sql: $(addprefix $(HERE)sql/,$(SQL_SOURCES)) $(HERE)inorder.control $(HERE)Makefile
	cat $(addprefix $(HERE)sql/,$(SQL_SOURCES)) > $@

# Sources: no pattern makes them.
$(addprefix $(HERE)sql/update/,$(UPDATES)): ;

$(NEW_UPDATES): %: $(HERE)sql/update/% $(addprefix $(HERE)sql/,revoke.sql rights.sql)
	cat $^ > $@

# For servers on which C cannot be installed: docs/hosted.md. Needs Python 3.
SQL_UPDATES = $(patsubst $(HERE)sql/released/inorder-sql--%.sql,inorder-sql--%--$(EXTVERSION).sql,$(filter-out %--$(EXTVERSION).sql,$(wildcard $(HERE)sql/released/inorder-sql--*.sql)))
SQL_EDITION = $(wildcard $(HERE)sql/*.sql $(HERE)sql/*/*.sql) $(HERE)script/sql-edition $(wildcard $(HERE)script/edition/*.py) $(HERE)Makefile $(HERE)inorder.control
.PHONY: sql-edition
sql-edition: inorder-sql--$(EXTVERSION).sql $(SQL_UPDATES)
inorder-sql--$(EXTVERSION).sql: $(SQL_EDITION)
	python3 $(HERE)script/sql-edition > $@.new && mv $@.new $@
$(SQL_UPDATES): inorder-sql--%--$(EXTVERSION).sql: $(SQL_EDITION)
	python3 $(HERE)script/sql-edition --update $* > $@.new && mv $@.new $@
