/** `npm run bench:rewriter`: the rewriter beside JSON.parse and stringify, the whole engine, and contexts. */

import { drained } from '../../opd/base/slices.ts'
import { opdSchema } from '../../opd/config.ts'
import { readRequest } from '../../opd/openrtb/request.ts'
import { rewriteInSlices } from '../../opd/rewrite/rewrite.ts'
import type { PriceBid } from '../../opd/shared/reasons.ts'
import { bench, type Run } from '../harness/bench.ts'
import { rewriteJson } from '../harness/json-rewriter.ts'
import { cpuOf } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { inTurns, median } from '../harness/statistics.ts'
import { bidRequests, bodies } from '../harness/traffic.ts'
import { contextCosts } from './context.ts'
import { engineCosts } from './engine.ts'
import { tmaxCosts } from './tmax.ts'

const [request] = bidRequests as [Buffer]
const bid = bodies['bid']!
const responses: readonly [string, Buffer][] = [
  [
    'marker absent, 3 KB',
    Buffer.from(String(bid).replaceAll('SVC_OPD_CONTEXT', 'OTHER_MACROS_12')),
  ],
  ['banner bid, 3 KB', bid],
  ['VAST, 12 KB', bodies['vast']!],
  ['200 bids', bodies['bids-200']!],
]

const opd = opdSchema.parse({ enabled: true })
const context = 'c'.repeat(220)
const price: PriceBid = () => ({
  priceText: '1.935',
  inText: '2.15',
  outText: '1.935',
  context,
  mode: 'revenue',
})
const seats = new Set<string>()

function splices(body: Buffer): number {
  return drained(
    rewriteInSlices({
      body,
      request: () => request,
      opd,
      inactiveSeats: seats,
      rates: null,
      base: 'USD',
      price,
    }),
  ).body.length
}

/** The same job the usual way: parse both, look the floor up, replace, serialise. */
function parses(body: Buffer): number {
  const text = body.toString()
  if (!text.includes('SVC_OPD_CONTEXT')) {
    JSON.parse(text)
    return body.length
  }
  const { imp } = JSON.parse(request.toString()) as { imp: { id: string; bidfloor: number }[] }
  const rewritten = rewriteJson(text, ({ impid }) => {
    const floor = imp.find(({ id }) => id === impid)?.bidfloor ?? 0
    return { price: Math.max(floor, 1.935), inText: '2.15', outText: '1.935', context }
  })
  return Buffer.from(rewritten).length
}

const readsRequest = (body: Buffer) => readRequest(body)!.imps.size
const parsesRequest = (body: Buffer) =>
  (JSON.parse(body.toString()) as { imp: unknown[] }).imp.length

type Job = (body: Buffer) => number

async function beside({ quick }: Run): Promise<Block[]> {
  const rounds = quick ? 5 : 25
  const compare = async (name: string, body: Buffer, ours: Job, theirs: Job) => {
    for (const job of [ours, theirs]) cpuOf(() => job(body), quick ? 500 : 2000)
    // About 40 ms of calls.
    const calls = Math.max(20, Math.round(40_000 / cpuOf(() => ours(body), 500)))
    const costs = await inTurns(rounds, [ours, theirs], (job) =>
      cpuOf(() => job(body), job === ours ? calls : Math.max(20, calls >> 2)),
    )
    const [us, peer] = [ours, theirs].map((job) => median(costs.get(job)!)) as [number, number]
    return [name, body.length, us.toFixed(2), peer.toFixed(2), (us / peer).toFixed(3)]
  }
  const rows = []
  for (const [name, body] of responses) rows.push(await compare(name, body, splices, parses))
  const first = 'of each but the first: the request'
  rows.push(await compare(first, request, readsRequest, parsesRequest))
  return [
    `CPU microseconds a call, median of ${rounds} interleaved rounds; both read the request and replace price and macros, with the price given.`,
    { head: ['body', 'bytes', 'splice', 'parse + stringify', 'ratio'], rows },
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'Rewriter',
  about: 'In one process, without sockets.',
  sections: {
    rewriter: { title: 'Beside parse and stringify', run: beside },
    engine: { title: 'The whole engine', run: engineCosts },
    context: { title: 'Contexts and the bid log', run: contextCosts },
    tmax: { title: 'tmax, found before a request is sent', run: tmaxCosts },
  },
})
