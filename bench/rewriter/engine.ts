/**
 * `engine.rewrite` with learner, contexts and bid log: CPU microseconds of a response, interleaved with those of another
 * checkout: `node bench/rewriter/engine.ts /path/to/other`. Without one, nothing is compared.
 */
import { pathToFileURL } from 'node:url'
import type * as Config from '../../opd/config.ts'
import type * as EngineModule from '../../opd/engine/engine.ts'
import type * as LearnerModule from '../../opd/learner.ts'
import type * as BidLogModule from '../../opd/state/bid-log.ts'
import { requests, responses } from './market.ts'

type Subject = (body: Buffer, calls: number) => number

const hour = 3_600_000
const socket = Buffer.alloc(2 * 1024 * 1024)

async function subject(checkout: URL): Promise<Subject> {
  const load = (name: string) => import(new URL(name, checkout).href)
  const { opdSchema } = (await load('opd/config.ts')) as typeof Config
  const { createEngine } = (await load('opd/engine/engine.ts')) as typeof EngineModule
  const { createLearner } = (await load('opd/learner.ts')) as typeof LearnerModule
  const { createBidLog } = (await load('opd/state/bid-log.ts')) as typeof BidLogModule
  const learner = createLearner({})
  const now = Date.now
  const log = { info() {}, warn() {}, error() {} }
  const engine = createEngine(
    {
      keys: [{ id: 1, secret: Buffer.alloc(32, 7) }],
      attributionWindow: hour / 2,
      contextTtl: 48 * hour,
      integrations: [{ id: 'acme', opd: opdSchema.parse({ enabled: true }), notices: 'win' }],
      rates: null,
      base: 'USD',
    },
    {
      learners: { of: () => learner, version: () => 1 },
      bidLog: createBidLog({ ttl: hour / 2, now }),
      observer: null,
      shared: null,
      sink: null,
      log,
      now,
      random: Math.random,
    },
  )
  const inactiveSeats = new Set<string>()
  let calls = 0
  return (body, times) => {
    const before = process.cpuUsage()
    for (let n = 0; n < times; n++) {
      const request = requests[calls++ & 7]!
      const out = engine.rewrite({ supplier: 'acme', body, request: () => request, inactiveSeats })
      // What is sent is copied once more, as text.
      socket.write(out.text ?? out.body.toString('latin1'), 'latin1')
    }
    const { user, system } = process.cpuUsage(before)
    return (user + system) / times
  }
}

const rounds = 60
const low = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 2]!

const here = new URL('../../', import.meta.url)
const [other] = process.argv.slice(2)
const checkouts = [here, ...(other === undefined ? [] : [pathToFileURL(`${other}/`)])]
const subjects: Subject[] = []
for (const checkout of checkouts) subjects.push(await subject(checkout))

console.log('| response | bytes | CPU us | of the other checkout | ratio |\n|---|--:|--:|--:|--:|')
for (const [name, body] of Object.entries(responses)) {
  const took: number[][] = subjects.map(() => [])
  const calls = Math.max(4, Math.round(2_000_000 / body.length))
  for (const each of subjects) each(body, 20 * calls)
  for (let round = 0; round < rounds; round++)
    for (const [at, each] of subjects.entries()) took[at]!.push(each(body, calls))
  const [us = 0, base = 0] = took.map(low)
  const compared = base === 0 ? '- | -' : `${base.toFixed(1)} | ${(us / base).toFixed(3)}`
  console.log(`| ${name} | ${body.length} | ${us.toFixed(1)} | ${compared} |`)
}
process.exit(0)
