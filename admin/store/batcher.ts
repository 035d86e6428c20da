/** Combines look-ups of the same turn of the event loop into one query. */
import { isRowError } from './errors.ts'

/** Keys of one query. */
const most = 500

/** `read` returns a value for each key, in order. If it rejects, all look-ups of the batch reject. */
export function createBatcher<K, V>(read: (keys: K[]) => Promise<V[]>): (key: K) => Promise<V> {
  interface Waiting {
    key: K
    resolve(value: V): void
    reject(error: unknown): void
  }
  let waiting: Waiting[] = []

  async function readBatch(batch: Waiting[]): Promise<void> {
    try {
      const answers = await read(batch.map(({ key }) => key))
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index] as V)
    } catch (error) {
      // a key that the database rejects must not fail the others
      if (batch.length > 1 && isRowError(error)) for (const item of batch) await readBatch([item])
      else for (const { reject } of batch) reject(error)
    }
  }

  function start(): void {
    const all = waiting
    waiting = []
    for (let index = 0; index < all.length; index += most)
      void readBatch(all.slice(index, index + most))
  }

  return (key) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(start)
      waiting.push({ key, resolve, reject })
    })
}
