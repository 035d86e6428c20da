/** Parses and validates one line of a decision log. */
import { type Arm, armAt, type Mode } from '../shared/arms.ts'
import type { BidFeatures } from '../shared/reasons.ts'

export interface DecisionLine {
  kind: 'decision'
  /** Milliseconds since the epoch. */
  time: number
  id: string
  ssp: string
  mode: Mode
  arm: Arm
  propensity: number
  /** Density of the factor among explored bids; null: unknown, then uniform from `low` to 1. */
  density: number | null
  /** CPM in the base currency. */
  in: number
  floor: number
  out: number
  low: number
  features: BidFeatures
  /** Where the log has contexts (`decisionLog.contexts`): the bid id, and the context. */
  bid?: string
  svcOpd?: string
  /** A node without a network decided it: the bid is pending on no node. */
  sealed?: true
}
export interface WinLine {
  kind: 'win'
  time: number
  id: string
  cleared: number
}
export interface WithdrawnLine {
  kind: 'withdrawn'
  time: number
  id: string
}
interface BadLine {
  kind: 'bad'
  why: string
}
export type LogLine = DecisionLine | WinLine | WithdrawnLine | BadLine
type Fields = Record<string, unknown>

const longestName = 512
const isName = (value: unknown) =>
  typeof value === 'string' && value.length > 0 && value.length <= longestName
const isPrice = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value < 1e9
const isTime = (value: unknown) => typeof value === 'number' && value >= 0 && value < 8.64e15

/** Required fields of a decision. Features, density and low are optional. */
const required: readonly [name: string, sound: (value: unknown) => boolean][] = [
  ['time', isTime],
  ['id', isName],
  ['ssp', isName],
  ['mode', (value) => value === 'revenue' || value === 'margin'],
  ['arm', (value) => typeof value === 'string' && Object.hasOwn(armAt, value)],
  ['propensity', (value) => typeof value === 'number' && value > 0 && value <= 1],
  ['in', (value) => isPrice(value) && value > 0],
  ['floor', isPrice],
  ['out', isPrice],
]

const bad = (why: string): BadLine => ({ kind: 'bad', why })
const number = (value: unknown) =>
  typeof value === 'number' && Number.isFinite(value) ? value : null

/** Strings, and `auction`. Other values are not features of the model. Publisher and domain are pseudonyms. */
function featuresOf({ features, publisher, domain }: Fields): BidFeatures {
  const all = { publisher, domain, ...(typeof features === 'object' ? features : {}) }
  const sound = Object.entries(all).filter(([name, value]) =>
    name === 'auction' ? value === 1 || value === 2 : isName(value),
  )
  return Object.fromEntries(sound) as BidFeatures
}

function decision(line: Fields): LogLine {
  for (const [name, sound] of required)
    if (!sound(line[name])) return bad(`${name} is ${name in line ? 'not sound' : 'missing'}`)
  const {
    time,
    id,
    ssp,
    mode,
    arm,
    propensity,
    in: inBa,
    floor,
    out,
  } = line as unknown as DecisionLine
  const low = Math.max(0, Math.min(1, number(line['low']) ?? floor / inBa))
  const density = number(line['density'])
  const features = featuresOf(line)
  const bid = { time, id, ssp, mode, arm, propensity, density, in: inBa, floor, out, low, features }
  const { bid: bidId, svc_opd: svcOpd } = line
  const context =
    typeof bidId === 'string' && typeof svcOpd === 'string' ? { bid: bidId, svcOpd } : {}
  return {
    kind: 'decision',
    ...bid,
    ...context,
    ...(line['sealed'] === true ? { sealed: true } : {}),
  }
}

/**
 * Reads one line of a decision log. A line that cannot be read is `bad`, with the cause.
 *
 * @param text one line of NDJSON, without its end
 */
export function parseLine(text: string): LogLine {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch {
    return bad('not JSON')
  }
  if (typeof line !== 'object' || line === null || Array.isArray(line)) return bad('no JSON object')
  const fields = line as Fields
  if (fields['won'] !== true && fields['withdrawn'] !== true) return decision(fields)
  const { time, id } = fields as { time: number; id: string }
  if (!isTime(time)) return bad('time is not sound')
  if (!isName(id)) return bad('id is not sound')
  // Of a win at the bid's own price, which the exchange did not lower, nothing follows for the price that was logged.
  if (fields['won'] !== true || fields['applied'] === false) return { kind: 'withdrawn', time, id }
  // Numbers as text are accepted, as in the ledger.
  const cleared =
    typeof fields['cleared'] === 'string' ? Number(fields['cleared']) : fields['cleared']
  return isPrice(cleared) ? { kind: 'win', time, id, cleared } : bad('cleared is no price')
}
