/** Every reason and status that bidweir counts or sends. A new one does not compile until it has its sentence here. */
import type { Status } from '../../admin/impressions/counters.ts'
import type { Arm, Guard } from '../../opd/shared/arms.ts'
import type { BidReason, ResponseReason } from '../../opd/shared/reasons.ts'
import type { ContextState } from '../../opd/types.ts'
import type { NoBid } from '../../proxy/exchange/reply.ts'
import type { RequestOutcome } from '../../proxy/metrics.ts'
import { code, page, table } from './markdown.ts'

const noBids: Readonly<Record<NoBid, string>> = {
  inactive:
    'The data center of this node, every seat of the supplier, or every seat of the response is inactive.',
  qps: 'The data center is over its allotment of queries per second.',
  unreadable:
    'The supplier has an inactive seat, and its response cannot be read to remove that seat.',
  overload: 'A limit of requests in flight, of memory or of the queue to the supplier is reached.',
  timeout: 'The supplier did not respond before the deadline.',
  upstream_error: 'No complete response came from the supplier.',
}

const outcomes: Readonly<Record<Exclude<RequestOutcome, NoBid>, string>> = {
  answer: 'The supplier responded, and the caller has its response.',
  no_bid: 'The supplier responded with 204: it does not bid.',
  client_abort: 'The caller closed the connection before the response.',
  slow_request:
    'The caller had not sent the body of its request at the deadline. Its reply is that of `timeout`; nothing was sent to the supplier.',
  refused: '403, 405 or 413: the caller may not send bids, or the request is not one.',
}

const arms: Readonly<Record<Exclude<Arm, 'fixed'>, string>> = {
  holdout: 'The auction belongs to the holdout: factor 1.',
  explored: 'The factor was drawn at random among the permitted ones.',
  treated: 'The model chose the factor.',
  shadow: 'The integration is in shadow mode: factor 1.',
  hold: "An operator's hold is active: factor 1.",
  test: 'The bid request is a test: factor 1, no money, no training.',
  no_rate: 'There is no exchange rate for the currency of the bid: factor 1.',
  floor:
    'The price, less the client fee, is at the floor, which leaves no room below it: factor 1.',
  below_floor: 'The price is below the floor, so the bid cannot win: factor 1.',
  outside: 'The auction is outside of the share that OPD may price: factor 1.',
  unchecked:
    'A guard acts: no win of the supplier is recorded, and an alert has said for long why. Factor 1.',
  capped: 'OPD has taken off `opd.caps.perDay` on this day: factor 1.',
}

const bidReasons: Readonly<Record<BidReason, string>> = {
  no_macro:
    'The bid does not contain `svc_opd=${SVC_OPD_CONTEXT}`, so a win could not be attributed.',
  fixed_price: 'The deal has a fixed price.',
  unknown_deal: 'The deal is not in the bid request.',
  audio: 'The impression is audio, and `opd.audio` is false.',
  currency: 'A floor is in a currency without an exchange rate.',
  no_price: 'The price is not a number above 0.',
  unknown_imp: 'The impression is not in the bid request.',
  excluded: '`opd.exclude` or `opd.deals` excludes the bid.',
  ambiguous:
    'A key that decides about the price occurs twice. In an agent call: several bids have one path, or the bid has no id.',
  request: 'The bid request cannot be read.',
  has_macro:
    'Agent calls only: the bid contains `svc_opd=${SVC_OPD_CONTEXT}`, so it is priced where its macros are expanded.',
}

const responseReasons: Readonly<Record<ResponseReason, string>> = {
  no_macro: 'The response contains no `SVC_OPD_CONTEXT` macro.',
  disabled: 'OPD is off for the integration.',
  invalid_config: 'The `opd` block of the integration has faults.',
  malformed: 'The response is not JSON in UTF-8, or not a Protocol Buffers message.',
  too_large:
    'The response is longer than `proxy.maxRewriteBytes`, has more than 1,000 seats or 50,000 bids, or the node has no memory for it.',
  encoding:
    'The content coding is unknown, or the body does not decode, or bytes follow the encoded body.',
  content_type: 'The content type is neither JSON nor Protocol Buffers.',
  charset: 'The character set is not UTF-8.',
  no_transform: '`Cache-Control: no-transform` forbids a change.',
  no_seatbid: 'The response has no list of seats.',
}

const statuses: Readonly<Record<Status, string>> = {
  attributed: 'The decision was found; its money counts.',
  unattributed: 'No decision was found; the notice is kept in the ledger without one.',
  duplicate: 'The win has its row already.',
  ignored: "The notice is OpenRTB's test, `price=AUDIT`: it never counts.",
  rejected: 'The notice is refused with a 4xx. It changes no win and no money.',
}

const contexts: Readonly<Record<ContextState, string>> = {
  valid: 'The context was decrypted and belongs to the bid id.',
  absent: 'The notice has no `svc_opd`.',
  unexpanded: '`svc_opd` still contains the macro: the bid was not sent through bidweir with OPD.',
  invalid: 'The context is cut, forged, of another bid, or of a key that this node does not have.',
  expired: 'The context is older than `opd.contextTtl`.',
}

const guards: Readonly<Record<Exclude<Guard, 'none'>, string>> = {
  start: 'A cold model begins with small reductions; this is no alarm.',
  silence: 'Win notices are missing.',
  drop: 'The win rate fell suddenly.',
  kept: 'The kept win rate or kept spend is below its minimum.',
  cleared: 'Cleared prices do not follow the outbound prices.',
  number: 'The model computed a value that is not finite.',
}

const section = (title: string, text: string, sentences: Readonly<Record<string, string>>) =>
  [
    `## ${title}`,
    text,
    table(
      ['value', 'meaning'],
      Object.entries(sentences).map(([value, sentence]) => [code(value), sentence]),
    ),
  ].join('\n\n')

export const reasons = () =>
  page(
    'Reasons and statuses',
    section(
      'No-bids',
      'In `x-bidweir-reason` of a 204, or of a 502, 503 or 504 with `onFailure: status`.',
      noBids,
    ),
    section(
      'Other outcomes of bid requests',
      'Label `outcome` of `bidweir_requests_total`, beside the no-bids above.',
      outcomes,
    ),
    section('Bids that were decided', 'Label `reason` of `bidweir_bids_total`.', arms),
    section('Bids left unchanged', 'Label `reason` of `bidweir_bids_total`.', bidReasons),
    section(
      'Responses left unchanged',
      'Label `reason` of `bidweir_answers_untouched_total`.',
      responseReasons,
    ),
    section(
      'Win notices',
      '`status` in the response to `GET /opd/imp`, and label of `bidweir_impressions_total`.',
      statuses,
    ),
    section(
      'Contexts of win notices',
      'Label `context` of `bidweir_contexts_total`. A notice whose context is not valid is attributed by the bid log, if possible.',
      contexts,
    ),
    section(
      'Guards',
      'Label `guard` of `bidweir_opd_guard`: why the model sends bids at factor 1.',
      guards,
    ),
  )
