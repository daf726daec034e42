# SPDX-License-Identifier: MIT
# tools/: the spillway command, and where everything is installed.
tools_src := $(filter-out tools/slurm/%,$(wildcard tools/*/*.c))
tools_obj := $(tools_src:%.c=$(BUILD)/%.o) $(BUILD)/tools/web/page.o
tools_out := $(BUILD)/spillway

$(BUILD)/spillway: $(tools_obj) $(BUILD)/libcore.a $(old_start)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(inih_libs) $(curses_libs) $(old_glibc_libs) -l:librt.so.1
$(BUILD)/tools/web/page.o: tools/web/page.html
# Linked in where the archives are there: the tool then runs where inih and ncurses are not
# installed.
inih_libs := $(or $(wildcard $(static_inih)),-linih)
archive = $(wildcard $(shell $(CC) $(LDFLAGS) -print-file-name=lib$(1).a))
curses_libs := $(if $(call archive,ncursesw),$(call archive,ncursesw) $(call archive,tinfo),-lncursesw)

man_src := $(wildcard tools/man/*.scd)
man_out := $(man_src:%.scd=$(BUILD)/%)
man_links := spillway-pause.1 spillway-resume.1 # are on the page of set

.PHONY: man
man: $(man_out)

$(BUILD)/tools/man/%: tools/man/%.scd
	$(call say,MAN)
	@mkdir -p $(@D)
	$(Q)scdoc <$< >$@.tmp && mv $@.tmp $@

# Runs a program of another machine.
emulator := $(if $(CROSS),qemu-$(firstword $(subst -, ,$(CROSS))) -L /usr/$(CROSS:-=))

# The metrics are those that the tool itself names, so that none is missing.
$(BUILD)/tools/man/spillway-stat.1: tools/man/spillway-stat.1.scd $(BUILD)/spillway
	$(call say,MAN)
	@mkdir -p $(@D)
	$(Q)SPILLWAY_STATE_DIR=/nonexistent $(emulator) $(BUILD)/spillway stat --format prometheus | \
		sed -n 's/_/\\_/g; s/^# HELP \([^ ]*\) \(.*\)/*\1*\n\t\2.\n/p' | \
		sed -e '/^@METRICS@$$/r /dev/stdin' -e '/^@METRICS@$$/d' $< | scdoc >$@.tmp && mv $@.tmp $@

# The shim lies in a folder of its own: in one that ldconfig scans, its SONAME would make it the
# machine's libcuda.so.1.
shim_dir = $(DESTDIR)$(libdir)/spillway
doc_dir = $(DESTDIR)$(prefix)/share/doc/spillway
# Where bash, zsh and fish look for completion.
completion_bash = $(DESTDIR)$(prefix)/share/bash-completion/completions/spillway
completion_zsh = $(DESTDIR)$(prefix)/share/zsh/site-functions/_spillway
completion_fish = $(DESTDIR)$(prefix)/share/fish/vendor_completions.d/spillway.fish
scdoc := $(shell command -v scdoc 2>/dev/null)

# What is tried where there is no GPU: the software GPU with its NVML, and a training in a folder
# with what it reads.
softgpu_files := $(addprefix $(BUILD)/softgpu/,libcuda.so.1 libnvidia-ml.so.1 libcudart.so.12 libcudart.so.13 \
	libcublas.so.12 libcublas.so.13 libcublasLt.so.12 libcublasLt.so.13 libcudnn.so.9 \
	libsoftgpu-node.so libsoftgpu-refuse.so)
# Named here, because prerequisites are read before the rules of the software GPU.
softgpu_ptxas := $(BUILD)/softgpu/cuda/bin/ptxas
try_files = $(BUILD)/clients/train_mlp $(clients_beside)

# Replaces a file by a rename: a process that has it mapped keeps the old one, and no moment is
# without it, because every program of the machine may preload it.
define replace
put() { \
	install -m "$$1" "$$2" "$$3.new" && mv -f "$$3.new" "$$3"; \
}; put
endef
preload_list = $(DESTDIR)/etc/ld.so.preload

install_out = $(tools_out) $(shim_out) $(softgpu_files) $(softgpu_ptxas) $(try_files) $(if $(scdoc),$(man_out))
.PHONY: run-install install-out uninstall
install-out: $(install_out)
run-install: $(install_out)
	@install -d $(DESTDIR)$(bindir) $(shim_dir)/softgpu $(shim_dir)/try $(doc_dir)
	@$(replace) 755 $(BUILD)/spillway $(DESTDIR)$(bindir)/spillway
	@for file in $(filter %.so,$(shim_out)) $(shim_probe); do \
		$(replace) 755 $$file $(shim_dir)/$${file##*/} || exit; done
	@ln -sfn libspillway.so $(shim_dir)/libcuda.so.1.new && mv -fT $(shim_dir)/libcuda.so.1.new $(shim_dir)/libcuda.so.1
	@echo '$(libdir)/spillway/libspillway.so $(libdir)/spillway/libspillway-alias.so' >$(shim_dir)/ld.so.preload.new
	@mv -f $(shim_dir)/ld.so.preload.new $(shim_dir)/ld.so.preload
	@for file in $(softgpu_files); do \
		$(replace) 755 $$file $(shim_dir)/softgpu/$${file##*/} || exit; done
	@install -d $(shim_dir)/softgpu/cuda/bin
	@$(replace) 755 $(softgpu_ptxas) $(shim_dir)/softgpu/cuda/bin/ptxas
	@for file in $(shim_dir)/libspillway*.so; do \
		case ' $(notdir $(shim_out)) libspillway-companion.so ' in *" $${file##*/} "*) ;; *) rm -f $$file ;; esac; done
	@ln -sf libcuda.so.1 $(shim_dir)/softgpu/libcuda.so
	@install -m 755 $(BUILD)/clients/train_mlp $(shim_dir)/try/
	@install -m 644 $(clients_beside) $(shim_dir)/try/
	@install -D -m 644 tools/completion/spillway.bash $(completion_bash)
	@install -D -m 644 tools/completion/spillway.zsh $(completion_zsh)
	@install -D -m 644 tools/completion/spillway.fish $(completion_fish)
	@for file in $(wildcard conf/spillway.ini README.md LICENSE LICENSES/CC-BY-4.0.txt); do \
		install -m 644 $$file $(doc_dir)/ || exit; done
	@for file in $(filter-out conf/debian/% conf/wheel/%,$(wildcard conf/README.md conf/*/*)); do \
		if [ -x $$file ]; then mode=755; else mode=644; fi; \
		install -D -m $$mode $$file $(doc_dir)/$$file || exit; done
ifneq ($(scdoc),)
	@for page in $(man_out); do \
		install -D -m 644 -t $(DESTDIR)$(mandir)/man$${page##*.} $$page || exit; done
	@for page in $(man_links); do \
		ln -sf spillway-set.1 $(DESTDIR)$(mandir)/man1/$$page; done
else
	@echo 'no man pages installed: scdoc is not on PATH (apt-get install scdoc)'
endif
	@echo 'installed: $(DESTDIR)$(bindir)/spillway, $(shim_dir); make uninstall PREFIX=$(PREFIX) removes them'
	@case ":$$PATH:" in *":$(bindir):"*) ;; *) \
		echo 'not on PATH: $(bindir); call it by its path, or: export PATH="$(bindir):$$PATH"' ;; esac

# The wheel: what is installed, without what debuggers alone read. date_of_change dates its files.
machine := $(firstword $(subst -, ,$(CROSS)) $(shell uname -m))
wheel_tag := py3-none-manylinux_2_28_$(machine)
packages := $(BUILD)/packages
venv := build/packages/venv
date_of_change = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || date +%s))

# Those that pack and judge packages.
$(venv)/made: tools/dev/packages.txt
	@echo '  FETCH   $< of the Python package index, into $(@D)'
	@rm -rf $(@D)
	$(Q)python3 -m venv $(@D)
	$(Q)$(@D)/bin/pip --disable-pip-version-check --quiet --no-input install -r $<
	@touch $@

without_debug = find $(1) -type f \( -name '*.so*' -o -perm -u+x \) | while read -r file; do \
	case $$(head -c 4 "$$file" | od -An -tx1) in *'7f 45 4c 46') $(CROSS)strip --strip-unneeded "$$file" ;; esac; done

.PHONY: run-wheel
run-wheel: $(venv)/made $(install_out)
	@rm -rf $(packages)/stage $(packages)/wheel
	@+$(MAKE) --no-print-directory --silent run-install PREFIX=$(abspath $(packages)/stage) DESTDIR= >/dev/null
	@$(call without_debug,$(packages)/stage)
	@SOURCE_DATE_EPOCH=$(date_of_change) $(venv)/bin/python tools/dev/wheel \
		$(packages)/stage $(packages) $(wheel_tag) $(version) >/dev/null
	@echo 'made: $(packages)/gpu_spillway-$(version)-$(wheel_tag).whl'

# The documents as static pages; the commands of tools/site run on the software GPU.
.PHONY: run-site
run-site: $(venv)/made $(man_out) $(install_out)
	@$(venv)/bin/python tools/dev/site $(BUILD) $(BUILD)/site
	@echo 'made: $(BUILD)/site/index.html'

# The image of conf/kubernetes/daemonset.yaml, as an archive; no registry takes part. Below what is
# installed are the C library and busybox as Debian's archive has them that day.
deb_arch = $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(machine)))
image = $(packages)/spillway-$(version)-image-$(deb_arch).tar
image_base = build/debs/image-$(deb_arch)
image_base_packages := libc6 busybox-static
image_root := $(packages)/image/root
.PHONY: run-image image-base
image-base:
	@tools/dev/fetch-deb bookworm main $(deb_arch) $(image_base) $(image_base_packages)

run-image: $(install_out) image-base
	@rm -rf $(packages)/image && mkdir -p $(image_root) $(packages)/image/links/bin
	@+$(MAKE) --no-print-directory --silent run-install PREFIX=/usr/local DESTDIR=$(abspath $(image_root)) >/dev/null
	@$(call without_debug,$(image_root))
	@$(emulator) $(image_base)/bin/busybox --list | while read -r name; do \
		ln -s busybox $(packages)/image/links/bin/$$name || exit; done; rm $(packages)/image/links/bin/busybox
	@SOURCE_DATE_EPOCH=$(date_of_change) tools/dev/image $(image) localhost/spillway $(version) $(deb_arch) \
		$(packages)/image/links $(image_base) $(image_root)
	@echo 'made: $(image) (podman load -i, docker load -i)'

# The sources as git knows them, or in a tarball's own tree all there are.
dist := $(packages)/spillway-$(version).tar.gz
dist_files := { git ls-files -z 2>/dev/null || find . -path ./$(BUILD) -prune -o -type f -printf '%P\0'; }
.PHONY: run-dist
run-dist:
	@mkdir -p $(packages)
	@$(dist_files) | LC_ALL=C sort -z | tar --null --files-from=- --mtime=@$(date_of_change) --owner=0 --group=0 --numeric-owner \
		--mode=go=rX,u+rw --transform='s|^|spillway-$(version)/|S' -c | gzip -9n >$(dist)
	@echo 'made: $(dist)'

# Debian's packages, from a copy of the sources that git knows.
deb_tree := $(abspath $(packages))/deb/spillway
.PHONY: run-deb
run-deb: $(BUILD)/cuda.mk
	@rm -rf $(dir $(deb_tree)) && mkdir -p $(deb_tree)
	@$(dist_files) | xargs -0 cp --parents -t $(deb_tree)
	@mv $(deb_tree)/conf/debian $(deb_tree)/debian
	@{ echo 'spillway ($(version)) unstable; urgency=medium'; echo; \
		echo '  * CHANGELOG.md beside this file lists the changes.'; echo; \
		echo " -- The Spillway authors <spillway@example.com>  $$(date -uR -d @$(date_of_change))"; \
		} >$(deb_tree)/debian/changelog
	@for text in MIT CC-BY-4.0; do \
		sed 's/^$$/./; s/^/ /' LICENSES/$$text.txt | \
			sed -e "/^@$$text@/{r /dev/stdin" -e 'd;}' -i $(deb_tree)/debian/copyright || exit; done
	@+cd $(deb_tree) && SOURCE_DATE_EPOCH=$(date_of_change) CUDA_INCLUDE=$(CUDA_INCLUDE) DEB_BUILD_OPTIONS=noautodbgsym \
		dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >../log 2>&1 || { tail -n 30 ../log; exit 1; }
	@mv $(dir $(deb_tree))*.deb $(packages)/
	@cd $(packages) && ls *.deb | sed 's|^|made: $(packages)/|'

# All that a release consists of, with checksums. Its tag names the version, and its changes a date.
# Where Debian's archive cannot be had there is no image, and no release: its list of checksums
# would be another. IMAGE=no makes one without it, and says so.
IMAGE ?=
release := $(packages)/release
.PHONY: run-release
run-release:
	@test -z "$$(git status --porcelain)" || { echo 'make release: the tree has changes that are not committed' >&2; exit 1; }
	@test "$$(git describe --tags --exact-match 2>&1)" = v$(version) || { \
		echo 'make release: HEAD is not tagged v$(version), the version of the Makefile: git tag v$(version)' >&2; exit 1; }
	@grep -q '^## \[$(version)\] - 2' CHANGELOG.md || { \
		echo 'make release: CHANGELOG.md has no date behind [$(version)]' >&2; exit 1; }
	@rm -rf $(release) && mkdir -p $(release)
	$(if $(filter no,$(IMAGE)),@echo 'make release: IMAGE=no: this release has no image')
	@+$(MAKE) --no-print-directory $(if $(filter no,$(IMAGE)),,image-base) run-dist run-wheel run-deb make-gpu-kit \
		$(if $(filter no,$(IMAGE)),,run-image)
	@tar --sort=name --mtime=@$(date_of_change) --owner=0 --group=0 --numeric-owner -C $(BUILD) -c gpu-kit | gzip -9n >$(release)/gpu-kit.tar.gz
	@cp $(dist) $(packages)/gpu_spillway-$(version)-*.whl $(packages)/*_$(version)_*.deb \
		$(if $(filter no,$(IMAGE)),,$(image)) $(release)/
	@cd $(release) && sha256sum * >SHA256SUMS && echo 'made: $(release)' && cat SHA256SUMS

# A preload list that names what is gone has every command of the machine print an error, rm
# included: the list changes first.
uninstall:
	@if grep -qs '$(libdir)/spillway/' $(preload_list); then \
		echo '$(preload_list) names $(libdir)/spillway, and without it every command here would print errors.' >&2; \
		echo "nothing is removed. Take it out first: sed -i 's|$(libdir)/spillway/[^ :]*||g' $(preload_list)" >&2; \
		exit 1; fi
	@rm -f $(DESTDIR)$(bindir)/spillway $(completion_bash) $(completion_zsh) $(completion_fish)
	@for page in $(notdir $(man_src:.scd=)) $(man_links); do \
		rm -f $(DESTDIR)$(mandir)/man$${page##*.}/$$page; done
	@rm -rf $(shim_dir) $(doc_dir)
	@echo 'removed: $(DESTDIR)$(bindir)/spillway, $(shim_dir)'
	@$(if $(DESTDIR),:,users=$$(grep -ls '$(libdir)/spillway/' /proc/[0-9]*/maps 2>/dev/null | wc -l); \
	[ "$$users" -eq 0 ] || echo "processes that go on with it until they end: $$users; programs that they start from now on run without limits")
