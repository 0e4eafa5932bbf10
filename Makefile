# brokerlab's makefile. Bare `make` prints the targets.

GO ?= go
BIN := bin/brokerlab
LINT := $(GO) tool -modfile=golangci-lint.mod golangci-lint
# Root is needed to make namespaces and load BPF programs. SUDO is empty for root and where there is no sudo.
SUDO := $(shell [ "$$(id -u)" = 0 ] || ! command -v sudo >/dev/null 2>&1 || echo "sudo -E env PATH=$$PATH")
# Where Apache Kafka is that tests and benchmarks compare with: see make kafka.
export BROKERLAB_KAFKA_DIR ?= $(CURDIR)/build/kafka
export CGO_ENABLED ?= $(shell command -v gcc >/dev/null 2>&1 && echo 1 || echo 0)

.DEFAULT_GOAL := help
.PHONY: help deps kafka build demo test quick lint generate fresh unit root scenarios peers e2e clients bench bench-kafka bench-front-door docs fuzz soak cross release clean FORCE

help: ## print the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{ line = sprintf("  make %-17s", $$1); n = split($$2, word, " "); \
		for (i = 1; i <= n; i++) { if (length(line " " word[i]) > 100) { print line; line = sprintf("%24s", "") } line = line " " word[i] } \
		print line }' $(MAKEFILE_LIST)

deps: ## install what the tests and the demo need (Debian packages)
	@scripts/deps.sh

kafka: build ## get Apache Kafka with Maven, for what compares with it; without Maven it says so and goes on
	@$(BIN) kafka fetch --dir $(BROKERLAB_KAFKA_DIR) 4.4.0 4.3.0 || echo "kafka: SKIPPED, for the reason above: so is what needs Apache Kafka"

build: $(BIN) ## build bin/brokerlab

$(BIN): FORCE
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/brokerlab

FORCE:

demo: deps build ## run the quickstart lab and its suites, print a summary and where the report is
	@$(SUDO) scripts/demo.sh $(BIN)

# The fuzz targets of what strangers send come with every test; all of them are make fuzz, and their seeds are unit tests.
STRANGERS := ^\./broker(/protocol|/internal/(wire|sasl|network))? Fuzz

# Scenarios mostly wait, but compare what is seen within a time: beside them runs what needs no more than it gets. The black-box tests
# wait for minutes, and run side by side.
test: ## everything that CI runs, and how long each part of it took
	@FUZZTIME="$${FUZZTIME:-2s}" FUZZ="$${FUZZ:-$(STRANGERS)}" scripts/test.sh deps lint fresh kafka unit root scenarios+cross+fuzz peers+e2e

quick: build ## the two-minute subset: vet and short unit tests
	$(GO) vet ./...
	$(GO) test -short $$(scripts/packages.sh unit)

lint: ## the lint set, with its own module file
	$(LINT) run ./...

generate: ## rebuild generated code: BPF objects (needs clang-14), references in docs/
	$(GO) generate ./...
	$(MAKE) docs

fresh: build ## check that committed generated files are what the code generates
	@scripts/fresh.sh

unit: ## unit tests with the race detector; those that need root run when root runs them
	@scripts/gotest.sh -- $$(scripts/packages.sh arithmetic)
	@scripts/gotest.sh -race -- $$(scripts/packages.sh unit)

root: ## the same packages as root, where unit tests ran without it
	@if [ "$$(id -u)" = 0 ]; then echo "root tests: ran with the unit tests"; \
	elif sudo -n true 2>/dev/null; then scripts/gotest.sh -exec "$(SUDO)" -- $$(scripts/packages.sh root); \
	else echo "root tests: SKIPPED, neither root nor sudo without a password"; fi

scenarios: build ## the scenario suites, each against real brokers in a lab of namespaces (root)
	@scripts/clients.sh
	@scripts/as-root.sh "scenarios" env BROKERLAB_BINARY=$(CURDIR)/$(BIN) scripts/gotest.sh -count=1 -timeout 20m -- $$(scripts/packages.sh scenarios)

peers: build ## the same cases on Apache Kafka, compared, and clients of ten kinds against the broker (root)
	@scripts/as-root.sh "peers" env BROKERLAB_BINARY=$(CURDIR)/$(BIN) scripts/gotest.sh -count=1 -timeout 25m -- ./e2e/clients ./e2e/fidelity

e2e: build ## black-box tests of the binary, the guides and the examples, with kcat (root)
	@scripts/as-root.sh "e2e" env BROKERLAB_BINARY=$(CURDIR)/$(BIN) scripts/gotest.sh -count=1 -timeout 25m -- ./e2e ./e2e/internal/...

clients: build kafka ## every client over every protocol and family, each trouble; writes docs/clients.md (20 minutes)
	BROKERLAB_BINARY=$(CURDIR)/$(BIN) $(GO) test -count=1 -timeout 60m -v ./e2e/clients -matrix -update

bench: build ## the benchmarks behind docs/benchmarks.md (minutes)
	@scripts/bench.sh

bench-kafka: build ## Apache Kafka beside us in one run, into docs/benchmarks.md (minutes; make kafka comes first)
	@scripts/bench-table.sh bench-kafka BROKERLAB_BENCH_KAFKA BenchmarkBesideKafka

bench-front-door: build ## what a broker in front of Apache Kafka costs, in one run, into docs/benchmarks.md (minutes; make kafka comes first)
	@scripts/bench-table.sh bench-front-door BROKERLAB_BENCH_FRONT_DOOR BenchmarkFrontDoor

fuzz: ## run every fuzz target for FUZZTIME (10s) each, or those that match FUZZ
	@scripts/fuzz.sh "$${FUZZTIME:-10s}" "$${FUZZ:-}"

soak: build ## kill, churn and tear down for minutes: SOAK_KILLS (100), SOAK_LABS (50), SOAK_CONNECTIONS (1000000) (root)
	@scripts/as-root.sh "soak" env BROKERLAB_BINARY=$(CURDIR)/$(BIN) scripts/soak.sh

docs: build ## print the references in docs/ from the code
	@scripts/docs.sh docs

cross: ## vet and build for Linux on arm64, build for macOS
	@scripts/cross.sh

release: ## build static binaries for Linux and macOS, amd64 and arm64, in dist/
	@scripts/release.sh dist

clean: ## remove what was built
	rm -rf bin build dist reports
