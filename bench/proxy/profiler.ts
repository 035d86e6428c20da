/** Imported into the service by `bench:proxy -- --only profile`: each message starts a CPU profile, or ends it and sends it. */
import { Session } from 'node:inspector/promises'

/** Microseconds between two samples. */
const interval = 250

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.setSamplingInterval', { interval })
let isRunning = false

process.on('message', async () => {
  isRunning = !isRunning
  if (isRunning) {
    await session.post('Profiler.start')
    process.send!(null)
  } else process.send!((await session.post('Profiler.stop')).profile)
})
