/** What a bid and a win cost the stores at full speed, when many share a round trip or a commit. */
import type { Run } from '../harness/bench.ts'
import { type Cost, mint, type StoreName, startCluster, windowOf } from '../harness/cluster.ts'
import type { Block } from '../harness/report.ts'
import { startCaller } from '../harness/service.ts'
import { medians } from '../harness/statistics.ts'

const load = { rate: 0, warm: 0, connections: 32 }

interface Figures extends Cost {
  /** A second. */
  rate: number
  /** Bytes that a bid takes of Redis, or a win of the database. */
  bytes: number
}

/** Rounds of so many milliseconds; the first one is not counted, because the node compiles what it runs. */
async function roundsOf({ quick }: Run, round: (milliseconds: number) => Promise<Figures>) {
  await round(2000)
  const samples: Figures[] = []
  for (let n = 0; n < (quick ? 1 : 3); n++) samples.push(await round(quick ? 1500 : 4000))
  return medians(samples)
}

async function measure(run: Run, what: 'bids' | 'wins', store: StoreName): Promise<Figures> {
  await using cluster = await startCluster(store)
  await using caller = startCaller()
  const { proxy, admin } = cluster.nodes[0]!
  const found = await roundsOf(run, async (milliseconds) => {
    const times = { ...load, measure: milliseconds }
    // More contexts than it can report in that time.
    if (what === 'wins') await mint(caller, admin, await cluster.token(), milliseconds * 8)
    const before = await cluster.kept()
    const { cost, seconds, result } = await windowOf(cluster, () =>
      what === 'bids'
        ? caller.ask({ ...times, port: proxy, paths: ['/bid/bench'] })
        : caller.ask({ ...times, port: admin, what: 'notices' }),
    )
    const after = await cluster.kept()
    const kept = after[what] - before[what]
    if (what === 'wins' && result.failed > 0)
      run.refuse(`${result.failed} notices failed: ${result.fault}`)
    if (what === 'wins' && kept !== result.total)
      run.refuse(`${result.total} wins are ${kept} rows`)
    const bytes =
      what === 'bids' ? after.redisBytes - before.redisBytes : after.bytes - before.bytes
    const shares = Object.entries({ ...cost, bytes }).map(([name, all]) => [name, all / kept])
    return { ...Object.fromEntries(shares), rate: kept / seconds } as Figures
  })
  run.say(`  ${store}: ${found.rate.toFixed(0)} ${what}/s, ${found.bytes.toFixed(0)} bytes each`)
  return found
}

export async function speed(run: Run): Promise<Block[]> {
  const bid = await measure(run, 'bids', 'PostgreSQL and Redis')
  const wins = []
  for (const [name, store] of [
    ['PostgreSQL', 'PostgreSQL and Redis'],
    ['SQLite', 'SQLite'],
  ] as const) {
    const found = await measure(run, 'wins', store)
    const ofPostgres = [found.commits.toFixed(2), found.walBytes.toFixed(0)]
    wins.push([
      ...[name, found.rate.toFixed(0), found.cpu.toFixed(0)],
      ...[...(name === 'SQLite' ? ['', ''] : ofPostgres), found.bytes.toFixed(0)],
    ])
  }
  return [
    `One node, ${load.connections} connections in a closed loop; medians of the rounds, with what the node does anyway. A bid, in Redis without the model:`,
    {
      head: [
        ...['bids/s', 'CPU us of the node', 'Redis commands', 'Redis CPU us', 'Redis bytes in'],
        'Redis bytes of memory',
      ],
      rows: [
        [
          ...[bid.rate.toFixed(0), bid.cpu.toFixed(0), bid.redisCommands.toFixed(2)],
          ...[bid.redisUs.toFixed(1), bid.redisBytesIn.toFixed(0), bid.bytes.toFixed(0)],
        ],
      ],
    },
    'A win by its context, stored once; bytes are those of its row and its index entries:',
    {
      head: ['store', 'wins/s', 'CPU us of the node', 'commits', 'WAL bytes', 'bytes on disk'],
      rows: wins,
    },
  ]
}
