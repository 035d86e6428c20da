/**
 * The keys that any table reads, numbered. The WebAssembly module finds them while it indexes a document, so that a reader
 * visits no other members. The layout is in opd/json/wasm/assembly/keys.ts.
 */
import { memoryOf } from './index-memory.ts'

const slots = 256
const slotBytes = 20
const keyBytes = 16
/** Half of the slots: most unknown keys then find an empty one at once. */
const maxKeys = 128
/** The number of a key that is written with escapes, whatever it is. */
export const escapedKey = 255
const isKey = /^[!#-[\]-~]{1,16}$/

const numbers = new Map<string, number>()

/** The number of a key, which is given to it at the first call. Throws if the module has no room for it. */
export function keyNumber(key: string): number {
  const known = numbers.get(key)
  if (known !== undefined) return known
  if (!isKey.test(key) || numbers.size === maxKeys)
    throw new RangeError(`a key that cannot be indexed: ${key}`)
  const number = numbers.size + 1
  numbers.set(key, number)
  store(key, number)
  return number
}

function store(key: string, number: number): void {
  const memory = memoryOf('keys')
  if (memory === null) return
  const bytes = Buffer.alloc(keyBytes)
  bytes.write(key, 'latin1')
  const mixed = bytes.readInt32LE(0) ^ (bytes.readInt32LE(4) << 3) ^ (key.length << 11)
  let slot = Math.imul(mixed, 0x9e3779b1) >>> 24
  const numberAt = (at: number) => at * slotBytes + keyBytes
  while (memory[numberAt(slot)] !== 0) slot = (slot + 1) % slots
  memory.set(bytes, slot * slotBytes)
  memory[numberAt(slot)] = number
}
