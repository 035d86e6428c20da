/** A proxy on port 0 with an engine that changes no response, unless the test gives another one. */
import { Registry } from 'prom-client'
import type { ResponseReason } from '../../opd/shared/reasons.ts'
import type { Engine, ResponseToRewrite, RewrittenResponse } from '../../opd/types.ts'
import { proxySchema, routeSchema } from '../../proxy/config.ts'
import { type BidProxy, createProxy } from '../../proxy/proxy.ts'
import { listenerTls } from './transport.ts'

interface IdleEngine extends Partial<Engine> {
  /** Of a whole response, in one slice. */
  rewrite?: (response: ResponseToRewrite) => RewrittenResponse
  readsResponses?: (supplier: string) => boolean
  countUnmodified?: (supplier: string, reason: ResponseReason) => void
}

const unchanged = ({ body }: ResponseToRewrite): RewrittenResponse => ({
  ...{ body, reason: 'disabled', removed: 0, left: 0, unreadable: false },
})

export function idleEngine({
  rewrite = unchanged,
  readsResponses = () => false,
  countUnmodified = () => {},
  ...over
}: IdleEngine = {}): Engine {
  return {
    configure() {},
    setIntegration() {},
    removeIntegration() {},
    setHolds() {},
    setUnchecked() {},
    priceAgentCall: () => null,
    priceStandalone: () => ({ ok: false, status: 404, faults: [] }),
    findDecision: async () => ({
      context: 'absent',
      by: null,
      record: null,
      ambiguous: [],
      provisional: false,
      late: false,
    }),
    loggedSuppliers: () => [],
    explain: () => ({ context: 'invalid', record: null, late: false }),
    rate: () => null,
    recordWin() {},
    learnWin() {},
    learnLoss() {},
    withdrawExposure() {},
    responsesOf: (supplier) => ({
      get reads() {
        return readsResponses(supplier)
      },
      countUnmodified: (reason) => countUnmodified(supplier, reason),
      countUnread() {},
      // biome-ignore lint/correctness/useYield: one slice
      *rewriteInSlices(answer) {
        return rewrite(answer)
      },
    }),
    ...over,
  }
}

export interface TestProxy {
  proxy: BidProxy
  port: number
  registry: Registry
  logged: string[]
  /** The fields of each line of the log. */
  lines: object[]
  /** As a reload does. */
  setSupplier(id: string, route: object): void
  close(): Promise<void>
}

/** Of a supplier, if the test gives none: the default of 120 ms is short for a busy machine. */
const patient = '20s'

export async function startProxy(
  suppliers: Record<string, object>,
  options: {
    engine?: Engine
    proxy?: object
    lane?: 'fast' | 'general'
    zone?: string
  } = {},
): Promise<TestProxy> {
  const registry = new Registry()
  const logged: string[] = []
  const lines: object[] = []
  const write = (fields: object, message: string) => {
    logged.push(message)
    lines.push(fields)
  }
  const lane = options.lane ?? process.env['TEST_LANE']
  const tls = listenerTls()
  const config = proxySchema.parse({
    listen: '127.0.0.1:0',
    fastLane: lane !== 'general',
    ...(tls === null ? {} : { tls }),
    ...options.proxy,
  })
  const routeOf = (id: string, route: object) => ({
    ...routeSchema.parse({ timeout: patient, ...route }),
    id,
  })
  const routes = Object.entries(suppliers).map(([id, route]) => routeOf(id, route))
  const proxy = createProxy(config, routes, {
    engine: options.engine ?? idleEngine(),
    registry,
    log: { info: write, warn: write, error: write },
    zone: options.zone ?? null,
  })
  const { port } = await proxy.listen()
  return {
    proxy,
    port,
    registry,
    logged,
    lines,
    setSupplier: (id, route) => proxy.setRoute(routeOf(id, route)),
    async close() {
      proxy.drain()
      const closed = proxy.close()
      proxy.destroy()
      await closed
    },
  }
}

/** The value of one sample line of a registry, 0 where it is absent. */
export async function sample(registry: Registry, line: string): Promise<number> {
  const text = await registry.metrics()
  const row = text.split('\n').find((candidate) => candidate.startsWith(`${line} `))
  return row === undefined ? 0 : Number(row.slice(line.length + 1))
}
