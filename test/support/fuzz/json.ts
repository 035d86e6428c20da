/** Mutations of JSON documents: of their bytes, and of what stays JSON. */
import { source } from '../random.ts'

/** An integer from 0 up to, but not including, `below`. */
type Random = (below: number) => number

/** The same sequence for the same seed. */
export function seeded(seed: number): Random {
  const next = source(seed)
  return (below) => Math.floor(next() * below)
}

const bytes = Buffer.from(
  '"\\{}[]:,0-+.eEu/tfn \n\t\r\0\x1a\x0c\x1f\x7f\x80\xbf\xc0\xc2\xe0\xed\xef\xf0\xf4\xf8\xff',
  'latin1',
)
/** What may be in a string, valid or not. */
const inStrings = [
  '\\"',
  '\\\\',
  '\\\\\\"',
  '\\/',
  '\\u0024{SVC_OPD_CONTEXT}',
  '\\ud83d\\ude00',
  '\\ud800',
  '\\u00e9',
  '\\x',
  '\\u12g4',
  '\\u123g',
  '\\ug123',
  '\\u1:23',
  '\\u',
  'é',
  '€',
  '😀',
  '\u2028',
  '${SVC_OPD_CONTEXT}',
  'svc_opd=${SVC_OPD_CONTEXT}',
  '${SVC_OPD_MODE}',
  '{}[]:,',
  '\\'.repeat(63),
  '\\'.repeat(64),
  'x'.repeat(61),
].map((text) => Buffer.from(text))
/** Pieces of UTF-8: overlong, surrogates, above U+10FFFF, cut short. */
const sequences = [
  'c0af',
  'c1bf',
  'c280',
  'dfbf',
  'e08080',
  'e09fbf',
  'e0a080',
  'ed9fbf',
  'eda080',
  'edbfbf',
  'ee8080',
  'efbbbf',
  'f0808080',
  'f08fbfbf',
  'f0908080',
  'f48fbfbf',
  'f4908080',
  'f5808080',
  'e282',
  'f09f98',
  '8080',
  'e2',
].map((text) => Buffer.from(text, 'hex'))
const values = [
  '0',
  '-0',
  '01',
  '1e5',
  '1E+',
  '-',
  '.5',
  '2.',
  '1e400',
  'true',
  'tru',
  'falsy',
  'truf',
  'nulk',
  'nulls',
  'null',
  '[]',
  '{}',
  '[{}]',
  '""',
  '"a":1',
  '12345678901',
  '1 2',
  '{"price":1}',
].map((text) => Buffer.from(text))
const spaces = [' ', '\n', '\t\r ', ' '.repeat(63), '\u00a0', '\v'].map((text) => Buffer.from(text))
const members = [
  '"id":"x",',
  '"price":0.5,',
  '"seat":null,',
  '"imp":{},',
  '"\\u0069d":7,',
  '"adm":{"a":1},',
  '"bidfloor":"3",',
  '"":[],',
].map((text) => Buffer.from(text))

/** The positions of a byte, or, if there are none, 0. */
function somewhere(body: Buffer, code: string, random: Random): number {
  const from = random(body.length + 1)
  const start = body.indexOf(code, from)
  return Math.max(0, start < 0 ? body.indexOf(code) : start)
}

const insert = (body: Buffer, start: number, piece: Uint8Array) =>
  Buffer.concat([body.subarray(0, start), piece, body.subarray(start)])

const pick = <T>(list: readonly T[], random: Random): T => list[random(list.length)]!

function mutatedOnce(body: Buffer, corpus: readonly Buffer[], random: Random): Buffer {
  const start = random(body.length + 1)
  switch (random(12)) {
    case 0: {
      const copy = Buffer.from(body)
      if (copy.length > 0) copy[start % copy.length] = bytes[random(bytes.length)]!
      return copy
    }
    case 1:
      return insert(body, start, bytes.subarray(random(bytes.length)).subarray(0, 1))
    case 2:
      return Buffer.concat([body.subarray(0, start), body.subarray(start + 1 + random(3))])
    case 3:
      return body.subarray(0, start)
    case 4:
      return insert(body, start, pick(sequences, random))
    case 5:
      return insert(body, somewhere(body, '"', random) + 1, pick(sequences, random))
    case 6: {
      const other = pick(corpus, random)
      const from = random(other.length)
      return insert(body, start, other.subarray(from, from + random(40)))
    }
    case 7:
      return insert(
        body,
        somewhere(body, pick([',', ':', '[', ']', '{', '}'], random), random) + random(2),
        pick(spaces, random),
      )
    case 8:
      return insert(
        body,
        somewhere(body, pick([':', '[', ','], random), random) + 1,
        pick(values, random),
      )
    case 9:
      return insert(body, somewhere(body, '{', random) + 1, pick(members, random))
    default:
      return insert(body, somewhere(body, '"', random) + 1, pick(inStrings, random))
  }
}

/** One of the corpus with up to four mutations. */
export function mutatedJson(corpus: readonly Buffer[], random: Random): Buffer {
  let body = pick(corpus, random)
  for (let times = random(5); times > 0; times--) body = mutatedOnce(body, corpus, random)
  return body
}
