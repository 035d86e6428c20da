/**
 * The stream of model deltas between the processes of one node, in the memory of the first: what redis-models.ts does in
 * Redis. A process that starts takes the present model of the first.
 */
import { randomInt } from 'node:crypto'
import type { Mode } from '../shared/arms.ts'
import type { ModelBus, SeenPart, SharedPart } from './model-bus.ts'

/** Deltas kept for a process that lags. */
const maxDeltas = 3000
const fetchBatch = 100

interface Stream {
  /** Deltas that were dropped before the first one kept. */
  dropped: number
  deltas: Uint8Array[]
}

/**
 * The bus between the processes of one node.
 *
 * @param owner the process that shares its model
 * @param pack makes the shared model of a mode
 * @param began milliseconds since the epoch at which this process started
 */
export function localModels(
  owner: string,
  pack: (mode: Mode) => Promise<Uint8Array>,
  began: number,
): ModelBus {
  const streams = new Map<Mode, Stream>()
  const parts = new Map<string, SeenPart>()
  const curves = new Map<Mode, Uint8Array>()
  const partOf = (mode: Mode, part: SharedPart, known = 0) => {
    const seen = parts.get(`${mode} ${part}`) ?? { number: 0, head: null }
    return seen.number === known ? { number: known, head: null } : seen
  }
  const streamOf = (mode: Mode) => {
    const stream = streams.get(mode) ?? { dropped: 0, deltas: [] }
    streams.set(mode, stream)
    return stream
  }
  // In the format of Redis, because a snapshot may be restored by a node with Redis, and the reverse. Two nodes may begin in
  // the same millisecond and take each other's models, so the numbers of each begin elsewhere. A place of another process
  // counts as the beginning.
  const offset = randomInt(2 ** 47)
  const placeOf = (count: number) => `${began}-${offset + count}`
  const countAt = (mode: Mode, place: string) => {
    const { dropped, deltas } = streamOf(mode)
    const [start, number] = place.split('-')
    const count = Number(number) - offset
    return start === String(began) && count >= 0 && count <= dropped + deltas.length ? count : 0
  }

  return {
    async publish(mode, delta) {
      const stream = streamOf(mode)
      stream.deltas.push(delta)
      if (stream.deltas.length <= maxDeltas) return
      stream.deltas.shift()
      stream.dropped++
    },
    async fetch(mode, from) {
      const { dropped, deltas } = streamOf(mode)
      const first = Math.max(0, countAt(mode, from) - dropped)
      const found = deltas.slice(first, first + fetchBatch).map((bytes, n) => ({
        place: placeOf(dropped + first + n + 1),
        bytes,
      }))
      return { deltas: found, last: found.at(-1)?.place ?? from }
    },
    async look(mode, node, _candidate, known) {
      return {
        leads: node === owner,
        whole: partOf(mode, 'whole', known.whole),
        curve: partOf(mode, 'curve', known.curve),
      }
    },
    async writeModel(mode, part, _node, head, bytes) {
      const number = partOf(mode, part).number + 1
      parts.set(`${mode} ${part}`, { number, head })
      if (part === 'curve') curves.set(mode, bytes)
      return number
    },
    // A whole model is packed now.
    readModel: async (mode, part) => (part === 'whole' ? pack(mode) : (curves.get(mode) ?? null)),
  }
}
