/** The rewriter driven by cases as data: what a case leaves out is an ordinary bid of 2.00 on an imp with floor 0.5. */

import { drained } from '../../opd/base/slices.ts'
import { type Integration, opdSchema } from '../../opd/config.ts'
import { rewriteInSlices } from '../../opd/rewrite/rewrite.ts'
import type { Rates } from '../../opd/shared/rates.ts'
import type { BidReason, EligibleBid, PriceBid } from '../../opd/shared/reasons.ts'
import type { OpenRtbFormat, RewrittenResponse } from '../../opd/types.ts'

export interface RewriteCase {
  title: string
  /** The `opd` block beside `enabled: true`; null: none. */
  opd?: Record<string, unknown> | null
  /** Members, as JSON text, added to the request, its imp, the answer or its bid. */
  root?: string
  imp?: string
  answer?: string
  bid?: string
  /** Whole texts in place of the ordinary ones. */
  imps?: string
  request?: string
  raw?: string
  rates?: Rates
  inactive?: string[]
  context?: string
}

interface Outcome {
  came: Buffer
  out: RewrittenResponse
  reasons: BidReason[]
  priced: EligibleBid[]
}

const members = (...texts: (string | undefined)[]) => texts.filter(Boolean).join(',')
const nurl = '"nurl":"https://t.example/win?svc_opd=${SVC_OPD_CONTEXT}"'

function requestOf({ request, root, imp, imps }: RewriteCase): string {
  const requestText = `{${members('"id":"1"', '"bidfloor":0.5', imp)}}`
  return request ?? `{${members(`"imp":[${imps ?? requestText}]`, root)}}`
}

function answerOf({ raw, answer, bid }: RewriteCase): string {
  const bidText = `{${members('"id":"b1"', '"impid":"1"', '"price":2', nurl, bid)}}`
  return raw ?? `{${members(`"seatbid":[{"seat":"s1","bid":[${bidText}]}]`, answer)}}`
}

export const opdOf = (opd: Record<string, unknown> | null | undefined): Integration['opd'] =>
  opd === null ? null : opdSchema.parse({ enabled: true, ...opd })

/** The response and the request of a case, as JSON. */
export const textsOf = (rewriteCase: RewriteCase) => ({
  response: answerOf(rewriteCase),
  request: requestOf(rewriteCase),
})

interface Sent {
  format: OpenRtbFormat
  response: Buffer
  request: Buffer
}

const inJson = (rewriteCase: RewriteCase): Sent => {
  const { response, request } = textsOf(rewriteCase)
  return { format: 'json', response: Buffer.from(response), request: Buffer.from(request) }
}

/** `sent`: the bodies of the case in another format. */
export function run(rewriteCase: RewriteCase, sent = inJson(rewriteCase)): Outcome {
  const reasons: BidReason[] = []
  const priced: EligibleBid[] = []
  const price: PriceBid = (bid) => {
    priced.push(bid)
    return {
      priceText: '1.5',
      inText: '2',
      outText: '1.5',
      context: rewriteCase.context ?? 'CTX',
      mode: 'revenue',
    }
  }
  const came = sent.response
  const out = drained(
    rewriteInSlices({
      body: came,
      format: sent.format,
      request: () => sent.request,
      requestFormat: sent.format,
      opd: opdOf(rewriteCase.opd),
      inactiveSeats: new Set(rewriteCase.inactive),
      rates: rewriteCase.rates ?? null,
      base: 'USD',
      price,
      onBid: (reason) => reasons.push(reason),
    }),
  )
  return { came, out, reasons, priced }
}
