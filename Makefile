# Tidemark. `make` alone lists the targets.
#
# CONFIG=release builds and runs the demo optimised; tests are always debug builds.
# WORLDS=100000 simulates as many worlds, instead of 2,000.
# KILLS=10000 makes `make kills` end so many processes; SEED=2 chooses others of them.

CONFIG ?= debug
WORLDS ?= 2000
KILLS ?= 1000
SEED ?= 29
STAGE := Scripts/stage.sh
# PostgreSQL of the tests' own, gone when they end; a test that needs a Redis starts one.
SERVICES := Scripts/with-services.sh
# Apart from the long ones: a test of time limits of HTTP is no use on a machine without a free core.
QUICK := TidemarkCoreTests TidemarkGzipTests TidemarkHTTPTests TidemarkHistoryTests TidyTests
SOURCES := $(wildcard Package.swift Sources Tests Snippets)
STARTED := $(shell date +%s)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup build release test lint format bench kills node-kills demo demo-postgres demo-verify prove clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing on this machine, and say what
	@$(STAGE) "Setting up" Scripts/setup.sh

build: setup ## Build everything for debugging
	@$(STAGE) "Building (debug)" swift build

release: setup ## Build everything optimised
	@$(STAGE) "Building (release)" swift build -c release

test: setup lint ## Set up, lint, build and run every test
	@$(STAGE) "Building the package and its tests" Scripts/without-warnings.sh swift build --build-tests
	@$(STAGE) "Running the quick tests" swift test --skip-build $(QUICK:%=--filter %)
	@$(STAGE) "Simulating worlds" swift test --skip-build --filter SimulationTests
	@$(STAGE) "Running the other tests" $(SERVICES) swift test --skip-build $(QUICK:%=--skip %) \
		--skip SimulationTests
	@printf '\nEverything passed, in %d s.\n' $$(( $$(date +%s) - $(STARTED) ))

.PHONY: simulate
simulate: setup ## Simulate 2,000 worlds of devices, crashes and a bad network
	@$(STAGE) "Building tidemark ($(CONFIG))" swift build -c $(CONFIG) --product tidemark
	@$(STAGE) "Simulating" "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark" \
		simulate --seeds $(WORLDS) --rounds 40

lint: ## Check the layout of the sources
	@$(STAGE) "Linting" swift format lint --strict --recursive $(SOURCES)

format: ## Lay out the sources
	@$(STAGE) "Formatting" swift format --in-place --recursive $(SOURCES)

bench: setup ## Measure every job beside the engine underneath, on both stores
	@$(STAGE) "Building tidemark (release)" swift build -c release --product tidemark
	@program="$$(swift build -c release --show-bin-path)/tidemark"; "$$program" bench --plots .build/plots && \
		$(SERVICES) bash -c '"$$0" bench join catchup push swarm latency badnet idle fanout repair memory --store "$$TIDEMARK_POSTGRES"' "$$program"

kills: setup ## Kill -9 servers, devices and editors KILLS times (1000), and lose nothing
	@$(STAGE) "Building the package and its tests" Scripts/without-warnings.sh swift build --build-tests
	@TIDEMARK_KILLS=$(KILLS) TIDEMARK_KILL_SEED=$(SEED) swift test --skip-build --filter KillTests

node-kills: setup ## End nodes, backends and PostgreSQL KILLS times (1000), and lose nothing
	@$(STAGE) "Building the package and its tests" Scripts/without-warnings.sh swift build --build-tests
	@TIDEMARK_NODE_KILLS=$(KILLS) TIDEMARK_KILL_SEED=$(SEED) swift test --skip-build --filter NodeKillTests

demo: setup ## Sync a world of cities between three devices, and prove it
	@$(STAGE) "Building tidemark ($(CONFIG))" swift build -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Cities/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

demo-postgres: setup ## Two servers on one PostgreSQL, with psql beside them; kill both kinds
	@$(STAGE) "Building tidemark ($(CONFIG))" swift build -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Postgres/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

prove: setup ## Plant bugs one at a time, and show what notices each
	@$(STAGE) "Building tidemark (debug)" swift build --product tidemark
	@$(STAGE) "Planting bugs" "$$(swift build --show-bin-path)/tidemark" simulate --planted all

demo-verify: setup ## Corrupt 3 of 200,000 rows; find and repair exactly these
	@$(STAGE) "Building tidemark ($(CONFIG))" swift build -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Verify/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

clean: ## Remove what was built
	@$(STAGE) "Cleaning" swift package clean
