# Targets for everyday work. .ci/run is what has to pass before a change lands.

GO ?= go

.PHONY: help build lab crawllet test integration race sim lint fuzz docs image packages reproducible ci clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## build peerd
	$(GO) build -o peerd ./cmd/peerd

lab: ## build peerd-lab
	$(GO) build -o peerd-lab ./cmd/peerd-lab

crawllet: ## build the reference crawllet
	GOOS=wasip1 GOARCH=wasm $(GO) build -buildvcs=false -trimpath -ldflags='-s -w' \
	  -o crawllet.wasm ./crawl/crawllet/agent

test: ## run the tests that need neither real time nor other processes
	$(GO) test ./...

integration: ## run all tests, those with real processes and real time included
	$(GO) test -tags integration -p 2 -timeout 20m ./...

race: ## run the tests under the race detector
	$(GO) test -race -short ./...

sim: ## play 20 schedules of faults over whole peers in virtual time
	$(GO) test ./lab/sim -run Sim -args -seed 1 -seeds 20 -level 2

lint: ## run the linters
	.ci/lint

fuzz: ## give each fuzz target some thousand inputs
	.ci/fuzz

docs: ## regenerate the reference of settings
	$(GO) generate ./node/config

image: ## build the container image
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o dist/peerd ./cmd/peerd
	mkdir -p dist/data
	docker build -t peerd -f cmd/peerd/compose/Dockerfile .

packages: ## build Debian packages, archives and lists of components into dist/packages
	.ci/packages

reproducible: ## build the packages twice, once with an empty cache, and compare the bytes
	.ci/reproducible

ci: ## run everything that must pass before a change lands
	.ci/run

clean: ## remove build output
	rm -rf dist peerd peerd-lab crawllet.wasm
