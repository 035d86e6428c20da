/** What a bid and a win take of the stores at full speed, where they share round trips and commits. */
import { postgresAbsent } from '../../test/support/postgres.ts'
import { redisAbsent } from '../../test/support/redis.ts'
import { startLoaded } from '../admin/service.ts'
import type { Job, Reported } from '../admin/source.ts'
import type { Run } from '../harness/bench.ts'
import { Child } from '../harness/child.ts'
import type { Block } from '../harness/report.ts'
import type { Job as BidJob, Outcome } from '../harness/source.ts'
import { medians } from '../harness/statistics.ts'
import { startCluster } from './cluster.ts'
import { windowOf } from './window.ts'

const load = { rate: 0, warm: 0, connections: 32 }
const bidsOfCall = 100

/** Rounds of so many milliseconds; the first one is not counted, because the node compiles what it runs. */
async function roundsOf<T extends { [K in keyof T]: number }>(
  { quick }: Run,
  round: (milliseconds: number) => Promise<T>,
): Promise<T> {
  await round(2000)
  const samples: T[] = []
  for (let n = 0; n < (quick ? 1 : 3); n++) samples.push(await round(quick ? 1500 : 4000))
  return medians(samples)
}

/** Asks for prices until `most` contexts are at hand. */
async function mint(platform: Child<Job, Reported>, port: number, token: string, most: number) {
  const job = { ...load, what: 'prices', port, token, bids: bidsOfCall, most } as const
  for (let left = 0; left < most; ) ({ left } = await platform.ask({ ...job, measure: 500 }))
}

async function bids(run: Run, endpoint: string): Promise<Block> {
  const cluster = await startCluster(1, endpoint)
  const caller = new Child<BidJob, Outcome>(new URL('../harness/source.ts', import.meta.url))
  try {
    const port = cluster.nodes[0]!.proxy
    const found = await roundsOf(run, async (measure) => {
      const before = await cluster.kept()
      const { cost, seconds } = await windowOf(cluster, async () => {
        const { count } = await caller.ask({ ...load, port, paths: ['/bid/bench'], measure })
        return count
      })
      const after = await cluster.kept()
      const count = after.bids - before.bids
      return {
        rate: count / seconds,
        cpu: cost.cpu / count,
        commands: cost.redisCommands / count,
        us: cost.redisUs / count,
        bytesIn: cost.redisBytesIn / count,
        memory: (after.redisBytes - before.redisBytes) / count,
      }
    })
    run.say(`  ${found.rate.toFixed(0)} bids/s, ${found.memory.toFixed(0)} bytes of Redis each`)
    return {
      head: [
        ...['bids/s', 'CPU us of the node', 'Redis commands', 'Redis CPU us', 'Redis bytes in'],
        'Redis bytes of memory',
      ],
      rows: [
        [
          ...[found.rate.toFixed(0), found.cpu.toFixed(0), found.commands.toFixed(2)],
          ...[found.us.toFixed(1), found.bytesIn.toFixed(0), found.memory.toFixed(0)],
        ],
      ],
    }
  } finally {
    await Promise.all([caller.close(), cluster.stop()])
  }
}

const wins = ['wins/s', 'CPU us of the node', 'commits', 'WAL bytes', 'bytes on disk']
/** Wins at hand for so many milliseconds. */
const enough = (measure: number) => measure * 8

async function winsOfPostgres(run: Run, endpoint: string): Promise<string[]> {
  const cluster = await startCluster(1, endpoint)
  const platform = new Child<Job, Reported>(new URL('../admin/source.ts', import.meta.url))
  try {
    const port = cluster.nodes[0]!.admin
    const found = await roundsOf(run, async (measure) => {
      const token = await cluster.token()
      await mint(platform, port, token, enough(measure))
      const job = { ...load, what: 'notices', port, token, bids: 1, most: 0, measure } as const
      const before = await cluster.kept()
      const { cost, seconds, count } = await windowOf(cluster, async () => {
        const { total, failed, fault } = await platform.ask(job)
        if (failed > 0) run.refuse(`${failed} notices failed: ${fault}`)
        return total
      })
      const after = await cluster.kept()
      if (after.wins - before.wins !== count)
        run.refuse(`${count} wins are ${after.wins - before.wins} rows`)
      return {
        rate: count / seconds,
        cpu: cost.cpu / count,
        commits: cost.commits / count,
        wal: cost.walBytes / count,
        disk: (after.ledgerBytes - before.ledgerBytes) / count,
      }
    })
    run.say(`  ${found.rate.toFixed(0)} wins/s, ${found.disk.toFixed(0)} bytes of PostgreSQL each`)
    return [
      ...['PostgreSQL', found.rate.toFixed(0), found.cpu.toFixed(0), found.commits.toFixed(2)],
      ...[found.wal.toFixed(0), found.disk.toFixed(0)],
    ]
  } finally {
    await Promise.all([platform.close(), cluster.stop()])
  }
}

async function winsOfSqlite(run: Run): Promise<string[]> {
  const loaded = await startLoaded('SQLite', '')
  const platform = new Child<Job, Reported>(new URL('../admin/source.ts', import.meta.url))
  try {
    const { admin: port, token } = loaded
    const found = await roundsOf(run, async (measure) => {
      await mint(platform, port, token, enough(measure))
      const job = { ...load, what: 'notices', port, token, bids: 1, most: 0, measure } as const
      const [cpu, bytes] = [loaded.cpu(), await loaded.bytes()]
      const { total, seconds } = await platform.ask(job)
      return {
        rate: total / seconds,
        cpu: (loaded.cpu() - cpu) / total,
        disk: ((await loaded.bytes()) - bytes) / total,
      }
    })
    run.say(`  ${found.rate.toFixed(0)} wins/s, ${found.disk.toFixed(0)} bytes of SQLite each`)
    return [
      ...['SQLite', found.rate.toFixed(0), found.cpu.toFixed(0), '', '', found.disk.toFixed(0)],
    ]
  } finally {
    await Promise.all([platform.close(), loaded.stop()])
  }
}

export async function speed(run: Run): Promise<Block[]> {
  const absent = postgresAbsent || redisAbsent
  if (absent !== false) {
    run.missing(absent)
    return []
  }
  const origin = new Child<never, number>(new URL('../harness/supplier.ts', import.meta.url))
  try {
    const endpoint = `http://127.0.0.1:${await origin.answer()}/?kind=bid`
    return [
      `One node, ${load.connections} connections in a closed loop; medians of the rounds, with what the node does anyway. A bid, in Redis without the model:`,
      await bids(run, endpoint),
      'A win by its context, stored once; bytes are those of its row and its index entries:',
      {
        head: ['store', ...wins],
        rows: [await winsOfPostgres(run, endpoint), await winsOfSqlite(run)],
      },
    ]
  } finally {
    await origin.close()
  }
}
