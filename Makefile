# SPDX-License-Identifier: GPL-2.0
#
# The verbs a user types.  kbuild never reads this file: it prefers Kbuild.
#
#	make			build dm_xcrypt.ko for KDIR
#	make install		install it, and the modprobe.d file by which a
#				request for dm-crypt leads to it
#	make uninstall		take both away again
#	make demo		in a guest: a disk that dm-crypt and dm-xcrypt
#				both read; needs nothing but apt and root
#	make check		in guests: all tests, or TESTS="name.."
#	make check-suspend	suspend-to-RAM, which one guest in a few
#				does not survive (not the module's doing)
#	make check-cross	without guests: the module built for arm64 and
#				s390x, its pure parts run on s390x
#	make check-cryptsetup	cryptsetup's own tests on ours and on in-tree
#				dm-crypt, or SUITE="name..": hours without KVM
#	make guest		only build the module for a guest
#	make clean		remove what was built here; guests stay in
#				${XDG_CACHE_HOME:-~/.cache}/dm-xcrypt
#
#	KDIR=DIR	kernel build tree for make, install (the running
#			kernel's)
#	KERNEL=6.1	guest kernel for demo, check, guest
#	DESTDIR=DIR	where install puts the modprobe.d file, with
#			INSTALL_MOD_PATH=DIR for the module

KDIR ?= /lib/modules/$(shell uname -r)/build
KERNEL ?= 6.1
TESTS ?=
SUITE ?=
export KERNEL

MODPROBE_D := $(DESTDIR)/etc/modprobe.d

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

install: module
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_DIR=updates modules_install
	install -D -m 644 dist/modprobe.d/dm-xcrypt.conf $(MODPROBE_D)/dm-xcrypt.conf
	@echo "If the root or swap is encrypted, make the initramfs again (Debian: update-initramfs -u)."

uninstall: kdir
	rm -f $(MODPROBE_D)/dm-xcrypt.conf
	rm -f $(INSTALL_MOD_PATH)/lib/modules/$$($(MAKE) -s -C $(KDIR) kernelrelease)/updates/dm_xcrypt.ko
	@echo "Run depmod, and make the initramfs again if it has the module."

deps:
	@scripts/deps

guest: deps
	@scripts/guest-build $(KERNEL)

demo: deps
	@tests/demo

check: deps
	@tests/run $(TESTS)

check-cryptsetup: deps
	@tests/cryptsetup-suite/run $(SUITE)

check-suspend: deps
	@tests/run --dir tests/slow suspend

check-cross: deps
	@tests/run --no-build big-endian cross

bench:
	@echo "make bench: there is no benchmark yet" >&2; exit 1

# Objects that an in-place build left, without asking for a kernel tree.
clean:
	rm -rf build
	rm -f ./*.o ./*.ko ./*.mod ./*.mod.c ./.*.cmd ./.*.d compat-gen.h Module.symvers modules.order .module-common.c
	rm -f tests/modules/*.o tests/modules/*.ko tests/modules/*.mod tests/modules/*.mod.c
	rm -f tests/modules/.*.cmd tests/modules/Module.symvers tests/modules/modules.order

.PHONY: all module kdir install uninstall deps guest demo check check-cryptsetup check-suspend check-cross bench clean
