# `make` lists the targets. Needs Go, make and, for tests, a C compiler (for the race detector) and
# Chromium. Every other tool is built from its Go module into .cache/, once per version: a Go module
# proxy is all it takes.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The go command uses all cores by itself; two of them would only mix up what they print.
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Not taken from the environment: a workspace or a -mod=mod of one's own would change what is tested.
# The same flags everywhere, so that one step finds in the build cache what another has compiled.
export GOWORK := off
export GOFLAGS := -mod=readonly -trimpath -buildvcs=false

# Tests alone keep full paths, as `go test -race` typed by hand does: those two share the cache.
GOTEST := go test -trimpath=false -race -shuffle=on -timeout 20m

# For the demo and the examples: make demo ARGS=-help
ARGS ?=
# For go test: make test TESTFLAGS='-run TestTracker -count=5'
TESTFLAGS ?=
FUZZTIME ?= 30s
# For make chaos: how long, on what (single, cluster or both), and which faults (0: the clock decides).
DURATION ?= 60s
KIND ?= both
SEED ?= 0
SHORT :=

# Every folder with a go.mod, and those of them with Go code: the others only pin tools.
ALL_MODULES := $(patsubst %/go.mod,%,$(shell find . -path './.?*' -prune -o -name testdata -prune -o -name go.mod -print | sort))
ALL_MODULES := . $(patsubst ./%,%,$(filter-out .,$(ALL_MODULES)))
MODULES := $(shell for m in $(ALL_MODULES); do if [ -n "$$(find $$m -mindepth 1 -type d -exec test -e {}/go.mod \; -prune -o -name '*.go' -print -quit)" ]; then echo $$m; fi; done)

# Such a target has a part for each module, vet@examples say. One part can be made alone, and
# `make -k` goes on with the next when one fails.
part = $(MODULES:%=$(1)@%)
part-of-all = $(ALL_MODULES:%=$(1)@%)

# The tools. Each is built once for each version of its own and of Go: the version is in the file's
# name and comes from the go.mod that pins it. $(call tool,name,module,package in it,folder,note)
define tool
$(1) := .cache/bin/$(1)-$(shell awk '$$1 == "$(2)" && $$2 ~ /^v/ {print $$2}' $(4)/go.mod)
$$($(1)): $(4)/go.mod $(4)/go.sum .cache/go-version
	@echo "==> building $$@$(5)"
	@mkdir -p .cache/bin; rm -f .cache/bin/$(1)-v*
	@go -C $(4) build -ldflags='-s -w -X main.version=$$(@:.cache/bin/$(1)-v%=%)' -o "$$(CURDIR)/$$@.new" $(2)$(3); \
	  mv $$@.new $$@; echo "    built in $$$$SECONDS s"
endef
$(eval $(call tool,gofumpt,mvdan.cc/gofumpt,,tools))
$(eval $(call tool,staticcheck,honnef.co/go/tools,/cmd/staticcheck,tools))
$(eval $(call tool,govulncheck,golang.org/x/vuln,/cmd/govulncheck,tools))
$(eval $(call tool,benchstat,golang.org/x/perf,/cmd/benchstat,tools))
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2,/cmd/golangci-lint,tools/golangci, (takes minutes the first time)))
$(eval $(call tool,jaeger,github.com/jaegertracing/jaeger,/cmd/jaeger,tools/jaeger, (takes ten minutes the first time)))

# The example and the tests that read traces back take a real Jaeger. With a binary of one's own nothing is built.
export JAEGER_BINARY ?= $(CURDIR)/$(jaeger)
jaeger-server := $(if $(filter $(CURDIR)/$(jaeger),$(JAEGER_BINARY)),$(jaeger))

# A real API server for tests and examples: kube-apiserver and etcd in one folder, which is what
# controller-runtime's envtest wants. The folder's name holds both versions.
kubernetes-version = $(shell awk '$$1 == "$(1)" && $$2 ~ /^v/ {print $$2}' tools/kubernetes/go.mod)
KUBERNETES := $(call kubernetes-version,k8s.io/kubernetes)
ETCD := $(call kubernetes-version,go.etcd.io/etcd/server/v3)
kubernetes := .cache/kubernetes/$(KUBERNETES)-etcd-$(ETCD)
export KUBEBUILDER_ASSETS ?= $(CURDIR)/$(kubernetes)
# With a folder of one's own nothing is built.
assets := $(if $(filter $(CURDIR)/$(kubernetes),$(KUBEBUILDER_ASSETS)),$(kubernetes)/etcd $(kubernetes)/kube-apiserver)
kube-x := -X k8s.io/component-base/version.git
kube-ldflags := -s -w $(kube-x)Version=$(KUBERNETES) \
  $(kube-x)Major=$(patsubst v%,%,$(word 1,$(subst ., ,$(KUBERNETES)))) $(kube-x)Minor=$(word 2,$(subst ., ,$(KUBERNETES)))
$(kubernetes)/%: tools/kubernetes/go.mod tools/kubernetes/go.sum .cache/go-version
	@echo "==> building $@ (the two together take ten minutes the first time)"
	@mkdir -p $(@D); find .cache/kubernetes -mindepth 1 -maxdepth 1 ! -name $(notdir $(@D)) -exec rm -rf {} +
	@CGO_ENABLED=0 go -C tools/kubernetes build -ldflags='$(kube-ldflags)' -o "$(CURDIR)/$@.new" $(package-of-$*); \
	  mv $@.new $@; echo "    built in $$SECONDS s"
package-of-etcd := go.etcd.io/etcd/server/v3
package-of-kube-apiserver := k8s.io/kubernetes/cmd/kube-apiserver

.PHONY: FORCE
.cache/go-version: FORCE
	@mkdir -p .cache; v=$$(go env GOVERSION); if [ "$$v" != "$$(cat $@ 2>/dev/null || true)" ]; then echo "$$v" >$@; fi

##@ Use

.PHONY: help
help: ## list the targets
	@awk -F ':[^#]*## ' '/^##@ /{print "\n" substr($$0, 5)} /^[a-z-]+:.*## /{printf "  make %-25s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: ## run the demo; ARGS='…' are its flags
	@echo "==> building examples/demo (takes minutes the first time)"
	@go -C examples run ./demo $(ARGS)

.PHONY: example-controllerruntime
example-controllerruntime: $(assets) ## a plain controller-runtime controller with a durable source; ARGS='…' are its flags
	@echo "==> building examples/controllerruntime (takes minutes the first time)"
	@go -C examples run ./controllerruntime $(ARGS)

.PHONY: example-fleetstage
example-fleetstage: $(assets) ## the fleet Stage controller on Kubernetes; ARGS='-variant kinds|nats|jsource|targets'
	@echo "==> building examples/fleetstage (takes minutes the first time)"
	@go -C examples run ./fleetstage $(ARGS)

.PHONY: jaeger
jaeger: $(if $(findstring -jaeger,$(ARGS)),,$(jaeger-server)) ## traces from event to reconcile in a real Jaeger, with a page that follows links; ARGS='…' are its flags
	@echo "==> building examples/jaeger (takes minutes the first time)"
	@go -C examples run ./jaeger $(ARGS)

.PHONY: docs-screenshots
docs-screenshots: $(jaeger-server) | chromium ## make the screenshots of docs/ again, from running pages, and print what docs/tracing.md quotes
	@echo "==> building tools/browser (takes minutes the first time)"
	@go -C tools/browser run .

.PHONY: pictures
pictures: ## draw docs/pictures/*.svg from the .dot files beside them
	@echo "==> building tools/pictures"
	@go -C tools/pictures run . "$(CURDIR)/docs/pictures"

.PHONY: bench
bench: ## measure the sources of this module beside each other; ARGS='…' are its flags
	@echo "==> building bench (takes minutes the first time)"
	@go run ./bench $(ARGS)

.PHONY: bench-peers
bench-peers: ## the same beside what people would use instead; ARGS='…' are its flags
	@echo "==> building bench/peers (takes minutes the first time)"
	@go -C bench/peers run . $(ARGS)

##@ Test

.PHONY: test $(call part,test)
test: $(call part,test) ## every test of every module, in random order, with the race detector
test@examples: $(jaeger-server)
test@tools/browser: | chromium
$(call part,test): test@%: $(assets) | c-compiler
	@echo "==> go test: $* (compiling takes minutes the first time)"
	@cd $*; $(GOTEST) $(SHORT) $(TESTFLAGS) ./...

.PHONY: test-short
test-short: SHORT := -short
test-short: $(call part,test) ## the same without the tests that take long

# The packages that meet Kubernetes' libraries.
.PHONY: test-oldest
test-oldest: $(assets) | c-compiler ## the tests of queue, reconciler and metrics with the oldest supported Kubernetes libraries (go.oldest.mod)
	@echo "==> go test: $$(awk '/k8s\.io\/(client-go|controller-runtime) /{print $$1, $$2}' go.oldest.mod | paste -sd ,) (compiling takes minutes the first time)"
	@JSOURCE_TEST_OLDEST=1 $(GOTEST) -modfile=go.oldest.mod $(TESTFLAGS) ./queue ./reconciler/... ./metrics

.PHONY: cover
cover: $(assets) | c-compiler ## coverage of the main module: the total, and .cache/cover.html line by line
	@mkdir -p .cache
	@echo "==> go test -coverprofile (compiling takes minutes the first time)"
	@$(GOTEST) -coverpkg=./... -coverprofile=.cache/cover.out $(TESTFLAGS) ./...
	@go tool cover -html=.cache/cover.out -o .cache/cover.html
	@go tool cover -func=.cache/cover.out | tail -n 1

# go test fuzzes one target at a time. An input that fails is kept in the package's testdata/fuzz,
# where every later go test runs it: commit it.
.PHONY: fuzz $(call part,fuzz)
fuzz: $(call part,fuzz) ## every fuzz target of every module, FUZZTIME=30s each
$(call part,fuzz): fuzz@%:
	@cd $*; { grep -rHo --include='*_test.go' --exclude-dir='.?*' '^func Fuzz[A-Za-z0-9_]*' . || true; } \
	| sed 's|/[^/]*:func | |' | sort | while read -r pkg name; do \
	    echo "==> fuzzing for $(FUZZTIME): $* $$pkg $$name (compiling takes minutes the first time)"; \
	    go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null; \
	  done

# What an event is decoded with, and what a delivery is.
.PHONY: fuzz-decoders
fuzz-decoders: ## the fuzz targets of what is decoded: as CI does, FUZZTIME=30s each
	@for target in "./reconciler/nats FuzzDecode" "./consumer FuzzParseReply"; do \
	    echo "==> fuzzing for $(FUZZTIME): $$target (compiling takes minutes the first time)"; \
	    go test -run '^$$' -fuzz "^$${target#* }\$$" -fuzztime $(FUZZTIME) "$${target% *}"; \
	  done

BENCHMARKS := ./queue ./consumer ./reconciler/nats ./tracing ./internal/bench
bench-run = go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),6) $(BENCHMARKS)

.PHONY: bench-record
bench-record: ## record the Go benchmarks as the baseline of this machine; BENCH=. COUNT=6
	@mkdir -p .cache/bench
	@echo "==> go test -bench: takes minutes"
	@$(bench-run) | tee .cache/bench/baseline.new; mv .cache/bench/baseline.new .cache/bench/baseline

.PHONY: bench-compare
bench-compare: $(benchstat) ## run them again and compare with the baseline (benchstat); BENCH=. COUNT=6
	@if [ ! -e .cache/bench/baseline ]; then \
	  echo "no baseline: run 'make bench-record' on the code to compare with, on this machine, then change it" >&2; exit 1; fi
	@echo "==> go test -bench: takes minutes"
	@$(bench-run) >.cache/bench/now; $< .cache/bench/baseline .cache/bench/now

.PHONY: chaos
chaos: ## break servers, connections and controllers under load, and count what is lost; DURATION=60s KIND=both SEED=0
	@echo "==> chaos (compiling takes minutes the first time)"
	@go run ./internal/chaos/cmd/chaos -kind $(KIND) -duration $(DURATION) -seed $(SEED)

.PHONY: c-compiler
c-compiler:
	@cc=$$(go env CC); if ! command -v $${cc%% *} >/dev/null; then \
	  echo "the race detector needs a C compiler and there is no '$$cc'; on Debian: apt-get install gcc libc6-dev" >&2; exit 1; fi

# What pages look like is tested in a browser: $CHROMIUM, one in PATH, or Debian's package.
.PHONY: chromium
chromium: ## find Chromium for the tests of pages; root on Debian gets it installed if there is none
	@if [ -n "$${CHROMIUM:-}" ]; then \
	  command -v "$$CHROMIUM" >/dev/null || { echo "there is no program '$$CHROMIUM', which the variable CHROMIUM names" >&2; exit 1; }; \
	elif ! command -v chromium chromium-browser google-chrome >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "the tests of pages need Chromium: put chromium, chromium-browser or google-chrome in PATH, or name it in the" \
	      "variable CHROMIUM; on Debian: apt-get install chromium" >&2; exit 1; fi; \
	  echo "==> installing Debian's chromium"; \
	  apt-get -qq update || true; \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; \
	fi

##@ Check

.PHONY: check
check: fmt-check tidy-check api-check licenses-check vet staticcheck lint test test-oldest fuzz-decoders ## everything that CI does
	@echo "==> every check passed"

.PHONY: fmt
fmt: $(gofumpt) ## format every Go file
	@$< -l -w .

.PHONY: fmt-check
fmt-check: $(gofumpt) ## find files that are not formatted
	@echo "==> gofumpt"
	@files=$$($< -l .); if [ -n "$$files" ]; then echo "not formatted ('make fmt' does it):"; echo "$$files"; exit 1; fi

# What users compile against, without the comments: a change of it shows in review.
API = $(shell go list -f '{{.ImportPath}}' ./... | sed -n 's|^[^/]*/[^/]*/jsource/||p' | grep -v -e ^internal/ -e ^cmd/ -e ^bench)
api-of = go doc -all ./$(1) | sed -n '/^[A-Z]\{5,\}$$/,$$p' | sed -e '/^    /d' -e '/^\t*\/\//d' -e 's| *// .*||' | cat -s
api-file = api/$(subst /,_,$(1)).txt

.PHONY: api
api: ## write down the API of every package, in api/
	@mkdir -p api; rm -f api/*.txt
	@$(foreach p,$(API),$(call api-of,$(p)) >$(call api-file,$(p));)

.PHONY: api-check
api-check: ## is the API what api/ says?
	@echo "==> api"
	@$(foreach p,$(API),$(call api-of,$(p)) | diff -u $(call api-file,$(p)) - || { echo "the API of $(p) has changed: say so in CHANGELOG.md, and run 'make api'"; exit 1; };)

# Of what users get with the packages in api/ and with the command. The file is made in .cache: a run that fails changes nothing.
licenses-of = @mkdir -p .cache; go -C tools/licenses run . $(addprefix ./,$(API)) ./cmd/jsource >.cache/licenses.md

.PHONY: licenses
licenses: ## write down the licences of all dependencies that users get, in docs/licenses.md
	$(licenses-of)
	@cp .cache/licenses.md docs/licenses.md

.PHONY: licenses-check
licenses-check: ## do all of those licences go with Apache-2.0, and is docs/licenses.md up to date?
	@echo "==> licences"
	$(licenses-of)
	@diff -u docs/licenses.md .cache/licenses.md || { echo "docs/licenses.md is out of date: run 'make licenses'"; exit 1; }

.PHONY: vet $(call part,vet)
vet: $(call part,vet) ## go vet
$(call part,vet): vet@%:
	@echo "==> go vet: $* (compiling takes minutes the first time)"
	@cd $*; go vet ./...

.PHONY: staticcheck $(call part,staticcheck)
staticcheck: $(call part,staticcheck) ## staticcheck
$(call part,staticcheck): staticcheck@%: $(staticcheck)
	@echo "==> staticcheck: $*"
	@cd $*; "$(CURDIR)/$<" ./...

.PHONY: lint $(call part,lint)
lint: $(call part,lint) ## golangci-lint, as .golangci.yml says
$(call part,lint): lint@%: $(golangci-lint)
	@echo "==> golangci-lint: $*"
	@cd $*; "$(CURDIR)/$<" run --config "$(CURDIR)/.golangci.yml" ./...

.PHONY: tidy $(call part-of-all,tidy)
tidy: $(call part-of-all,tidy) ## go mod tidy in every module
$(call part-of-all,tidy): tidy@%:
	@echo "==> go mod tidy: $*"
	@go -C $* mod tidy
tidy: tidy-oldest
.PHONY: tidy-oldest
tidy-oldest: tidy@.
	@echo "==> go.oldest.mod"
	@held=$$(awk '/^\t[^ ]*k8s\.io\/(api|apimachinery|client-go|controller-runtime) / {print $$1 "@" $$2}' go.oldest.mod); \
	  cp go.mod go.oldest.mod; GOFLAGS=-mod=mod go get -modfile=go.oldest.mod $$held; go mod tidy -modfile=go.oldest.mod

.PHONY: tidy-check $(call part-of-all,tidy-check)
tidy-check: $(call part-of-all,tidy-check) ## would go mod tidy change anything? and go mod verify
$(call part-of-all,tidy-check): tidy-check@%:
	@echo "==> go mod tidy -diff, go mod verify: $*"
	@go -C $* mod tidy -diff
	@go -C $* mod verify
tidy-check: tidy-check-oldest
.PHONY: tidy-check-oldest
tidy-check-oldest:
	@echo "==> go.oldest.mod: go.mod, but for Kubernetes' libraries"
	@go mod tidy -diff -modfile=go.oldest.mod
	@diff <(grep -v 'k8s\.io/' go.mod) <(grep -v 'k8s\.io/' go.oldest.mod)

# The database is a Go module too, so that this needs no other network. The standard library's
# findings are shown and do not count: the Go that runs here is not the Go its users build with.
.PHONY: vuln $(call part,vuln)
vuln: $(call part,vuln) ## known vulnerabilities that this code reaches (govulncheck)
$(call part,vuln): vuln@%: $(govulncheck)
	@echo "==> govulncheck: $* (compiling takes minutes the first time)"
	@db=$$(go mod download -json golang.org/x/vulndb@latest | awk -F '"' '$$2 == "Dir" {print $$4}'); cd $*; rc=0; \
	  "$(CURDIR)/$<" -db "file://$$db/data/osv" ./... >"$(CURDIR)/.cache/vuln" || rc=$$?; cat "$(CURDIR)/.cache/vuln"; \
	  if [ $$rc = 3 ] && ! grep -q '^ *Module: ' "$(CURDIR)/.cache/vuln"; then rc=0; fi; exit $$rc

##@ Rest

.PHONY: kubernetes
kubernetes: $(assets) ## build kube-apiserver and etcd for the tests and examples that need them
	@ls $(KUBEBUILDER_ASSETS)/{etcd,kube-apiserver}

.PHONY: jaeger-server
jaeger-server: $(jaeger-server) ## build Jaeger for the example and the tests that need it
	@ls $(JAEGER_BINARY)

.PHONY: tools
tools: $(gofumpt) $(staticcheck) $(golangci-lint) $(govulncheck) $(benchstat) ## build every tool now, and list them
	@ls $^

.PHONY: clean
clean: ## remove .cache (the tools in it come back quickly from Go's build cache)
	rm -rf .cache
