# `make install`: the header, the shared library with its versioned links, the static library and a pkg-config file.
PREFIX ?= /usr/local
DESTDIR ?=

STATIC_LIBRARY := $(BUILD)/libcustom_kernel.a
# The archive holds one object in which only the header's functions are global, so that internal names cannot clash
# with those of the program.
$(STATIC_LIBRARY): $(OBJS)
	$(call step,AR,$@)
	$(Q)$(CC) -r -nostdlib -o $(@:.a=_static.o) $^ && objcopy --localize-hidden $(@:.a=_static.o) && \
	  rm -f $@ && ar rcs $@ $(@:.a=_static.o)

.PHONY: install
install: $(LIBRARY) $(STATIC_LIBRARY) ## build: install header, libraries and pkg-config file (PREFIX=/usr/local, DESTDIR=)
	@umask 022; case "$(PREFIX)" in /*) prefix="$(PREFIX)" ;; *) prefix="$(CURDIR)/$(PREFIX)" ;; esac; \
	to="$(DESTDIR)$$prefix" && install -d "$$to/include" "$$to/lib/pkgconfig" && \
	install -m 644 submission/custom_kernel.h "$$to/include" && \
	install -m 755 $(LIBRARY) "$$to/lib/libcustom_kernel.so.$(VERSION)" && \
	ln -sf libcustom_kernel.so.$(VERSION) "$$to/lib/$(SONAME)" && \
	ln -sf $(SONAME) "$$to/lib/libcustom_kernel.so" && \
	install -m 644 $(STATIC_LIBRARY) "$$to/lib" && \
	{ printf 'prefix='; printf '%s\n' "$$prefix" | sed 's/ /\\ /g'; \
	  printf '%s\n' 'includedir=$${prefix}/include' 'libdir=$${prefix}/lib' '' 'Name: custom_kernel' \
	    'Description: NVFP4 matrix products on Hopper, Blackwell, GeForce RTX 50 and any CPU' 'Version: $(VERSION)' \
	    'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lcustom_kernel' 'Libs.private: -pthread $(LDLIBS)'; \
	} > "$$to/lib/pkgconfig/custom_kernel.pc" && \
	echo "installed libcustom_kernel $(VERSION) under $$to"
