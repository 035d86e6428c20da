/** Imported before a program: SIGUSR2 holds the event loop for the milliseconds of SPIN. */
import { isMainThread } from 'node:worker_threads'

function spinHere(): void {
  const until = performance.now() + Number(process.env['SPIN'])
  let sum = 0
  while (performance.now() < until) sum += Math.sqrt(sum + 1)
}

if (isMainThread) process.on('SIGUSR2', spinHere)
