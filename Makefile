# Podwright's commands. `make run` and `make test` are the two a new user needs.

GO       ?= go
TOOL     := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
MODULES  := . examples tools kube
RACE     ?= -race
INMEMORY := $(CURDIR)/tools/ci/inmemory.sh
MANIFESTS ?= examples/manifests
# grpc without the pages of golang.org/x/net/trace: a program with templates in it keeps every method of its types.
# Go's own resolver and user database: a static program, without the 2 MB of libc.
LEAN     := -tags grpcnotrace,netgo,osusergo

# A program built with -race sleeps a second when it ends, to catch races of what still
# runs. The tests check for goroutines that still run.
export GORACE := atexit_sleep_ms=10 $(GORACE)

# Without the paths of this folder in them, packages and the results of tests are the same in every
# clone: a fresh one takes from the cache what has not changed since the last run in another.
export GOFLAGS := -trimpath $(GOFLAGS)

.PHONY: web-test fleet tenant test-kube kube-long kube-offline kube-autoscale kube-certificates kube-crash kube-up kube-down fields help run test unit e2e lint bench verify fmt explore torture crash crash-containerd probes-kill evictions-kill mutate-podworkers spec-coverage rewrites faults-pleg bench-idle bench-node build clean fuzz vuln leak-hunt crowd api metrics deletions faults-hour marathon flake deep-trees slices

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 22

run: ## run the bundled pods on the embedded process runtime (needs only Go)
	cd examples && $(GO) build $(LEAN) -o ../bin/nodeagent ./nodeagent
	./bin/nodeagent --manifests $(MANIFESTS) $$([ "$$(id -u)" != 0 ] || echo --process-as-root)

build: ## build the example programs into bin/
	cd examples && $(GO) build $(LEAN) -o ../bin/ ./nodeagent ./minimal

test: ## everything: unit tests, race detector, end-to-end on a real containerd
	@tools/ci/test.sh

unit: ## the tests that need nothing but Go
	@RACE=$(RACE) tools/ci/unit.sh

e2e: ## only the tests on a real containerd, the installed one and 2.x (CONTAINERD=installed or 2 for one)
	@tools/ci/test.sh --e2e

test-kube: ## the tests of module kube, those on a real API server too (the first run builds its servers, minutes)
	kube/apitest/servers/build.sh
	cd kube && $(GO) test $(RACE) -count=1 -tags apiserver ./...

kube-long: ## an API server that is away for 10 min while a job ends and kubenode is killed twice, 100 pods that idle for 10 min, 200 exec sessions at once
	cd examples && PODWRIGHT_KUBERNETES=$$(../kube/apitest/servers/build.sh) $(GO) test -count=1 -timeout 0 -tags apiserver,containerd -v \
	  -run '^(TestContainerdAPIServerOutage|TestContainerdAPIServerIdle|TestContainerdAPIServerWorkloads)$$' ./kubenode -outage=10m -idle=10m -sessions=200

kube-autoscale: ## metrics-server and an autoscaler that follows the load up and down, while kubenode is killed; the CPU time that a scrape of 110 pods costs
	cd examples && PODWRIGHT_KUBERNETES=$$(../kube/apitest/servers/build.sh) $(GO) test -count=1 -timeout 0 -tags apiserver,containerd -v \
	  -run '^TestContainerdAPIServerAutoscale$$' ./kubenode -scale-down
	cd kube && $(GO) test -count=1 -timeout 0 -tags containerd -run '^$$' -bench '^BenchmarkContainerdScrape$$' ./stats -stats.pods=110

kube-certificates: ## certificates of 10 min: three renewals under traffic, then an API server that is away until they have expired (half an hour)
	cd kube && PODWRIGHT_KUBERNETES=$$(apitest/servers/build.sh) $(GO) test -count=1 -timeout 0 -tags apiserver -v -run '^TestAPIServerCertificates$$' . \
	  -certificate.life=10m -certificate.rotations=3 -certificate.asleep

kube-offline: ## a power cut of a site of 40 pods that is cut off for 2 min more, on a real API server and a private containerd (minutes)
	cd examples && PODWRIGHT_KUBERNETES=$$(../kube/apitest/servers/build.sh) $(GO) test -count=1 -timeout 0 -tags apiserver,containerd -v \
	  -run '^TestContainerdAPIServerOffline$$' ./kubenode -offline.pods=40 -offline.for=2m

kube-crash: ## kill a node's agent at every call to the API server in some pods' lives and compare what is seen of them; then kill -9 kubenode KILLS (100) times at calls to a real one (minutes)
	@mkdir -p bin; cd kube && PODWRIGHT_CRASH=full $(INMEMORY) $(GO) test -count=1 -timeout 0 -run '^TestCrashAtCalls$$' -v ./internal/agenttest >../bin/kube-crash.log 2>&1; code=$$?; \
	  grep -v -e '^=== ' -e '^ *--- PASS' ../bin/kube-crash.log; exit $$code
	cd examples && PODWRIGHT_KUBERNETES=$$(../kube/apitest/servers/build.sh) $(GO) test -count=1 -timeout 0 -tags apiserver,containerd -v \
	  -run '^TestContainerdAPIServerCrash$$' ./kubenode -crashes=$(or $(KILLS),100) -crash.seed=$$(date +%j)

kube-up: ## a cluster of one node on this machine: etcd, API server, controllers, a private containerd and kubenode (root; the first run builds the servers, minutes)
	@tools/ci/kube.sh up

kube-down: ## end what kube-up started
	@tools/ci/kube.sh down

lint: ## vet, staticcheck, gofumpt, the exported API as recorded below api/, and docs/metrics.md
	@set -e; for m in $(MODULES); do \
	  echo "lint $$m"; \
	  unformatted=$$(cd $$m && $(TOOL) gofumpt -l .); \
	  if [ -n "$$unformatted" ]; then echo "gofumpt wants to change:"; echo "$$unformatted"; exit 1; fi; \
	  (cd $$m && $(GO) vet -tags containerd,apiserver,chromium ./... && $(TOOL) staticcheck -tags containerd,apiserver,chromium ./...); \
	done
	@cd tools && $(GO) run ./api -root .. -check && $(GO) run ./metrics -root .. -check

vuln: ## known vulnerabilities that the code can reach (golang.org/x/vuln); GOVULNDB=file:///FOLDER for a copy of the database, VULN_OFFLINE=pass without one
	@cd tools && $(GO) run ./vulncheck -root .. -offline $(or $(VULN_OFFLINE),fail) $(MODULES)

fuzz: ## every fuzz target for FUZZTIME (10s); FUZZ=REGEXP for some
	@cd tools && $(INMEMORY) $(GO) run ./fuzz -root .. -time $(or $(FUZZTIME),10s) -run "$(FUZZ)"

api: ## record the exported API of every public package below api/; make lint fails on a difference
	@cd tools && $(GO) run ./api -root ..

metrics: ## write docs/metrics.md, the table of every metric, from the source; make lint fails on a difference
	@cd tools && $(GO) run ./metrics -root ..

fmt: ## format everything
	$(TOOL) gofumpt -w .

bench: ## all benchmarks, benchstat-ready on standard output
	$(GO) test -run '^$$' -bench . -benchmem ./...

explore: ## explore the worker state machine without a depth limit, up to STATES per pair (stop it when you like)
	$(GO) test ./podworkers/internal/machine -run TestExplore -v -timeout 0 -explore.depth=0 -explore.states=$(or $(STATES),0)

torture: ## do random things to an agent on a real containerd for TORTURE (10m)
	cd examples && $(GO) test $(RACE) -tags containerd ./nodeagent -run TestContainerdTorture -v -timeout 0 -torture.for=$(or $(TORTURE),10m) -torture.steps=60

web-test: ## the page of nodeagent in a headless Chromium (Debian's package chromium); SCREENSHOTS=FOLDER keeps pictures of it
	cd examples && $(GO) test -count=1 -tags chromium -run 'InBrowser$$' -v ./nodeagent $(if $(SCREENSHOTS),-args -web.screenshots=$(abspath $(SCREENSHOTS)))

fleet: ## ENGINES (1000) engines with PODS (100) pods each in one process, an hour of virtual time in which 1 % of the pods fail per minute; a table of memory and time (an hour, 16 GB); FOR=5m for less
	@mkdir -p bin; $(INMEMORY) nice $(GO) test -count=1 -timeout 0 -run '^TestFleet$$' -v ./internal/enginetest -fleet.engines=$(or $(ENGINES),1000) -fleet.pods=$(or $(PODS),100) -fleet.for=$(or $(FOR),1h) -fleet.mib=16384 >bin/fleet.log 2>&1; code=$$?; \
	  grep -v -e '^=== ' bin/fleet.log; exit $$code

leak-hunt: ## SCHEDULES (100000) random lives of pods with 5 % faults on the fake runtime, plain pods and others: nothing may be left over (an hour)
	$(INMEMORY) $(GO) test -count=1 -run '^TestLeakHunt' -v -timeout 0 ./internal/enginetest -leak.schedules=$(or $(SCHEDULES),100000) -leak.seed=$(or $(SEED),0)

crowd: ## good pods beside bad ones: every kind of bad pod in crowds of 10, 100 and 1,000, as a table (an hour); CROWD="-crowd.n=100 -crowd.kind=deaf" for a part
	@mkdir -p bin; tools/ci/inmemory.sh $(GO) test -count=1 -timeout 0 -run '^TestCrowd$$' -v ./internal/enginetest -crowd.all $(CROWD) >bin/crowd.log 2>&1; code=$$?; \
	  grep -v -e '^=== ' -e '^ *--- PASS' bin/crowd.log; exit $$code

probes-kill: ## kill -9 an agent with 30 probed pods KILLS (50) times on a private containerd: no pod's Ready may change
	cd examples && $(GO) test -tags containerd ./nodeagent -run 'TestContainerdProbesKill$$' -v -timeout 30m -probes.kills=$(or $(KILLS),50)

tenant: ## a hostile tenant's 40 manifests on a private containerd, with FILES (1000000) files in a volume and a tree of 100,000 levels in another (minutes)
	cd examples && $(GO) test -count=1 -tags containerd -timeout 0 -run '^TestContainerdHostileTenant$$' -v ./nodeagent -tenant.files=$(or $(FILES),1000000) -tenant.levels=100000

evictions-kill: ## kill -9 an agent ROUNDS (20) times at each step of an eviction on a private containerd
	cd examples && $(GO) test $(RACE) -count=1 -tags containerd -timeout 0 -run '^TestContainerdEvictionKills$$' -v ./nodeagent -evictions=$(or $(ROUNDS),20)

crash: ## kill the engine at every operation of some pods' lives and compare what is seen of them (minutes)
	@mkdir -p bin; PODWRIGHT_CRASH=full $(INMEMORY) $(GO) test -count=1 -timeout 0 -run '^(TestCrash|TestCauseOfAnEndSurvivesEveryPoint|TestCauseOfAnEndSurvivesTwoDeaths)$$' -v ./internal/enginetest >bin/crash.log 2>&1; code=$$?; \
	  grep -v -e '^=== ' -e '^ *--- PASS' bin/crash.log; exit $$code

crash-containerd: ## kill -9 an agent on a real containerd KILLS (200) times while pods come and go
	cd examples && $(GO) test $(RACE) -count=1 -tags containerd -timeout 0 -run '^TestContainerdKills$$' -v ./nodeagent -kills=$(or $(KILLS),200)

mutate-podworkers: ## break the state machine condition by condition; every break must be noticed
	cd tools && $(GO) run ./mutate

verify: lint ## what a release needs besides the tests: tidy modules, documented rules
	@set -e; for m in $(MODULES) tools/containerd2 kube/apitest/servers kube/apitest/metricsserver; do (cd $$m && $(GO) mod tidy -diff); done

clean: ## remove what was built
	rm -rf bin dist

rewrites: ## 10,000 random rewrites of manifests while their pods terminate (some minutes); REWRITES=n for another number
	PODWRIGHT_REWRITES=$(or $(REWRITES),10000) $(INMEMORY) $(GO) test -count=1 -timeout 60m -run '^TestRewrites$$' ./internal/enginetest

spec-coverage: ## rules of docs/spec that no test names
	@cd tools && $(GO) run ./speccoverage -root ..

faults-pleg: ## every fault of events and runtime calls with 110 pods, as a table (a minute or two)
	@mkdir -p bin; PODWRIGHT_FAULTS=full $(INMEMORY) $(GO) test -count=1 -run '^(TestFaultMatrix|TestHungStatus)$$' -v ./internal/enginetest >bin/faults-pleg.log 2>&1; code=$$?; \
	  grep -v -e '^=== ' -e '^    --- PASS' bin/faults-pleg.log; exit $$code

faults-hour: ## the fault matrix of the PLEG, each cell for a virtual hour (minutes)
	$(GO) test -count=1 -timeout 0 -run '^TestFaultMatrix$$' -v ./pleg -faults.hour

fields: ## the verdict on every field of a pod (honoured, refused, waits, no effect), written to docs/fields.md
	@$(GO) test -count=1 -run '^TestTableIsDocumented$$' ./internal/fields -fields.write >/dev/null && cat docs/fields.md

deletions: ## 10,000 pods deleted at a random moment of a pull that hangs (a minute)
	$(INMEMORY) $(GO) test -count=1 -timeout 0 -run '^TestDeleteDuringPull$$' ./internal/enginetest

deep-trees: ## trees of 100,000 levels removed and walked, alone and under an agent (a minute in memory)
	$(INMEMORY) $(GO) test -count=1 -timeout 60m -run '^(TestDeepTreeIsRemoved|TestDeepTreeIsWalked)$$' -v ./internal/tree -levels 100000
	$(INMEMORY) $(GO) test -count=1 -timeout 60m -run '^TestDeepTreeHoldsUpNoPod$$' -v ./internal/enginetest -levels 100000

slices: ## all of what make test runs a part of and no other command here has, without the race detector (minutes)
	$(INMEMORY) $(GO) test -count=1 -timeout 0 -run '^(TestEmptyDirBelongsToOneLife|TestRandomLivesFitTheNode|TestFirstListWithGaps|TestRecordsOfALostRuntime|TestFirstListsOfRandomLives|TestEvictedOnRequestForGood|TestCallsOfABurst)$$' \
	  ./internal/enginetest -lives.seeds=400 -burst.pods=1000
	$(GO) test -count=1 -timeout 0 -run '^(TestRemovalHoldsItsUID|TestStatusThatFailsForADay)$$' ./podworkers ./pleg
	cd kube && $(GO) test -count=1 -timeout 0 -run '^TestCrowdTakesTwoWritesPerPod$$' ./statussink

marathon: ## every long run above and below, one after the other, with a table at the end (most of a day)
	@tools/ci/marathon.sh

flake: ## every test COUNT (50) times in random order, alone and beside a CPU hog (hours); PACKAGES, RUN, E2E=1 choose
	@tools/ci/flake.sh

bench-node: ## start and stop PODS (100) pods on a private containerd ROUNDS (5) times, beside a replay of the same requests with nothing else, as a table (minutes)
	cd examples && $(GO) test -count=1 -timeout 0 -tags containerd -run '^TestContainerdNodeBench$$' -v ./nodeagent -node.pods=$(or $(PODS),100) -node.rounds=$(or $(ROUNDS),5)

bench-idle: build ## CPU of nodeagent with 100 idle pods on a private containerd, as root (some minutes); KUBELET_CPU_SECONDS_PER_MINUTE=2.22 shows a kubelet's beside it
	cd examples && NODEAGENT_PROGRAM=$(CURDIR)/bin/nodeagent NODEAGENT_IDLE_PODS=$${NODEAGENT_IDLE_PODS:-100} $(GO) test -count=1 -timeout 30m -tags containerd -run '^TestIdleCPU$$' -v ./nodeagent
