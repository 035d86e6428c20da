/** The context keys of a state folder: made once, also if several commands need them at the same moment. */
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { newFolder } from '../support/process.ts'

/** Each thread waits for the other one, then makes the keys of the folder. */
const making = `
const { parentPort, workerData } = require('node:worker_threads')
import(workerData.module).then(({ loadOrCreateKeys }) => {
  const keysOf = (folder, round) => {
    if (Atomics.add(workerData.ready, round, 1) === 0) Atomics.wait(workerData.ready, round, 1)
    else Atomics.notify(workerData.ready, round)
    try {
      return loadOrCreateKeys(folder)
    } catch (error) {
      return error.message
    }
  }
  parentPort.postMessage(workerData.folders.map(keysOf))
})`

t.test('two that make the keys of a folder at once have the same', async (t) => {
  const folders = Array.from({ length: 50 }, () => newFolder())
  const workerData = {
    folders,
    module: new URL('../../service/context-keys.ts', import.meta.url).href,
    ready: new Int32Array(new SharedArrayBuffer(4 * folders.length)),
  }
  const [one, other] = await Promise.all(
    [0, 1].map(async () => {
      const [made] = await once(new Worker(making, { eval: true, workerData }), 'message')
      return made as unknown[]
    }),
  )
  t.same(one, other)
  t.match(one, Array(folders.length).fill([{ id: 1, secret: /^[\w-]{43}$/ }]))
  for (const folder of folders) t.same(readdirSync(folder), ['keys.json'])
})
