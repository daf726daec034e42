# SPDX-License-Identifier: MIT
# Spillway. `make help` lists the targets; each room has its own rules.mk.
#
# MODULES="steps vgpu"               the modules that the shim has; without it all, MODULES= none
# SANITIZER=address|undefined|thread   build and test in build-address/ etc.
# CROSS=aarch64-linux-gnu-             `make shim`, `make wheel` and `make image` for that machine
# V=1                                  show the commands
# WERROR=0                             warnings are no errors, as for `make install`
# DEPS=never|always                    what is missing: only print it; install it without a question
# PREFIX=/usr/local DESTDIR=           where `make install` puts things

CC       ?= cc
PREFIX   ?= /usr/local
# Not every shell opens the ~ of PREFIX=~/.local.
prefix   ?= $(patsubst ~/%,$(HOME)/%,$(PREFIX))
bindir   ?= $(prefix)/bin
libdir   ?= $(prefix)/lib
mandir   ?= $(prefix)/share/man
DESTDIR  ?=
SANITIZER ?=
CROSS    ?=
DEPS     ?= auto
V        ?= 0
# Warnings are errors for developers. A compiler that knows a new warning stops no installation.
goals := $(or $(MAKECMDGOALS),all)
WERROR   ?= $(if $(filter all check% run-check% lint run-lint,$(goals)),1)

ifneq ($(filter-out address undefined thread,$(SANITIZER)),)
$(error SANITIZER=$(SANITIZER): expected address, undefined or thread)
endif

BUILD := build$(addprefix -,$(SANITIZER))$(addprefix -,$(CROSS:-=))
ifneq ($(CROSS),)
CC := $(CROSS)gcc
AR := $(CROSS)ar
# Debian's static libraries for that machine, which `make wheel` fetches.
cross_arch := $(patsubst aarch64,arm64,$(firstword $(subst -, ,$(CROSS))))
cross_debs := $(CURDIR)/build/debs/$(cross_arch)
CPPFLAGS ?= -I$(cross_debs)/usr/include
LDFLAGS ?= -B$(cross_debs)/usr/lib/$(CROSS:-=) -L$(cross_debs)/usr/lib/$(CROSS:-=)
endif
version := 0.3.0

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$@)')

warnings := -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wpointer-arith -Wwrite-strings -Wundef
optimise := -O2 -g
# gcc says that the thread sanitizer does not know fences; what they stand between is atomic.
sanitize := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=all) \
	$(if $(filter thread,$(SANITIZER)),-Wno-error=tsan)

CFLAGS   ?= $(optimise)
# What a call costs depends on where its functions begin by up to 4 ns: so they all begin alike,
# and no function makes another slower by its length.
all_cflags = -std=gnu11 $(warnings) -fPIC -fvisibility=hidden -falign-functions=32 -pthread \
	$(without_place) $(CFLAGS) $(sanitize)
# Where it is built is no part of what is built.
without_place = -ffile-prefix-map=$(CURDIR)=.
all_cppflags = -D_GNU_SOURCE -DSPILLWAY_VERSION='"$(version)"' -I. \
	$(if $(CUDA_INCLUDE),-isystem $(CUDA_INCLUDE)) $(CPPFLAGS)
all_ldflags = -pthread $(sanitize) $(LDFLAGS)

# Goals that only set up, tidy or call make again; they need no CUDA headers yet.
front := install wheel deb dist release site image check check-programs check-clients check-cluster check-packages check-softgpu check-all demo bench bench-compare bench-pace bench-sharing bench-engines bench-what-if pictures check-gpu gpu-kit check-gpu-kit record lint deps clean distclean help format entry-points

.PHONY: all
all:

include core/rules.mk
include shim/rules.mk
include tools/rules.mk
include tools/slurm/rules.mk
include tests/rules.mk

ifneq ($(filter-out $(front),$(goals)),)
# CUDA_INCLUDE := folder with cuda.h >= 13.0, found or fetched
$(BUILD)/cuda.mk: tools/dev/find-cuda
	@mkdir -p $(@D)
	@tools/dev/find-cuda $(BUILD) >$@.tmp && mv $@.tmp $@
include $(BUILD)/cuda.mk
endif

.SECONDARY:

all: $(shim_out) $(shim_kernel) $(tools_out) $(softgpu_out) $(clients_out)

.PHONY: shim
shim: $(shim_out)

# What is installed must load on an older glibc; sanitizers bring their own versions of its
# functions.
of_old_glibc := core/% shim/% tools/% tests/softgpu/% tests/clients/%
old_glibc := $(if $(SANITIZER),,-include core/base/glibc.h)

# Which locks a thread holds at the gate is checked where that may cost something.
check_locks := -DSPILLWAY_CHECK_LOCKS -include core/base/lock.h

$(BUILD)/%.o: %.c | $(BUILD)/cuda.mk
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(if $(filter $(of_old_glibc),$<),$(old_glibc)) $(if $(filter core/% shim/%,$<),$(if $(SANITIZER),$(check_locks))) $(all_cppflags) $(cppflags_$(subst /,_,$(dir $<))) $(all_cflags) \
		$(cflags_$(subst /,_,$(dir $<))) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.S | $(BUILD)/cuda.mk
	$(call say,AS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) -fPIC -g $(without_place) -MMD -MP -c -o $@ $<

# Front goals: bring what is missing, then build and run.
.PHONY: install wheel deb dist release site image check check-programs check-clients check-cluster check-packages check-softgpu check-all demo bench bench-compare bench-pace bench-sharing bench-engines bench-what-if pictures check-gpu gpu-kit check-gpu-kit record lint deps clean distclean help format
deps:
	@DEPS=$(DEPS) tools/dev/deps build

install:
	@DEPS=$(DEPS) tools/dev/deps install
	@BUILD=$(BUILD) MAKE='$(MAKE)' tests/progress 'Building' install-out
	@+$(MAKE) --no-print-directory run-install

wheel deb dist release:
	@DEPS=$(DEPS) tools/dev/deps build
	@DEPS=$(DEPS) tools/dev/deps packages
	$(if $(CROSS),@tools/dev/fetch-deb bookworm main $(cross_arch) $(cross_debs) libinih-dev libncurses-dev)
	@+$(MAKE) --no-print-directory run-$@

site:
	@DEPS=$(DEPS) tools/dev/deps build
	@DEPS=$(DEPS) tools/dev/deps site
	@+$(MAKE) --no-print-directory run-site

image:
	@DEPS=$(DEPS) tools/dev/deps build
	@DEPS=$(DEPS) tools/dev/deps image
	$(if $(CROSS),@tools/dev/fetch-deb bookworm main $(cross_arch) $(cross_debs) libinih-dev libncurses-dev)
	@+$(MAKE) --no-print-directory run-image

# They are built with as many processes as there are processors, unless somebody has said otherwise;
# one after the other.
ifneq ($(filter check%,$(goals)),)
.NOTPARALLEL:
check_jobs := $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
endif

check check-programs check-clients check-cluster check-packages check-softgpu:
	@DEPS=$(DEPS) tools/dev/deps $(or $(patsubst check-%,%,$(filter check-cluster check-packages,$@)),check)
	@+$(MAKE) $(check_jobs) --no-print-directory run-$@

check-all: check check-programs check-cluster check-packages
	@DEPS=$(DEPS) tools/dev/deps all
	@+$(MAKE) $(check_jobs) --no-print-directory run-check-long
	$(if $(SANITIZER),,@+$(MAKE) --no-print-directory run-check-gpu-kit)

demo:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-demo

bench:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-bench

bench-compare:
	@test -n "$(BASE)" || { echo 'make bench-compare BASE=COMMIT [PAIRS=7]: with which commit?' >&2; exit 2; }
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-bench-compare

bench-pace:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-bench-pace

bench-sharing:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-bench-sharing

bench-engines:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-bench-engines

bench-what-if:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-bench-what-if

pictures:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-pictures

check-gpu:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-check-gpu

gpu-kit:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory make-gpu-kit

check-gpu-kit:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-check-gpu-kit

record:
	@DEPS=$(DEPS) tools/dev/deps build
	@+$(MAKE) --no-print-directory run-record

lint:
	@DEPS=$(DEPS) tools/dev/deps lint
	@+$(MAKE) --no-print-directory run-lint

.PHONY: run-lint
run-lint: $(BUILD)/cuda.mk
	@BUILD=$(BUILD) CUDA_INCLUDE=$(CUDA_INCLUDE) tools/dev/lint

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

.PHONY: entry-points
entry-points:
	@tools/dev/entry-points

clean:
	@rm -rf $(BUILD)

distclean:
	@rm -rf build build-address build-undefined build-thread build-aarch64-linux-gnu

help:
	@echo 'make            build the shim, the tool, the software GPU and the client'
	@echo 'make demo       build what it needs and run a training under a limit'
	@echo 'make shim       the preloaded library alone; CROSS=aarch64-linux-gnu- builds it for that machine'
	@echo 'make shim MODULES="$(all_modules)"  with these modules built in; MODULES= for the kernel alone'
	@echo 'make libvgpu    one file to put in the place of HAMi-core under HAMi, KAI and Volcano'
	@echo 'make check      build everything and run the tests of every day; TESTS=WORD, ROOM=core/state: some of them'
	@echo 'make check-softgpu  the tests of the software GPU alone'
	@echo 'make check-programs  what downloads: Python programs, other C libraries, NVIDIA drivers, aarch64'
	@echo 'make check-clients  more programs of other projects, and their test suites, with and without Spillway'
	@echo 'make check-cluster  what a machine with many users needs: limits that nobody gets out of, Prometheus, containers'
	@echo 'make wheel      the package for pip, pipx and uvx, in build/packages; CROSS= as above'
	@echo 'make dist       the sources as a tarball, in build/packages'
	@echo 'make deb        packages for Debian and its like, in build/packages'
	@echo 'make release    all of them, the image, the GPU kit and checksums, from a commit that is tagged with its version; IMAGE=no'
	@echo 'make image      an image for containers, as an archive in build/packages; CROSS= as above'
	@echo 'make site       man pages, guide and tasks as static HTML, in build/site'
	@echo 'make check-packages  the packages, installed where each is meant to be'
	@echo 'make check-all  all four, minutes of chaos, the long forms of tests, check-gpu-kit'
	@echo 'make bench      costs, as ratios; PEER_PRELOAD=/path/lib.so measures another one too'
	@echo 'make bench PEERS=/path/a.so,/path/b.so  Spillway beside other preload libraries, in one table'
	@echo 'make bench-compare BASE=COMMIT  the same beside that commit, by turns: which rows are slower'
	@echo 'make bench-pace  how exactly shares of GPU time are held, and the plot of it'
	@echo 'make bench-sharing  what jobs that share a GPU by need keep of their speed'
	@echo 'make bench-what-if  what `spillway what-if` predicts beside what is measured then (POINTS="19:100:75")'
	@echo 'make bench-engines  what two inference engines on one GPU keep of a GPU of their own; PEERS= as above'
	@echo 'make pictures   the pictures of README, from runs of now (PICTURES="top sharing page"); needs tmux and chromium'
	@echo 'make check-gpu  what only a real GPU can show'
	@echo 'make gpu-kit    one folder that asks a real GPU everything, where nothing is installed'
	@echo 'make check-gpu-kit  the whole of it on a bare machine with the software GPU; half an hour'
	@echo 'make record     write down what the driver of a real GPU answers, for make check'
	@echo 'make coverage   what is done with each of the driver symbols, and where'
	@echo 'make entry-points  rows for the functions of the newest cuda.h that the Python package index has'
	@echo 'make lint       clang-format, clang-tidy, cppcheck of what has changed since it was clean'
	@echo 'make install    PREFIX=$(PREFIX) DESTDIR=$(DESTDIR); make uninstall takes it away'
	@echo 'make ptx        regenerate the checked-in PTX (needs nvcc)'
	@echo 'make clean      remove $(BUILD)/'

-include $(shell test -d $(BUILD) && find $(BUILD) -name debs -prune -o -type f -name '*.d' -print)
