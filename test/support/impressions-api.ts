/** `/opd/imp` on port 0, for callers of several accounts and roles. */
import type { Test } from 'tap'
import { TokenError } from '../../admin/auth/tokens.ts'
import type { Caller } from '../../admin/http/roles.ts'
import { createAdmin } from '../../admin/http/server.ts'
import { ImpressionCounters } from '../../admin/impressions/counters.ts'
import type { ImpressionAuth, LedgerOfWins } from '../../admin/impressions/lookup.ts'
import { Notices } from '../../admin/impressions/process.ts'
import { impressions } from '../../admin/impressions/route.ts'
import type { LossStore } from '../../admin/store/losses.ts'
import { hour, type TestEngineOptions, testEngine } from '../support/engine.ts'
import { integration, memoryLedger } from '../support/opd-doubles.ts'
import { silent } from './store.ts'

const callers: Readonly<Record<string, Caller>> = {
  good: { subject: 'u', account: '*', roles: new Set(['api']) },
  media: { subject: 'm', account: 'acme-media', roles: new Set(['api']) },
  roleless: { subject: 'r', account: '*', roles: new Set() },
}

interface ImpressionsOptions extends Partial<TestEngineOptions> {
  auth?: ImpressionAuth
  account?: (supplier: string) => string | undefined
  /** Some suppliers encode their prices. */
  encoded?: boolean
  /** Instead of the one in memory. */
  store?: LedgerOfWins
  losses?: LossStore
}

type Params = Record<string, string | undefined>

/** `/opd/imp` on port 0 over an engine, a ledger in memory and a few tokens; `listen` starts another node. */
export async function impressionsApi(t: Test, options: ImpressionsOptions = {}) {
  const world = testEngine({ integrations: [integration('acme')], ...options })
  const ledger = memoryLedger()
  const lost = new Set<string>()
  const alerts: string[] = []
  const nodes: { close: () => Promise<unknown> }[] = []
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))

  async function listen(engine: typeof world.engine) {
    const counters = new ImpressionCounters()
    const noticeDeps = {
      engine,
      ledger: options.store ?? ledger,
      auth: options.auth ?? 'bearer',
      contextTtl: () => 48 * hour,
      integration: (id: string) => engine.integration(id),
      account: options.account ?? (() => undefined),
      now: world.now,
      alert: (what: string) => alerts.push(what),
      counters,
      onDuplicate: () => {},
    }
    const notices = new Notices(noticeDeps)
    const deps = {
      ...noticeDeps,
      notices,
      losses: options.losses ?? {
        record: async (decision: string) => lost.size < lost.add(decision).size,
      },
      encodedPrices: () => options.encoded ?? false,
      tracer: null,
      log: { error: () => {} },
      verifier: {
        verify: (token: string) => {
          const caller = callers[token]
          if (token === 'outage') throw new TokenError('unavailable')
          if (caller === undefined) throw new TokenError('signature')
          return caller
        },
      },
    }
    const listen = '127.0.0.1:0'
    const admin = createAdmin({ listen, log: silent, plugins: [impressions(deps)] })
    const { port } = await admin.listen()
    const url = `http://127.0.0.1:${port}`
    nodes.push(admin)
    const send = (query: string, token: string | null = 'good', method = 'GET') =>
      fetch(`${url}/opd/imp?${query}`, {
        method,
        headers: token === null ? {} : { authorization: `Bearer ${token}` },
      })
    /** A notice; answers status and body. */
    async function notify(params: Params, token: string | null = 'good') {
      const given = Object.entries(params).filter(([, value]) => value !== undefined)
      const response = await send(String(new URLSearchParams(given as [string, string][])), token)
      const body = (await response.json()) as Record<string, unknown>
      return { ...body, http: response.status, headers: response.headers, body }
    }
    const tally = () => {
      const by: Record<string, number> = {}
      for (const [key, value] of counters.impressions)
        by[key.split('\t')[2]!] = (by[key.split('\t')[2]!] ?? 0) + value
      return by
    }
    /** A loss notice; answers status and body. */
    async function lose(params: Params, token: string | null = 'good') {
      const given = Object.entries(params).filter(([, value]) => value !== undefined)
      const query = new URLSearchParams(given as [string, string][])
      const response = await fetch(`${url}/opd/loss?${query}`, {
        headers: token === null ? {} : { authorization: `Bearer ${token}` },
      })
      const body = (await response.json()) as Record<string, unknown>
      return { http: response.status, body }
    }
    return { engine, counters, send, notify, lose, tally, url, notices }
  }

  return { ...world, ledger, alerts, listen, ...(await listen(world.engine)) }
}
