/** How often the machine gave the main thread's processor to others: turns in which it did say nothing about the service. */
import { readFileSync } from 'node:fs'

export const preemptions = (): number => {
  const status = readFileSync(`/proc/self/task/${process.pid}/status`, 'latin1')
  return Number(/^nonvoluntary_ctxt_switches:\s+(\d+)/m.exec(status)![1])
}
