/** The worker thread that reads minutes: 300 suppliers have 864,000 of them. */
import { serveJobs } from '../store/store-thread.ts'
import { readMinutes } from './minutes.ts'

await serveJobs(readMinutes)
