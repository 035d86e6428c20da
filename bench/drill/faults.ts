/** The faults of the drill: how each is injected into running nodes and ended, and what should name it. */
import { openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../test/support/until.ts'
import { tree } from '../harness/process.ts'
import type { Sample } from './prometheus.ts'
import type { Pod, World } from './world.ts'

export interface Fault {
  name: string
  alert: string
  panel: string
  /** Whether a series of the panel shows the fault. */
  shows: (sample: Sample) => boolean
  /** A sentence of the console. */
  sentence: RegExp
  inject: (world: World) => unknown
  end: (world: World) => unknown
}

const above =
  (limit: number) =>
  ({ value }: Sample) =>
    value > limit

const file = (world: World, pod: Pod, name: string) => join(world.folderOf(pod), name)

function fill(path: string): void {
  const descriptor = openSync(path, 'w')
  const block = Buffer.alloc(1024 * 1024)
  try {
    for (;;) writeSync(descriptor, block)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

const refitting = async ({ nodes }: World) => {
  const metrics = await Promise.all([nodes.a.metrics(), nodes.b.metrics()])
  // A refit of so few rows takes a fraction of a second.
  return metrics.some((samples) => (samples.get('bidweir_model_refit_seconds') ?? 0) > 2)
}

/** Faults whose signs are shares of the last minutes or hours are first, while there are few others. */
export const faults: readonly Fault[] = [
  {
    name: 'notices refused',
    alert: 'BidweirNoticesRefused',
    panel: 'Win notices',
    shows: ({ metric, value }) => metric['status'] === 'rejected' && value > 0,
    sentence: /of the win notices are refused/,
    inject({ traffic }) {
      traffic.wrongPrices = true
    },
    end({ traffic }) {
      traffic.wrongPrices = false
    },
  },
  {
    name: 'a hung worker',
    alert: 'BidweirWorkersEnd',
    panel: 'Worker processes that were replaced',
    shows: above(0),
    sentence: /a worker process ended or hung/,
    inject({ nodes }) {
      const [, worker] = tree(nodes.a.bidweir.child.pid!)
      process.kill(worker!, 'SIGSTOP')
    },
    end: () => undefined,
  },
  {
    name: 'Redis lost',
    alert: 'BidweirRedisAway',
    panel: 'Redis',
    shows: ({ value }) => value === 0,
    sentence: /Redis does not respond/,
    inject: ({ redis }) => redis.stop(),
    end: ({ redis }) => redis.start(),
  },
  {
    name: 'PostgreSQL slow',
    alert: 'BidweirDatabaseSlow',
    panel: 'Commits of wins',
    shows: above(0.25),
    sentence: /the database is slow/,
    inject: ({ database }) =>
      database.query(`
        create function slow() returns trigger language plpgsql as
          $$ begin perform pg_sleep(1); return null; end $$;
        create trigger slow before insert on ledger_days
          for each statement execute function slow()`),
    end: ({ database }) => database.query('drop function slow() cascade'),
  },
  {
    name: 'a clock off by 20 minutes',
    alert: 'BidweirClockOff',
    panel: 'Nodes that differ, and their clocks',
    shows: ({ metric, value }) => metric['what'] === undefined && Math.abs(value) > 1,
    sentence: /the clock of the node is [\d.]+ s behind that of the database/,
    inject: (world) => writeFileSync(file(world, 'b', 'clock-off'), ''),
    end: (world) => rmSync(file(world, 'b', 'clock-off')),
  },
  {
    name: 'keys differ',
    alert: 'BidweirNodeDiffers',
    panel: 'Nodes that differ, and their clocks',
    shows: ({ metric, value }) => metric['what'] === 'context_keys' && value === 1,
    sentence: /the context keys differ from those of/,
    inject: (world) => world.setKey('b', 2),
    end: (world) => world.setKey('b', 1),
  },
  {
    name: "a supplier's certificate expired",
    alert: 'BidweirSupplierDown',
    panel: 'Endpoints that answer',
    shows: ({ metric, value }) => metric['ssp'] === 'tls' && value === 0,
    sentence: /certificate has expired/,
    inject: ({ tls }) => void tls.expire(true),
    end: ({ tls }) => void tls.expire(false),
  },
  {
    name: 'disk full',
    alert: 'BidweirDiskFull',
    panel: 'Free disk of stateDir',
    shows: ({ metric, value }) => metric['pod'] === 'b' && value < 0.02,
    sentence: /the disk of stateDir is full/,
    inject: ({ diskPath }) => fill(join(diskPath, 'filling')),
    end: ({ diskPath }) => rmSync(join(diskPath, 'filling')),
  },
  {
    name: 'a node without traffic',
    alert: 'BidweirNodeIdle',
    panel: 'Bid requests by node',
    shows: ({ metric, value }) => metric['pod'] === 'b' && value === 0,
    sentence: /no bid request has come for/,
    inject({ traffic }) {
      traffic.pods.delete('b')
    },
    end({ traffic }) {
      traffic.pods.add('b')
    },
  },
  {
    name: 'a refit that never ends',
    alert: 'BidweirRefitHangs',
    panel: 'Refit of the model',
    shows: above(2),
    sentence: /a refit of the model has not ended/,
    // It is injected when a refit begins.
    async inject(world) {
      for (const pod of ['a', 'b'] as const) writeFileSync(file(world, pod, 'refit-hangs'), '')
      await until(() => refitting(world), { what: 'a refit', limit: 600_000 })
    },
    end: () => undefined,
  },
]
