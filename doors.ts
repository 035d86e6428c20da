/** The admin listener's doors: who may come in, and what stands behind each path. */
import { bearer } from './admin/auth/bearer.ts'
import { createAuth } from './admin/auth/index.ts'
import { dashboard } from './admin/dashboard.ts'
import { decisions } from './admin/decisions.ts'
import { health } from './admin/health.ts'
import { ImpressionCounters } from './admin/impressions/counters.ts'
import { impressions } from './admin/impressions.ts'
import { management } from './admin/management.ts'
import { opdMetrics } from './admin/opd-metrics.ts'
import { reporting } from './admin/reports.ts'
import { createAdmin } from './admin/server.ts'
import { standalone } from './admin/standalone.ts'
import type { Log } from './log.ts'
import type { Live, Parts } from './parts.ts'
import { listedSuppliers, readingsOf } from './settings.ts'
import { allotmentOf, endpointsOf, opdState } from './views.ts'

/** `missing`: why bid traffic cannot be served now. */
export async function openDoors(live: Live, parts: Parts, missing: () => string[], log: Log) {
  const { store, directory, keeper, redis, bidLog, rollup, repeats, engine, proxy } = parts
  const { registry, now } = parts
  const counters = new ImpressionCounters()
  const { auth: door, listen } = live.config.admin
  let address = listen
  const auth = await createAuth(door, {
    store,
    baseUrl: () => `http://${address}`,
    log,
    now,
    trustedProxies: () => live.config.proxy.trustedProxies,
  })
  const role = 'issuer' in door ? door.role : 'api'
  const entry = bearer(auth.verifier, { role })
  const account = (id: string) => live.taken.get(id)?.supplier.account
  const suppliers = () => listedSuppliers(live.config)
  opdMetrics(registry, {
    stats: engine.stats,
    counters,
    *invalid() {
      for (const [ssp, { invalid }] of live.taken) yield { ssp, invalid }
    },
    bidLog,
    model: (mode) => ({ version: keeper.version(mode), ageSeconds: keeper.age(mode) ?? 0 }),
  })
  const api = { engine, bearer: entry, account }
  const admin = createAdmin({
    listen,
    log,
    plugins: [
      health({ registry, ping: () => store.ping(), missing }),
      ...(auth.plugin === null ? [] : [auth.plugin]),
      management({
        store,
        suppliers,
        bearer: entry,
        operator: bearer(auth.verifier, { role: 'operator' }),
        changed: () => void directory.refresh(),
        now,
      }),
      dashboard({
        bearer: entry,
        realm: auth.realm,
        suppliers,
        stats: engine.stats,
        counters,
        holds: () => directory.snapshot().holds,
        location: live.config.location,
        currency: () => live.config.currency.base,
        opd: (id) => opdState(engine.integration(id)),
        now,
        endpoints: (id) => endpointsOf(proxy, id),
        allotment: (id) => allotmentOf(proxy, id),
      }),
      reporting({
        store,
        suppliers,
        bearer: entry,
        now,
        flush: async () => {
          await Promise.all([rollup.flush(), repeats.flush()])
        },
        readings: () => readingsOf(live.config),
      }),
      standalone(api),
      decisions(api),
      impressions({
        engine,
        ledger: store.ledger,
        seen: redis?.seen ?? null,
        auth: live.config.admin.impressions.auth,
        contextTtl: () => live.config.opd.contextTtl,
        integration: (id) => engine.integration(id),
        account,
        now,
        alert: (what, supplier) => log.warn({ what, supplier }, 'impressions want a look'),
        counters,
        repeated: repeats.count,
        verifier: auth.verifier,
        role,
        log,
      }),
    ],
  })
  return {
    async listen() {
      const bound = await admin.listen()
      address = listen.replace(/\d+$/, String(bound.port))
      return bound
    },
    close: () => admin.close(),
    /** Lets go of issuers and tokens, once nobody asks any more. */
    end: () => auth.close(),
  }
}
