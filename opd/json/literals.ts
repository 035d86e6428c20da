/**
 * Texts that are looked for in whole documents, in strings or not. The WebAssembly module finds them while it indexes a
 * document. The layout is in opd/json/wasm/assembly/literals.ts.
 */
import { memoryOf } from './index-memory.ts'

const maxLiterals = 7
const maxBytes = 32
/** Bytes that all literals begin with. */
const shared = 4

const literals: string[] = []

/**
 * The number of a literal: its place in the order of calls, from 1. Throws if the module has no room for it, or if it does not
 * begin as the others.
 */
export function literalNumber(literal: string): number {
  const [first = literal] = literals
  const fits = literal.length >= 8 && literal.length <= maxBytes && literals.length < maxLiterals
  const start = first.slice(0, shared)
  if (!fits || !literal.startsWith(start) || start[0] !== '$')
    throw new RangeError(`a literal that cannot be indexed: ${literal}`)
  const memory = memoryOf('literals')
  const slot = Buffer.alloc(2 * maxBytes)
  slot.write(literal, 'latin1')
  slot.fill(0xff, maxBytes, maxBytes + literal.length)
  memory?.set(slot, literals.length * slot.length)
  return literals.push(literal)
}

/** The same without the module: adds the position and the number of each literal, by rising positions. */
export function findLiterals(text: string, positions: number[], numbers: number[]): void {
  const start = literals[0]?.slice(0, shared) ?? '$'
  for (let at = text.indexOf(start); at >= 0; at = text.indexOf(start, at + 1)) {
    const index = literals.findIndex((literal) => text.startsWith(literal, at))
    if (index === -1) continue
    positions.push(at)
    numbers.push(index + 1)
  }
}
