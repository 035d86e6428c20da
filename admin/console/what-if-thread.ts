/** The worker thread of one replay. It ends with its answer. */
import { parentPort, workerData } from 'node:worker_threads'
import { type WhatIfJob, whatIf } from './what-if-replay.ts'

parentPort!.postMessage(await whatIf(workerData as WhatIfJob))
