/** Questions that come together are asked together: one readBatch trip of the store for all of a turn. */
import { isOfTheRow } from './errors.ts'

/** Questions of one readBatch trip. */
const most = 500

/** `read` answers each key at its place; where it rejects, all that were asked with it reject. */
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
      for (const [at, { resolve }] of batch.entries()) resolve(answers[at] as V)
    } catch (error) {
      // one that cannot be asked spoils no other's answer
      if (batch.length > 1 && isOfTheRow(error)) for (const each of batch) await readBatch([each])
      else for (const { reject } of batch) reject(error)
    }
  }

  function start(): void {
    const all = waiting
    waiting = []
    for (let at = 0; at < all.length; at += most) void readBatch(all.slice(at, at + most))
  }

  return (key) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(start)
      waiting.push({ key, resolve, reject })
    })
}
