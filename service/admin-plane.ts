/** Composes the admin listener: authentication, and the plugin of each path. */

import { setTimeout as pause } from 'node:timers/promises'
import { AgentListener } from '../admin/agent/listener.ts'
import { AgentMetrics } from '../admin/agent/metrics.ts'
import { AgentPricer } from '../admin/agent/pricer.ts'
import { bearer } from '../admin/auth/bearer.ts'
import { createAuth } from '../admin/auth/index.ts'
import { consoleCalls } from '../admin/console/route.ts'
import { dashboard } from '../admin/dashboard/route.ts'
import { DebugCalls, debugPlugin } from '../admin/debug/route.ts'
import type { DirectorySnapshot } from '../admin/directory.ts'
import { Alerts } from '../admin/fleet/alerts.ts'
import { alertCalls } from '../admin/fleet/alerts-route.ts'
import { comparedDays, KeptSums } from '../admin/fleet/kept-sums.ts'
import { minutesCalls } from '../admin/fleet/minutes-route.ts'
import { Publisher } from '../admin/fleet/nodes.ts'
import { alive, health } from '../admin/http/health.ts'
import type { Role } from '../admin/http/roles.ts'
import { createAdmin } from '../admin/http/server.ts'
import { ImpressionCounters } from '../admin/impressions/counters.ts'
import { applyLossOutcome } from '../admin/impressions/losses.ts'
import { type NoticeDeps, Notices } from '../admin/impressions/process.ts'
import { Reconciler } from '../admin/impressions/reconciler.ts'
import { impressions } from '../admin/impressions/route.ts'
import { management } from '../admin/management/route.ts'
import type { BlockDeps } from '../admin/management/supplier-block-calls.ts'
import { supplierBlocks } from '../admin/management/supplier-blocks.ts'
import { mcp } from '../admin/mcp/route.ts'
import { authMetrics, opdMetrics, reconcilerMetrics } from '../admin/metrics/registry.ts'
import { decisions } from '../admin/prices/decisions.ts'
import { standalone } from '../admin/prices/standalone.ts'
import { DailyReport } from '../admin/reports/daily.ts'
import { reporting } from '../admin/reports/route.ts'
import type { AlertChanges } from '../admin/store/alerts.ts'
import { Minutes } from '../admin/store/minutes.ts'
import { unattributedWins } from '../admin/store/unattributed.ts'
import { Derived } from '../opd/base/derived.ts'
import type { Log } from '../opd/base/log.ts'
import { LoopTurn } from '../opd/base/loop-turn.ts'
import { metricsOf } from '../opd/base/metrics.ts'
import { createSlices } from '../opd/base/slices.ts'
import { snapshotCatalog } from '../opd/state/snapshot-catalog.ts'
import type { ConfigRef } from './bid-path.ts'
import { withoutSecrets } from './config/hidden.ts'
import type { Config } from './config/schema.ts'
import { consoleFigures } from './console-figures.ts'
import type { Components } from './data-plane.ts'
import { DebugSocket } from './debug/debug-socket.ts'
import {
  type LiveDecisions,
  type LiveSuppliers,
  LiveThread,
  type PublishedEndpoints,
} from './live-answers.ts'
import { MinuteFigures } from './minute-figures.ts'
import { modelsDirOf } from './models.ts'
import { NodeCountsReader } from './node-counts.ts'
import { createNodeProblems } from './node-problems.ts'
import { activeOpd, opdState } from './opd-state.ts'
import { listedSuppliers, ratesAge, reportSettings } from './runtime-config.ts'
import { nodeMetrics } from './workers/metrics.ts'

/** Milliseconds that a scrape waits for the sums of all nodes. */
const longestRead = 500

/** `notReady` returns the reasons why bid traffic cannot be served now. */
export async function openAdminPlane(
  current: ConfigRef,
  components: Components,
  rules: Omit<BlockDeps, 'store' | 'now'>,
  notReady: () => string[],
  log: Log,
) {
  const { store, directory, modelManager, bidLog, rollup, duplicates, engine, proxy } = components
  const { registry, meters, now, followModelControl, events } = components
  const counters = new ImpressionCounters(() => current.config.metrics)
  const { auth: authConfig, listen } = current.config.admin
  let address = listen
  const auth = await createAuth(authConfig, {
    store,
    baseUrl: () => `http://${address}`,
    log,
    now: store.clock,
    publicUrl: () => current.config.admin.publicUrl,
    trustedProxies: () => current.config.proxy.trustedProxies,
  })
  const authenticate = (role: Role) => bearer(auth.verifier, role)
  const account = (id: string) => current.active.get(id)?.supplier.account
  const suppliers = () => listedSuppliers(current.config)
  const { location } = current.config
  const { pool } = components
  const counts = new NodeCountsReader({
    node: components.node,
    proxy,
    stats: engine.stats,
    counters,
    location,
    now,
    others: () => pool?.loads() ?? [],
    attributionWindow: () => current.config.opd.attributionWindow,
    takesBids: () => current.config.node.role !== 'train',
    problems: createNodeProblems({
      redis: components.redis,
      lost: components.lost,
      reload: meters.reloads.state,
      ratesStale: () => ratesAge(current.config, Date.now())?.stale ?? false,
      clockAhead: () => store.clockAhead,
      differences: () => components.fingerprints.differences,
      commitSeconds: () => meters.commits.mean,
      disk: components.disk,
      refitSeconds: components.refitSeconds,
      workers: () => pool?.counts ?? null,
      draining: () => meters.life.draining,
    }),
  })
  const minutes = new MinuteFigures({
    ...{ proxy, stats: engine.stats, now },
    minutes: new Minutes(store, log),
    reloads: meters.reloads.times,
    // Models of a file are not fitted here.
    refits: () => ('refitter' in modelManager ? modelManager.refitter.counts.applied : 0),
  })
  const keptDeps = {
    db: store.db,
    /**
     * A round, not all that waits: of 3,000 suppliers that was 22,000 rows by publisher and domain for each scrape and each look at the
     * alerts, and requests took twice as long meanwhile. Bids that wait, for a minute at most, are of all arms alike.
     */
    async flush() {
      await pool?.scrape()
      await Promise.all([rollup.writeRound(), store.outcomes.run()])
    },
    rules: () => reportSettings(current.config),
    ...{ now, log },
  }
  const kept = new KeptSums({ ...keptDeps, days: comparedDays })
  opdMetrics(registry, {
    stats: engine.stats,
    counters,
    kept: () => kept.all(),
    *invalid() {
      for (const [ssp, { invalid }] of current.active) yield { ssp, invalid }
    },
    bidLog,
    model: (mode) => ({
      version: modelManager.version(mode),
      ageSeconds: modelManager.age(mode),
    }),
  })
  authMetrics(registry, auth.failures)
  const noticeDeps: NoticeDeps = {
    engine,
    ledger: store.ledger,
    auth: current.config.admin.impressions.auth,
    contextTtl: () => current.config.opd.contextTtl,
    integration: (id) => engine.integration(id),
    account,
    now,
    alert: (what, supplier) => log.warn({ what, supplier }, 'win notices need attention'),
    counters,
    onDuplicate: duplicates.count,
  }
  const processed = new Notices(noticeDeps)
  const reconciler = new Reconciler({
    ...{ notices: processed, wins: unattributedWins(store), engine, now, log },
    contextTtl: noticeDeps.contextTtl,
  })
  reconcilerMetrics(registry, reconciler.counts)
  await store.outcomes.follow({
    apply(outcome) {
      if (outcome.kind === 'notice') processed.applyOutcome(outcome)
      if (outcome.kind === 'loss') applyLossOutcome(noticeDeps, outcome)
    },
    stream: events?.stream ?? null,
    deltas: components.unsentDeltas,
    counted: (wins) => components.reducedToday.counted(wins),
    stored: (wins) => components.reducedToday.stored(wins),
  })
  /** Whether a supplier encodes its prices. Suppliers are searched once for each configuration, not for each notice. */
  const encodedPrices = new Derived(({ suppliers }: Config) =>
    suppliers.some(({ clearing }) => clearing.encoding !== 'plain'),
  )
  const notices = impressions({
    ...noticeDeps,
    notices: processed,
    losses: store.losses,
    encodedPrices: () => encodedPrices.valueFrom(current.config),
    verifier: auth.verifier,
    log,
    tracer: components.tracing,
  })
  const ofNode =
    pool === null
      ? { metrics: () => metricsOf(registry), prepare: async () => {} }
      : nodeMetrics(registry, pool, proxy.counters)
  const scraped = {
    metrics: ofNode.metrics,
    async prepare() {
      // a scrape does not wait long for a store that hangs
      await Promise.race([kept.read(), pause(longestRead, undefined, { ref: false })])
      await ofNode.prepare()
    },
  }
  const currency = () => current.config.currency.base
  const suppliersText = new Derived(async (config: Config) => {
    const slices = createSlices()
    const suppliers: LiveSuppliers['suppliers'] = []
    for (const supplier of listedSuppliers(config)) {
      suppliers.push({ ...supplier, opd: opdState(engine.integration(supplier.id)) })
      await slices.next()
    }
    const { attributionWindow } = config.opd
    const rules = reportSettings(config)
    return JSON.stringify({ suppliers, rules, attributionWindow } satisfies LiveSuppliers)
  })
  const decisionsText = new Derived(({ holds, unchecked, suppliers: known }: DirectorySnapshot) => {
    const all = [...known].map(([id, { datacenters }]) => {
      const locations = [...datacenters].filter(([, { active }]) => !active)
      return [id, locations.map(([location]) => location)] as const
    })
    const inactive = Object.fromEntries(all.filter(([, locations]) => locations.length > 0))
    return JSON.stringify({
      ...{ holds: [...holds], unchecked: [...unchecked], inactive },
    } satisfies LiveDecisions)
  })
  const liveThread = new LiveThread({
    ...{ store, now, log },
    counts: () => counts.read(),
    flush: keptDeps.flush,
    suppliers: () => suppliersText.valueFrom(current.config),
    decisions: () => decisionsText.valueFrom(directory.snapshot()),
  })
  const shared = { node: components.node, now: store.clock }
  const publisher = new Publisher({
    lines: () => liveThread.askText({ call: 'published' }),
    ...{ store, log, ...shared },
  })
  const flush = async (facets = false) => {
    await pool?.scrape()
    await Promise.all([facets ? rollup.flushFacets() : rollup.flush(), duplicates.flush()])
  }
  const daily = new DailyReport({
    settings: () => current.config.admin.dailyReport,
    rules: () => reportSettings(current.config),
    ...{ store, flush, now, log },
  })
  const alerts = new Alerts({
    receiver: () => current.config.admin.alerts,
    changes: async () => JSON.parse(await liveThread.askText({ call: 'alerts' })) as AlertChanges,
    ...{ store, now: store.clock, log },
  })
  const terminalFigures = consoleFigures({
    ask: liveThread.askText,
    rules: () => reportSettings(current.config),
    ...{ store, flush, now },
  })
  const agentConfig = current.config.agent
  const agentMetrics = new AgentMetrics(registry)
  const turn = new LoopTurn()
  const pricer = new AgentPricer({
    turn,
    originators: agentConfig?.originators ?? {},
    engine,
    metrics: agentMetrics,
    supplierState(id) {
      if (!current.active.has(id)) return 'unknown'
      const state = directory.snapshot().suppliers.get(id)
      const isActive = state?.datacenters.get(location)?.active ?? true
      return isActive && state?.allSeatsInactive !== true ? 'active' : 'inactive'
    },
  })
  const debugCalls = new DebugCalls({ debug: components.debug, store, now, log })
  const debugSocket = new DebugSocket(current.config.stateDir, debugCalls, log)
  const admin = createAdmin({
    listen,
    log,
    plugins: [
      health({ ...scraped, lost: () => store.lost(), missing: notReady }),
      ...(auth.plugin === null ? [] : [auth.plugin]),
      management({
        store,
        suppliers,
        authenticate,
        changed: () => void directory.refresh(),
        snapshots: snapshotCatalog(modelsDirOf(current.config)),
        followed: followModelControl,
        now,
        endpoints: (id) =>
          (proxy.suppliers.get(id)?.everyEndpoint() ?? []).map((endpoint) => {
            const { name, weight, zone = null, priority } = endpoint
            return { url: name, weight, zone, priority }
          }),
        async endpointNodes(ids) {
          const { node } = components
          const here = ids.map((id) => [id, counts.endpointsOf(id)] as const)
          const task = { call: 'endpoints', suppliers: ids } as const
          const others = store.postgres ? await liveThread.askText(task) : '[]'
          return [
            { node, endpoints: Object.fromEntries(here) },
            ...(JSON.parse(others) as PublishedEndpoints[]),
          ]
        },
      }),
      supplierBlocks({ ...rules, store, authenticate, now }),
      debugPlugin(debugCalls, authenticate),
      dashboard({
        realm: auth.realm,
        external:
          'issuer' in authConfig
            ? { issuer: authConfig.issuer, clientId: authConfig.clientId }
            : null,
      }),
      consoleCalls({
        ...{ suppliers, now, currency, ask: liveThread.ask },
        authenticate,
        engine,
        account,
        configuration: () => current.config,
        shown: withoutSecrets,
        activeOpd: (id) => activeOpd(engine.integration(id)),
        decisionLog: () => current.config.opd.decisionLog,
        attributionWindow: () => current.config.opd.attributionWindow,
        chance: (mode, facts, price) => modelManager.learnerOf(mode).winChance(facts, price),
        recentBids: (mode, filter, most) => modelManager.learnerOf(mode).recentBids(filter, most),
        users: auth.realm === null ? null : { store, now },
      }),
      alertCalls({ store, suppliers, authenticate, alerts }),
      reporting({
        store,
        suppliers,
        authenticate,
        now,
        flush,
        rules: () => reportSettings(current.config),
      }),
      minutesCalls({
        ...{ store, suppliers, authenticate, now, currency },
        async flush() {
          await pool?.scrape()
          await minutes.refresh()
        },
      }),
      standalone({ engine, authenticate, account }),
      decisions({ engine, authenticate, account }),
      mcp({ pricer, authenticate, account }),
      notices,
    ],
  })
  const agent =
    agentConfig === null
      ? null
      : new AgentListener({
          turn,
          config: agentConfig,
          pricer,
          metrics: agentMetrics,
          ready: () => notReady().length === 0,
        })
  const noticesAddress = current.config.notices.listen
  // The plugin is that of the admin listener, so that both share their limits.
  const noticesListener =
    noticesAddress === null
      ? null
      : createAdmin({ listen: noticesAddress, log, plugins: [alive, notices], document: false })
  return {
    figures: terminalFigures,
    /** The port; null: notices have no listener of their own. */
    listenForNotices: async () => (await noticesListener?.listen())?.port ?? null,
    async listen() {
      const bound = await admin.listen()
      await debugSocket.listen()
      address = listen.replace(/\d+$/, String(bound.port))
      return bound
    },
    /** The port of the agent listener; null: there is none. */
    listenForAgents: async () => (await agent?.listen())?.port ?? null,
    /** The service can serve bid traffic now. */
    ready: () => agent?.showReadiness(),
    /** Connections end with their next responses, while other nodes take over. */
    drain() {
      agent?.drain()
      admin.drain()
      noticesListener?.drain()
    },
    async close() {
      counts.close()
      reconciler.close()
      alerts.close()
      await Promise.all([minutes.close(), daily.close(), publisher.close(), liveThread.close()])
      await Promise.all([
        admin.close(),
        debugSocket.close(),
        noticesListener?.close(),
        agent?.close(),
      ])
    },
    /** Frees issuers and tokens. Call it after the last request. */
    end: () => auth.close(),
  }
}
