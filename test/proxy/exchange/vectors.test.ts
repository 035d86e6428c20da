/** Every acceptance vector over real sockets, in every framing and every coding: bytes in, bytes out. */
import t from 'tap'
import { createEngine } from '../../../opd/engine/engine.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import { keys, noLog } from '../../support/engine.ts'
import { codings, framings, unchunked } from '../../support/framings.ts'
import { fixedLearner, integration } from '../../support/opd-doubles.ts'
import { matchPlaceholders } from '../../support/placeholders.ts'
import { startProxy } from '../../support/proxy.ts'
import { post, type RawAnswer, raw } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'
import { vectors } from '../../support/vectors.ts'

const realEngine = () =>
  createEngine(
    {
      keys,
      attributionWindow: 60_000,
      contextTtl: 60_000,
      integrations: [
        integration('on', { enabled: true, holdout: 0 }),
        integration('off', { enabled: false }),
      ],
      rates: null,
      base: 'USD',
    },
    {
      learners: { learnerOf: () => learner, version: () => 1, epoch: () => 0 },
      bidLog: new LocalBidLog({ ttl: 60_000, now: Date.now }),
      observer: null,
      shared: null,
      sink: null,
      log: noLog,
      now: Date.now,
      random: Math.random,
    },
  )
const learner = fixedLearner(0.9)

/** Every framing plain, every coding chunked. */
const combinations = [
  ...Object.keys(framings).map((framing) => ['identity', framing] as const),
  ...Object.keys(codings).map((coding) => [coding, 'chunked'] as const),
]

t.test('every vector in every framing and coding', async (t) => {
  let wire: Buffer = Buffer.alloc(0)
  let coding = 'identity'
  let framing = 'chunked'
  const supplier = await rawSupplier((socket) => {
    const encoding =
      coding === 'identity' ? '' : `Content-Encoding: ${coding.replace('raw ', '')}\r\n`
    const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${encoding}`
    for (const part of framings[framing]!(wire, head)) socket.write(part)
    if (framing === 'close-delimited') socket.end()
  })
  const route = { endpoints: [supplier.url], timeout: '20s' }
  const proxy = await startProxy({ on: route, off: route }, { engine: realEngine() })
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))

  for (const vector of vectors) {
    const body =
      vector.responseBase64 === undefined
        ? Buffer.from(vector.response!)
        : Buffer.from(vector.responseBase64, 'base64')
    const wrong: string[] = []
    for (const [inCoding, inFraming] of combinations) {
      coding = inCoding
      framing = inFraming
      const [encode, decode] = codings[coding]!
      wire = encode(body)
      const path = vector.opdEnabled ? '/bid/on' : '/bid/off'
      const ask = () => raw(proxy.port, post(path, vector.request))
      let answer!: RawAnswer
      let chunked = false
      // On a busy machine the request is refused, or its `tmax` passes, perhaps within the response: subjects of other tests.
      await until(async () => {
        answer = await ask()
        chunked = answer.headers['transfer-encoding'] === 'chunked'
        const refused = ['overload', 'timeout'].includes(answer.headers['x-bidweir-reason'] ?? '')
        return !refused && (!chunked || answer.body.endsWith('0\r\n\r\n'))
      })
      const came = Buffer.from(chunked ? unchunked(answer.body) : answer.body, 'latin1')
      const where = `${coding}, ${framing}`
      if (vector.expected === 'unchanged') {
        if (!came.equals(wire))
          wrong.push(
            `${where}: ${answer.status} ${answer.headers['x-bidweir-reason']} ${came.length} of ${wire.length} bytes`,
          )
        continue
      }
      const matched = matchPlaceholders(vector.expected, decode(came).toString())
      if (typeof matched === 'string')
        wrong.push(`${where}: ${answer.headers['x-bidweir-reason']} ${matched}`)
    }
    t.strictSame(wrong, [], vector.id)
  }
})
