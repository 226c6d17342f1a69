# SPDX-License-Identifier: GPL-2.0
#
# The verbs a user types.  kbuild never reads this file: it prefers Kbuild.
#
#	make			build dm_xcrypt.ko for KDIR
#	make install		install it, and by what a request for dm-crypt
#				leads to it, in an initramfs too
#	make uninstall		take all that away again
#	make dkms-install	the same through DKMS, which builds it again for
#				each new kernel; and hooks in
#				/etc/kernel/{postinst,header_postinst}.d, so
#				that a build that fails does not fail the kernel
#	make dkms-uninstall	take that away again
#	make deb		the Debian package dm-xcrypt-dkms, which does
#				that, in build/deb
#	make demo		in a guest: a disk that dm-crypt and dm-xcrypt
#				both read; needs nothing but apt and root
#	make check		in guests: all tests, or TESTS="name.."
#	make check-short	some of the tests, in little: for another KERNEL
#	make check-debug	in guests with a kernel that finds mistakes
#				(KASAN, lockdep, leaks, failing allocations):
#				unit tests, some of the tests, storms;
#				the first run makes that kernel, see
#				scripts/debug-kernel
#	make check-suspend	suspend-to-RAM, which one guest in a few
#				does not survive (not the module's doing)
#	make check-cross	without guests: the module built for arm64 and
#				s390x, its pure parts run on s390x
#	make check-cryptsetup	cryptsetup's own tests on ours and on in-tree
#				dm-crypt, or SUITE="name..": with KERNEL=7.3 in
#				User Mode Linux; in QEMU hours without KVM
#	make check-boot		an encrypted root through the Debian package:
#				install, kernel upgrade, failures, removal; and
#				through make dkms-install, make install; hours
#				without KVM, or STEPS="name..", see
#				tests/slow/60-boot
#	make bench		measure, in guests: all, or BENCH="name..";
#				writes build/bench/report.md, see tests/bench/run
#	make guest		only build the module for a guest
#	make clean		remove what was built here; guests stay in
#				${XDG_CACHE_HOME:-~/.cache}/dm-xcrypt
#
#	KDIR=DIR	kernel build tree for make, install (the running
#			kernel's)
#	KERNEL=6.1	guest kernel for demo, check, bench, guest
#	DESTDIR=DIR	a root directory to install to, instead of this
#			machine's; so does the kernel's INSTALL_MOD_PATH=DIR
#	INITRAMFS=yes	install and uninstall make the initramfs of KDIR's
#			kernel again; without, they say how to

KDIR ?= /lib/modules/$(shell uname -r)/build
KERNEL ?= 6.1
TESTS ?=
SUITE ?=
BENCH ?=
export KERNEL

# One of them is enough.
ifndef DESTDIR
DESTDIR := $(INSTALL_MOD_PATH)
endif
INSTALL_MOD_PATH ?= $(DESTDIR)

VERSION := $(shell sed -n '1s/.*(\(.*\)).*/\1/p' dist/debian/changelog)
# What belongs to the administrator; a package has places of its own.
MODPROBE_D ?= /etc/modprobe.d
INITRAMFS_HOOKS ?= /etc/initramfs-tools/hooks
DRACUT_CONF ?= /etc/dracut.conf.d
KERNEL_HOOKS ?= /etc/kernel/postinst.d /etc/kernel/header_postinst.d
CONFIG := $(MODPROBE_D)/dm-xcrypt.conf $(INITRAMFS_HOOKS)/dm-xcrypt $(DRACUT_CONF)/60-dm-xcrypt.conf

# What DKMS needs to build the module.
DKMS_DIR := /usr/src/dm-xcrypt-$(VERSION)
SOURCE := $(filter-out dm_xcrypt.mod.c compat-gen.h,$(wildcard *.[ch])) Kbuild \
	  scripts/compat-probe.sh dist/dkms/post-install

all: module

module: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

kdir:
	@test -e $(KDIR)/Makefile || { \
		echo "There is no kernel build tree at $(KDIR)." >&2; \
		echo "Install the headers of the running kernel (Debian: apt-get install linux-headers-$$(uname -r))," >&2; \
		echo "or name another tree: make KDIR=/usr/src/linux-headers-VERSION." >&2; \
		echo "To only try the module, in a guest, no headers are needed: make demo." >&2; \
		exit 1; }

# Debian's 6.1 headers have another word in kernel.release, and make kernelrelease.
release = $(shell sed -n 's/.* UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h)
UPDATES = $(INSTALL_MOD_PATH)/lib/modules/$(release)/updates

install: module install-config
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(INSTALL_MOD_PATH) \
		INSTALL_MOD_DIR=updates modules_install
	@scripts/after-install "$(DESTDIR)" "$(release)" "$(INITRAMFS)"

uninstall: kdir uninstall-config
	rm -f $(UPDATES)/dm_xcrypt.ko*
	@scripts/after-install "$(DESTDIR)" "$(release)" "$(INITRAMFS)"

# The parts that make install, DKMS and the package have in common.
install-config:
	install -D -m 644 dist/modprobe.d/dm-xcrypt.conf $(DESTDIR)$(MODPROBE_D)/dm-xcrypt.conf
	install -D -m 755 dist/initramfs-tools/hooks/dm-xcrypt $(DESTDIR)$(INITRAMFS_HOOKS)/dm-xcrypt
	install -D -m 644 dist/dracut/60-dm-xcrypt.conf $(DESTDIR)$(DRACUT_CONF)/60-dm-xcrypt.conf

uninstall-config:
	rm -f $(addprefix $(DESTDIR),$(CONFIG))

# For DKMS alone; the name sorts after dkms, before dracut and initramfs-tools.
install-kernel-hooks:
	for dir in $(KERNEL_HOOKS); do \
		install -D -m 755 dist/dkms/kernel-hook "$(DESTDIR)$$dir/dm-xcrypt-dkms" || exit 1; \
	done

uninstall-kernel-hooks:
	for dir in $(KERNEL_HOOKS); do rm -f "$(DESTDIR)$$dir/dm-xcrypt-dkms"; done

install-source:
	for file in $(SOURCE); do \
		install -D -p -m "$$(stat -c %a $$file)" "$$file" "$(DESTDIR)$(DKMS_DIR)/$$file" || exit 1; \
	done

dkms-install: install-config install-kernel-hooks
	@command -v dkms >/dev/null || { echo "There is no dkms here (Debian: apt-get install dkms)." >&2; exit 1; }
	if [ -n "$$(dkms status dm-xcrypt/$(VERSION))" ]; then dkms remove dm-xcrypt/$(VERSION) --all; fi
	rm -rf "$(DKMS_DIR)"
	$(MAKE) install-source
	sed 's/#MODULE_VERSION#/$(VERSION)/' dist/dkms/dkms.conf >"$(DKMS_DIR)/dkms.conf"
	dkms add dm-xcrypt/$(VERSION)
	dkms install dm-xcrypt/$(VERSION)

dkms-uninstall: uninstall-config uninstall-kernel-hooks
	if [ -n "$$(dkms status dm-xcrypt/$(VERSION))" ]; then dkms remove dm-xcrypt/$(VERSION) --all; fi
	rm -rf "$(DKMS_DIR)"
	@echo "Make all initramfs again (Debian: update-initramfs -u -k all)."

deb:
	@scripts/deps build-essential debhelper dh-dkms
	@scripts/build-deb

.PHONY: check-boot install-config uninstall-config install-kernel-hooks uninstall-kernel-hooks \
	install-source dkms-install dkms-uninstall deb

deps:
	@scripts/deps

guest: deps
	@scripts/guest-build $(KERNEL)

demo: deps
	@tests/demo

check: deps
	@tests/run $(TESTS)

check-short: deps
	@tests/run --short $(TESTS)

check-cryptsetup: deps
	@tests/cryptsetup-suite/run $(if $(filter 7.3,$(KERNEL)),--uml) $(SUITE)

check-debug: deps
	@tests/run --debug $(TESTS)

check-suspend: deps
	@tests/run --dir tests/slow suspend

check-cross: deps
	@tests/run --no-build big-endian cross

check-boot: deps
	@tests/run --dir tests/slow boot

bench: deps
	@tests/bench/run $(BENCH)

# Objects that an in-place build left, without asking for a kernel tree.
clean:
	rm -rf build
	rm -f ./*.o ./*.ko ./*.mod ./*.mod.c ./.*.cmd ./.*.d compat-gen.h Module.symvers modules.order .module-common.c
	rm -f tests/modules/*.o tests/modules/*.ko tests/modules/*.mod tests/modules/*.mod.c
	rm -f tests/modules/.*.cmd tests/modules/Module.symvers tests/modules/modules.order

.PHONY: all module kdir install uninstall deps guest demo check check-short check-debug check-cryptsetup check-suspend check-cross bench clean
