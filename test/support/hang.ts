/** Imported before a program: SIGUSR2 holds the event loop for good. */
import { isMainThread } from 'node:worker_threads'

function hangHere(): void {
  for (let sum = 0; ; sum += Math.sqrt(sum + 1));
}

if (isMainThread) process.on('SIGUSR2', hangHere)
