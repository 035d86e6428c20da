/**
 * The stream of model deltas between the processes of one node, in the memory of the first: what redis-models.ts does in
 * Redis. A process that starts takes the present model of the first.
 */
import { type Mode, modes } from '../shared/arms.ts'
import type { ModelBus, SharedModelHead } from './shared-model.ts'

/** Deltas kept for a process that lags. */
const maxDeltas = 600
const fetchBatch = 100

interface Stream {
  /** Deltas that were dropped before the first one kept. */
  dropped: number
  deltas: Uint8Array[]
}

/** `owner`: the process that shares its model; `pack` makes it. `began`: milliseconds since the epoch. */
export function localModels(
  owner: string,
  pack: (mode: string) => Promise<Uint8Array>,
  began: number,
): ModelBus {
  const streams = new Map<string, Stream>()
  const heads = new Map<string, { number: number; head: SharedModelHead; bytes: Uint8Array }>()
  const streamOf = (mode: string) => {
    const stream = streams.get(mode) ?? { dropped: 0, deltas: [] }
    streams.set(mode, stream)
    return stream
  }
  // In the format of Redis, because a snapshot may be restored by a node with Redis, and the reverse. A place of an earlier
  // process counts as the beginning.
  const placeOf = (count: number) => `${began}-${count}`
  const countAt = (place: string) => {
    const [start, count] = place.split('-')
    return start === String(began) ? Number(count) : 0
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
      const first = Math.max(0, countAt(from) - dropped)
      const found = deltas.slice(first, first + fetchBatch).map((bytes, n) => ({
        place: placeOf(dropped + first + n + 1),
        bytes,
      }))
      return { deltas: found, last: found.at(-1)?.place ?? from }
    },
    async look(mode, node, _candidate, known) {
      const shared = heads.get(mode)
      return {
        leads: node === owner,
        number: shared?.number ?? 0,
        head: shared === undefined || shared.number === known ? null : shared.head,
      }
    },
    async writeModel(mode, _node, head, bytes) {
      const number = (heads.get(mode)?.number ?? 0) + 1
      heads.set(mode, { number, head, bytes })
      return number
    },
    // A whole model is packed now. Anything else, such as a curve, is as it was written.
    readModel: async (mode) =>
      modes.includes(mode as Mode) ? pack(mode) : (heads.get(mode)?.bytes ?? null),
  }
}
