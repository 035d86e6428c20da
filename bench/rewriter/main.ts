/** The rewriter beside JSON.parse and stringify doing the same job: CPU microseconds, interleaved, medians. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { opdSchema } from '../../opd/config.ts'
import { readRequest } from '../../opd/openrtb/request.ts'
import type { PriceBid } from '../../opd/pricing/types.ts'
import { rewrite } from '../../opd/rewrite/rewrite.ts'
import { bodies, request } from './bodies.ts'

const integration = {
  id: 'acme',
  opd: opdSchema.parse({ enabled: true }),
  notices: 'win' as const,
}
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
  return rewrite({
    body,
    request: () => request,
    integration,
    inactiveSeats: seats,
    rates: null,
    base: 'USD',
    price,
  }).body.length
}

interface Bid {
  price: number
  impid: string
  [field: string]: unknown
}

/** The same job the usual way: parse both, look the floor up, replace, serialise. */
function parses(body: Buffer): number {
  const text = body.toString()
  const answer = JSON.parse(text) as { seatbid: { bid: Bid[] }[] }
  if (!text.includes('SVC_OPD_CONTEXT')) return body.length
  const { imp } = JSON.parse(request.toString()) as { imp: { id: string; bidfloor: number }[] }
  for (const { bid } of answer.seatbid)
    for (const each of bid) {
      const floor = imp.find(({ id }) => id === each.impid)?.bidfloor ?? 0
      each.price = Math.max(floor, 1.935)
      for (const field of ['adm', 'nurl', 'burl', 'lurl'])
        if (typeof each[field] === 'string')
          each[field] = each[field]
            .replaceAll('${SVC_OPD_CONTEXT}', context)
            .replaceAll('${SVC_OPD_IN_BID_PRICE}', '2.15')
            .replaceAll('${SVC_OPD_OUT_BID_PRICE}', '1.935')
            .replaceAll('${SVC_OPD_MODE}', 'revenue')
    }
  return Buffer.from(JSON.stringify(answer)).length
}

const readsRequest = (body: Buffer) => readRequest(body)!.imps.size
const parsesRequest = (body: Buffer) =>
  (JSON.parse(body.toString()) as { imp: unknown[] }).imp.length

type Job = (body: Buffer) => number

/** CPU microseconds of one call, from about 40 ms of calls. */
function once(job: Job, body: Buffer, calls: number): number {
  const before = process.cpuUsage()
  for (let n = 0; n < calls; n++) job(body)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / calls
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!

const rounds = 25
const rows: string[] = []

function compare(name: string, body: Buffer, ours: Job, theirs: Job): void {
  once(ours, body, 2000)
  once(theirs, body, 2000)
  const calls = Math.max(20, Math.round(40_000 / once(ours, body, 500)))
  const [took, peerTook]: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round++) {
    took.push(once(ours, body, calls))
    peerTook.push(once(theirs, body, Math.max(20, calls >> 2)))
  }
  const [us, peer] = [median(took), median(peerTook)]
  rows.push(
    `| ${name} | ${body.length} | ${us.toFixed(2)} | ${peer.toFixed(2)} | ${(us / peer).toFixed(3)} |`,
  )
}

for (const [name, body] of Object.entries(bodies)) compare(name, body, splices, parses)
compare('of each but the first: the request', request, readsRequest, parsesRequest)

const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD']).toString().trim()
const report = `# Rewriter

${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}, commit ${commit}. CPU microseconds a call,
median of ${rounds} interleaved rounds; both read the request and replace price and macros, with the price given.

| body | bytes | splice | parse + stringify | ratio |
|---|---|---|---|---|
${rows.join('\n')}
`
process.stdout.write(report)
writeFileSync(new URL('RESULTS.md', import.meta.url), report)
