# Tidemark. `make` alone lists the targets.
#
# CONFIG=release builds and runs the demo optimised; tests are always debug builds.
# WORLDS=100000 simulates as many worlds, instead of 2,000.
# KILLS=10000 makes `make kills` end so many processes; SEED=2 chooses others of them.
# FILES=1000 makes `make damage-fuzz` damage so many files, from SEED on.

CONFIG ?= debug
# Without the index, which only editors read: it would take a quarter of the build's processor time.
BUILD := swift build --disable-index-store
WORLDS ?= 2000
KILLS ?= 1000
FILES ?= 200
SEED ?= 29
STAGE := Scripts/stage.sh
# PostgreSQL of the tests' own, gone when they end; a test that needs a Redis starts one.
SERVICES := Scripts/with-services.sh
TESTS := Scripts/tests.sh
REAL_SOFTWARE = $(SERVICES) Scripts/real-software.sh "$$(swift build --show-bin-path)/tidemark"
SOURCES := $(wildcard Package.swift Sources Tests Snippets)
STARTED := $(shell date +%s)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-tests build build-tests release test verify campaigns lint format bench real-software kills damage-fuzz node-kills demo demo-dashboard demo-postgres demo-sharing demo-verify path prove proofs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing on this machine, and say what
	@$(STAGE) "Setting up" Scripts/setup.sh

build: setup ## Build tidemark and the example of the README for debugging
	@$(STAGE) "Building tidemark" $(BUILD) --product tidemark
	@$(STAGE) "Building the example" $(BUILD) --product Quickstart

release: setup ## Build tidemark optimised
	@$(STAGE) "Building (release)" $(BUILD) -c release --product tidemark

setup-tests:
	@$(STAGE) "Setting up the tests" Scripts/setup.sh tests

build-tests: setup
	@$(STAGE) "Building the package and its tests" Scripts/without-warnings.sh $(BUILD) --build-tests

test: setup-tests lint build-tests ## Lint, build and run the tests: an answer in ten minutes after the build
	@$(STAGE) "Running the tests" $(SERVICES) $(TESTS)
	@printf '\nEverything passed, in %d s. make verify runs real applications, too.\n' \
		$$(( $$(date +%s) - $(STARTED) ))

verify: setup-tests lint build-tests ## As test, and real applications: the gate
	@$(STAGE) "Running the tests" $(SERVICES) $(TESTS)
	@$(STAGE) "Running real applications" env TIDEMARK_REAL_SOFTWARE_SECONDS=300 $(REAL_SOFTWARE)
	@printf '\nEverything passed, in %d s. make campaigns runs the long tests.\n' \
		$$(( $$(date +%s) - $(STARTED) ))

campaigns: setup-tests build-tests ## The tests at full length: more worlds, kills, fuzz and secrets; an hour or more
	@$(STAGE) "Running the tests at full length" $(SERVICES) env TIDEMARK_LONG=1 $(TESTS)
	@$(STAGE) "Running real applications at full length" \
		env TIDEMARK_LONG=1 TIDEMARK_REAL_SOFTWARE_SECONDS=300 $(REAL_SOFTWARE)
	@printf '\nEverything passed at full length, in %d s.\n' $$(( $$(date +%s) - $(STARTED) ))

.PHONY: simulate
simulate: setup ## Simulate 2,000 worlds of devices, crashes and a bad network, and 2,000 with REST
	@$(STAGE) "Building tidemark-dev ($(CONFIG))" $(BUILD) -c $(CONFIG) --product tidemark-dev
	@$(STAGE) "Simulating devices" "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark-dev" \
		simulate --seeds $(WORLDS) --rounds 40
	@$(STAGE) "Simulating clients without rows" "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark-dev" \
		simulate --seeds $(WORLDS) --rounds 40 --profile rest

lint: ## Check the layout of the sources
	@$(STAGE) "Linting" swift format lint --strict --recursive $(SOURCES)

format: ## Lay out the sources
	@$(STAGE) "Formatting" swift format --in-place --recursive $(SOURCES)

bench: setup ## Measure every job beside the engine underneath, on both stores
	@$(STAGE) "Building tidemark (release)" $(BUILD) -c release --product tidemark
	@$(STAGE) "Building tidemark-dev (release)" $(BUILD) -c release --product tidemark-dev
	@program="$$(swift build -c release --show-bin-path)/tidemark-dev"; "$$program" bench --plots .build/plots && \
		$(SERVICES) bash -c '"$$0" bench join catchup push swarm latency badnet idle fanout repair memory --store "$$TIDEMARK_POSTGRES"' "$$program"

real-software: build ## Have Django, Anki, GnuCash and OpenAPI tools at work, and check their files
	@$(STAGE) "Running real applications" $(REAL_SOFTWARE)

kills: build-tests ## Kill -9 servers, devices and editors KILLS times (1000), and lose nothing
	@TIDEMARK_KILLS=$(KILLS) TIDEMARK_KILL_SEED=$(SEED) $(TESTS) --filter '\bKillTests'

damage-fuzz: build-tests ## Damage the pages of FILES device files (200), and crash or hang nothing
	@TIDEMARK_DAMAGE=$(FILES) TIDEMARK_DAMAGE_SEED=$(SEED) $(TESTS) --filter DamageFuzzTests

node-kills: build-tests ## End nodes, backends and PostgreSQL KILLS times (1000), and lose nothing
	@TIDEMARK_NODE_KILLS=$(KILLS) TIDEMARK_KILL_SEED=$(SEED) $(TESTS) --filter NodeKillTests

demo: setup ## Sync a world of cities between three devices, and prove it
	@$(STAGE) "Building tidemark ($(CONFIG))" $(BUILD) -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Cities/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

demo-dashboard: setup ## Open the dashboard while three devices edit and sync, until Ctrl-C
	@$(STAGE) "Building tidemark ($(CONFIG))" $(BUILD) -c $(CONFIG) --product tidemark
	@Examples/Dashboard/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

demo-postgres: setup ## Two servers on one PostgreSQL, with psql beside them; kill both kinds
	@$(STAGE) "Building tidemark ($(CONFIG))" $(BUILD) -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Postgres/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

demo-sharing: setup ## Two people with private and shared lists, on both stores, and the proof of secrecy
	@$(STAGE) "Building tidemark ($(CONFIG))" $(BUILD) -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Sharing/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

prove: setup ## Plant bugs one at a time, and show what notices each
	@$(STAGE) "Building tidemark-dev (debug)" $(BUILD) --product tidemark-dev
	@$(STAGE) "Planting bugs" "$$(swift build --show-bin-path)/tidemark-dev" simulate --planted all

path: setup ## Print the source files that a push of two records runs through, and a PATCH over REST
	@$(STAGE) "Building tidemark (debug)" $(BUILD) --product tidemark
	@Scripts/path-of-a-push.py "$$(swift build --show-bin-path)/tidemark"
	@Scripts/path-of-a-push.py --patch "$$(swift build --show-bin-path)/tidemark"

proofs: ## Print the tests of each promise, use, invariant and failure case
	@python3 Scripts/proofs.py

demo-verify: setup ## Corrupt 3 of 200,000 rows; find and repair exactly these
	@$(STAGE) "Building tidemark ($(CONFIG))" $(BUILD) -c $(CONFIG) --product tidemark
	@$(STAGE) "Running the demo" \
		Examples/Verify/demo.sh "$$(swift build -c $(CONFIG) --show-bin-path)/tidemark"

clean: ## Remove what was built
	@$(STAGE) "Cleaning" swift package clean
