# Everything a developer types. `make help` lists it.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

# The database of `make db-up` where no container engine answers: root's server runs as another
# user, who cannot look into /root.
DB_FOLDER ?= $(shell if [ "$$(id -u)" = 0 ]; then echo /var/lib/kilolock-db; \
	else echo "$${XDG_DATA_HOME:-$$HOME/.local/share}/kilolock-db"; fi)
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.DEFAULT_GOAL := help
.PHONY: help run build test check lint format bench db-up db-down clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | \
	while IFS='|' read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

$(STAMP): setup.cfg pyproject.toml
	@test -n "$(PYTHON)" || { echo "Kilolock needs Python 3.11 or newer; found none" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	echo "cannot create $(VENV); on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(STAMP) ## Serve on http://127.0.0.1:8080 with an embedded PostgreSQL
	@exec $(BIN)/kld dev

build: $(STAMP) ## Make bin/kl and bin/kld
	@mkdir -p bin
	@for name in kl kld; do ln -sf ../$(BIN)/$$name bin/$$name; done
	@echo "bin/kl bin/kld"

test: $(STAMP) ## Run all tests; ARGS are pytest's, KL_TEST_DATABASE_URL another server
	$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## Format the Python files
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

check: lint test ## What a change has to pass

bench: $(STAMP) ## Measure the speed on states of 100,000 resources
	$(BIN)/python tests/py/bench.py $(ARGS)

db-up: $(STAMP) ## Start a PostgreSQL on localhost:5432, user, password and database kl
	@if docker info >/dev/null 2>&1; then $(COMPOSE) up -d --wait postgres; \
	else KL_EMBEDDED_PASSWORD=kl $(BIN)/python -m kilolock.embedded up "$(DB_FOLDER)" 5432 >/dev/null; fi
	@echo "postgres://kl:kl@localhost:5432/kl?sslmode=disable"

db-down: $(STAMP) ## Stop what db-up started; the data stays
	@if docker info >/dev/null 2>&1; then $(COMPOSE) stop postgres; \
	else $(BIN)/python -m kilolock.embedded down "$(DB_FOLDER)"; fi

clean: ## Remove what was built, the environment too
	rm -rf $(VENV) bin build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
