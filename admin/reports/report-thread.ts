/** The worker thread of reports. */
import { serveJobs } from '../store/store-thread.ts'
import { report } from './render.ts'

await serveJobs(report)
