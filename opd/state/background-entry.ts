/** The first module of a thread that `startInBackground` starts. */
import process from 'node:process'
import { lowerPriority } from './background-thread.ts'

lowerPriority()
await import(process.argv[2]!)
