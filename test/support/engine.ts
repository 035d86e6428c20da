/** An engine on a clock of the test's own, fed with bid requests and answers as the proxy feeds it. */

import type { Log } from '../../opd/base/log.ts'
import { drained } from '../../opd/base/slices.ts'
import type { Integration } from '../../opd/config.ts'
import { createEngine } from '../../opd/engine/engine.ts'
import type { DecisionSink, SharedBidLog } from '../../opd/ports.ts'
import { LocalBidLog } from '../../opd/state/bid-log.ts'
import { fixedLearner } from './opd-doubles.ts'

export const hour = 3_600_000
export const keys = [{ id: 1, secret: Buffer.alloc(32, 7) }]

export interface TestEngineOptions {
  integrations: Integration[]
  factor?: number
  shared?: SharedBidLog
  sink?: DecisionSink
  log?: Log
}

export const noLog: Log = { info() {}, warn() {}, error() {} }

/** What an engine of a test does without. */
export const aloneDeps = {
  observer: null,
  shared: null,
  sink: null,
  log: noLog,
  random: () => 0.5,
}

export function testEngine(options: TestEngineOptions) {
  const { integrations, factor = 0.9, shared, sink, log } = options
  const clock = { now: 1_800_000_000_000 }
  const now = () => clock.now
  const learner = fixedLearner(factor)
  const config = {
    keys,
    attributionWindow: hour / 2,
    contextTtl: 48 * hour,
    integrations,
    rates: { base: 'USD', rates: { EUR: 0.8 } },
    base: 'USD',
  }
  /** A node of its own: what is only in memory belongs to another node. */
  const node = () =>
    createEngine(config, {
      learners: { learnerOf: () => learner, version: () => 7, epoch: () => 0 },
      bidLog: new LocalBidLog({ ttl: 48 * hour, now, maxEntries: 10_000 }),
      ...aloneDeps,
      shared: shared ?? null,
      sink: sink ?? null,
      log: log ?? noLog,
      now,
    })
  return { clock, now, learner, config, node, engine: node() }
}

interface AnsweredBid {
  price: number
  svcOpd: string
  in: string
  out: string
  mode: string
}

type Engine = ReturnType<typeof createEngine>

export interface AskedBid {
  id: string
  price?: string
  floor?: number
  supplier?: string
  auction?: string
  cur?: string
  test?: boolean
}

/** One auction with one bid, through the engine; what its macros became. */
export function auction(engine: Engine, asked: AskedBid): AnsweredBid {
  const { id, price = '1.00', floor = 0, supplier = 'acme', cur = 'USD' } = asked
  const request = {
    id: asked.auction ?? `auction of ${id}`,
    ...(asked.test ? { test: 1 } : {}),
    site: { domain: 'news.example', publisher: { id: 'pub-1' } },
    imp: [{ id: '1', bidfloor: floor, bidfloorcur: cur, banner: { w: 300, h: 250 } }],
  }
  const nurl =
    'https://t.example/?svc_opd=${SVC_OPD_CONTEXT}&i=${SVC_OPD_IN_BID_PRICE}&o=${SVC_OPD_OUT_BID_PRICE}&m=${SVC_OPD_MODE}'
  const bid = `{"id":${JSON.stringify(id)},"impid":"1","price":${price},"nurl":"${nurl}"}`
  const body = Buffer.from(`{"id":"r","cur":"${cur}","seatbid":[{"seat":"s","bid":[${bid}]}]}`)
  const answer = drained(
    engine.responsesOf(supplier).rewriteInSlices({
      body,
      request: () => Buffer.from(JSON.stringify(request)),
      inactiveSeats: new Set(),
    }),
  )
  const after = JSON.parse(answer.body.toString()).seatbid[0].bid[0]
  const query = new URL(after.nurl).searchParams
  return {
    price: after.price,
    svcOpd: query.get('svc_opd')!,
    in: query.get('i')!,
    out: query.get('o')!,
    mode: query.get('m')!,
  }
}
