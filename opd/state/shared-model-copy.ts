/** Copies of the models that nodes share in Redis, from and to snapshots, for a backup and its restore. */
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RESP_TYPES } from '@redis/client'
import { type Mode, modes } from '../shared/arms.ts'
import type { ModelBus } from './model-bus.ts'
import { connectRedis, redisPrefix } from './redis-client.ts'
import { modelBus, removeModels } from './redis-models.ts'
import { snapshotName, snapshots, unpack, writeDurably } from './snapshots.ts'

/** Milliseconds until a Redis that does not answer is given up. */
const connectWithin = 10_000
/** Numbers that no part has: all heads are read. */
const unknown = { whole: -1, curve: -1 }

interface Connected {
  bus: ModelBus
  /** Removes the models of a mode with their deltas. */
  remove(mode: Mode): Promise<void>
}

async function connected<T>(url: string, work: (redis: Connected) => Promise<T>): Promise<T> {
  const connection = connectRedis(url)
  const { client } = connection
  let last = 'it does not answer'
  connection.onError((error) => {
    last = error.message
  })
  try {
    if (!client.isReady)
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`store.redis cannot be used: ${last}`)),
          connectWithin,
        )
        connection.onReady(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
    const bus = modelBus(client, redisPrefix, async (key, field) => {
      const value = await bytes.hGet(key, field)
      return value instanceof Uint8Array ? value : null
    })
    return await work({ bus, remove: (mode) => removeModels(client, redisPrefix, mode) })
  } finally {
    await connection.close()
  }
}

/** Writes the shared model of each mode as a snapshot into a folder. Returns their number. */
export function saveSharedModels(url: string, dir: string, now: number): Promise<number> {
  return connected(url, async ({ bus }) => {
    let count = 0
    for (const mode of modes) {
      const packed = await bus.readModel(mode, 'whole')
      if (packed === null) continue
      // A damaged copy is no copy.
      unpack(packed)
      const { whole: model, curve } = await bus.look(mode, randomUUID(), false, unknown)
      await mkdir(dir, { recursive: true, mode: 0o700 })
      const name = snapshotName(mode, curve.head?.version ?? model.number, now)
      await writeDurably(dir, name, packed)
      count++
    }
    return count
  })
}

/** Shares the newest snapshot of each mode of a folder, in place of what was shared. No node may lead. Returns their number. */
export function shareSnapshots(url: string, dir: string): Promise<number> {
  return connected(url, async ({ bus, remove }) => {
    const files = await readdir(dir)
    const node = randomUUID()
    let count = 0
    for (const mode of modes) {
      const [newest] = snapshots(files, mode)
      if (newest === undefined) continue
      const packed = await readFile(join(dir, newest.file))
      const { epoch, seen } = unpack(packed).meta
      const { leads } = await bus.look(mode, node, true, unknown)
      if (!leads)
        throw new SharedModelsInUseError('a node leads the models in Redis: stop all nodes')
      await remove(mode)
      if ((await bus.writeModel(mode, 'whole', node, { epoch, seen }, packed)) === 0)
        throw new SharedModelsInUseError('another node took the models in Redis: stop all nodes')
      // Gives up the lease.
      await bus.look(mode, node, false, unknown)
      count++
    }
    return count
  })
}

class SharedModelsInUseError extends Error {
  override name = 'SharedModelsInUseError'
}
