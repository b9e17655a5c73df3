# Builds memwright and installs it with its libraries, man pages, completions and systemd units:
#
#     make
#     sudo make install
#     make install DESTDIR=/tmp/root PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu    # for a package
#     sudo make uninstall

PREFIX = /usr/local
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
DATADIR = $(PREFIX)/share
MANDIR = $(DATADIR)/man
DOCDIR = $(DATADIR)/doc/memwright
# Alerts and dashboards.
MONITORINGDIR = $(DATADIR)/memwright
# Queries over the data set of a fleet.
FLEETDIR = $(MONITORINGDIR)/fleet
UNITDIR = $(PREFIX)/lib/systemd/system
SYSUSERSDIR = $(PREFIX)/lib/sysusers.d
TMPFILESDIR = $(PREFIX)/lib/tmpfiles.d
BASHDIR = $(DATADIR)/bash-completion/completions
FISHDIR = $(DATADIR)/fish/vendor_completions.d
# Debian's zsh does not read /usr/share/zsh/site-functions.
ZSHDIR = $(DATADIR)/zsh/$(if $(filter /usr,$(PREFIX)),$(DEBIAN),site-functions)
DEBIAN = $(if $(wildcard /etc/debian_version),vendor-completions,site-functions)

CARGO = cargo
INSTALL = install

# Where cargo puts programs and libraries.
export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
BUILT = $(CARGO_TARGET_DIR)/release

UNITS = memwright.service memwright.socket memwright-pool.service memwright-ship.service memwright-ship.timer
MAN1 = $(wildcard docs/man/*.1)
MAN5 = $(wildcard docs/man/*.5)
MONITORING = packaging/prometheus/memwright.rules.yml $(wildcard packaging/grafana/*.json) $(wildcard packaging/kubernetes/*.json)
VIEWS = $(wildcard fleet/*.sql)
QUERIES = $(wildcard fleet/queries/*.sql)
DOCS = LICENSE-APACHE LICENSE-MIT CHANGELOG.md docs/metrics.md docs/notify.md docs/profiles.md
SCHEMAS = $(wildcard docs/schema/*.json)
# The sample configuration, where Debian keeps examples: it compresses no example.
EXAMPLES = packaging/memwright.toml

# Its libraries have Makefiles of their own, which install no more than they build.
LIBRARIES = crates/mw-preload crates/mw-capi
WITH = $(MAKE) --no-print-directory BUILT='$(abspath $(BUILT))' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' -C

all:
	$(CARGO) build --locked --release --package mw-cli
	for library in $(LIBRARIES); do $(MAKE) --no-print-directory -C $$library || exit; done

# Builds nothing, so that root needs no toolchain.
install:
	$(INSTALL) -d $(addprefix $(DESTDIR),$(BINDIR) $(MANDIR)/man1 $(MANDIR)/man5 $(DOCDIR)/schema $(DOCDIR)/examples $(UNITDIR) \
	    $(MONITORINGDIR) $(FLEETDIR)/queries $(SYSUSERSDIR) $(TMPFILESDIR) $(BASHDIR) $(FISHDIR) $(ZSHDIR))
	$(INSTALL) -m 755 $(BUILT)/memwright $(DESTDIR)$(BINDIR)/
	for library in $(LIBRARIES); do $(WITH) $$library install || exit; done
	$(INSTALL) -m 644 $(MAN1) $(DESTDIR)$(MANDIR)/man1/
	$(INSTALL) -m 644 $(MAN5) $(DESTDIR)$(MANDIR)/man5/
	sed -i 's|/usr/share/doc/memwright|$(DOCDIR)|' $(DESTDIR)$(MANDIR)/man1/memwright.1
	$(INSTALL) -m 644 $(DOCS) $(DESTDIR)$(DOCDIR)/
	$(INSTALL) -m 644 $(SCHEMAS) $(DESTDIR)$(DOCDIR)/schema/
	$(INSTALL) -m 644 $(EXAMPLES) $(DESTDIR)$(DOCDIR)/examples/
	$(INSTALL) -m 644 $(MONITORING) $(DESTDIR)$(MONITORINGDIR)/
	$(INSTALL) -m 644 $(VIEWS) $(DESTDIR)$(FLEETDIR)/
	$(INSTALL) -m 644 $(QUERIES) $(DESTDIR)$(FLEETDIR)/queries/
	$(INSTALL) -m 644 docs/completions/memwright.bash $(DESTDIR)$(BASHDIR)/memwright
	$(INSTALL) -m 644 docs/completions/memwright.fish $(DESTDIR)$(FISHDIR)/
	$(INSTALL) -m 644 docs/completions/_memwright $(DESTDIR)$(ZSHDIR)/
	$(INSTALL) -m 644 packaging/systemd/memwright-pool.sysusers $(DESTDIR)$(SYSUSERSDIR)/memwright-pool.conf
	$(INSTALL) -m 644 packaging/systemd/memwright-pool.tmpfiles $(DESTDIR)$(TMPFILESDIR)/memwright-pool.conf
	$(INSTALL) -m 644 $(addprefix packaging/systemd/,$(UNITS)) $(DESTDIR)$(UNITDIR)/
	sed -i 's|/usr/bin/memwright|$(BINDIR)/memwright|' $(addprefix $(DESTDIR)$(UNITDIR)/,$(UNITS))
	@$(if $(DESTDIR),:,echo "installed; 'memwright doctor' says what is left to turn on")

# Leaves the configuration, the state in /var/lib/memwright and the user of the pool server.
uninstall:
	for library in $(LIBRARIES); do $(WITH) $$library uninstall || exit; done
	cd $(DESTDIR)$(MANDIR) && $(RM) $(patsubst docs/man/%,man1/%,$(MAN1)) $(patsubst docs/man/%,man5/%,$(MAN5))
	$(RM) $(DESTDIR)$(BINDIR)/memwright $(addprefix $(DESTDIR)$(DOCDIR)/,$(notdir $(DOCS))) \
	    $(DESTDIR)$(BASHDIR)/memwright $(DESTDIR)$(FISHDIR)/memwright.fish $(DESTDIR)$(ZSHDIR)/_memwright \
	    $(DESTDIR)$(SYSUSERSDIR)/memwright-pool.conf $(DESTDIR)$(TMPFILESDIR)/memwright-pool.conf \
	    $(addprefix $(DESTDIR)$(UNITDIR)/,$(UNITS)) $(addprefix $(DESTDIR)$(MONITORINGDIR)/,$(notdir $(MONITORING)))
	cd $(DESTDIR)$(MONITORINGDIR) && $(RM) $(VIEWS) $(QUERIES)
	cd $(DESTDIR)$(DOCDIR) && $(RM) $(patsubst docs/%,%,$(SCHEMAS)) $(patsubst packaging/%,examples/%,$(EXAMPLES))
	-rmdir $(DESTDIR)$(DOCDIR)/schema $(DESTDIR)$(DOCDIR)/examples $(DESTDIR)$(DOCDIR) $(DESTDIR)$(FLEETDIR)/queries $(DESTDIR)$(FLEETDIR) $(DESTDIR)$(MONITORINGDIR)

.PHONY: all install uninstall
