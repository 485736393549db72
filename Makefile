# Every command that people and CI run. `make` alone lists them.

.PHONY: help demo test check fmt clippy docs doctests external-types model campaigns bench test-39 \
	zookeeper-up zookeeper-down ensemble-up ensemble-down compose-config clean
# One cargo at a time: two would only wait for each other's lock.
.NOTPARALLEL:

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Watch locks being fought over, on three ZooKeeper servers of their own
	@scripts/demo

test: ## Run every test (Debian's ZooKeeper 3.8); say what was skipped, and why
	@scripts/test

test-39: ## The same on ZooKeeper 3.9 (downloads 430 MB the first time)
	@classpath=$$(scripts/fetch-zookeeper-39) && ZOOKEEPER_CLASSPATH=$$classpath scripts/test

model: ## Explore the models exhaustively; print states, time and properties
	cargo test -p lock-recipes --profile model --locked -- --ignored --nocapture --test-threads=1 model_

campaigns: ## The long forms of the tests
	@scripts/install-deps server
	cargo test -p integration --release --locked --no-fail-fast -- --ignored --nocapture --test-threads=1 --skip against

bench: ## Compare with raw requests and with zookeeper-client's lock; prints ratios
	@scripts/install-deps server
	cargo test -p integration --release --locked --test speed --test inspect_scale -- --ignored --nocapture --test-threads=1

check: fmt clippy docs doctests external-types ## Format, lints, documentation, public API

# Feature `sasl-gssapi` compiles C: --all-features needs its headers.
clippy docs external-types: | sasl-headers
.PHONY: sasl-headers
sasl-headers:
	@scripts/install-deps docs sasl

fmt:
	cargo fmt --all --check

clippy:
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

docs:
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --all-features --locked

# An example that is not even compiled goes stale: `no_run` and `compile_fail` say what is meant.
doctests:
	@git grep -nE --untracked '^[^`]*```[^`]*\bignore\b' -- '*.rs' '*.md'; \
	test $$? -eq 1 || { echo 'no ```ignore: use no_run or compile_fail'; exit 1; }

external-types:
	@scripts/check-external-types

zookeeper-up: ## Start a ZooKeeper on 127.0.0.1:2181 (or PORT=), files in target/zookeeper
	@scripts/install-deps server
	@PORT=$(PORT) scripts/zookeeper up

zookeeper-down: ## Stop it
	@scripts/zookeeper down

ensemble-up: ## Start three, in Docker or without, on 2181-2183 (or from PORT= on)
	@PORT=$(or $(PORT),2181) scripts/ensemble up

ensemble-down: ## Stop them
	@scripts/ensemble down

compose-config: ## Check docker-compose.yml with every Compose that is here
	@scripts/install-deps compose
	docker-compose -f docker-compose.yml config --quiet
	@! docker compose version >/dev/null 2>&1 || \
		(set -x; docker compose -f docker-compose.yml config --quiet)

clean: zookeeper-down ## Stop the servers, remove everything built
	@scripts/ensemble down -v
	cargo clean
