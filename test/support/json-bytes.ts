/** JSON in any spelling, JSON that was edited, and what JSON.parse says of it. */
import fc from 'fast-check'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function parses(body: Buffer): boolean {
  try {
    JSON.parse(decoder.decode(body))
    return true
  } catch {
    return false
  }
}

/** Spells some characters of JSON text by escapes, and spreads white space between its tokens. */
export function respelled(value: unknown, seed: number): string {
  let state = seed
  const next = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % below
  }
  const spell = (text: string) =>
    JSON.stringify(text).replace(/[A-Za-z${}_=]/g, (letter, offset: number, all: string) => {
      if (all[offset - 1] === '\\' || /\\u[0-9a-f]{0,3}$/.test(all.slice(0, offset)) || next(8) > 0)
        return letter
      const hex = letter.charCodeAt(0).toString(16).padStart(4, '0')
      return `\\u${next(2) ? hex : hex.toUpperCase()}`
    })
  const gap = () => ['', '', '', ' ', '\n', '\t', '\r\n '][next(7)]!
  const write = (inner: unknown): string => {
    if (typeof inner === 'string') return spell(inner)
    if (Array.isArray(inner))
      return `[${gap()}${inner.map(write).join(`${gap()},${gap()}`)}${gap()}]`
    if (inner === null || typeof inner !== 'object') return JSON.stringify(inner)
    const members = Object.entries(inner).map(
      ([key, inner]) => `${spell(key)}${gap()}:${gap()}${write(inner)}`,
    )
    return `{${gap()}${members.join(`${gap()},${gap()}`)}${gap()}}`
  }
  return gap() + write(value) + gap()
}

export const strings = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('a', 'svc_opd', '${SVC_OPD_CONTEXT}', '\ud800', '"\\/', '€', '😀', '\u2028'),
)
export const documents = fc
  .tuple(fc.jsonValue({ maxDepth: 5 }), fc.integer())
  .map(([value, seed]) => Buffer.from(respelled(value, seed)))
const edits = fc.array(
  fc.record({
    offset: fc.nat(),
    what: fc.constantFrom('drop', 'insert', 'replace'),
    byte: fc.oneof(
      fc.integer({ min: 0, max: 255 }),
      fc.constantFrom(...[...'"\\{}[]:,0-+.eEu/tfn \n\t'].map((letter) => letter.charCodeAt(0))),
    ),
  }),
  { maxLength: 4 },
)
export const mutated = fc.tuple(documents, edits).map(([body, changes]) => {
  const bytes = [...body]
  for (const { offset, what, byte } of changes) {
    const place = offset % (bytes.length + 1)
    if (what === 'drop') bytes.splice(place, 1)
    else bytes.splice(place, what === 'insert' ? 0 : 1, byte)
  }
  return Buffer.from(bytes)
})
