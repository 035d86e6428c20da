/**
 * The binary form of a decision, in contexts and in the bid log. The id and the bid id are stored outside of it; in a
 * context they are the nonce and associated data.
 *
 *   flags  at  model  propensity  winIn winOut  theta floor lambda guard  in  out  currency  supplier  publisher  domain  price_dsp  seat  facets  features
 *   1      6   4      8           2     2       4     4     4      1      1+n 1+n  1+n       1+n       1+n        1+n     1+n        1+n   1+n     the rest
 *
 * A flag says that theta, floor, lambda and guard are present. The two highest bits of the model version are `via`. An empty
 * price_dsp or seat is absent, and so are facets of no bytes.
 *
 *   facets   device and format  country  size  deal
 *            1                  1+n      1+n   1+n
 */

import { hash } from 'node:crypto'
import { plain } from '../base/decimal.ts'
import { type Arm, armAt, arms, guards, type Mode, viaAt, vias } from '../shared/arms.ts'
import { devices, type Facets, formats, maxDealBytes } from '../shared/facets.ts'
import type { DecisionRecord } from '../types.ts'

/**
 * Writes short text as UTF-8 and returns its end. ASCII is written byte by byte: a call of `Buffer.write` takes as long as
 * 40 bytes. `into` needs three bytes for each character.
 *
 * @param offset offset in `into`, bytes
 */
export function writeUtf8(into: Buffer, offset: number, text: string): number {
  const { length } = text
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index)
    if (code > 127) return offset + index + into.write(text.slice(index), offset + index, 'utf8')
    into[offset + index] = code
  }
  return offset + length
}

/**
 * Writes the first `length` characters of latin1 text.
 *
 * @param offset offset in `into`, bytes
 * @param length characters
 */
export function writeLatin1(
  into: Buffer,
  offset: number,
  text: string,
  length = text.length,
): void {
  for (let index = 0; index < length; index++) into[offset + index] = text.charCodeAt(index)
}

/** Publishers, domains and seats in records and logs: truncated with a hash beyond 64, 96 and 64 bytes (CONTRACT 5). */

export const maxPublisherBytes = 64
export const maxDomainBytes = 96
export const maxSeatBytes = 64

/**
 * A text of at most `most` bytes: the text itself, or its beginning, `~`, and 16 hex digits of its SHA-256.
 *
 * @param most bytes, 18 or more
 */
export function truncateWithHash(text: string | undefined, most: number): string {
  if (text === undefined) return ''
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= most || Buffer.byteLength(text) <= most) return text
  const digest = hash('sha256', text, 'hex').slice(0, 16)
  const kept = Buffer.from(text.slice(0, most)).subarray(0, most - 17)
  return `${kept.toString('utf8').replace(/\uFFFD+$/, '')}~${digest}`
}

/** The pseudonym of a name in the decision log: 16 hex digits of its SHA-256. */
export function hashName(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 16)
}

/** Upper bound of the length of a record without its features: 513 bytes. */
export const maxRecordBytes = 576
/**
 * Money text longer than `length` is stored as leading digits and an exponent. With three prices each has fewer digits, so
 * that the longest record without its seat, its facets and its features (352 bytes) fits in a context.
 */
const twoPrices = { length: 40, digits: 30 }
const threePrices = { length: 27, digits: 17 }
const longestCurrency = 16
/** `other` */
const longestCountry = 5
/** `99999x99999` */
const longestSize = 11
const unknownChance = 0xffff
const explains = 0x10
/** The model version is below this. */
const versions = 2 ** 30
const fixedBytes = 23
const explaining = ['theta', 'floor', 'lambda'] as const
/** The guard is stored as its index plus 1; 0: none. */
const explainBytes = 4 * explaining.length + 1

/** Where a record and its features were written: from `start` to `end`. At least three bytes follow the end. */
export interface WrittenRecord {
  view: DataView
  start: number
  end: number
}

function writeText(into: Buffer, offset: number, text: string, most: number): number {
  const { length } = text
  if (length <= most) {
    let index = 0
    for (; index < length; index++) {
      const code = text.charCodeAt(index)
      if (code > 127) break
      into[offset + 1 + index] = code
    }
    if (index === length) {
      into[offset] = length
      return offset + 1 + length
    }
  }
  let written = into.write(text, offset + 1, most, 'utf8')
  if (written < 0) written = 0
  into[offset] = written
  return offset + 1 + written
}

/** The names of the record that was written last: the bids of a response share them. */
const names = {
  currency: '',
  supplier: '',
  publisher: '',
  domain: '',
  bytes: Buffer.alloc(4 * 256),
  length: -1,
}

function writeNames(into: Buffer, offset: number, record: DecisionRecord): number {
  const { currency, supplier, publisher, domain } = record
  if (
    names.length < 0 ||
    names.publisher !== publisher ||
    names.domain !== domain ||
    names.supplier !== supplier ||
    names.currency !== currency
  ) {
    const { bytes } = names
    let end = writeText(bytes, 0, currency, longestCurrency)
    end = writeText(bytes, end, supplier, 63)
    end = writeText(bytes, end, publisher, maxPublisherBytes)
    names.length = writeText(bytes, end, domain, maxDomainBytes)
    names.currency = currency
    names.supplier = supplier
    names.publisher = publisher
    names.domain = domain
  }
  const { bytes, length } = names
  // `Buffer.copy` would make a view first, which takes longer than the copy.
  for (let index = 0; index < length; index++) into[offset + index] = bytes[index]!
  return offset + length
}

/** Shortens long money text to its leading digits and an exponent. */
function shortMoney(text: string, most: typeof twoPrices): string {
  if (text.length <= most.length) return text
  const digits = text.replace('.', '').replace(/^0+/, '')
  const point = text.indexOf('.')
  const integer = (point === -1 ? text : text.slice(0, point)).replace(/^0+/, '')
  const leading = digits.slice(0, most.digits).replace(/0+$/, '')
  const zeros = point === -1 ? 0 : (/^0*/.exec(text.slice(point + 1))?.[0].length ?? 0)
  const exponent = (integer === '' ? -zeros : integer.length) - leading.length
  return `${leading}e${exponent}`
}

const chance = (value: number | undefined) =>
  value === undefined || !(value >= 0 && value <= 1)
    ? unknownChance
    : Math.round(value * (unknownChance - 1))

/** Returns the end. */
function writeFacets(into: Buffer, start: number, facets: Facets | undefined): number {
  if (facets === undefined) {
    into[start] = 0
    return start + 1
  }
  const { device, format, country, size, deal } = facets
  into[start + 1] =
    (devices as readonly string[]).indexOf(device) * 16 +
    (formats as readonly string[]).indexOf(format)
  let end = writeText(into, start + 2, country, longestCountry)
  end = writeText(into, end, size, longestSize)
  end = writeText(into, end, deal, maxDealBytes)
  into[start] = end - start - 1
  return end
}

/** The optional parts of a record: the fields that only the explain call reads, the facets, and the seat. */
export interface RecordForm {
  explained: boolean
  facets: boolean
  seat: boolean
}
export const wholeRecord: RecordForm = { explained: true, facets: true, seat: true }

/**
 * Writes a record without its features and returns its end. `into` needs `maxRecordBytes` bytes after `start`.
 *
 * @param start offset in `into`, bytes
 */
export function writeRecord(
  into: Buffer,
  start: number,
  record: DecisionRecord,
  { explained, facets: withFacets, seat: withSeat }: RecordForm = wholeRecord,
): number {
  const { priceDsp } = record
  const most = priceDsp === undefined ? twoPrices : threePrices
  let offset = start
  into[offset++] =
    armAt[record.arm] |
    (explained ? explains : 0) |
    (record.mode === 'margin' ? 0x40 : 0) |
    (record.trains ? 0x80 : 0)
  const low = record.decidedAt % 2 ** 32
  into.writeUInt16BE((record.decidedAt - low) / 2 ** 32, offset)
  into.writeUInt32BE(low, offset + 2)
  into.writeUInt32BE((record.modelVersion % versions) + viaAt[record.via] * versions, offset + 6)
  into.writeDoubleBE(record.propensity, offset + 10)
  into.writeUInt16BE(chance(record.winIn), offset + 18)
  into.writeUInt16BE(chance(record.winOut), offset + 20)
  offset += fixedBytes - 1
  if (explained) {
    offset = into.writeFloatBE(record.theta ?? Number.NaN, offset)
    offset = into.writeFloatBE(record.floor ?? Number.NaN, offset)
    offset = into.writeFloatBE(record.lambda ?? Number.NaN, offset)
    into[offset++] = record.guard === undefined ? 0 : guards.indexOf(record.guard) + 1
  }
  offset = writeText(into, offset, shortMoney(record.inBa, most), most.length)
  offset = writeText(into, offset, shortMoney(record.outBa, most), most.length)
  offset = writeNames(into, offset, record)
  offset = writeText(
    into,
    offset,
    priceDsp === undefined ? '' : shortMoney(priceDsp, most),
    most.length,
  )
  offset = writeText(into, offset, (withSeat ? record.seat : undefined) ?? '', maxSeatBytes)
  return writeFacets(into, offset, withFacets ? record.facets : undefined)
}

/** in, out, currency, supplier, publisher, domain, price_dsp, seat */
const textCount = 8
const minRecordBytes = fixedBytes + textCount + 1

/** The facets between two positions; null: the bytes are invalid. */
function readFacets(from: Buffer, start: number, end: number): Facets | null {
  const kinds = from[start]!
  const [device, format] = [devices[kinds >> 4], formats[kinds & 15]]
  const texts: string[] = []
  let offset = start + 1
  for (let index = 0; index < 3; index++) {
    const length = from[offset]
    if (length === undefined || offset + 1 + length > end) return null
    texts.push(from.toString('utf8', offset + 1, offset + 1 + length))
    offset += 1 + length
  }
  if (device === undefined || format === undefined || offset !== end) return null
  return { country: texts[0]!, device, format, size: texts[1]!, deal: texts[2]! }
}

/** Seven digits restore the decimal that a float32 was written from. */
function explanation(from: Buffer, offset: number): Partial<DecisionRecord> {
  const values = explaining.map((name, n) => [name, from.readFloatBE(offset + 4 * n)] as const)
  const known = values.filter(([, value]) => Number.isFinite(value))
  const guard = guards[from[offset + explainBytes - 1]! - 1]
  return {
    ...Object.fromEntries(known.map(([name, value]) => [name, Number(value.toPrecision(7))])),
    ...(guard === undefined ? {} : { guard }),
  }
}

/**
 * Reads a record and the features after it; null: the bytes are invalid.
 *
 * @param start position of the first byte
 * @param end position after the features
 * @param id of the decision, which the bytes do not contain
 * @param bidId which the bytes do not contain either
 */
export function readRecord(
  from: Buffer,
  start: number,
  end: number,
  id: string,
  bidId: string,
): DecisionRecord | null {
  if (end - start < minRecordBytes) return null
  const flags = from[start]!
  const arm: Arm | undefined = arms[flags & 0x0f]
  if (arm === undefined) return null
  const explained = (flags & explains) !== 0
  const textsAt = start + fixedBytes + (explained ? explainBytes : 0)
  if (textsAt > end) return null
  const mode: Mode = (flags & 0x40) === 0 ? 'revenue' : 'margin'
  let offset = textsAt
  const texts: string[] = []
  for (let index = 0; index < textCount; index++) {
    const length = from[offset]
    if (length === undefined || offset + 1 + length > end) return null
    texts.push(from.toString('utf8', offset + 1, offset + 1 + length))
    offset += 1 + length
  }
  const facetsLength = from[offset]
  if (facetsLength === undefined || offset + 1 + facetsLength > end) return null
  const facets = facetsLength === 0 ? null : readFacets(from, offset + 1, offset + 1 + facetsLength)
  if (facets === null && facetsLength > 0) return null
  offset += 1 + facetsLength
  const version = from.readUInt32BE(start + 7)
  const winIn = from.readUInt16BE(start + 19)
  const winOut = from.readUInt16BE(start + 21)
  return {
    id,
    bidId,
    supplier: texts[3]!,
    mode,
    arm,
    propensity: from.readDoubleBE(start + 11),
    inBa: plain(texts[0]!),
    outBa: plain(texts[1]!),
    currency: texts[2]!,
    decidedAt: from.readUInt16BE(start + 1) * 2 ** 32 + from.readUInt32BE(start + 3),
    modelVersion: version % versions,
    via: vias[Math.floor(version / versions)] ?? 'proxy',
    publisher: texts[4]!,
    domain: texts[5]!,
    trains: (flags & 0x80) !== 0,
    features: new Uint8Array(from.subarray(offset, end)),
    ...(texts[6] === '' ? {} : { priceDsp: plain(texts[6]!) }),
    ...(texts[7] === '' ? {} : { seat: texts[7]! }),
    ...(facets === null ? {} : { facets }),
    ...(winIn === unknownChance ? {} : { winIn: winIn / (unknownChance - 1) }),
    ...(winOut === unknownChance ? {} : { winOut: winOut / (unknownChance - 1) }),
    ...(explained ? explanation(from, textsAt - explainBytes) : {}),
  }
}
