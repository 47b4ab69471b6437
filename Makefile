# amoro_meta: the extension by PGXS, the node by a plain make of its own.
#   make [PG_CONFIG=...]   make install   make installcheck   make -C src/node
EXTENSION = amoro_meta
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" amoro_meta.control)

MODULE_big = amoro_meta
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/extension/*.c src/extension/*/*.c)))

# The install script is its parts in this order (src/schema/README.md).
SCHEMA = $(addprefix src/schema/,$(addsuffix .sql,$(shell sed -e 's/\#.*//' src/schema/order)))
DATA_built = amoro_meta--$(EXTVERSION).sql

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
export AMORO_NODE ?= $(CURDIR)/src/node/build/amoro-node
EXTRA_CLEAN = amoro_meta--$(EXTVERSION).sql

PG_CPPFLAGS = -DAMORO_META_VERSION='"$(EXTVERSION)"' -Isrc/extension
PG_CFLAGS = -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	-Wno-declaration-after-statement $(WERROR)

SHLIB_LINK += -lcurl

with_llvm = no
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
# Makefile.global empties it
PROVE_FLAGS += -I test/t

$(OBJS): $(wildcard src/extension/*.h src/extension/*/*.h) amoro_meta.control

amoro_meta--$(EXTVERSION).sql: $(SCHEMA) src/schema/order amoro_meta.control
	cat $(SCHEMA) > $@

.PHONY: node node-install
node:
	$(MAKE) -C src/node
node-install:
	$(MAKE) -C src/node install
