/** The worker thread that makes figures, and answers what consoles poll. */
import { serveJobs } from '../admin/store/store-thread.ts'
import { answerLive } from './live-answers.ts'

await serveJobs(answerLive)
