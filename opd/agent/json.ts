/**
 * An RTBRequest as JSON, with the names of its schema in snake case (Agentic RTB Framework 1.0 over MCP). It is written in
 * Protocol Buffers, so that one reader reads both.
 */
import { ProtobufWriter } from '../protobuf/writer.ts'
import type { Fault } from '../types.ts'
import { type Mutation, pathOf } from './agent.ts'
import { type AgentCall, readAgentCall } from './call.ts'

/** Writes a value that was sent. A value that is not valid is a fault. */
type Write = (
  value: unknown,
  number: number,
  out: ProtobufWriter,
  into: Faults,
  path: string,
) => void

/** A fault for each value that is not valid; at most `most`. */
class Faults {
  readonly list: Fault[] = []

  addFault(pointer: string, detail: string): void {
    if (this.list.length < most) this.list.push({ pointer, detail })
  }
}
const most = 20

const maxInt32 = 2 ** 31 - 1

const text: Write = (value, number, out, faults, path) => {
  if (typeof value === 'string') out.text(number, value)
  else faults.addFault(path, 'must be a string')
}
const double: Write = (value, number, out, faults, path) => {
  if (typeof value === 'number') out.double(number, value)
  else faults.addFault(path, 'must be a number')
}
const int32: Write = (value, number, out, faults, path) => {
  const isValid = Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxInt32
  if (isValid) out.int32(number, value as number)
  else faults.addFault(path, `must be an integer from 0 to ${maxInt32}`)
}
/** OpenRTB in JSON has 0 and 1. */
const flag: Write = (value, number, out, faults, path) => {
  if (value === true || value === 1) out.int32(number, 1)
  else if (value !== false && value !== 0) faults.addFault(path, 'must be true, false, 1 or 0')
}

/** An enum: its number, or its name, with `prefix` or without it. */
const oneOf =
  (prefix: string, ...names: readonly string[]): Write =>
  (value, number, out, faults, path) => {
    const known = names.findIndex((name) => name === value || prefix + name === value)
    if (known >= 0) out.int32(number, known)
    else if (typeof value === 'number') int32(value, number, out, faults, path)
    else faults.addFault(path, `must be one of ${names.map((name) => prefix + name).join(', ')}`)
  }

/** Values as members of an array: each as if it was sent alone, which is how lists are written. */
const list =
  (write: Write): Write =>
  (value, number, out, faults, path) => {
    if (!Array.isArray(value)) return faults.addFault(path, 'must be an array')
    for (const [index, element] of value.entries())
      write(element, number, out, faults, `${path}/${index}`)
  }

type Members = Readonly<Record<string, readonly [number: number, write: Write]>>

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A message. Other members are ignored, as unknown fields are; null is absent. */
const message =
  (members: Members): Write =>
  (value, number, out, faults, path) => {
    if (!isObject(value)) return faults.addFault(path, 'must be an object')
    out.message(number, written(value, members, faults, path))
  }

function written(
  value: Record<string, unknown>,
  members: Members,
  faults: Faults,
  path: string,
): ProtobufWriter {
  const out = new ProtobufWriter()
  for (const [name, [number, write]] of Object.entries(members)) {
    const member = value[name]
    if (member !== undefined && member !== null)
      write(member, number, out, faults, `${path}/${name}`)
  }
  return out
}

const range = message({ mindur: [1, int32], maxdur: [2, int32], bidfloor: [3, double] })
const size: Members = { w: [1, int32], h: [2, int32] }
const deal = message({
  id: [1, text],
  bidfloor: [2, double],
  bidfloorcur: [3, text],
  at: [6, int32],
  guar: [7, int32],
  mincpmpersec: [8, double],
  durfloors: [9, list(range)],
})
const imp = message({
  id: [1, text],
  banner: [2, message({ ...size, format: [15, list(message(size))] })],
  video: [
    3,
    message({
      w: [6, int32],
      h: [7, int32],
      mincpmpersec: [34, double],
      durfloors: [36, list(range)],
    }),
  ],
  tagid: [7, text],
  bidfloor: [8, double],
  bidfloorcur: [9, text],
  pmp: [11, message({ deals: [2, list(deal)] })],
  native: [13, message({})],
  audio: [15, message({ mincpmpersec: [30, double], durfloors: [31, list(range)] })],
})
const publisher = message({ id: [1, text] })
const bidRequest = message({
  id: [1, text],
  imp: [2, list(imp)],
  site: [3, message({ domain: [3, text], page: [7, text], publisher: [11, publisher] })],
  app: [
    4,
    message({ id: [1, text], domain: [3, text], bundle: [8, text], publisher: [11, publisher] }),
  ],
  device: [5, message({ geo: [4, message({ country: [3, text] })], devicetype: [18, int32] })],
  user: [6, message({ geo: [7, message({ country: [3, text] })] })],
  at: [7, int32],
  test: [15, flag],
  dooh: [22, message({ id: [1, text], publisher: [5, publisher], domain: [6, text] })],
})
const bid = message({
  id: [1, text],
  impid: [2, text],
  price: [3, double],
  nurl: [5, text],
  adm: [6, text],
  adomain: [7, list(text)],
  dealid: [13, text],
  w: [16, int32],
  h: [17, int32],
  burl: [22, text],
  lurl: [23, text],
  dur: [32, int32],
  mtype: [33, int32],
})
const bidResponse = message({
  id: [1, text],
  seatbid: [2, list(message({ bid: [1, list(bid)], seat: [2, text] }))],
  cur: [4, text],
})
const lifecycles = ['UNSPECIFIED', 'PUBLISHER_BID_REQUEST', 'DSP_BID_RESPONSE']
const intents = [
  ...['INTENT_UNSPECIFIED', 'ACTIVATE_SEGMENTS', 'ACTIVATE_DEALS', 'SUPPRESS_DEALS'],
  ...['ADJUST_DEAL_FLOOR', 'ADJUST_DEAL_MARGIN', 'BID_SHADE'],
]
const originatorTypes = ['UNSPECIFIED', 'PUBLISHER', 'SSP', 'EXCHANGE', 'DSP']

const rtbRequest: Members = {
  lifecycle: [1, oneOf('LIFECYCLE_', ...lifecycles)],
  id: [2, text],
  tmax: [3, int32],
  bid_request: [4, bidRequest],
  bid_response: [5, bidResponse],
  originator: [6, message({ type: [1, oneOf('TYPE_', ...originatorTypes)], id: [2, text] })],
  applicable_intents: [7, list(oneOf('', ...intents))],
}

/**
 * Reads a call that was sent as JSON.
 *
 * @param sent an RTBRequest in JSON, whose values are not checked yet
 * @returns the call, or a fault for each value that is not valid, with a JSON pointer to it
 */
export function readJsonCall(sent: Record<string, unknown>): AgentCall | readonly Fault[] {
  const faults = new Faults()
  const bytes = written(sent, rtbRequest, faults, '').bytes()
  if (faults.list.length > 0) return faults.list
  const call = readAgentCall(bytes)
  return typeof call === 'string'
    ? [
        {
          pointer: '',
          detail: 'has more values than are read, or an id of more than 1,024 characters',
        },
      ]
    : call
}

/**
 * An RTBResponse as JSON.
 *
 * @param id of the call
 * @param mutations new prices, as decimal text
 * @param modelVersion null: it is not sent
 */
export const jsonAnswer = (
  id: string,
  mutations: readonly Mutation[],
  modelVersion: string | null,
) => ({
  id,
  mutations: mutations.map(({ bid: priced, price }) => ({
    intent: 'BID_SHADE',
    op: 'OPERATION_REPLACE',
    path: pathOf(priced),
    adjust_bid: { price },
  })),
  metadata: {
    api_version: '1.0',
    ...(modelVersion === null ? {} : { model_version: modelVersion }),
  },
})
