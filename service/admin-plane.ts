/** The admin listener's doors: who may come in, and what stands behind each path. */
import { bearer } from '../admin/auth/bearer.ts'
import { createAuth } from '../admin/auth/index.ts'
import { dashboard } from '../admin/dashboard/route.ts'
import { health } from '../admin/http/health.ts'
import { createAdmin } from '../admin/http/server.ts'
import { ImpressionCounters } from '../admin/impressions/counters.ts'
import { impressions } from '../admin/impressions/route.ts'
import { management } from '../admin/management/route.ts'
import { opdMetrics } from '../admin/metrics/registry.ts'
import { decisions } from '../admin/prices/decisions.ts'
import { standalone } from '../admin/prices/standalone.ts'
import { reporting } from '../admin/reports/route.ts'
import type { Log } from '../opd/shared/log.ts'
import { snapshotCatalog } from '../opd/state/snapshot-catalog.ts'
import { type Live, modelsDirOf, type Parts } from './data-plane.ts'
import { listedSuppliers, readingsOf } from './runtime-config.ts'
import { allotmentOf, endpointsOf, opdState } from './status-adapters.ts'

/** `missing`: why bid traffic cannot be served now. */
export async function openDoors(live: Live, parts: Parts, missing: () => string[], log: Log) {
  const { store, directory, modelManager, bidLog, rollup, duplicates, engine, proxy } = parts
  const { registry, now, followModelControl } = parts
  const counters = new ImpressionCounters()
  const { auth: door, listen } = live.config.admin
  let address = listen
  const auth = await createAuth(door, {
    store,
    baseUrl: () => `http://${address}`,
    log,
    now,
    publicUrl: () => live.config.admin.publicUrl,
    trustedProxies: () => live.config.proxy.trustedProxies,
  })
  const reading = bearer(auth.verifier, { role: 'viewer' })
  const editing = bearer(auth.verifier, { role: 'api' })
  const account = (id: string) => live.taken.get(id)?.supplier.account
  const suppliers = () => listedSuppliers(live.config)
  opdMetrics(registry, {
    stats: engine.stats,
    counters,
    *invalid() {
      for (const [ssp, { invalid }] of live.taken) yield { ssp, invalid }
    },
    bidLog,
    model: (mode) => ({
      version: modelManager.version(mode),
      ageSeconds: modelManager.age(mode) ?? 0,
    }),
  })
  const admin = createAdmin({
    listen,
    log,
    plugins: [
      health({ registry, lost: () => store.lost(), missing }),
      ...(auth.plugin === null ? [] : [auth.plugin]),
      management({
        store,
        suppliers,
        reading,
        editing,
        operator: bearer(auth.verifier, { role: 'operator' }),
        changed: () => void directory.refresh(),
        snapshots: snapshotCatalog(modelsDirOf(live.config)),
        followed: followModelControl,
        now,
      }),
      dashboard({
        bearer: reading,
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
        bearer: reading,
        now,
        flush: async () => {
          await Promise.all([rollup.flush(), duplicates.flush()])
        },
        rules: () => readingsOf(live.config),
      }),
      standalone({ engine, bearer: editing, account }),
      decisions({ engine, bearer: reading, account }),
      impressions({
        engine,
        ledger: store.ledger,
        auth: live.config.admin.impressions.auth,
        contextTtl: () => live.config.opd.contextTtl,
        integration: (id) => engine.integration(id),
        account,
        now,
        alert: (what, supplier) => log.warn({ what, supplier }, 'impressions want a look'),
        counters,
        onDuplicate: duplicates.count,
        verifier: auth.verifier,
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
