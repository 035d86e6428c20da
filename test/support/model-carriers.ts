/** What carries models between nodes, on real servers: Redis, and PostgreSQL. */
import t, { type Test } from 'tap'
import { modelBusOf } from '../../admin/store/model-bus.ts'
import { openRedis } from '../../opd/state/redis.ts'
import type { ModelBus } from '../../opd/state/shared-model.ts'
import { postgresAbsent, startPostgres } from './postgres.ts'
import { redisAbsent, startRedis } from './redis.ts'
import { silent, storeAt } from './store.ts'
import { until } from './until.ts'

interface Carrier {
  /** The bus of one node, with connections of its own. */
  open(): Promise<ModelBus>
  /** Kills the server and starts it again; what it does not keep on disk is lost. */
  restart(): Promise<void>
}

async function redisCarrier(t: Test): Promise<Carrier> {
  const server = await startRedis()
  t.teardown(() => server.stop())
  return {
    async open() {
      const options = { url: server.url, location: 'us', bidTtl: () => 60_000, onNodes() {} }
      const redis = openRedis({ ...options, log: silent })
      t.teardown(() => redis.close())
      await until(() => redis.connected)
      return redis
    },
    async restart() {
      await server.stop()
      await server.start()
    },
  }
}

async function postgresCarrier(t: Test): Promise<Carrier> {
  const server = await startPostgres()
  t.teardown(() => server.close())
  return {
    open: async () => modelBusOf((await storeAt(t, server)).db),
    async restart() {
      await server.stop()
      await server.start()
    },
  }
}

/** The same on both. */
export function onEachCarrier(name: string, test: (t: Test, carrier: Carrier) => Promise<void>) {
  t.test(`Redis: ${name}`, { skip: redisAbsent }, async (t) => test(t, await redisCarrier(t)))
  t.test(`PostgreSQL: ${name}`, { skip: postgresAbsent }, async (t) =>
    test(t, await postgresCarrier(t)),
  )
}
