/** The entry point of a worker process. It ends with the first process, however that ends. */
import type { DayAmount } from '../../opd/engine/day-reductions.ts'
import type { SupplierConfig } from '../config/schema.ts'
import { Peer } from './peer.ts'
import type { DirectoryMessage, ReloadMessage, StartMessage } from './protocol.ts'
import { openWorker, type Worker } from './worker.ts'

process.title = 'bidweir worker'
// A terminal and some supervisors send signals to all processes. The first one decides.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit(1))

let worker: Worker | null = null
const peer: Peer = new Peer(process, {
  async start(message: StartMessage) {
    worker = await openWorker(message, peer)
  },
  flush: () => worker?.flush(),
  async scrape() {
    worker?.report()
    return (await worker?.processMetrics()) ?? []
  },
  directory: (message: DirectoryMessage) => worker?.applyDirectory(message),
  control: () => worker?.followModelControl(),
  versions: (next) => worker?.setVersions(next),
  reductions: (amounts: DayAmount[]) => worker?.setReductions(amounts),
  suppliers: (changed: readonly SupplierConfig[]) => worker?.takeSuppliers(changed),
  reload: (message: ReloadMessage) => worker?.reload(message),
  drain: () => worker?.drain(),
  destroy: () => worker?.destroy(),
  close: () => worker?.close(),
})
